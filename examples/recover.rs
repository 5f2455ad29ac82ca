//! Lists the spools of killed or crashed programs, or recovers their profiles.
//!
//! ```sh
//! cargo run --release --example recover             # list
//! cargo run --release --example recover -- all      # recover those of processes that are gone
//! cargo run --release --example recover -- DIRECTORY [all]
//! ```

use sigprof::recover::{self, Owner};
use std::{env, error::Error, path::PathBuf, process::ExitCode};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments: Vec<_> = env::args_os().skip(1).collect();
    let all = arguments.last().is_some_and(|last| last == "all");
    if all {
        arguments.pop();
    }
    let directory = arguments.pop().map_or_else(recover::default_directory, PathBuf::from);
    let found = recover::spools(&directory)?;
    if found.spools.is_empty() && found.unusable.is_empty() {
        println!("no spools in {}", directory.display());
    }
    let mut failures = found.unusable.len();
    for error in found.unusable {
        eprintln!("{error}");
    }
    for spool in found.spools {
        let owner = spool.owner();
        let name = format!("process {} ({})", spool.process(), spool.program().display());
        match owner {
            Owner::Running => {
                println!("{name} is still running; its profile will be {}", spool.target().display())
            }
            Owner::Gone if all => match spool.recover() {
                Ok(recovered) => println!("{name}: {recovered}"),
                Err(error) => {
                    eprintln!("{name}: {error}");
                    failures += 1;
                }
            },
            Owner::Gone => println!("{name} has ended; its profile would be {}", spool.target().display()),
            _ => println!("{name} is in another container; its spool is {}", spool.path().display()),
        }
    }
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
