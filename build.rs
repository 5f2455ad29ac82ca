//! Refuses targets that the profiler cannot run on, and declares the cfgs of the crate.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rustc-check-cfg=cfg(sigprof_stamps)");
    println!("cargo::rustc-check-cfg=cfg(fuzzing)");
    println!("cargo::rustc-check-cfg=cfg(sigprof_sanitized)");
    let wants_runtime = env::var_os("CARGO_FEATURE_RUNTIME").is_some();
    let target = |part: &str| env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    let (os, arch, environment) = (target("OS"), target("ARCH"), target("ENV"));
    // With the width and the order of words: x86_64 and aarch64 have ABIs of other kinds.
    let machine = [&*arch, &*target("POINTER_WIDTH"), &*target("ENDIAN")].join(" ");
    let is_tested = ["x86_64 64 little", "x86 32 little", "aarch64 64 little"].contains(&&*machine);
    if wants_runtime && (os != "linux" || !is_tested || environment != "gnu") {
        println!(
            "cargo::error=sigprof's profiler runs on Linux with glibc on x86-64, i686 and aarch64, not on \
             {arch}-{os}-{environment}; disable the feature `runtime` to use its file format there"
        );
    }
}
