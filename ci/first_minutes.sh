#!/bin/bash
# First attempts of users of perf, pprof, gperftools, gprof and samply. Each works, or its answer is one line that names what to
# type: ci/first_minutes.sh [SIGPROF]. By default the command of the release build, which is built if it is missing.
set -eu
cd "$(dirname "$0")/.."

if [ $# = 0 ]; then
    cargo build --release --locked --workspace
    set -- "${CARGO_TARGET_DIR:-target}/release/sigprof"
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"
ln -s "$(realpath "$1")" "$scratch/bin/sigprof"
PATH=$scratch/bin:$PATH
cd "$scratch"
exec </dev/null
unset NO_COLOR CLICOLOR_FORCE CPUPROFILE LD_PRELOAD

attempts=0
failures=0

# attempt STATUS PATTERN COMMAND...: the status, and an extended regular expression that a line of the output matches. If the
# status is not 0, the output is one line.
attempt() {
    local expected=$1 pattern=$2 status=0 output
    shift 2
    output=$("$@" 2>&1) || status=$?
    attempts=$((attempts + 1))
    if [ "$status" != "$expected" ]; then
        failed "$*" "status $status instead of $expected" "$output"
    elif ! grep -qE -- "$pattern" <<<"$output"; then
        failed "$*" "no line matches: $pattern" "$output"
    elif [ "$status" != 0 ] && [ "$(wc -l <<<"$output")" != 1 ]; then
        failed "$*" "more than one line" "$output"
    fi
}

failed() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n%s\n%s\n\n' "$1" "$2" "$3"
}

# on_terminal COMMAND...: runs it with a terminal as its standard output.
on_terminal() { script --quiet --return --command "$(printf '%q ' "$@")" /dev/null; }

cat >prog.c <<'C'
#include <time.h>
static volatile unsigned long sum;
__attribute__((noinline)) void hot(void) { for (int i = 0; i < 1000000; i++) sum += i; }
int main(void) { while (clock() < CLOCKS_PER_SEC / 3) hot(); }
C
gcc -O1 -g prog.c -o prog
printf 'main;parse 3\nmain;write 1\n' >stacks.folded
printf '<module> (a.py:3);parse (a.py:1) 2\n' >py-spy.folded
printf '{main};parse 2\n' >php.folded
printf 'prog 11 1.500000: 250000 cpu-clock:u: \n\t 55d0 parse+0x3 (/usr/bin/prog)\n\t 55d8 main+0x8 (/usr/bin/prog)\n\n' >script.txt
printf 'PERFILE2\0\0' >perf.data
printf 'gmon\1\0\0\0' >gmon.out
printf '{"exporter":"speedscope.app"}' >s.json
: >empty.prof
printf '\0\0' >cut.prof
head -c 4000 /usr/bin/env | tail -c 1000 >noise
mkdir directory

# Before anything is recorded.
attempt 1 'no sigprof.pb.gz.*sigprof record' sigprof top
attempt 1 'no sigprof.pb.gz.*sigprof record' sigprof report
attempt 2 'sigprof record .*prog' sigprof ./prog
attempt 127 'command not found' sigprof record ./missing
attempt 127 "leave out the quotes: sigprof record ls -la, or use sh -c 'ls -la'" sigprof record 'ls -la'

# perf record and samply record.
# The first tick comes after a second of CPU time, also on a slow processor.
attempt 0 "1 program ran.*try -F 1000" env CPUPROFILE_RANDOM_START=0 sigprof record -F 1 true
attempt 0 'sigprof: wrote sigprof.pb.gz; to see it: sigprof report' sigprof record -F 999 -- ./prog
attempt 0 'hot' sigprof record -g ./prog
attempt 0 'hot' sigprof record --call-graph dwarf -F 99 -- ./prog
attempt 0 'hot' sigprof record --rate 100 ./prog
attempt 2 'perf record -a' sigprof record -a sleep 1
attempt 2 'clock wall.*perf record -e' sigprof record -e cycles -- ./prog
attempt 2 'sigprof record PROGRAM.*perf record -p' sigprof record -p 1234
attempt 2 'perf record -p' sigprof record --pid=1234
attempt 0 'to see it: sigprof report cpu.pb.gz' sigprof record -o cpu.pb.gz ./prog
attempt 0 'wrote' sigprof record -F 1000 -o fast.pb.gz ./prog
attempt 1 'directory' sigprof record -o directory ./prog

