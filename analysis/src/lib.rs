//! Reads profiles, names what they hold, and shows where the time went: the library behind the command `sigprof`.
//!
//! Data flows one way. Every input becomes a [`Profile`](profile::Profile), every report and every output starts from one:
//!
//! ```text
//! files, spools, memory --formats--> Profile --symbolize--> Profile with names --filter, granularity--> Profile
//!     --report--> text, pictures, other formats
//! ```
//!
//! | folder | what it does |
//! | --- | --- |
//! | [`profile`] | the model: samples, locations, functions, mappings |
//! | [`formats`] | bytes to the model and back |
//! | [`record`] | runs a command, and collects what its processes leave |
//! | [`symbolize`] | names for addresses |
//! | [`filter`], [`granularity`] | a part of a profile, or a coarser one |
//! | [`graph`] | values by function, and which calls which |
//! | [`report`] | text and pictures |

pub mod error;
pub mod filter;
pub mod formats;
pub mod granularity;
pub mod graph;
pub mod profile;
pub mod record;
pub mod report;
pub mod symbolize;
mod text;
pub mod units;

pub use error::Error;
