//! Selections of frames and of atoms, of which every request is made.
//!
//! Selection strings are not parsed here: MDAnalysis resolves them to indices in Python.

mod atoms;
mod frames;

pub use self::atoms::AtomSelection;
pub use self::frames::FrameSelection;
