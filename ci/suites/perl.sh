# Perl's own tests of its core, and of the modules that deal with signals, timers, threads and processes. Time::HiRes tests
# ITIMER_PROF itself.
# shellcheck shell=bash disable=SC2034,SC2154 # Variables come from ci/suites.sh, and serve it.
packages="perl perl-modules-5.36"
sources="perl"
limit=180

prepare() {
    local module
    # A tree as perl's makefile leaves it, of the perl that is installed.
    mkdir "$shared/lib"
    cp -rL /usr/lib/x86_64-linux-gnu/perl-base/. /usr/share/perl/5.36/. /usr/lib/x86_64-linux-gnu/perl/5.36/. "$shared/lib"
    cp "$suites"/src/perl/lib/*.t "$shared/lib"
    cp -r "$suites/src/perl/t" "$shared/t"
    ln -s /usr/bin/perl "$shared/perl"
    ln -s /usr/bin/perl "$shared/t/perl"
    for module in dist/Time-HiRes ext/POSIX dist/threads dist/threads-shared dist/Thread-Queue cpan/IPC-SysV dist/IO \
        ext/IPC-Open3 dist/Storable ext/Fcntl; do
        mkdir -p "$shared/$module"
        cp -r "$suites/src/perl/$module/t" "$shared/$module/t"
    done
}

units() {
    (
        cd "$shared" || exit
        printf '%s\n' t/io/*.t t/re/*.t t/run/*.t t/op/*.t lib/*.t dist/*/t/*.t ext/*/t/*.t cpan/*/t/*.t |
            # These take minutes each.
            grep -vE 'uniprop|t/re/(fold_grind|speed|reg_mesg|charset)|op/(pack|lc|coreamp|coresubs|heredoc|tie_fetch)'
    )
}

run() {
    local directory=${1%/t/*} status=0
    case $1 in
    t/* | lib/*) directory=t ;;
    esac
    # Tests write beside themselves, and name their libraries from where they are.
    mkdir -p "tree/$directory"
    cp -rP "$shared/$directory/." "tree/$directory"
    ln -s "$shared/lib" tree/lib
    [ "$directory" = t ] || ln -s /usr/bin/perl "tree/$directory/perl"
    ln -s /usr/bin/perl tree/perl
    cd "tree/$directory" || return
    local test=${1#"$directory/"}
    case $1 in
    lib/*) test=../$1 ;;
    esac
    # shellcheck disable=SC2086 # A list of words.
    env ${PRELOAD-} PERL_CORE="$([ "$directory" = t ] && echo 1)" ./perl -I. "$test" >"$HOME/output" 2>"$HOME/errors" ||
        status=$?
    printf 'status\t%s\n' "$status"
    # Of each test its number and its outcome; what stands behind may hold times and process ids.
    sed -nE 's/^(not )?ok ([0-9]+).*/test \2\t\1ok/p; s/^(Bail out!|1\.\.0).*/the rest\t\1/p' "$HOME/output"
}
