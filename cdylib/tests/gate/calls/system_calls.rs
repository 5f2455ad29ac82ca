macro_rules! names {
    ($($constant:ident $name:literal),* $(,)?) => {
        /// The name of the system call `number`; `None` for one that the profiler never made.
        pub(crate) fn name(number: i64) -> Option<&'static str> {
            match number {
                $(libc::$constant => Some($name),)*
                _ => None,
            }
        }
    };
}

names! {
    SYS_read "read", SYS_write "write", SYS_close "close", SYS_lseek "lseek", SYS_mmap "mmap", SYS_mprotect "mprotect",
    SYS_munmap "munmap", SYS_rt_sigprocmask "rt_sigprocmask", SYS_sched_yield "sched_yield", SYS_madvise "madvise",
    SYS_setitimer "setitimer", SYS_getitimer "getitimer", SYS_getpid "getpid", SYS_gettid "gettid", SYS_execve "execve",
    SYS_getcwd "getcwd", SYS_sigaltstack "sigaltstack", SYS_munlock "munlock", SYS_futex "futex",
    SYS_getdents64 "getdents64", SYS_clock_nanosleep "clock_nanosleep", SYS_exit_group "exit_group", SYS_openat "openat",
    SYS_mkdirat "mkdirat", SYS_unlinkat "unlinkat", SYS_renameat "renameat", SYS_readlinkat "readlinkat",
    SYS_fchmodat "fchmodat", SYS_ppoll "ppoll", SYS_process_vm_readv "process_vm_readv", SYS_getrandom "getrandom",
    SYS_execveat "execveat", SYS_pread64 "pread64", SYS_pwrite64 "pwrite64", SYS_rt_sigaction "rt_sigaction",
    SYS_rt_sigpending "rt_sigpending", SYS_rt_sigtimedwait "rt_sigtimedwait", SYS_rt_sigqueueinfo "rt_sigqueueinfo",
    SYS_timer_create "timer_create", SYS_timer_settime "timer_settime", SYS_timer_gettime "timer_gettime",
    SYS_timer_delete "timer_delete", SYS_signalfd4 "signalfd4",
    SYS_fstat "fstat", SYS_fchmod "fchmod", SYS_kill "kill", SYS_tgkill "tgkill", SYS_uname "uname", SYS_fcntl "fcntl",
    SYS_ioctl "ioctl", SYS_prctl "prctl", SYS_perf_event_open "perf_event_open", SYS_flock "flock",
}
