//! Compiles the programs of all tests: the gate runs none of the full check's.

use crate::support::{check_syntax, program_source};

#[test]
fn each_program_of_a_test_compiles() {
    let mut count = 0;
    let mut directories = vec![program_source("")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("the directory of programs") {
            let path = entry.expect("a directory entry").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "c" || extension == "cc") {
                check_syntax(&path);
                count += 1;
            }
        }
    }
    assert!(count > 50, "{count} programs");
}
