//! The kernels by name: how each is made from its arguments, and examples for the tests of its laws.

use std::sync::Arc;

use kinema_core::reduce::AnyKernel;
use kinema_core::{Error, ErrorKind, Result};

use crate::analyses::density::{density_profile, grid_counts, rdf, structure_factor};
use crate::analyses::geometry::{angles, axis_angles, centers, dihedrals, distances};
use crate::analyses::motion::{displacements, jumps, rotations};
use crate::analyses::pairs::{
    close_pairs, contact_map, coordination, count, distance_histogram, hbonds, mindist, native_contacts, neighbors,
    residue_contacts, residue_distances, shells, water_bridges,
};
use crate::analyses::structure::{
    average, covariance, dssp, frame_rmsds, gyration, member_rmsds, near_frames, positions, projections, rgyr, rmsd,
    rmsf, sasa,
};
use crate::arguments::Arguments;

/// A kernel as it is declared in its own file.
#[derive(Debug)]
pub struct KernelInfo {
    /// Name and version of its partials: "rgyr/1". The version changes with the meaning of their bytes.
    pub id: &'static str,
    /// Makes it.
    pub make: fn(&Arguments) -> Result<Arc<dyn AnyKernel>>,
    /// Arguments that show all it can do, for a trajectory of any number of atoms with a structure (`atoms x 3`, angstrom).
    pub examples: fn(n_atoms: u32, structure: &[[f64; 3]]) -> Vec<Arguments>,
}

impl KernelInfo {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.id.split_once('/').map_or(self.id, |(name, _)| name)
    }

    /// The version of its partials.
    pub fn version(&self) -> &'static str {
        self.id.split_once('/').map_or("", |(_, version)| version)
    }

    /// The kernel.
    ///
    /// # Errors
    /// Errors of the kernel; `InvalidArgument` for an argument that it does not know.
    pub fn kernel(&self, arguments: &Arguments) -> Result<Arc<dyn AnyKernel>> {
        let kernel = (self.make)(arguments)?;
        arguments.check_known()?;
        Ok(kernel)
    }
}

/// All kernels.
pub static KERNELS: &[KernelInfo] = &[
    angles::KERNEL,
    average::KERNEL,
    axis_angles::KERNEL,
    centers::KERNEL,
    close_pairs::KERNEL,
    coordination::KERNEL,
    covariance::KERNEL,
    contact_map::KERNEL,
    count::KERNEL,
    density_profile::KERNEL,
    dihedrals::KERNEL,
    displacements::KERNEL,
    distance_histogram::KERNEL,
    distances::KERNEL,
    dssp::KERNEL,
    frame_rmsds::KERNEL,
    frame_rmsds::SINGLE,
    grid_counts::KERNEL,
    gyration::KERNEL,
    hbonds::KERNEL,
    jumps::KERNEL,
    member_rmsds::KERNEL,
    mindist::KERNEL,
    native_contacts::KERNEL,
    near_frames::KERNEL,
    neighbors::KERNEL,
    positions::KERNEL,
    residue_contacts::KERNEL,
    residue_distances::KERNEL,
    projections::KERNEL,
    rdf::KERNEL,
    rgyr::KERNEL,
    rmsd::KERNEL,
    rmsf::KERNEL,
    rotations::KERNEL,
    sasa::KERNEL,
    shells::KERNEL,
    structure_factor::KERNEL,
    water_bridges::KERNEL,
];

/// The kernel of that name.
///
/// # Errors
/// `InvalidArgument` for a name that no kernel has.
pub fn named(name: &str) -> Result<&'static KernelInfo> {
    KERNELS.iter().find(|info| info.name() == name).ok_or_else(|| {
        let names: Vec<_> = KERNELS.iter().map(KernelInfo::name).collect();
        let what = format!("no kernel is named {name:?}, expected one of {}", names.join(", "));
        Error::new(ErrorKind::InvalidArgument, what)
    })
}
