//! Least distances of given pairs of residues in each frame, angstrom: as MDTraj's `compute_contacts`.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::reduce::{Frame, Needs};

use super::residue_contacts::{Residues, example_ends};
use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::Arguments;
use crate::geometry::{LeastScratch, least_distances};
use crate::registry::KernelInfo;

/// Columns: the least distance of the atoms of each of `pairs`, numbers of residues, (n, 2). `atoms`, `ends` and `minimum_image` are those of
/// "residue_contacts".
pub const KERNEL: KernelInfo = KernelInfo {
    id: ResidueDistances::ID,
    make: |arguments| {
        let residues = Residues::from_arguments(arguments)?;
        let (pairs, n) = (arguments.index_rows::<2>("pairs")?.to_vec(), residues.groups.len());
        if pairs.is_empty() || pairs.as_flattened().iter().any(|residue| *residue as usize >= n) {
            return Err(arguments.wrong("pairs", &format!("numbers below {n}, (n, 2), at least one row")));
        }
        Ok(Arc::new(Rows(ResidueDistances { residues, pairs })))
    },
    examples: |n_atoms, _| {
        let ends = example_ends(n_atoms);
        let n = ends.len() as u32;
        let atoms: Vec<u32> = (0..n_atoms).rev().collect();
        let pairs: Vec<[u32; 2]> = (0..n).map(|i| [i, (5 * i + 2) % n]).collect();
        let all = Arguments::new(n_atoms).with("atoms", atoms).with("ends", ends).with("pairs", pairs);
        vec![all.clone(), all.with("minimum_image", false)]
    },
};

struct ResidueDistances {
    residues: Residues,
    pairs: Vec<[u32; 2]>,
}

impl PerFrame for ResidueDistances {
    const ID: &'static str = "residue_distances/1";
    type Value = f64;
    type Scratch = LeastScratch;

    fn needs(&self) -> Needs {
        self.residues.needs()
    }

    fn width(&self) -> usize {
        self.pairs.len()
    }

    fn row(&self, frame: &Frame<'_>, scratch: &mut LeastScratch, values: &mut [f64]) -> Result<()> {
        let Residues { cpu, groups, .. } = &self.residues;
        self.residues
            .see(frame, |row, lattice| least_distances(*cpu, (groups, row), &self.pairs, lattice, scratch, values))
    }
}
