//! Files to frames: the core of Kinema.
//!
//! `Source -> Index -> Plan -> Engine (read, decode, transform, kernel) -> merge`. No Python, no globals, no printing.

pub mod bulk;
pub mod container;
pub mod cuts;
pub mod engine;
pub mod error;
pub mod format;
pub mod frame;
pub mod index;
pub mod join;
pub mod kernel;
pub mod merge;
pub mod plan;
pub mod reader;
pub mod selection;
pub mod source;
pub mod timing;
pub mod trajectory;

pub use error::{Error, ErrorKind, Result};

/// The how-to page, so that its code is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/add-a-format.md")]
pub struct AddAFormat;
