//! The number of waters in shells about a solute, each shell alone and with all that are inside it.
//!
//! A water is in a shell if the least distance of one of its atoms from an atom of the solute, nearest images, is below the
//! radius of the shell, and not below that of the shell inside. As the `watershell` of cpptraj, whose `upper` count includes
//! the `lower` one.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs};

use crate::analyses::of_members;
use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::Arguments;
use crate::changing::{AtomsOfFrame, AtomsScratch};
use crate::geometry::CellList;
use crate::registry::KernelInfo;

/// Columns: the number of waters in each shell of ascending `radii` (angstrom), then within each radius. `waters` are
/// atoms, `labels` says for each which water it is of: ascending from 0. `solute_group` and `waters_group` instead change
/// with the frame; labels are then of the atoms that can be in it.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Shells::ID,
    make: |arguments| {
        let solute = AtomsOfFrame::from_arguments(arguments, "solute", "solute_group")?;
        let waters = AtomsOfFrame::from_arguments(arguments, "waters", "waters_group")?;
        let candidates = waters.candidates();
        let labels = arguments.index_rows::<1>("labels")?.as_flattened().to_vec();
        if labels.len() != candidates.len()
            || candidates.columns().is_some()
            || labels.iter().any(|&n| n >= arguments.n_atoms())
        {
            let what = format!("one whole number for each of {} ascending atoms of waters", candidates.len());
            return Err(arguments.wrong("labels", &what));
        }
        let radii = arguments.numbers("radii")?.to_vec();
        if radii.is_empty() || !radii.iter().all(|radius| radius.is_finite()) || !radii.is_sorted_by(|a, b| a < b) {
            return Err(arguments.wrong("radii", "finite ascending numbers, at least one"));
        }
        if radii[0] <= 0.0 {
            return Err(arguments.wrong("radii", "above 0"));
        }
        let n_waters = labels.iter().max().map_or(0, |most| *most as usize + 1);
        // of the trajectory's atoms, as members of a frame are known by their numbers
        let mut label_of = vec![0; arguments.n_atoms() as usize];
        candidates.iter().zip(&labels).for_each(|(atom, label)| label_of[atom as usize] = *label);
        Ok(Arc::new(Rows(Shells { solute, waters, label_of, n_waters, radii })))
    },
    examples: |n_atoms, _| {
        let labels: Vec<u32> = (0..n_atoms).map(|atom| atom / 3).collect();
        let all: Vec<u32> = (0..n_atoms).collect();
        let waters = Arguments::new(n_atoms).with("waters", all).with("labels", labels);
        let changing = waters.clone().with("solute_group", of_members::example(n_atoms)).with("radii", vec![6.0]);
        let of = waters.with("solute", vec![0_u32]);
        vec![of.clone().with("radii", vec![3.4, 5.0]), of.with("radii", vec![2.0, 8.0, 20.0]), changing]
    },
};

struct Shells {
    solute: AtomsOfFrame,
    waters: AtomsOfFrame,
    /// The water of each atom of the trajectory; 0 for atoms that are not of waters.
    label_of: Vec<u32>,
    n_waters: usize,
    radii: Vec<f64>,
}

/// Buffers of one worker.
#[derive(Default)]
struct Scratch {
    atoms: [AtomsScratch; 2],
    cells: CellList,
    /// Atoms of waters that are left, and their labels.
    points: Vec<f32>,
    labels: Vec<u32>,
    near: Vec<bool>,
    seen: Vec<bool>,
}

impl PerFrame for Shells {
    const ID: &'static str = "shells/1";
    type Value = i64;
    type Scratch = Scratch;

    fn needs(&self) -> Needs {
        let atom_sets = vec![self.solute.read().clone(), self.waters.read().clone()];
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets }
    }

    fn width(&self) -> usize {
        2 * self.radii.len()
    }

    fn row(&self, frame: &Frame<'_>, scratch: &mut Scratch, values: &mut [i64]) -> Result<()> {
        let Scratch { atoms: [of_solute, of_waters], cells, points, labels, near, seen } = scratch;
        let lattice = frame.lattice()?;
        frame.finite_positions(0)?;
        frame.finite_positions(1)?;
        let solute = self.solute.find(frame, 0, of_solute)?.positions;
        let waters = self.waters.find(frame, 1, of_waters)?;
        points.clear();
        points.extend_from_slice(waters.positions);
        labels.clear();
        let n_waters = waters.positions.len() / 3;
        labels.extend((0..n_waters as u32).map(|place| self.label_of[waters.number(place) as usize]));
        let (alone, within) = values.split_at_mut(self.radii.len());
        // the largest first: only atoms within it can be within the others
        for (radius, count) in self.radii.iter().zip(within.iter_mut()).rev() {
            near.clear();
            near.resize(labels.len(), false);
            if !labels.is_empty() && !solute.is_empty() {
                cells.any_within(&lattice, solute, points, radius.next_down(), near)?;
            }
            keep(points, labels, near);
            seen.clear();
            seen.resize(self.n_waters, false);
            labels.iter().for_each(|&label| seen[label as usize] = true);
            *count = seen.iter().filter(|seen| **seen).count() as i64;
        }
        let mut inside = 0;
        for (alone, within) in alone.iter_mut().zip(within) {
            *alone = *within - inside;
            inside = *within;
        }
        Ok(())
    }
}

/// Keeps the atoms that are near, in their order.
fn keep(points: &mut Vec<f32>, labels: &mut Vec<u32>, near: &[bool]) {
    let mut left = 0;
    for at in (0..near.len()).filter(|at| near[*at]) {
        points.copy_within(3 * at..3 * at + 3, 3 * left);
        labels[left] = labels[at];
        left += 1;
    }
    points.truncate(3 * left);
    labels.truncate(left);
}
