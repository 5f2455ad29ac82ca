/* libc: text in and out of numbers, wide characters, other encodings, patterns, dates, files. */
#define _GNU_SOURCE
#include "step.h"

#include <ctype.h>
#include <fnmatch.h>
#include <glob.h>
#include <iconv.h>
#include <locale.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>
#include <wctype.h>

static void run_printf(const struct stepper *stepper UNUSED) {
    /* What ISO C does not have, past the compiler's checks. */
    static const char *volatile positions = "%2$s %1$d %3$*4$d", *volatile grouped = "%ls %.3s %'d";
    char text[400], *made = NULL;
    snprintf(text, sizeof text, "%d %5u %-8lx|%#o %c %s %p", -42, 17u, 0xdeadbeeful, 8, 'x', "string", (void *)&made);
    snprintf(text, sizeof text, "%.17g %10.3f %e %a", 0.1, 12345.678, 1e-300, 3.0);
    snprintf(text, sizeof text, "%Lf %.30Lg", 1.0L / 3, 2.0L / 3);
    snprintf(text, sizeof text, positions, 1, "two", 3, 9);
    snprintf(text, sizeof text, grouped, L"wide", "precision", 1234567);
    snprintf(text, sizeof text, "%g %g %f", INFINITY, NAN, 1e15);
    if (asprintf(&made, "%s-%d", "allocated", 7) > 0) free(made);
}

static void run_stream(const struct stepper *stepper UNUSED) {
    FILE *file = tmpfile();
    if (file == NULL) return;
    for (int i = 0; i < 20; i++) fprintf(file, "%d line of text number %d\n", i, i * i);
    rewind(file);
    char line[100], *grown = NULL;
    size_t size = 0;
    int number;
    if (fgets(line, sizeof line, file) != NULL) USE(sscanf(line, "%d line", &number));
    USE(fscanf(file, "%d %99s", &number, line));
    USE(getline(&grown, &size, file));
    USE(fread(line, 1, 30, file));
    fseek(file, 3, SEEK_SET);
    ungetc(fgetc(file), file);
    free(grown);
    fclose(file);
}

static void run_memory_stream(const struct stepper *stepper UNUSED) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return;
    fputs("some text", file);
    fwprintf(file, L"%ls", L"refused");
    putc('\n', file);
    fclose(file);
    free(text);
}

static void run_scan(const struct stepper *stepper UNUSED) {
    static const char *const numbers[] = {"1e10", "-0x1.8p3", "3.14159265358979323846", "4.9e-324", "1e400", "nan", "12x"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        USE(strtod(numbers[i], NULL));
        USE(strtof(numbers[i], NULL));
        USE(strtold(numbers[i], NULL));
        USE(strtol(numbers[i], NULL, 0));
        USE(strtoull(numbers[i], NULL, 16));
    }
    int a, b;
    float c;
    char d[20];
    USE(sscanf("12 -7 3.5 word", "%d %i %f %19[a-z]", &a, &b, &c, d));
}

static void run_wide(const struct stepper *stepper UNUSED) {
    wchar_t wide[64], other[64];
    char narrow[200];
    mbstate_t state;
    memset(&state, 0, sizeof state);
    USE(mbstowcs(wide, "na\xc3\xafve caf\xc3\xa9", 64));
    swprintf(other, 64, L"%ls %d %f", L"wide", 12, 2.5);
    USE(wcstombs(narrow, other, sizeof narrow));
    USE(wcstod(L"12.75", NULL));
    USE(wcscmp(wide, other) + (int)wcslen(other));
    for (int i = 0; i < 20; i++) USE(towupper(L'a' + i) + iswalpha(0xe0 + i));
    wmemset(other, L'x', 63);
    USE(mbrtowc(wide, "\xe2\x82\xac", 3, &state));
}

static void run_iconv(const struct stepper *stepper UNUSED) {
    static const char *const encodings[] = {"UTF-16", "UCS-4", "LATIN1", "UTF-8"};
    for (size_t i = 0; i < sizeof encodings / sizeof encodings[0]; i++) {
        iconv_t converter = iconv_open(encodings[i], "UTF-8");
        if (converter == (iconv_t)-1) continue;
        char input[] = "text na\xc3\xafve", output[100], *from = input, *to = output;
        size_t from_left = sizeof input, to_left = sizeof output;
        USE(iconv(converter, &from, &from_left, &to, &to_left));
        iconv_close(converter);
    }
}

static void run_patterns(const struct stepper *stepper UNUSED) {
    regex_t regex;
    regmatch_t matches[4];
    if (regcomp(&regex, "([a-z]+)@([a-z]+\\.)+(org|net)", REG_EXTENDED | REG_ICASE) == 0) {
        USE(regexec(&regex, "write to somebody@mail.example.org today", 4, matches, 0));
        USE(regexec(&regex, "nothing here", 4, matches, 0));
        regfree(&regex);
    }
    USE(fnmatch("*.[ch]*?", "pattern.cc", FNM_PERIOD));
    USE(fnmatch("/usr/*/[!a]*", "/usr/lib/x", FNM_PATHNAME));
    glob_t found;
    if (glob("/usr/*/local*", GLOB_MARK, NULL, &found) == 0) globfree(&found);
}

static void run_time(const struct stepper *stepper UNUSED) {
    struct tm parts;
    char text[100];
    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    const time_t moment = 1700000000;
    localtime_r(&moment, &parts);
    strftime(text, sizeof text, "%A %d %B %Y %H:%M:%S %Z %j %U", &parts);
    strptime("2026-11-21 12:34:56", "%Y-%m-%d %H:%M:%S", &parts);
    USE(mktime(&parts));
    USE(time(NULL));
    struct timespec now;
    USE(clock_gettime(CLOCK_MONOTONIC, &now));
    setenv("TZ", "Europe/Berlin", 1);
    tzset();
    USE(ctime(&moment)[0]);
}

static void run_locale(const struct stepper *stepper UNUSED) {
    locale_t locale = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
    if (locale == (locale_t)0) return;
    locale_t old = uselocale(locale);
    USE(strcoll("abc", "abd"));
    USE(localeconv()->decimal_point[0]);
    for (int i = 0; i < 30; i++) USE(toupper_l('a' + i, locale));
    uselocale(old);
    freelocale(locale);
}

static void use_utf8(void) {
    setlocale(LC_ALL, "C.UTF-8");
}

const struct region regions[] = {
    {"printf", use_utf8, run_printf}, {"stream", 0, run_stream},     {"memory-stream", 0, run_memory_stream},
    {"scan", 0, run_scan},            {"wide", 0, run_wide},         {"iconv", 0, run_iconv},
    {"patterns", 0, run_patterns},    {"time", 0, run_time},         {"locale", 0, run_locale},
    {0, 0, 0},
};
