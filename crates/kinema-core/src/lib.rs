//! Files to frames: the core of Kinema.
//!
//! `Source -> Index -> Plan -> pipeline (read, decode, then kernels, arrays or an encoder and a sink)`. No Python, no printing, no globals but the
//! journal of a trace.

pub mod clock;
pub mod container;
pub mod error;
pub mod format;
pub mod frame;
pub mod index;
pub mod named;
pub mod pipeline;
pub mod plan;
pub mod reduce;
pub mod selection;
pub mod sink;
pub mod source;
pub mod trace;
pub mod trajectory;

pub use error::{Error, ErrorKind, Result};

/// The how-to page, so that its code is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/add-a-format.md")]
pub struct AddAFormat;
