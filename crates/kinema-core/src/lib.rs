//! Files to frames: the core of Kinema.
//!
//! `Source -> Index -> Plan -> Engine (read, decode, transform, kernel) -> merge`. No Python, no globals, no printing.

pub mod container;
pub mod error;
pub mod format;
pub mod frame;
pub mod index;
pub mod kernel;
pub mod selection;
pub mod source;

pub use error::{Error, ErrorKind, Result};
