//! Secondary structure of proteins by hydrogen bonds of the backbone.
//!
//! Source: W. Kabsch, C. Sander, Biopolymers 22, 2577 (1983). [`bonds`] finds the hydrogen bonds, [`patterns`] makes
//! states of them.

pub(crate) mod bonds;
pub(crate) mod patterns;
