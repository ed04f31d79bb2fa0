//! Coordination numbers: how many atoms of one group are near each atom of another, by a cutoff or by a smooth switch.
//!
//! `n_i = sum_j s(|r_j - r_i + shift|)` over all images. An atom and itself do not count, an atom and its own images do.
//! Terms are whole multiples of 2^-40, so that their sum does not depend on the order of pairs.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs};

use super::neighbors::explained;
use crate::analyses::of_members;
use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::Arguments;
use crate::changing::{AtomsOfFrame, AtomsScratch};
use crate::geometry::cell_list::{CellList, Near};
use crate::registry::KernelInfo;

/// One column: the mean over the atoms of a frame, nan without atoms; with `each` a column for each atom.
///
/// The atoms are `atoms`, or `group` if they change with the frame; their neighbours `other` or `other_group`, by default
/// the same. Pairs count up to `cutoff`, angstrom; with `r0` each as `1 / (1 + x^6)`, `x = (r - d0) / r0`, 1 below `d0`.
/// Without `images`, positions are used as they stand.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Coordination::ID,
    make: |arguments| {
        let atoms = AtomsOfFrame::from_arguments(arguments, "atoms", "group")?;
        let given = arguments.has("other") || arguments.has("other_group");
        let other = given.then(|| AtomsOfFrame::from_arguments(arguments, "other", "other_group")).transpose()?;
        let switch = if arguments.has("r0") {
            let d0 = if arguments.has("d0") { arguments.number("d0")? } else { 0.0 };
            if !(d0.is_finite() && d0 >= 0.0) {
                return Err(arguments.wrong("d0", "finite and at least 0"));
            }
            Some(Rational { d0, r0: arguments.positive("r0")? })
        } else {
            None
        };
        let (each, images) = (arguments.flag("each", false)?, arguments.flag("images", true)?);
        if each && atoms.change() {
            return Err(arguments.wrong("each", "false for atoms that change with the frame"));
        }
        let cutoff = arguments.positive("cutoff")?;
        Ok(Arc::new(Rows(Coordination { atoms, other, cutoff, switch, each, images })))
    },
    examples: |n_atoms, _| {
        let every = |step| (0..n_atoms).step_by(step).collect::<Vec<_>>();
        let of = |cutoff: f64| Arguments::new(n_atoms).with("atoms", every(1)).with("cutoff", cutoff);
        let group = of_members::example(n_atoms);
        let changing = Arguments::new(n_atoms).with("group", group.clone()).with("other_group", group);
        vec![
            of(4.0).with("each", true),
            of(13.0).with("other", every(2)).with("r0", 3.0).with("d0", 1.0),
            changing.with("cutoff", 6.0).with("images", false),
        ]
    },
};

/// One neighbour, in multiples of the unit.
const ONE: f64 = (1_u64 << 40) as f64;

/// A switch of degree 6 over 12, which is 1/2 at `d0 + r0`.
#[derive(Debug, Clone, Copy)]
struct Rational {
    d0: f64,
    r0: f64,
}

impl Rational {
    /// `(1 - x^6) / (1 - x^12)`, with no quotient of zeros at x = 1.
    fn at(self, distance: f64) -> f64 {
        let x = ((distance - self.d0) / self.r0).max(0.0);
        let third = x * x * x;
        1.0 / (1.0 + third * third)
    }
}

struct Coordination {
    atoms: AtomsOfFrame,
    other: Option<AtomsOfFrame>,
    cutoff: f64,
    switch: Option<Rational>,
    each: bool,
    images: bool,
}

/// Buffers of a worker.
#[derive(Debug, Default)]
struct Scratch {
    atoms: [AtomsScratch; 2],
    cells: CellList,
    /// The number of each atom, in units.
    sums: Vec<u64>,
}

impl Coordination {
    /// The term of a pair, in units.
    fn term(&self, distance: f64) -> u64 {
        (self.switch.map_or(1.0, |switch| switch.at(distance)) * ONE).round() as u64
    }
}

impl PerFrame for Coordination {
    const ID: &'static str = "coordination/1";
    type Value = f64;
    type Scratch = Scratch;

    fn needs(&self) -> Needs {
        let own = if self.images { Fields::POSITIONS | Fields::CELL } else { Fields::POSITIONS };
        let both = || [&self.atoms].into_iter().chain(&self.other);
        let fields = both().fold(own, |fields, one| fields | one.fields());
        Needs { fields, atom_sets: both().map(|one| one.read().clone()).collect() }
    }

    fn width(&self) -> usize {
        if self.each { self.atoms.candidates().len() } else { 1 }
    }

    fn row(&self, frame: &Frame<'_>, scratch: &mut Scratch, values: &mut [f64]) -> Result<()> {
        let Scratch { atoms: [of_first, of_second], cells, sums } = scratch;
        let lattice = frame.lattice_if(self.images)?;
        let first = self.atoms.find(frame, 0, of_first)?;
        let n_first = first.positions.len() / 3;
        sums.clear();
        sums.resize(n_first, 0);
        let searched = if let Some(other) = &self.other {
            let second = other.find(frame, 1, of_second)?;
            cells.visit_between(&lattice, first.positions, second.positions, self.cutoff, |pair: Near| {
                let is_itself = pair.distance == 0.0 && first.number(pair.first) == second.number(pair.second);
                if !is_itself {
                    sums[pair.first as usize] += self.term(pair.distance);
                }
            })
        } else {
            cells.visit_within(&lattice, first.positions, self.cutoff, |pair: Near| {
                let term = self.term(pair.distance);
                sums[pair.first as usize] += term;
                sums[pair.second as usize] += term;
            })
        };
        searched.map_err(|error| explained(frame, 1 + usize::from(self.other.is_some()), error))?;
        if self.each {
            values.iter_mut().zip(sums.iter()).for_each(|(value, units)| *value = *units as f64 / ONE);
        } else {
            let all: u128 = sums.iter().map(|units| u128::from(*units)).sum();
            values[0] = all as f64 / ONE / n_first as f64;
        }
        Ok(())
    }
}
