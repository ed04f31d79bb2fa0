//! Atoms in DL_POLY's files: names, and in HISTORY files masses and charges.

use super::config::{self, ConfigHead};
use super::free;
use super::history::NAME;
use super::layout::Layout;
use super::records::{AtomBlock, column, real};
use super::{classic, unformatted};
use crate::error::{Error, Result};
use crate::format::{Format, HEAD_BYTES};
use crate::source::Source;

/// Columns of the displacement since the start, in the first record of an atom.
const DISPLACEMENT: std::ops::Range<usize> = 42..54;

/// Atoms in the order in which they are read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AtomNames {
    /// A name each.
    pub names: Vec<String>,
    /// Da.
    pub masses: Option<Vec<f64>>,
    /// Elementary charges.
    pub charges: Option<Vec<f64>>,
}

/// The atoms of a HISTORY file, as its first frame has them, or of a CONFIG file.
///
/// # Errors
/// Errors of opening the file; `Corrupt` for records that do not describe atoms.
pub fn read_atoms(source: &dyn Source) -> Result<AtomNames> {
    let size = source.len()?;
    let mut head = vec![0; size.min(HEAD_BYTES) as usize];
    source.read_exact_at(0, &mut head)?;
    if !Layout::sniff(&head) {
        if classic::sniff(&head) {
            return classic::read_atoms(source);
        }
        if unformatted::sniff(&head) {
            return unformatted::read_atoms(source);
        }
        return config_atoms(source).map_err(|error| error.with_format(config::NAME).with_path(source.path()));
    }
    let read = || -> Result<AtomNames> {
        let layout = Layout::parse(&head)?;
        if layout.frames_in(size) == 0 {
            return Ok(AtomNames::default());
        }
        let at = layout.head_len() + layout.frame_head_len();
        history_atoms(&layout.block, source, at).map_err(|error| error.with_frame(0))
    };
    read().map_err(|error| error.with_format(NAME).with_path(source.path()))
}

fn history_atoms(block: &AtomBlock, source: &dyn Source, at: u64) -> Result<AtomNames> {
    let mut bytes = vec![0; block.len() as usize];
    source.read_exact_at(at, &mut bytes)?;
    let (mut order, n, atom_len) = (Vec::new(), block.n_atoms as usize, block.atom_len());
    let sorted = block.order(&bytes, at, &mut order)?;
    let (mut names, mut masses, mut charges) = (Vec::new(), Vec::new(), Vec::new());
    for place in 0..n {
        let number = if sorted { place as u64 } else { order.get(place).map_or(0, |&number| number as u64) };
        let start = number * atom_len;
        let record = block.lines.record(&bytes[start as usize..], 0, at + start)?;
        names.push(String::from_utf8_lossy(column(record, 0..if block.compressed { 6 } else { 8 })).into_owned());
        if !block.compressed {
            masses.push(real(record, 18..30, "mass of an atom", at + start)?);
            charges.push(real(record, 30..42, "charge of an atom", at + start)?);
        }
    }
    let known = !block.compressed;
    Ok(AtomNames { names, masses: known.then_some(masses), charges: known.then_some(charges) })
}

fn config_atoms(source: &dyn Source) -> Result<AtomNames> {
    let head = ConfigHead::read(source)?;
    let mut bytes = vec![0; (source.len()? - head.len) as usize];
    source.read_exact_at(head.len, &mut bytes)?;
    let atoms = free::Atoms::parse(&bytes, head.len, head.levels)?;
    // lines of atoms may end within the records of one width from which frames are read
    let n_atoms = config::Config.open(source)?.header().n_atoms as usize;
    if atoms.names.len() != n_atoms {
        return Err(Error::corrupt("number of atoms with names", n_atoms, atoms.names.len()));
    }
    let name = |number: usize| String::from_utf8_lossy(atoms.names[number]).into_owned();
    let names = match atoms.order() {
        None => (0..atoms.names.len()).map(name).collect(),
        Some(order) => order.into_iter().map(name).collect(),
    };
    Ok(AtomNames { names, masses: None, charges: None })
}

/// Whether any of the first atoms has a displacement.
pub(super) fn any_displaced(block: &AtomBlock, bytes: &[u8]) -> bool {
    let columns = if block.compressed { 27..34 } else { DISPLACEMENT };
    let displaced = |atom: &[u8]| real(atom, columns.clone(), "", 0).is_ok_and(|value| value != 0.0);
    bytes.chunks_exact(block.atom_len() as usize).any(displaced)
}
