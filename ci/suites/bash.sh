# Bash's own tests, which compare all that a script prints, on stderr too, with what it should.
# shellcheck shell=bash disable=SC2034,SC2154 # Variables come from ci/suites.sh, and serve it.
packages="bash gcc"
sources="bash"
limit=120

prepare() {
    local helper
    cp -r "$suites/src/bash/tests" "$shared/tests"
    mkdir "$shared/bin"
    : >"$shared/config.h"
    for helper in recho zecho printenv xcase; do
        gcc -O1 -w -DHAVE_STRING_H -DHAVE_STDLIB_H -DHAVE_UNISTD_H -DPROTOTYPES -include stdlib.h -include unistd.h \
            -I"$shared" -I"$suites/src/bash" -I"$suites/src/bash/include" -o "$shared/bin/$helper" \
            "$suites/src/bash/support/$helper.c"
    done
}

units() {
    # Left out: what needs a terminal's answer, or another library's messages.
    (cd "$shared/tests" && printf '%s\n' run-* | grep -vE '^run-(all|minimal|gprof|.*[.]orig|.*~)$')
}

run() {
    # The scripts write beside themselves.
    cp -r "$shared/tests" tests
    cd tests || return
    local status=0
    # shellcheck disable=SC2086 # A list of words.
    env ${PRELOAD-} THIS_SH=/bin/bash BASH_TSTOUT="$PWD/../output" TMPDIR="$PWD/../tmp" PATH="$shared/bin:.:$PATH" \
        /bin/sh "./$1" >../differences 2>&1 || status=$?
    printf 'status\t%s\n' "$status"
    # Each line that is not as bash's authors have it is an outcome, too.
    sed -n 's/^[0-9,]*[acd][0-9,]*$/differs from what is expected\t&/p' ../differences
    # With its beginning, since a difference that came once may not come again.
    printf 'output\t%s %s\n' "$(md5sum <../differences | cut -c 1-32)" "$(head -c 500 ../differences | tr '\t\n' ' |')"
}
