//! Reads profiles, names what they hold, and shows where the time went: the library behind the command `sigprof`.
//!
//! Data flows one way. Every input becomes a [`Profile`](profile::Profile), every report and every output starts from one:
//!
//! ```text
//! files, spools, memory --formats--> Profile --symbolize--> Profile with names --report--> text, pictures, other formats
//! ```
//!
//! | folder | what it does |
//! | --- | --- |
//! | [`profile`] | the model: samples, locations, functions, mappings |
//! | [`formats`] | bytes to the model and back |
//! | [`record`] | runs a command, and collects what its processes leave |
//! | [`symbolize`] | names for addresses |
//! | [`report`] | text and pictures |

pub mod error;
pub mod formats;
pub mod profile;
pub mod record;
pub mod report;
pub mod symbolize;

pub use error::Error;
