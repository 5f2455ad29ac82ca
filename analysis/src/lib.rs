//! Library of the command `sigprof`: reads and symbolizes profiles, and writes reports.
//!
//! Every input becomes a [`Profile`](profile::Profile), from which all outputs are made:
//!
//! ```text
//! files, spools, memory --formats--> Profile --symbolize--> Profile with names
//!     --filter, granularity--> Profile --report--> text, pictures, other formats
//! ```
//!
//! | folder | purpose |
//! | --- | --- |
//! | [`profile`] | the model: samples, locations, functions, mappings |
//! | [`formats`] | readers and writers of file formats |
//! | [`record`] | runs a command, and collects its samples |
//! | [`symbolize`] | names of addresses |
//! | [`filter`], [`granularity`] | filters and aggregation |
//! | [`graph`] | values by function, and the call graph |
//! | [`report`] | text and pictures |
//! | [`gprof`] | reports of gprof |

pub mod error;
pub mod filter;
pub mod formats;
pub mod gprof;
pub mod granularity;
pub mod graph;
pub mod profile;
pub mod rank;
pub mod record;
pub mod report;
mod source_file;
pub mod symbolize;
mod text;
pub mod units;

pub use error::Error;
