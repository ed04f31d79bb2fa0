//! Residues that are near each other in each frame: pairs with a least distance of their atoms up to a cutoff.
//!
//! The distance of two residues is `min |r_j - r_i|`, angstrom, of all pairs of their atoms, with nearest images; as
//! MDTraj's `compute_contacts`, which atoms of a residue count is the caller's choice.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::{Fields, Lattice};
use kinema_core::reduce::{Frame, Needs, Values};
use kinema_core::selection::AtomSelection;

use crate::analyses::lists_per_frame::{ListPerFrame, ListRows};
use crate::arguments::{Arguments, GroupedAtoms};
use crate::cpu::Cpu;
use crate::geometry::{AtomGroups, LeastScratch, Nearest, Separation, near_groups};
use crate::partials::lists::{ListChunk, ListColumn};
use crate::registry::KernelInfo;

/// Columns: "i", "j", the two nearest atoms of a pair of residues, numbers in the trajectory; "distance". Pairs ascend by residue.
/// `atoms` are those of all residues, `ends` the end of each residue among them; `chains` and `places` are the chain of each
/// and its place there: pairs of one chain are at least `separation` places apart. Nearest images unless `minimum_image` is
/// false.
pub const KERNEL: KernelInfo = KernelInfo {
    id: ResidueContacts::ID,
    make: |arguments| {
        let residues = Residues::from_arguments(arguments)?;
        let numbers = |name| {
            let found: Vec<u32> = arguments.index_rows::<1>(name)?.iter().map(|[number]| *number).collect();
            let n = residues.groups.len();
            if found.len() == n { Ok(found) } else { Err(arguments.wrong(name, &format!("{n} numbers"))) }
        };
        let separation = Separation {
            chains: numbers("chains")?,
            places: numbers("places")?,
            separation: u32::try_from(arguments.count("separation", 0)?).unwrap_or(u32::MAX),
        };
        let cutoff = arguments.positive("cutoff")?;
        Ok(Arc::new(ListRows(ResidueContacts { residues, separation, cutoff })))
    },
    examples: |n_atoms, _| {
        let ends = example_ends(n_atoms);
        let n = ends.len() as u32;
        let atoms: Vec<u32> = (0..n_atoms).collect();
        let of = |cutoff: f64, chains: Vec<u32>| {
            let residues = Arguments::new(n_atoms).with("atoms", atoms.clone()).with("ends", ends.clone());
            let places = residues.with("chains", chains).with("places", (0..n).collect::<Vec<u32>>());
            places.with("cutoff", cutoff).with("separation", 2_i64)
        };
        vec![of(9.0, vec![0; n as usize]), of(30.0, (0..n).map(|i| i % 3).collect()).with("minimum_image", false)]
    },
};

/// Residues of one to four atoms.
pub(super) fn example_ends(n_atoms: u32) -> Vec<u32> {
    (0..n_atoms).filter(|atom| atom % 8 < 3).map(|atom| (atom + 1 + atom % 2).min(n_atoms)).chain([n_atoms]).fold(
        vec![],
        |mut ends: Vec<u32>, end| {
            if ends.last().is_none_or(|last| *last < end) {
                ends.push(end);
            }
            ends
        },
    )
}

/// Residues whose distances are asked for.
pub(super) struct Residues {
    pub(super) cpu: Cpu,
    pub(super) atoms: AtomSelection,
    pub(super) groups: AtomGroups,
    minimum_image: bool,
}

impl Residues {
    /// The atoms, the end of each residue among them, and whether nearest images count.
    /// Errors: `InvalidArgument` or `OutOfRange` for wrong arguments.
    pub(super) fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let GroupedAtoms { atoms, places, ends } = arguments.groups("atoms", "ends")?;
        let minimum_image = arguments.flag("minimum_image", true)?;
        Ok(Self { cpu: arguments.cpu(), atoms, groups: AtomGroups::new(&places, &ends), minimum_image })
    }

    pub(super) fn needs(&self) -> Needs {
        let fields = if self.minimum_image { Fields::POSITIONS | Fields::CELL } else { Fields::POSITIONS };
        Needs { fields, atom_sets: vec![self.atoms.clone()] }
    }

    /// The lattice of a frame; an open one if nearest images do not count.
    /// Errors: that of a cell that is none.
    pub(super) fn lattice(&self, frame: &Frame<'_>) -> Result<Arc<Lattice>> {
        frame.lattice_if(self.minimum_image)
    }

    /// Calls `see` with the row and the lattice of a frame; it returns whether all positions are finite.
    /// Errors of `see` and of the cell; `Corrupt` for a position that is not finite.
    pub(super) fn see(&self, frame: &Frame<'_>, see: impl FnOnce(&[f32], &Lattice) -> Result<bool>) -> Result<()> {
        if see(frame.positions(0), &*self.lattice(frame)?)? {
            Ok(())
        } else {
            Err(frame.not_finite(Fields::POSITIONS, 0))
        }
    }
}

struct ResidueContacts {
    residues: Residues,
    separation: Separation,
    cutoff: f64,
}

impl ListPerFrame for ResidueContacts {
    const ID: &'static str = "residue_contacts/1";
    const COLUMNS: &'static [ListColumn] =
        &[("i", Values::U32(Vec::new())), ("j", Values::U32(Vec::new())), ("distance", Values::F64(Vec::new()))];
    type Scratch = (LeastScratch, Vec<Nearest>);

    fn needs(&self) -> Needs {
        self.residues.needs()
    }

    fn list(&self, frame: &Frame<'_>, (scratch, found): &mut Self::Scratch, rows: &mut ListChunk) -> Result<()> {
        let Residues { cpu, groups, atoms, .. } = &self.residues;
        found.clear();
        self.residues.see(frame, |row, lattice| {
            near_groups(*cpu, (groups, row), (&self.separation, self.cutoff), lattice, scratch, found)
        })?;
        for column in 0..2 {
            let places = found.iter().map(|one| one.atoms[column]);
            match atoms.indices() {
                Some(indices) => rows.column::<u32>(column).extend(places.map(|place| indices[place as usize])),
                None => rows.column::<u32>(column).extend(places),
            }
        }
        rows.column::<f64>(2).extend(found.iter().map(|one| one.distance));
        Ok(())
    }
}
