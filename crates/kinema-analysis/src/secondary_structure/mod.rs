//! Secondary structure of proteins by hydrogen bonds of the backbone.
//!
//! Source: W. Kabsch, C. Sander, Biopolymers 22, 2577 (1983). [`bonds`] finds the hydrogen bonds, among pairs
//! that [`near`] finds, and [`patterns`] makes states of them.

pub(crate) mod bonds;
mod near;
pub(crate) mod patterns;
