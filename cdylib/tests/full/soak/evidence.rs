//! The state of a hanging program's threads, from the kernel and, if it is installed, gdb.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

/// The most that is shown of one process.
const BYTES: usize = 60_000;

/// Describes all processes of the group.
pub(super) fn gather(group: u32) -> String {
    processes_of(group).into_iter().map(of_process).collect()
}

/// The processes of a group: the fifth field of `stat` in proc(5).
pub(super) fn processes_of(group: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_member = |process: &u32| {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let mut fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.nth(2).is_some_and(|field| field == group.to_string())
    };
    ids.filter(is_member).collect()
}

fn of_process(process: u32) -> String {
    let mut text = format!("process {process}:\n");
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    for task in tasks {
        let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let stat = read("stat");
        let state =
            stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).unwrap_or("?").to_owned();
        let (place, call) = (read("wchan"), read("syscall"));
        let _ = writeln!(
            text,
            "  thread {}: {state} {place} system call {}",
            task.file_name().to_string_lossy(),
            call.trim()
        );
    }
    let orders = ["-batch", "-nx", "-ex", "thread apply all backtrace 25", "-p"];
    let mut debugger = Command::new("timeout");
    debugger.args(["60", "gdb"]).args(orders).arg(process.to_string());
    if let Ok(output) = debugger.stdin(Stdio::null()).stderr(Stdio::null()).output() {
        let stacks = String::from_utf8_lossy(&output.stdout);
        let lines = stacks.lines().filter(|line| line.starts_with('#') || line.starts_with("Thread "));
        lines.for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
    }
    text.chars().take(BYTES).collect()
}
