//! Distances, angles, dihedral angles and centres in each frame.

pub mod angles;
pub mod axis_angles;
pub mod centers;
pub mod dihedrals;
pub mod distances;
