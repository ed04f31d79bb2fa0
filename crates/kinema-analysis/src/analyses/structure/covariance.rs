//! Covariance of the coordinates of atoms, or of their displacements, over frames.
//!
//! It does not superpose: frames are used as they are, aligned beforehand by [`crate::transforms::superpose`] if wanted.
//! The formula is `sum (x_i - <x_i>) (x_j - <x_j>) / (n - 1)`, angstrom^2, as in MDAnalysis.analysis.pca.PCA; for the
//! displacements of two atoms it is the sum over x, y and z (T. Ichiye, M. Karplus, Proteins 11, 205, 1991).

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{Frames, Kernel, Needs, ResultArray};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use crate::arguments::Arguments;
use crate::cpu::Cpu;
use crate::partials::covariance::{Covariance, Panels, Spare, partial_bytes};
use crate::partials::series::nothing_gathered;
use crate::registry::KernelInfo;

const ID: &str = "covariance/2";

/// Results for `atoms`, each once, ascending: "covariance" (3 atoms, 3 atoms), or with `of_atoms` (atoms, atoms),
/// angstrom^2, zero for one frame;
/// "mean_positions" (atoms, 3), angstrom; "n_frames" (1), uint64.
pub const KERNEL: KernelInfo = KernelInfo {
    id: ID,
    make: |arguments| {
        let (cpu, atoms) = (arguments.cpu(), arguments.unique_atoms("atoms")?);
        if atoms.columns().is_some() {
            return Err(arguments.wrong("atoms", "ascending"));
        }
        let axes = if arguments.flag("of_atoms", false)? { 3 } else { 1 };
        Ok(Arc::new(CovarianceKernel { cpu, atoms, axes, spare: Spare::default() }))
    },
    examples: |n_atoms, _| {
        let every = |step| Arguments::new(n_atoms).with("atoms", (0..n_atoms).step_by(step).collect::<Vec<_>>());
        vec![every(1), every(2), every(1).with("of_atoms", true), every(3).with("of_atoms", true)]
    },
};

struct CovarianceKernel {
    cpu: Cpu,
    atoms: AtomSelection,
    /// Coordinates of an atom that a product sums over.
    axes: usize,
    spare: Spare,
}

impl Kernel for CovarianceKernel {
    type Partial = Covariance;
    type Scratch = Panels;

    fn id(&self) -> &'static str {
        ID
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.atoms.clone()] }
    }

    fn empty(&self) -> Covariance {
        Covariance::default()
    }

    fn partial_bytes(&self) -> u64 {
        partial_bytes(3 * self.atoms.len(), self.axes)
    }

    fn accumulate(&self, partial: &mut Covariance, frames: &Frames<'_>, panels: &mut Panels) -> Result<()> {
        partial.add((self.cpu, &self.spare), frames, 0, self.axes, panels)
    }

    fn merge(&self, left: &mut Covariance, right: Covariance) -> Result<()> {
        left.merge((self.cpu, &self.spare), right, self.axes);
        Ok(())
    }

    fn finish(&self, partial: Covariance) -> Result<Vec<ResultArray>> {
        let n = partial.n_frames();
        if n == 0 {
            return Err(nothing_gathered(ID));
        }
        let width = 3 * self.atoms.len() / self.axes;
        self.spare.clear();
        let covariance = partial.about_means(self.axes, n.max(2).saturating_sub(1) as f64);
        if covariance.len() != width * width {
            return Err(Error::new(ErrorKind::Internal, "covariance of a wrong number of atoms"));
        }
        Ok(vec![
            ResultArray::new("covariance", vec![width, width], covariance),
            ResultArray::new("mean_positions", vec![self.atoms.len(), 3], partial.means()),
            ResultArray::new("n_frames", vec![1], vec![n]),
        ])
    }

    fn to_bytes(&self, partial: &Covariance) -> Result<Vec<u8>> {
        // while the tree is written, nothing begins
        self.spare.clear();
        Ok(partial.to_bytes(ID, 3 * self.atoms.len()))
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Covariance> {
        Covariance::from_bytes(ID, 3 * self.atoms.len(), self.axes, bytes)
    }
}
