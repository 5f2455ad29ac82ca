//! Ranks: the numbers of the processes of a parallel program, as MPI and Slurm give them.
//!
//! The library adds the rank to the name of a profile, as gperftools does: `.rank-3`, or `.slurmid-3`
//! in a Slurm job. So a file without labels has the rank in its name.

use crate::{
    profile::{Label, LabelValue, label},
    record::with_word,
};
use std::path::{Path, PathBuf};

/// Variables with the rank of a process: of PMIx, Open MPI, and MPICH.
const VARIABLES: [&str; 3] = ["PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"];

/// Returns the rank of a process with these variables; None outside of parallel programs.
///
/// Slurm's rank counts only in a step of several tasks: a batch script has one as well.
pub fn of_variables(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let number = |name: &str| variable(name)?.parse::<u32>().ok();
    let of_slurm = || number("SLURM_STEP_NUM_TASKS").filter(|&tasks| tasks > 1).and(number("SLURM_PROCID"));
    VARIABLES.into_iter().find_map(number).or_else(of_slurm)
}

/// Returns the rank in a file name: the digits after `rank` or `slurmid`, such as 3 in
/// `prof.rank-3.pb.gz` and `Rank_003.prof`.
pub fn in_name(path: &Path) -> Option<i64> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    let after = |word: &'static str| name.match_indices(word).map(|(place, word)| place + word.len());
    after("rank").chain(after("slurmid")).find_map(|end| {
        let rest = name[end..].trim_start_matches(['-', '_', '.', '=']);
        digits(rest)
    })
}

/// Returns the rank that the library has added to a path.
pub(crate) fn in_target(path: &Path) -> Option<i64> {
    let name = path.file_name()?.to_string_lossy();
    let rest = SUFFIXES.iter().find_map(|suffix| name.rsplit_once(suffix));
    digits(rest?.1)
}

/// Returns the label of a process's samples.
pub(crate) fn label(rank: i64) -> Label {
    Label { key: label::RANK.into(), value: LabelValue::Number(rank, "".into()) }
}

/// What the library writes before the rank.
pub(crate) const SUFFIXES: [&str; 2] = [".rank-", ".slurmid-"];

/// Adds a rank to a file name: `prof.rank-3.pb.gz`.
pub fn with_rank(path: &Path, rank: u32) -> PathBuf {
    with_word(path, &format!("{}{rank}", SUFFIXES[0]))
}

fn digits(text: &str) -> Option<i64> {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_have_ranks() {
        let rank = |name: &str| in_name(Path::new(name));
        assert_eq!(rank("/tmp/rank7/prof.rank3.pb.gz"), Some(3));
        assert_eq!(rank("Rank_012.prof"), Some(12));
        assert_eq!(rank("frank.rank-4"), Some(4));
        assert_eq!(rank("prof.slurmid-5_77"), Some(5));
        assert_eq!(rank("cpu.prof.3"), None);
        assert_eq!(rank("rank"), None);
        assert_eq!(rank("rank99999999999999999999"), None);
    }

    #[test]
    fn targets_have_the_library_s_suffix() {
        let rank = |name: &str| in_target(Path::new(name));
        assert_eq!(rank("/x/.sigprof-record-0-rank12.prof.rank-5_123"), Some(5));
        assert_eq!(rank("/x/prof.slurmid-7"), Some(7));
        assert_eq!(rank("/x/.sigprof-record-0-rank12.prof_123"), None);
    }

    #[test]
    fn variables_of_each_launcher_have_ranks() {
        let rank = |variables: &[(&str, &str)]| {
            of_variables(|name| Some(variables.iter().find(|one| one.0 == name)?.1.to_owned()))
        };
        assert_eq!(rank(&[("OMPI_COMM_WORLD_RANK", "2"), ("PMIX_RANK", "1")]), Some(1));
        assert_eq!(rank(&[("PMI_RANK", "0")]), Some(0));
        assert_eq!(rank(&[("SLURM_PROCID", "3"), ("SLURM_STEP_NUM_TASKS", "4")]), Some(3));
        assert_eq!(rank(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")]), None);
        assert_eq!(rank(&[("SLURM_PROCID", "0")]), None);
        assert_eq!(rank(&[("PMI_RANK", "-1")]), None);
    }

    #[test]
    fn ranks_are_inserted_before_the_extension() {
        assert_eq!(with_rank(Path::new("/a.b/prof.pb.gz"), 3), Path::new("/a.b/prof.rank-3.pb.gz"));
        assert_eq!(with_rank(Path::new("prof"), 12), Path::new("prof.rank-12"));
    }
}
