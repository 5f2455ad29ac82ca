//! Refuses targets that the profiler cannot run on, and declares the cfgs of the crate.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(loom)");
    let wants_runtime = env::var_os("CARGO_FEATURE_RUNTIME").is_some();
    let target = |part: &str| env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    let (os, arch, environment) = (target("OS"), target("ARCH"), target("ENV"));
    if wants_runtime && (os != "linux" || arch != "x86_64" || environment != "gnu") {
        println!(
            "cargo::error=sigprof's profiler runs on x86_64 Linux with glibc, not on {arch}-{os}-{environment}; \
             disable the feature `runtime` to use its file format there"
        );
    }
}
