# PostgreSQL: a cluster is made, and pgbench asks a server that forks for each connection and shares memory with them.
# shellcheck shell=bash disable=SC2034,SC2154 # Variables come from ci/suites.sh, and serve it.
packages="postgresql-15 postgresql-contrib"
limit=300

prepare() { :; }

units() { printf '%s\n' simple prepared select tables; }

run() {
    local programs=/usr/lib/postgresql/15/bin status=0 mode=$1
    # shellcheck disable=SC2086 # A list of words.
    with() { env ${PRELOAD-} "$@"; }
    step() {
        local name=$1
        shift
        status=0
        with "$@" >>output 2>&1 || status=$?
        printf '%s\t%s\n' "$name" "$status"
    }
    export PGHOST=$PWD PGUSER=tester PGDATABASE=postgres
    step initdb "$programs/initdb" --pgdata=data --username=tester --auth=trust --no-sync
    step start "$programs/pg_ctl" -D data -w -l server -o "-k $PWD -h ''" start
    step fill "$programs/pgbench" -i -s 3 -q
    case $mode in
    select) step select "$programs/pgbench" -n -S -c 8 -j 2 -t 1000 ;;
    tables)
        step make "$programs/psql" -qc 'create table t as select i, i * i % 97 as j from generate_series(1, 100000) i'
        step index "$programs/psql" -qc 'create index on t (j); analyze t; vacuum t'
        with "$programs/psql" -Atqc 'select j, count(*), sum(i) from t group by j order by j' >rows
        printf 'rows\t%s\n' "$(sha256sum <rows)"
        step parallel "$programs/psql" -qc 'set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0;
            select sum(sqrt(i)) from t'
        ;;
    *) step "$mode" "$programs/pgbench" -n -M "$mode" -c 6 -j 2 -t 200 ;;
    esac
    sed -nE 's/^number of (failed transactions|transactions actually processed): (.*)/\1\t\2/p' output
    # The sums of both tables change together.
    "$programs/psql" -Atqc 'select (select sum(abalance) from pgbench_accounts) =
        (select coalesce(sum(delta), 0) from pgbench_history)' | sed 's/^/sums agree\t/'
    step stop "$programs/pg_ctl" -D data -w -m fast stop
    # What the server complained of.
    sed -nE 's/.*(PANIC|FATAL|ERROR|terminated by signal).*/the server says\t\1/p' server
}
