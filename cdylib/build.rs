//! Link arguments of libprofiler.so; they reach no other package.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let arguments = [
        // Programs linked against gperftools' library find ours under the same name.
        "-Wl,-soname,libprofiler.so.0",
        // The handler stays installed for the life of the process, so its code must stay mapped.
        "-Wl,-z,nodelete",
        // What the library calls of its own is its own, whatever other profiler comes first in the program. Not all symbols:
        // with `-Bsymbolic` the loader would look its own names up in it first, and it could not tell whether the program
        // calls it.
        "-Wl,-Bsymbolic-functions",
        // Nothing is left to be resolved in the handler.
        "-Wl,-z,now",
        // glibc's second name for the function, which some programs call. In the archive it stays libc's: there it is
        // what ours calls itself.
        "-Wl,--defsym=__sigaction=sigaction",
    ];
    for argument in arguments {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}
