//! The line `timestep`, which a frame of a HISTORY file of text begins with: in columns, or as words.

use std::ops::Range;

use super::records::{column, integer, real};
use super::shown;
use crate::container::text::{Words, parse_f64, parse_i64};
use crate::error::{Error, Result};

/// The beginning of a frame.
pub(super) const TIMESTEP: &[u8] = b"timestep";

/// Contents of the line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timestep {
    pub step: i64,
    pub n_atoms: i64,
    pub keytrj: i64,
    pub imcon: i64,
    /// Time of a step, ps.
    pub between: f64,
    /// ps.
    pub time: f64,
}

/// Columns of the numbers in a record of 72 characters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Columns {
    step: Range<usize>,
    n_atoms: Range<usize>,
    keytrj: Range<usize>,
    imcon: Range<usize>,
    between: Range<usize>,
    time: Range<usize>,
}

/// DL_POLY_4: `(a8,2i10,2i2,2f20.6)`.
pub(super) static DL_POLY_4: Columns =
    Columns { step: 8..18, n_atoms: 18..28, keytrj: 28..30, imcon: 30..32, between: 32..52, time: 52..72 };

/// DL_POLY_3 and early DL_POLY_4: `(a8,4i10,2f12.6)`.
pub(super) static DL_POLY_3: Columns =
    Columns { step: 8..18, n_atoms: 18..28, keytrj: 28..38, imcon: 38..48, between: 48..60, time: 60..72 };

/// How the lines `timestep` of a file with records of one width are laid out: as that of its first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameHeads {
    Columns(&'static Columns),
    /// In columns of no known version, as words.
    Words,
}

impl FrameHeads {
    /// The layout of the first frame's line: the columns that hold only numbers, else words; the columns of DL_POLY_4
    /// if neither fits.
    pub fn from_record(record: &[u8]) -> Self {
        let columns =
            [&DL_POLY_4, &DL_POLY_3].into_iter().find(|columns| Timestep::parse_columns(record, columns, 0).is_ok());
        match columns {
            Some(columns) => Self::Columns(columns),
            None if Timestep::parse_words(record).is_some() => Self::Words,
            None => Self::Columns(&DL_POLY_4),
        }
    }

    /// Whether they are those that are written here.
    pub fn are_written(self) -> bool {
        self == Self::Columns(&DL_POLY_4)
    }

    /// The name of the layout for `kinema info`, if it is not the common one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Words => ", heads of frames in free format",
            Self::Columns(columns) if *columns == DL_POLY_3 => ", heads of frames as in DL_POLY_3",
            Self::Columns(_) => "",
        }
    }

    /// Places in the record of the number of atoms, keytrj and imcon, which errors name; of words that of the record.
    pub fn places(self) -> [usize; 3] {
        match self {
            Self::Columns(columns) => [columns.n_atoms.start, columns.keytrj.start, columns.imcon.start],
            Self::Words => [0; 3],
        }
    }

    /// Contents of the record that begins at byte `at`.
    ///
    /// # Errors
    /// `Corrupt` with the byte.
    pub fn parse(self, record: &[u8], at: u64) -> Result<Timestep> {
        match self {
            Self::Columns(columns) => Timestep::parse_columns(record, columns, at),
            Self::Words => Timestep::parse_words(record).ok_or_else(|| Timestep::wrong(record, at)),
        }
    }
}

impl Timestep {
    /// The line that begins at byte `at`, in which there may be more words.
    ///
    /// # Errors
    /// `Corrupt` with the byte; also for values that no version writes.
    pub fn parse(line: &[u8], at: u64) -> Result<Self> {
        let known = |head: &Self| head.n_atoms >= 0 && (0..=2).contains(&head.keytrj) && (0..=7).contains(&head.imcon);
        Self::take_words(&mut Self::words(line)).filter(known).ok_or_else(|| Self::wrong(line, at))
    }

    /// A record in which words are all that there is.
    fn parse_words(record: &[u8]) -> Option<Self> {
        let mut words = Self::words(record);
        let head = Self::take_words(&mut words)?;
        words.next().is_none().then_some(head)
    }

    fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
        Words::new(line.strip_prefix(TIMESTEP).unwrap_or_default()).map(|(_, word)| word)
    }

    fn take_words<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut integer = || words.next().and_then(parse_i64);
        let (step, n_atoms, keytrj, imcon) = (integer()?, integer()?, integer()?, integer()?);
        let between = words.next().and_then(parse_f64)?;
        // which DL_POLY 2 and Classic do not write
        let time = words.next().map_or(Some(step as f64 * between), parse_f64)?;
        Some(Self { step, n_atoms, keytrj, imcon, between, time })
    }

    fn parse_columns(record: &[u8], columns: &Columns, at: u64) -> Result<Self> {
        let step = integer(record, columns.step.clone(), "step", at)?;
        let n_atoms = integer(record, columns.n_atoms.clone(), "number of atoms", at)?;
        let keytrj = integer(record, columns.keytrj.clone(), "keytrj", at)?;
        let imcon = integer(record, columns.imcon.clone(), "imcon", at)?;
        let between = real(record, columns.between.clone(), "time step", at)?;
        // which old versions do not write
        let is_blank = column(record, columns.time.clone()).is_empty();
        let time = if is_blank { step as f64 * between } else { real(record, columns.time.clone(), "time", at)? };
        Ok(Self { step, n_atoms, keytrj, imcon, between, time })
    }

    fn wrong(line: &[u8], at: u64) -> Error {
        let expected = "timestep, step, atoms, keytrj, imcon, time step";
        Error::corrupt("wrong head of a frame", expected, shown(line)).with_byte(at)
    }
}
