//! Secondary structure of proteins, one letter a residue.
//!
//! Source: W. Kabsch, C. Sander, Biopolymers 22, 2577 (1983); see `secondary_structure`. Distances are those of nearest
//! images, so that molecules need not be whole.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs};
use kinema_core::{Error, ErrorKind, Result};

use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::{Arguments, AtomTuples};
use crate::cpu::Cpu;
use crate::geometry::{Lattice, Points};
use crate::registry::KernelInfo;
use crate::secondary_structure::bonds::{Backbone, Residue};
use crate::secondary_structure::patterns::{Patterns, states};

/// Columns: the letter of each residue in ASCII, uint8. `residues` (n, 5): atoms N, CA, C, O and H in the order of the
/// chains; H is N if the residue has none. `no_donors`: numbers of residues without an H, from 0; with `place_hydrogens`
/// (true by default) all others have one that is placed by the C=O before. `simplified`: H, E and C alone.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Dssp::ID,
    make: |arguments| {
        let residues = arguments.atom_tuples::<5>("residues")?;
        let mut donors = vec![true; residues.len];
        for [at] in arguments.index_rows::<1>("no_donors")? {
            *donors.get_mut(*at as usize).ok_or_else(|| arguments.wrong("no_donors", "numbers of residues"))? = false;
        }
        Ok(Arc::new(Rows(Dssp {
            cpu: arguments.cpu(),
            residues,
            donors,
            placed: arguments.flag("place_hydrogens", true)?,
            pi_first: arguments.choice("pi", &[("first", true), ("1983", false)])?,
            simplified: arguments.flag("simplified", false)?,
        })))
    },
    examples: |n_atoms, _| {
        let residues: Vec<_> = (0..n_atoms / 5).map(|i| [5 * i, 5 * i + 1, 5 * i + 2, 5 * i + 3, 5 * i + 4]).collect();
        let residues = if residues.is_empty() { vec![[0; 5]] } else { residues };
        let of = |no_donors: Vec<u32>| {
            Arguments::new(n_atoms).with("residues", residues.clone()).with("no_donors", no_donors)
        };
        let given = of(vec![0]).with("place_hydrogens", false).with("pi", "1983").with("simplified", true);
        vec![of(Vec::new()), given]
    },
};

struct Dssp {
    cpu: Cpu,
    residues: AtomTuples<5>,
    /// By residue: whether it has a hydrogen at N.
    donors: Vec<bool>,
    /// Whether hydrogens are placed, not read.
    placed: bool,
    pi_first: bool,
    simplified: bool,
}

impl PerFrame for Dssp {
    const ID: &'static str = "dssp/1";
    type Value = u8;
    type Scratch = (Backbone, Patterns);

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets: vec![self.residues.atoms.clone()] }
    }

    fn width(&self) -> usize {
        self.residues.len
    }

    fn row(&self, frame: &Frame<'_>, (backbone, patterns): &mut Self::Scratch, letters: &mut [u8]) -> Result<()> {
        let positions = frame.finite_positions(0)?;
        let lattice: Arc<Lattice> = frame.lattice()?;
        self.gather(positions, backbone)?;
        backbone.find_bonds(self.cpu, &lattice, self.placed.then_some(&self.donors[..]));
        patterns.assign(backbone, self.pi_first, letters);
        if self.simplified {
            letters.iter_mut().for_each(|letter| *letter = simple(*letter));
        }
        Ok(())
    }
}

impl Dssp {
    fn gather(&self, positions: &[f32], backbone: &mut Backbone) -> Result<()> {
        let columns = self.residues.columns.each_ref().map(|column| Points::picked(positions, column));
        let [n, ca, c, o, h] = columns;
        let [n, ca, c, o, h] = [n?, ca?, c?, o?, h?];
        backbone.residues.clear();
        for at in 0..self.residues.len {
            let [n, ca, c, o, h] = [n, ca, c, o, h].map(|points| points.at(at).map(f64::from));
            let h = (self.donors[at] && !self.placed).then_some(h);
            backbone.residues.push(Residue { n, ca, c, o, h });
        }
        if backbone.len() == self.donors.len() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Internal, "wrong number of residues in a frame"))
    }
}

/// Helices, strands, and everything else.
fn simple(letter: u8) -> u8 {
    match letter {
        states::ALPHA | states::HELIX_3_10 | states::PI => b'H',
        states::STRAND | states::BRIDGE => b'E',
        _ => b'C',
    }
}
