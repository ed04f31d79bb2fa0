//! Selections of frames and of atoms: the parts of every request.
//!
//! Selection strings are not parsed here: MDAnalysis resolves them to indices in Python.

mod atoms;
mod frames;

pub use self::atoms::AtomSelection;
pub use self::frames::FrameSelection;
