//! Encoders: what a format makes of frames, mirror image of its decoder.
//!
//! An encoder knows frames and bytes; it knows neither files, nor threads, nor where its values come from.

use super::EncodeScratch;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{BlockView, Cell, Fields, Stamp};
use crate::selection::AtomSelection;

/// What is to be written, as far as it is known before the first byte.
#[derive(Debug, Clone, Default)]
pub struct Making {
    /// Number of atoms.
    pub n_atoms: u32,
    /// Number of atoms of the source.
    pub source_atoms: u32,
    /// Whether all files of the source are of this format, with units and times as they are: records may be taken as they
    /// are, [`Encoder::recode`].
    pub same_format: bool,
    /// Vectors to write; `None`: what the format usually holds.
    pub fields: Option<Fields>,
    /// What all frames of the source have.
    pub held: Fields,
    /// The vectors of the source that are stored in float64.
    pub wide: Fields,
    /// Step of each frame.
    pub steps: Vec<i64>,
    /// Time of each frame, ps; NaN where it is unknown.
    pub times: Vec<f64>,
    /// Cells of some frames in the format's unit of length; [`crate::frame::NO_CELL`] where there is none.
    pub cells: Vec<Cell>,
    /// Numbers to one unit of length that the user has asked for, where the format rounds.
    pub precision: Option<f64>,
    /// Those of the source, the most of its files, where all are of this format.
    pub source_precision: Option<f64>,
    /// Whether frames come one after the other and `steps`, `times` and `cells` are not those of all: what of them is lost
    /// says [`Encoder::stamp_losses`], and [`Encoder::time_by`] decides their spacing.
    pub open_ended: bool,
}

impl Making {
    /// The vectors to write in a format that holds one of `known` at a time, of which the first is the usual one; others
    /// that the source has are added to `losses`.
    ///
    /// # Errors
    /// `InvalidArgument` for several, or one that the format or the source has not.
    pub fn only_field(&self, known: &[Fields], losses: &mut Vec<String>) -> Result<Fields> {
        let refused = |what: &str, expected: &[&str], found: Fields| {
            let found = found.names().join(", ");
            Error::new(ErrorKind::InvalidArgument, format!("{what}, expected {}, found {found}", expected.join(" or ")))
        };
        let names: Vec<&str> = known.iter().flat_map(|field| field.names()).collect();
        let usual = known.iter().copied().find(|&field| self.held.contains(field)).unwrap_or_default();
        let chosen = self.fields.unwrap_or(usual);
        if !known.contains(&chosen) {
            let what = "a file of this format holds one field of the atoms";
            return Err(refused(what, &names, if self.fields.is_some() { chosen } else { self.held }));
        }
        if !self.held.contains(chosen) {
            return Err(refused("the source lacks what is to be written", &chosen.names(), self.held));
        }
        let left_out = Fields::VECTORS.into_iter().filter(|&field| field != chosen && self.held.contains(field));
        for name in left_out.flat_map(Fields::names) {
            losses.push(format!("{name} are not written: the file holds {}", chosen.names().join(", ")));
        }
        if self.wide.contains(chosen) {
            losses.push(format!("{} are rounded from float64 to float32", chosen.names().join(", ")));
        }
        Ok(chosen)
    }
}

/// Where records are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placing {
    /// All have this many bytes, so that any worker writes any of them as soon as it has it.
    Uniform(u64),
    /// Their sizes are known when they are encoded: one behind the other, in their order.
    Ordered,
}

/// Bytes that are written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Their place in the file.
    pub offset: u64,
    /// What they are then.
    pub bytes: Vec<u8>,
}

/// A record of a file of the same format.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Where they are in their file.
    pub offset: u64,
    /// Which frame of the file it is.
    pub frame: u64,
}

/// A record as a scan of the file finds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordFound {
    /// Its bytes.
    pub len: u64,
    /// Its step.
    pub step: i64,
    /// Its time in the file's own unit.
    pub time: f64,
}

/// Makes the bytes of one file. Values are in the format's units ([`super::FormatInfo::scales`]), times in ps.
pub trait Encoder: Send + Sync {
    /// The vectors that are encoded.
    fn fields(&self) -> Fields;

    /// What of the source is not in the file, or is rounded; for people, known before the first byte.
    fn losses(&self) -> &[String];

    /// The most by which vectors are rounded besides to float32, in the format's unit: 0 where they are float32 in the file.
    fn largest_rounding(&self) -> f64 {
        0.0
    }

    /// How records are placed.
    fn placing(&self) -> Placing;

    /// The most bytes that a record can have.
    fn most_bytes(&self) -> u64;

    /// The bytes before the first record, of a file without any.
    fn head(&self) -> Vec<u8>;

    /// Appends the records of all rows to `out`; the first row is frame `first` of the file.
    ///
    /// # Errors
    /// `Unsupported` with the number of the row's frame for values that the format does not hold.
    fn encode(&self, rows: &BlockView<'_>, first: u64, scratch: &mut EncodeScratch, out: &mut Vec<u8>) -> Result<()>;

    /// Whether records are made of those of the source instead, where [`Making::same_format`]: nothing is rounded then.
    fn recodes(&self) -> bool {
        false
    }

    /// Appends the record of some atoms of another record; all in their order: the same bytes.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated`, with frame and byte, for bytes that are no whole record of the source.
    fn recode(
        &self,
        record: &Record<'_>,
        atoms: &AtomSelection,
        scratch: &mut EncodeScratch,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let _ = (record, atoms, scratch, out);
        Err(Error::new(ErrorKind::Internal, "records of this format are made of values"))
    }

    /// What is written when this many records are in the file, and not before: the count in its header.
    fn marker(&self, committed: u64) -> Option<Marker> {
        let _ = committed;
        None
    }

    /// The first of `bytes`, which are records of this encoder, as a scan finds it; `None` where frames are found by
    /// arithmetic, and an index is not stored.
    ///
    /// # Errors
    /// `Internal` for bytes that are no record.
    fn found(&self, bytes: &[u8]) -> Result<Option<RecordFound>> {
        let _ = bytes;
        Ok(None)
    }

    /// Where [`Making::open_ended`]: takes steps and times (ps) of the first frames, one or two, by which the head says those
    /// of all. Returns what is to be written again in a head that is there, beside [`Encoder::marker`].
    fn time_by(&mut self, steps: &[i64], times: &[f64]) -> Option<Marker> {
        let _ = (steps, times);
        None
    }

    /// Where [`Making::open_ended`]: what of steps, times and cells of these frames is not kept, and the first frame of
    /// which; they are frames `first` and on of the file.
    fn stamp_losses(&self, stamps: &[Stamp], first: u64) -> Vec<(&'static str, u64)> {
        let _ = (stamps, first);
        Vec::new()
    }
}

/// The first frame for which `lost` holds, with what is lost.
pub(crate) fn first_lost(
    what: &'static str,
    stamps: &[Stamp],
    first: u64,
    lost: impl FnMut(&Stamp) -> bool,
) -> Option<(&'static str, u64)> {
    stamps.iter().position(lost).map(|row| (what, first + row as u64))
}
