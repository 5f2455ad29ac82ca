# Git's own tests, with the git that is installed. They start tens of thousands of short processes, and many compare
# stderr with what it should be.
# shellcheck shell=bash disable=SC2034,SC2154 # Variables come from ci/suites.sh, and serve it.
packages="git make gcc zlib1g-dev"
sources="git"
limit=500

# Where git's objects, index, merges, transport and child processes are tested.
scripts="t0000 t0001 t0005 t0006 t0021 t0061 t0062 t1006 t1300 t1400 t1500 t2000 t2200 t3000 t3200 t3400 t3701 t3903 t4000
    t4013 t4202 t5300 t5510 t5601 t5700 t6000 t6402 t6300 t6500 t7001 t7003 t7400 t7500 t7600 t7810 t9902"

prepare() {
    cp -r "$suites/src/git/." "$shared"
    # The tests' own helper and what a repository begins with are all that has to be built.
    make -C "$shared" -j2 NO_CURL=1 NO_OPENSSL=1 NO_EXPAT=1 NO_TCLTK=1 NO_GETTEXT=1 NO_PERL=1 NO_PYTHON=1 \
        t/helper/test-tool t/helper/test-fake-ssh GIT-BUILD-OPTIONS
    # What the installed git has, and the one that is made here has not.
    sed -i "s/^NO_PERL=.*/NO_PERL=''/; s/^USE_LIBPCRE2=.*/USE_LIBPCRE2='1'/" "$shared/GIT-BUILD-OPTIONS"
    make -C "$shared/templates" SHELL_PATH=/bin/sh PERL_PATH=/usr/bin/perl
}

units() {
    local script
    for script in $scripts; do
        (cd "$shared/t" && printf '%s\n' "$script"-*.sh)
    done
}

run() {
    local status=0
    (
        cd "$shared/t" || exit
        # shellcheck disable=SC2086 # A list of words.
        env ${PRELOAD-} GIT_TEST_INSTALLED=/usr/bin GIT_TEST_EXEC_PATH=/usr/lib/git-core TEST_NO_MALLOC_CHECK=1 \
            TEST_OUTPUT_DIRECTORY="$HOME" sh "./$1" --root="$HOME" --no-bin-wrappers
    ) >output 2>errors || status=$?
    printf 'status\t%s\n' "$status"
    # A test that is skipped for want of something says so behind its number.
    sed -nE 's/^ok ([0-9]+) # skip.*/test \1\tskipped/p; t
        s/^(not )?ok ([0-9]+).*/test \2\t\1ok/p; s/^1\.\.(.*)/plan\t\1/p' output
}
