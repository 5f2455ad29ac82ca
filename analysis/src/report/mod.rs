//! Profiles as text and pictures. A report takes a profile that has names, and writes; it opens no profile and asks for no
//! options of its own.

pub mod raw;
