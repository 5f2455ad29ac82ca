# Python's own tests, of what a profiler could disturb: signals, threads, processes, time, sockets, memory.
# shellcheck shell=bash disable=SC2034,SC2154 # Variables come from ci/suites.sh, and serve it.
packages="python3 libpython3.11-testsuite"
limit=400

prepare() { :; }

units() {
    # Sockets are those of the loopback device.
    printf '%s\n' test_signal test_threadsignals test_eintr test_threading test_thread test_subprocess test_fork1 test_os \
        test_posix test_faulthandler test_time test_select test_selectors test_poll test_epoll test_socket test_timeout \
        test_gc test_json test_zlib test_ctypes test_embed test_cmd_line test_atexit test_sys test_resource test_mmap \
        test_pty test_popen test_wait3 test_wait4 test_exceptions test_generators test_coroutines test_re test_fcntl \
        test_math test_hashlib test_import test_pickle test_struct test_shutil test_tempfile test_tracemalloc \
        test_profile test_cprofile test_multiprocessing_fork test_multiprocessing_forkserver test_asyncio
}

run() {
    local status=0
    # shellcheck disable=SC2086 # A list of words.
    env ${PRELOAD-} /usr/bin/python3 -m test --junit-xml "$PWD/results.xml" "$1" >output 2>&1 || status=$?
    printf 'status\t%s\n' "$status"
    /usr/bin/python3 - <<'END'
import xml.etree.ElementTree as tree
try:
    results = tree.parse("results.xml")
except (OSError, tree.ParseError):
    print("results\tnone")
else:
    for case in results.iter("testcase"):
        children = {child.tag for child in case} & {"failure", "error", "skipped"}
        print(case.get("name"), ",".join(sorted(children)) or "ok", sep="\t")
END
}