# What was recorded, without a name.
attempt 0 'hot' sigprof top
attempt 0 'hot' sigprof list hot
attempt 0 'hot' sigprof peek hot
attempt 0 '<svg' sigprof flamegraph
attempt 0 '<html' sigprof report
attempt 0 "wrote $scratch/sigprof.html" on_terminal sigprof report
attempt 0 "wrote $scratch/sigprof.svg" on_terminal sigprof flamegraph cpu.pb.gz
attempt 0 'sum' sigprof list hot cpu.pb.gz
attempt 1 'REGEX is missing.*main cpu.pb.gz' sigprof list cpu.pb.gz
# The name of a function can be that of a file.
cp prog hot
attempt 0 'sum' sigprof list hot
attempt 0 'hot' sigprof peek hot
rm hot

# perf's other commands.
attempt 0 'hot' sigprof top -i cpu.pb.gz
attempt 0 '<html' sigprof report -i cpu.pb.gz
attempt 2 'sigprof top' sigprof report --stdio
attempt 2 'sigprof list' sigprof annotate hot
attempt 2 'sigprof traces' sigprof script
attempt 0 'difference .* of old' sigprof diff cpu.pb.gz sigprof.pb.gz
attempt 0 'difference .* of old' sigprof diff

# pprof and google-pprof.
attempt 0 'hot' sigprof top ./prog cpu.pb.gz
attempt 0 'hot' sigprof --text ./prog cpu.pb.gz
attempt 0 'hot' sigprof -top cpu.pb.gz
attempt 0 'hot' sigprof top -cum -focus=hot -nodecount=5 cpu.pb.gz
attempt 0 'prog.c:' sigprof top -lines cpu.pb.gz
attempt 0 'difference 0' sigprof top -diff_base=cpu.pb.gz cpu.pb.gz
attempt 0 'difference 0' sigprof top --diff cpu.pb.gz cpu.pb.gz
attempt 0 'Duration: .*, Total samples = ' sigprof top --base cpu.pb.gz fast.pb.gz
attempt 0 'hot' sigprof top -i cpu fast.pb.gz
attempt 2 'report --open' sigprof -http=:8080 cpu.pb.gz
attempt 2 'report --open' sigprof top -http=: cpu.pb.gz
attempt 2 'sigprof list REGEX' sigprof -list=hot cpu.pb.gz
attempt 2 'sigprof top cpu.pb.gz' sigprof cpu.pb.gz
attempt 0 'matches nothing' sigprof top --focus nosuch cpu.pb.gz
attempt 1 'focus' sigprof top --focus '(' cpu.pb.gz
attempt 1 'curl -o' sigprof top http://localhost:6060/debug/pprof/profile

# Files of other tools.
attempt 0 'parse' sigprof top stacks.folded
attempt 0 'parse' sigprof top py-spy.folded
attempt 0 'parse' sigprof top php.folded
attempt 0 'parse' sigprof top script.txt
attempt 0 'parse' sigprof top -i - <stacks.folded
attempt 1 'perf script -i' sigprof top perf.data
attempt 1 'gprof' sigprof top gmon.out
attempt 1 'speedscope' sigprof top s.json
attempt 1 'sigprof record' sigprof top ./prog
attempt 1 'missing.prof: cannot read the profile: No such file or directory$' sigprof top missing.prof
attempt 1 'directory' sigprof top directory
attempt 1 'empty' sigprof top empty.prof
attempt 1 'record it again' sigprof top cut.prof
attempt 1 'supported:' sigprof top noise

# Help.
attempt 0 'sigprof record \./prog' sigprof help
attempt 0 '--frequency' sigprof help record
attempt 0 'report' sigprof --help

echo "first_minutes: $((attempts - failures)) of $attempts attempts succeed"
[ "$failures" = 0 ]
