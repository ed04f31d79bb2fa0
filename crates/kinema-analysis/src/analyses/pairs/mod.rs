//! Pairs of atoms by distance: counted, or those that are near each other; atoms that are near others.

pub mod close_pairs;
pub mod count;
pub mod distance_histogram;
pub mod mindist;
pub mod native_contacts;
pub mod neighbors;
pub mod residue_contacts;
pub mod residue_distances;
pub mod shells;
