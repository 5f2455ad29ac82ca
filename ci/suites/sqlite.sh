# SQLite's own tests, and its benchmark, which verifies what it finds.
# shellcheck shell=bash disable=SC2034,SC2154 # Variables come from ci/suites.sh, and serve it.
packages="gcc make tcl-dev zlib1g-dev"
sources="sqlite3"
limit=300

prepare() {
    cp -r "$suites/src/sqlite3/." "$shared"
    (cd "$shared" && ./configure --enable-all && make -j2 testfixture speedtest1)
}

units() {
    printf '%s\n' speedtest select1 select4 select9 insert update delete2 where where7 index join join2 trans trans2 savepoint \
        wal wal2 walthread thread001 thread002 thread003 lock lock2 lock4 shared shared2 pager1 crash crash3 \
        vacuum vacuum2 trigger1 trigger2 fkey2 expr func date cast collate1 sort sort2 multiplex backup blob \
        window1 with1 json101 fts3aa fts4aa rtree busy tkt1435 corrupt3 corruptE
}

run() {
    local status=0 test=$1
    if [ "$test" = speedtest ]; then
        # shellcheck disable=SC2086 # A list of words.
        env ${PRELOAD-} "$shared/speedtest1" --size 20 --verify database >output 2>errors || status=$?
        printf 'status\t%s\n' "$status"
        # What it verifies is a hash of all results at the end.
        sed -nE 's/^ *(Verification Hash: .*)/hash\t\1/p' output
        return
    fi
    local script=$shared/test/$test.test
    [ "$test" != rtree ] || script=$shared/ext/rtree/rtree1.test
    [ -e "$script" ] || return 0
    # shellcheck disable=SC2086 # A list of words.
    env ${PRELOAD-} "$shared/testfixture" "$script" >output 2>&1 || status=$?
    printf 'status\t%s\n' "$status"
    # Threads that wait print dots, before the names of tests too. How often one kind of crash is tried is up to chance.
    sed -E 's/^\.+//; s/^(! *)?(crash-4\.[0-9])\.[0-9]+\.([0-9])/\1\2.any.\3/' output >lines
    sed -nE 's/^([^ ]+)\.\.\.( ?Ok| ?Omitted)?.*/\1\t\2/p; s/^! *([^ ]+) (got|expected).*/\1\tfailed/p' lines | sort -u
    sed -nE 's/^([0-9]+) errors out of [0-9]+ tests.*/errors\t\1/p' lines
}
