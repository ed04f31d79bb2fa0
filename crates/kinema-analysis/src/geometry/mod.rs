//! Geometry of atoms in periodic systems: numbers of pairs, triples, quadruples and sets of atoms.
//!
//! Pure functions over rows of gathered positions; kernels know frames, names and results.

mod angles;
mod arc_tangent;
mod axes;
mod bonds;
mod cell_axes;
pub mod cell_list;
mod centers;
mod contact_sums;
mod contacts;
mod dihedrals;
mod distances;
mod group_centers;
mod gyration_tensor;
pub mod hydrogen_bond;
mod least_distances;
pub(crate) mod nearest_images;
mod points;
pub(crate) mod turns;
pub(crate) mod vectors;

pub use angles::angles;
pub use axes::{angle_of, cross, longest_direction};
pub use bonds::Results;
pub(crate) use cell_axes::CellAxes;
pub use cell_list::{CellList, FoundPair, PairImages};
pub use centers::Center;
pub use contact_sums::{COUNT, ContactSums, MOST_TOGETHER, Measured, PARTS, PairRuns, RunScratch};
pub use contacts::{ContactGroups, ContactRule, ContactScratch};
pub use dihedrals::dihedrals;
pub use distances::distances;
pub use group_centers::GroupCenters;
pub use gyration_tensor::{Gyration, Shape};
pub use kinema_core::frame::lattice::{Lattice, REACH};
pub use least_distances::{AtomGroups, LeastScratch, Nearest, Separation, least_distances, near_groups};
pub use points::{Column, Points};
