# Redis' own tests, which start and kill servers that fork, and redis-benchmark against a server.
# shellcheck shell=bash disable=SC2034,SC2154 # Variables come from ci/suites.sh, and serve it.
packages="redis-server redis-tools tcl"
sources="redis"
limit=400

prepare() {
    cp -r "$suites/src/redis/tests" "$suites/src/redis/runtest" "$suites/src/redis/redis.conf" "$shared"
    mkdir "$shared/src"
    ln -s /usr/bin/redis-server /usr/bin/redis-cli /usr/bin/redis-benchmark /usr/bin/redis-check-aof \
        /usr/bin/redis-check-rdb "$shared/src"
}

units() {
    printf '%s\n' benchmark unit/type/list unit/type/hash unit/type/set unit/type/zset unit/type/string unit/type/incr \
        unit/auth unit/keyrandom unit/dump unit/expire unit/protocol unit/scan unit/info unit/slowlog unit/scripting \
        unit/multi unit/sort unit/pubsub integration/rdb integration/aof integration/convert-zipmap-hash-on-load \
        integration/redis-cli integration/redis-benchmark
}

run() {
    if [ "$1" = benchmark ]; then
        benchmark
        return
    fi
    local status=0
    cp -rP "$shared/." tree
    cd tree || return
    # shellcheck disable=SC2086 # A list of words.
    env ${PRELOAD-} ./runtest --single "$1" --clients 1 --timeout 300 >../output 2>&1 </dev/null || status=$?
    printf 'status\t%s\n' "$status"
    sed -E 's/\x1b\[[0-9;]*m//g' ../output | sed -nE 's/^\[(ok|err|skip|exception|timeout|ignore)\]: (.*)/\2\t\1/p' |
        # Times, and what a message tells of the run, are no part of a test's name.
        sed -E 's/ \([0-9]+ ms\)//'
}

benchmark() {
    local status=0 server
    # shellcheck disable=SC2086 # A list of words.
    env ${PRELOAD-} redis-server --port 0 --unixsocket "$PWD/socket" --save '' --appendonly yes --dir "$PWD" >server 2>&1 &
    server=$!
    until redis-cli -s "$PWD/socket" ping >/dev/null 2>&1; do
        kill -0 "$server" || return
    done
    # shellcheck disable=SC2086 # A list of words.
    env ${PRELOAD-} redis-benchmark -s "$PWD/socket" -n 20000 -c 20 --threads 2 --csv -r 1000 >output 2>errors || status=$?
    printf 'status\t%s\n' "$status"
    sed -nE 's/^"([^"]*)","[0-9.]+".*/\1\tmeasured/p' output
    redis-cli -s "$PWD/socket" bgsave >/dev/null
    redis-cli -s "$PWD/socket" set last word | sed 's/^/last command\t/'
    redis-cli -s "$PWD/socket" shutdown
    wait "$server"
    printf 'end of the server\t%s\n' "$?"
}
