//! Pairs of atoms by distance: counted, or those that are near each other; hydrogen bonds and chains of them; atoms that
//! are near others.

mod bond_finder;
mod bridge_paths;
pub mod close_pairs;
pub mod coordination;
pub mod count;
pub mod distance_histogram;
pub mod hbonds;
pub mod mindist;
pub mod native_contacts;
pub mod neighbors;
pub mod residue_contacts;
pub mod residue_distances;
pub mod shells;
pub mod water_bridges;
