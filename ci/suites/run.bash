# Runs the units of a suite; sourced by ci/suites.sh.
# shellcheck shell=bash disable=SC2034,SC2154 # Variables come from ci/suites.sh, and serve it.

# without_rights COMMAND...: as nobody, where there are rights to give up.
without_rights() {
    if [ "$(id -u)" = 0 ] && [ -z "$needs_root" ]; then
        setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"
    else
        "$@"
    fi
}

# pass FILE with|without UNIT...: runs the units, and appends to FILE a line for each test: its name, a tab, its outcome.
# Under the library, $FILE.profiles gets a line of figures for each unit.
pass() {
    local file=$1 how=$2 unit place=$suites/place${other:+-other}/$name profiles=$suites/profiles${other:+-other}/$name status environment
    shift 2
    for unit; do
        rm -rf "$place" "$profiles"
        mkdir -p "$place/home" "$place/tmp" "$profiles"
        chmod 1777 "$place" "$place/home" "$place/tmp" "$profiles"
        # By this the processes that stay behind are found.
        environment=(SIGPROF_SUITE="$$" HOME="$place/home" TMPDIR="$place/tmp" LC_ALL=C.UTF-8 LANG=C.UTF-8
            PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin)
        if [ "$how" = with ]; then
            environment+=("PRELOAD=LD_PRELOAD=$library CPUPROFILE=$profiles/p CPUPROFILE_FREQUENCY=1000 \
CPUPROFILE_QUIET=1 CPUPROFILE_USE_PID=1 CPUPROFILE_STATISTICS=$profiles/statistics")
        fi
        status=0
        SECONDS=0
        (
            cd "$place"
            export unit suites shared
            # shellcheck disable=SC2016 # The inner shell's.
            without_rights env --unset=LD_PRELOAD "${environment[@]}" timeout --kill-after=10 "$limit" \
                bash -c '. "$1"; run "$unit"' - "$root/ci/suites/$name.sh" </dev/null 2>"$file.errors"
        ) >"$file.unit" || status=$?
        case $status in
        0) ;;
        124 | 137) printf 'the whole unit\thangs\n' ;;
        *) printf 'the whole unit\tends with %s\n' "$status" ;;
        esac >>"$file.unit"
        # Whatever a test's name holds, it is one line; a tab ends it.
        LC_ALL=C tr -cd '\11\12\40-\176' <"$file.unit" | sed "s|^|$unit: |" >>"$file"
        printf '%s\t%s\n' "$SECONDS" "$unit" >>"$file.seconds"
        leftovers "$unit" "$file.left"
        [ "$how" = without ] || figures "$unit" "$file.profiles"
    done
    rm -rf "$place" "$profiles"
}

# leftovers UNIT FILE: names the processes that the unit left behind, and ends them.
leftovers() {
    local process
    # The shell that asks has the variable not, since it is set for the unit alone.
    grep --files-with-matches --null-data --line-regexp "SIGPROF_SUITE=$$" /proc/[0-9]*/environ 2>/dev/null |
        while IFS=/ read -r _ _ process _; do
            printf '%s\t%s\n' "$1" "$(tr '\0' ' ' 2>/dev/null <"/proc/$process/cmdline")" >>"$2"
            kill -KILL "$process" 2>/dev/null || true
        done
}

# figures UNIT FILE: reads all profiles of a unit, in $profiles; makes those of processes that were killed first.
figures() {
    local unit=$1 directory spools=0 lost
    for directory in /dev/shm/sigprof-*; do
        [ -d "$directory" ] || continue
        spools=$((spools + $(find "$directory" -type f | wc -l)))
        # As the user that they belong to.
        without_rights "$examples/recover" "$directory" all >>"$2.recovered" 2>&1 || true
        # What has no sample is not made a profile of.
        find "$directory" -type f -delete
    done
    lost=$(sed -n 's/.* no_slot=\([0-9]*\) table_full=\([0-9]*\) no_pc=\([0-9]*\) spill_lost=\([0-9]*\) stuck_handlers=\([0-9]*\) .*/\1 \2 \3 \4 \5/p' \
        "$profiles/statistics" 2>/dev/null | awk '{ lost += $1 + $2 + $3 + $4 + $5 } END { print lost + 0 }')
    rm -f "$profiles/statistics"
    # What a process was killed over is no profile yet.
    find "$profiles" -name '.sigprof-*' -printf "$unit\ta file that was being made\n" -delete >>"${2%.profiles}.left"
    # Profiles, samples, and profiles that are not whole; the names of those are told.
    printf '%s %s %s %s\n' "$("$examples/check" "$profiles" 2>>"$2.broken")" "$lost" "$spools" "$unit" >>"$2"
}
