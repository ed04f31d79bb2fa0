//! Pairs of atoms by distance: counted, or those that are near each other; atoms that are near others.

pub mod close_pairs;
pub mod count;
pub mod distance_histogram;
pub mod shells;
