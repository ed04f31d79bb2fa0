//! Kernels of densities and of structure: counts and sums on axes, on grids and in reciprocal space.

pub mod density_profile;
mod fourier_sums;
pub mod grid_counts;
mod pair_rule;
mod point_sets;
pub mod rdf;
mod slices;
pub mod structure_factor;
