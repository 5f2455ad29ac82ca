// The C++ library: containers and algorithms, streams and locales, regular expressions, files, and exceptions, which
// libgcc unwinds while being stepped.
#include "step.h"

#include <algorithm>
#include <any>
#include <charconv>
#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <iomanip>
#include <iostream>
#include <list>
#include <locale>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

namespace {

void run_streams(const stepper *) {
    std::ostringstream out;
    out << "text " << 42 << ' ' << 3.25 << ' ' << std::hex << 255 << std::setw(12) << std::setfill('*') << 1e-10
        << std::boolalpha << true << std::endl;
    std::istringstream in(out.str());
    std::string word;
    int number = 0;
    double real = 0;
    in >> word >> number >> real;
    std::getline(in, word);
    in >> number;
    std::cerr << "";
    std::wostringstream wide;
    wide << L"wide " << 7;
    USE(word.size() + wide.str().size());
}

void run_containers(const stepper *) {
    std::map<std::string, int> tree;
    std::unordered_map<int, std::string> table;
    std::list<int> list;
    std::deque<int> deque;
    for (int i = 0; i < 30; i++) {
        tree["key" + std::to_string(i * 37 % 30)] = i;
        table[i * 101] = std::string(i, 'x');
        list.push_front(i);
        deque.push_back(i);
    }
    for (int i = 0; i < 30; i += 3) tree.erase("key" + std::to_string(i));
    list.sort();
    table.erase(101);
    USE(tree.size() + table.size() + deque.size());
}

void run_algorithms(const stepper *) {
    std::vector<std::string> words;
    std::mt19937 random(7);
    for (int i = 0; i < 40; i++) words.push_back("word " + std::to_string(random() % 1000));
    std::sort(words.begin(), words.end());
    std::stable_sort(words.begin(), words.end(), std::greater<>());
    std::vector<int> numbers(60);
    std::iota(numbers.begin(), numbers.end(), 0);
    std::shuffle(numbers.begin(), numbers.end(), random);
    std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return a > b; });
    std::function<int(int)> add = [&](int x) { return x + numbers[0]; };
    std::transform(numbers.begin(), numbers.end(), numbers.begin(), add);
    std::normal_distribution<double> normal;
    USE(normal(random));
}

struct Noisy {
    std::string text = "destroyed while unwinding";
    ~Noisy() { USE(text.size()); }
};

__attribute__((noinline)) int throwing(int depth) {
    Noisy noisy;
    if (depth == 0) throw std::runtime_error("thrown from the bottom");
    return throwing(depth - 1) + static_cast<int>(noisy.text.size());
}

void run_exceptions(const stepper *) {
    try {
        USE(throwing(3));
    } catch (const std::exception &error) {
        USE(std::string(error.what()).size());
    }
    try {
        try {
            USE(std::vector<int>().at(3));
        } catch (const std::out_of_range &) {
            throw;
        }
    } catch (...) {
        std::exception_ptr kept = std::current_exception();
        try {
            std::rethrow_exception(kept);
        } catch (const std::logic_error &) {
        }
    }
    std::any any = 3;
    try {
        USE(std::any_cast<long>(any));
    } catch (const std::bad_any_cast &) {
    }
}

void run_regex(const stepper *) {
    const std::regex pattern("([a-z]+)-([0-9]+)(x|yz)*");
    std::smatch match;
    const std::string text = "one two-22yz three-3";
    USE(std::regex_search(text, match, pattern));
    USE(std::regex_replace(text, pattern, "<$2>").size());
}

void run_locale(const stepper *) {
    std::locale locale("C.UTF-8");
    std::ostringstream out;
    out.imbue(locale);
    out << std::put_money(12345) << 1234567.5;
    std::tm parts{};
    parts.tm_year = 126;
    parts.tm_mday = 21;
    out << std::put_time(&parts, "%c %x");
    std::istringstream in("2026-11-21");
    in >> std::get_time(&parts, "%Y-%m-%d");
    USE(std::use_facet<std::collate<char>>(locale).transform("abc", "abc" + 0).size());
    USE(std::toupper('a', locale));
}

void run_files(const stepper *) {
    namespace fs = std::filesystem;
    std::error_code error;
    for (const auto &entry : fs::directory_iterator("/etc/default", error)) USE(entry.path().filename().string().size());
    USE(fs::weakly_canonical("/usr/../usr/./lib/none").string().size());
    USE(fs::exists("/no/such/path"));
    try {
        USE(fs::file_size("/no/such/path"));
    } catch (const fs::filesystem_error &failed) {
        USE(failed.path1().native().size());
    }
}

void run_rest(const stepper *) {
    auto shared = std::make_shared<std::string>("shared");
    std::weak_ptr<std::string> weak = shared;
    shared.reset();
    std::variant<int, std::string> either = std::string("text");
    const auto size = std::visit([](const auto &value) { return sizeof value; }, either);
    USE(size);
    char digits[40];
    USE(std::to_chars(digits, digits + 40, 0.1 + 0.2).ptr);
    double value = 0;
    std::from_chars(digits, digits + 10, value);
    USE(std::stod("2.718281828"));
    USE(std::chrono::steady_clock::now().time_since_epoch().count());
    std::string text;
    for (int i = 0; i < 50; i++) text.insert(text.size() / 2, "ab");
    USE(text.find("ba", 20) + text.rfind("bb"));
}

}  // namespace

extern "C" const region regions[] = {
    {"streams", nullptr, run_streams},       {"containers", nullptr, run_containers},
    {"algorithms", nullptr, run_algorithms}, {"exceptions", nullptr, run_exceptions},
    {"regex", nullptr, run_regex},           {"locale", nullptr, run_locale},
    {"files", nullptr, run_files},           {"rest", nullptr, run_rest},
    {nullptr, nullptr, nullptr},
};
