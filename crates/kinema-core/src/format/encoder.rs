//! Encoders: they turn frames into a format's bytes, as decoders turn bytes into frames.
//!
//! An encoder knows frames and bytes; it knows neither files, nor threads, nor where its values come from.

use std::sync::Arc;

use super::frame_layout::{FrameLayout, SomeAtoms, no_planes};
use super::{AtomLabels, EncodeScratch};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::kept::{SINGLE, check_cell, check_narrow_time};
use crate::frame::{BlockView, Cell, Fields, NO_CELL, Stamp};
use crate::index::TableBuilder;
use crate::selection::AtomSelection;

/// The output to write, as far as it is known before the first byte.
#[derive(Debug, Clone, Default)]
pub struct Making {
    /// Number of atoms.
    pub n_atoms: u32,
    /// Number of atoms of the source.
    pub source_atoms: u32,
    /// Whether all files of the source are of this format, with units and times as they are: records may be taken as they
    /// are, [`Encoder::recode`].
    pub same_format: bool,
    /// As `same_format`, except for the times, which the user has stated: [`Record::time`].
    pub same_but_times: bool,
    /// Whether all atoms are written, in their order.
    pub all_atoms: bool,
    /// [`super::Facts::recoded_version`], if all files of the source have the same.
    pub recoded_version: Option<i32>,
    /// Vectors to write; `None`: what the format usually holds.
    pub fields: Option<Fields>,
    /// Fields that all frames of the source have.
    pub held: Fields,
    /// The vectors of the source that are stored in float64.
    pub wide: Fields,
    /// Step of each frame.
    pub steps: Vec<i64>,
    /// Time of each frame, ps; NaN if unknown.
    pub times: Vec<f64>,
    /// Cells of some frames in the format's unit of length; [`crate::frame::NO_CELL`] for a frame without a cell.
    pub cells: Vec<Cell>,
    /// Data of the source besides its fields: only a record of the same format keeps them.
    pub extras: Vec<&'static str>,
    /// Numbers to one unit of length that the user has asked for, if the format rounds.
    pub precision: Option<f64>,
    /// Whether numbers are float64, in a format that has both; `None`: the format's default.
    pub double: Option<bool>,
    /// Precision of the source, the largest of its files, if all are of this format.
    pub source_precision: Option<f64>,
    /// Names, masses and charges of the atoms that are written, in their order; `None` if unknown.
    pub labels: Option<Arc<AtomLabels>>,
    /// A line of text for formats that have one: what the user has asked for, or that of a source of the same format.
    pub title: Option<String>,
    /// Whether frames come one after the other and `steps`, `times` and `cells` are not those of all: what of them is lost
    /// says [`Encoder::stamp_losses`], and [`Encoder::time_by`] decides their spacing.
    pub open_ended: bool,
}

impl Making {
    /// The vectors to write in a format that holds one of `known` at a time; the first of `known` is the usual one.
    /// Others that the source has are added to `losses`.
    ///
    /// # Errors
    /// `InvalidArgument` for several, or for one that the format or the source lacks.
    pub fn only_field(&self, known: &[Fields], losses: &mut Vec<String>) -> Result<Fields> {
        let usual = known.iter().copied().find(|&field| self.held.contains(field)).unwrap_or_default();
        let chosen = self.fields.unwrap_or(usual);
        if !known.contains(&chosen) {
            let what = "a file of this format holds one field of the atoms";
            let names: Vec<&str> = known.iter().flat_map(|field| field.names()).collect();
            return Err(refused(what, &names, if self.fields.is_some() { chosen } else { self.held }));
        }
        self.check_held(chosen)?;
        self.note_left_out(chosen, losses);
        self.note_wide(chosen, losses);
        Ok(chosen)
    }

    /// The vectors to write in a format that holds any of `known`: all that the source has, or the ones that were asked
    /// for. Others that the source has are added to `losses`.
    ///
    /// # Errors
    /// `InvalidArgument` for vectors that the format or the source lacks.
    pub fn chosen_fields(&self, known: Fields, losses: &mut Vec<String>) -> Result<Fields> {
        let chosen = self.fields.unwrap_or(known - (known - self.held));
        if !known.contains(chosen) {
            return Err(refused("fields that files of this format do not hold", &known.names(), chosen - known));
        }
        self.check_held(chosen)?;
        self.note_left_out(chosen, losses);
        Ok(chosen)
    }

    fn check_held(&self, chosen: Fields) -> Result<()> {
        if self.held.contains(chosen) {
            return Ok(());
        }
        Err(refused("the source lacks what is to be written", &chosen.names(), self.held))
    }

    fn note_left_out(&self, chosen: Fields, losses: &mut Vec<String>) {
        let left_out =
            Fields::VECTORS.into_iter().filter(|&field| !chosen.contains(field) && self.held.contains(field));
        for name in left_out.flat_map(Fields::names) {
            losses.push(format!("{name} are not written: the file holds {}", chosen.names().join(", ")));
        }
    }

    /// Adds to `losses` that float64 vectors become float32.
    pub fn note_wide(&self, chosen: Fields, losses: &mut Vec<String>) {
        for name in
            Fields::VECTORS.into_iter().filter(|&f| chosen.contains(f) && self.wide.contains(f)).flat_map(Fields::names)
        {
            losses.push(format!("{name} are rounded from float64 to float32"));
        }
    }

    /// Adds to `losses` the data of the source that are not fields.
    pub fn note_extras(&self, losses: &mut Vec<String>) {
        losses.extend(self.extras.iter().map(|name| format!("{name} of the source is not written")));
    }

    /// Adds to `losses` what a step of 32 bits and times and cells in float32 do not keep, as GROMACS' formats have them.
    pub fn note_narrow_stamps(&self, losses: &mut Vec<String>) {
        if self.open_ended {
            return;
        }
        self.note_narrow_steps(losses);
        let error = |&time: &f64| if time.is_nan() { 0.0 } else { (f64::from(time as f32) - time).abs() };
        let error = self.times.iter().map(error).fold(0.0, f64::max);
        if error > 0.0 {
            losses.push(format!("times are rounded to float32, by up to {error:.2e} ps"));
        }
        if !self.cells.iter().all(is_narrow) {
            losses.push("cells are rounded to float32".to_owned());
        }
    }

    /// Adds to `losses` what a step of 32 bits does not keep.
    pub fn note_narrow_steps(&self, losses: &mut Vec<String>) {
        if self.open_ended {
            return;
        }
        let beyond = self.steps.iter().filter(|&&step| i32::try_from(step).is_err()).count();
        if beyond > 0 {
            losses.push(format!("steps of {beyond} frames are cut to their lower 32 bits, as GROMACS does"));
        }
    }
}

/// A choice of fields that is refused.
fn refused(what: &str, expected: &[&str], found: Fields) -> Error {
    let found = found.names().join(", ");
    Error::new(ErrorKind::InvalidArgument, format!("{what}, expected {}, found {found}", expected.join(" or ")))
}

/// Where records are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placing {
    /// All have this many bytes, so that any worker writes any of them as soon as it has it.
    Uniform(u64),
    /// Sizes, of at most this many bytes, are known after encoding: records follow one another in order.
    Ordered(u64),
}

impl Placing {
    /// The most bytes that a record can have.
    pub fn most_bytes(self) -> u64 {
        match self {
            Self::Uniform(bytes) | Self::Ordered(bytes) => bytes,
        }
    }

    /// Whether records follow one another in order.
    pub fn is_ordered(self) -> bool {
        matches!(self, Self::Ordered(_))
    }
}

/// Bytes that are written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Their place in the file.
    pub offset: u64,
    /// The new bytes.
    pub bytes: Vec<u8>,
}

/// A record of a file of the same format.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Their offset in their file.
    pub offset: u64,
    /// Which frame of the file it is.
    pub frame: u64,
    /// Its time, ps, in place of the one that it has; given if [`Making::same_but_times`].
    pub time: Option<f64>,
}

/// Makes the bytes of one file. Values are in the format's units ([`super::FormatInfo::scales`]), times in ps.
pub trait Encoder: Send + Sync {
    /// The vectors that are encoded.
    fn fields(&self) -> Fields;

    /// Data of the source that the file lacks or rounds, in words for people, known before the first byte.
    fn losses(&self) -> &[String];

    /// Largest rounding of vectors besides that to float32, in the format's unit; 0 if the file stores float32.
    fn largest_rounding(&self) -> f64 {
        0.0
    }

    /// Data of the atoms that are written when an existing file is extended.
    fn labels(&self) -> Option<Arc<AtomLabels>> {
        None
    }

    /// The fields without which a frame is refused: all that are encoded, unless each record says which it has.
    fn required(&self) -> Fields {
        self.fields()
    }

    /// Whether values are taken in float64: rows have them in [`BlockView::doubles`].
    fn takes_doubles(&self) -> bool {
        false
    }

    /// How records are placed.
    fn placing(&self) -> Placing;

    /// The bytes before the first record, of a file without any.
    fn head(&self) -> Vec<u8>;

    /// The cell that a reader gets from the written `cell`, both in the format's unit; [`crate::frame::NOT_A_CELL`] if
    /// the reader gets none.
    fn cell_read_back(&self, cell: &Cell) -> Cell;

    /// Whether times are float32 in the file.
    fn has_narrow_times(&self) -> bool {
        false
    }

    /// The format's unit of length in angstrom.
    fn length_unit(&self) -> f64 {
        1.0
    }

    /// Refuses a frame whose cell or time a reader would not give back.
    ///
    /// # Errors
    /// `Unsupported` with the frame.
    fn check_stamp(&self, stamp: &Stamp, frame: u64) -> Result<()> {
        let angstrom = |cell: &Cell| cell.map(|row| row.map(|value| value * self.length_unit()));
        let cell = &stamp.cell;
        let kept = if *cell == NO_CELL {
            Ok(())
        } else {
            check_cell(&angstrom(cell), &angstrom(&self.cell_read_back(cell)), SINGLE)
        };
        let timed = |()| if self.has_narrow_times() { check_narrow_time(stamp.time) } else { Ok(()) };
        kept.and_then(timed).map_err(|error| error.with_frame(frame))
    }

    /// Appends the records of all rows to `out`; the first row is frame `first` of the file. If a frame is refused,
    /// nothing that counts is appended for it or for later frames.
    ///
    /// # Errors
    /// `Unsupported`, with the frame number of the row, for values that the format does not hold.
    fn encode(&self, rows: &BlockView<'_>, first: u64, scratch: &mut EncodeScratch, out: &mut Vec<u8>) -> Result<()> {
        for (stamp, frame) in rows.stamps.iter().zip(first..) {
            self.check_stamp(stamp, frame)?;
        }
        self.push_records(rows, first, scratch, out)
    }

    /// Appends the records as [`Encoder::encode`] does, after all stamps have passed.
    ///
    /// # Errors
    /// As `encode`.
    fn push_records(
        &self,
        rows: &BlockView<'_>,
        first: u64,
        scratch: &mut EncodeScratch,
        out: &mut Vec<u8>,
    ) -> Result<()>;

    /// The record of a frame except for its atoms, and the places of the atoms; for formats with
    /// [`super::FormatInfo::places_atoms`].
    ///
    /// # Errors
    /// `Unsupported` if atoms have no fixed places, and, as in `encode`, for stamps that the format does not hold.
    fn frame_layout(&self, stamp: &Stamp, frame: u64) -> Result<FrameLayout> {
        self.check_stamp(stamp, frame)?;
        self.plane_layout(stamp, frame)
    }

    /// The layout for [`Encoder::frame_layout`], after the stamp has passed.
    ///
    /// # Errors
    /// As `frame_layout`.
    fn plane_layout(&self, stamp: &Stamp, frame: u64) -> Result<FrameLayout> {
        let _ = (stamp, frame);
        Err(no_planes())
    }

    /// Appends the bytes of some atoms in plane `plane`: the bytes that `encode` puts there.
    ///
    /// # Errors
    /// As `encode`.
    fn encode_atoms(&self, atoms: &SomeAtoms<'_>, plane: usize, out: &mut Vec<u8>) -> Result<()> {
        let _ = (atoms, plane, out);
        Err(no_planes())
    }

    /// Whether records are made from the records of the source, if [`Making::same_format`] or
    /// [`Making::same_but_times`]: no vector is rounded then.
    fn recodes(&self) -> bool {
        false
    }

    /// Appends a record of some atoms of `record`. If all atoms are taken in their order, its bytes are the same.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated`, with frame and byte, if the bytes are not a whole record of the source.
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

    /// Adds consecutive records to the index of the file, as a scan finds them; for frames that differ in size.
    ///
    /// # Errors
    /// `Internal` if the bytes are not whole records.
    fn index(&self, records: &[u8], index: &mut TableBuilder) -> Result<()> {
        let _ = (records, index);
        Ok(())
    }

    /// Bytes to write once `committed` records are in the file, and not before: the count in its header.
    fn marker(&self, committed: u64) -> Option<Marker> {
        let _ = committed;
        None
    }

    /// If [`Making::open_ended`]: takes steps and times (ps) of the first one or two frames, from which the head
    /// derives the steps and times of all. Returns the bytes of an existing head that must be written again, besides
    /// [`Encoder::marker`].
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

/// Adds consecutive frames to an index; `frame` gives length, step and time (ps) of the first frame in the bytes.
/// Errors: `Internal` if the bytes are not whole frames.
pub(super) fn index_frames(
    records: &[u8],
    index: &mut TableBuilder,
    frame: impl Fn(&[u8], u64) -> Option<(u64, i64, f64)>,
) -> Result<()> {
    let mut rest = records;
    while !rest.is_empty() {
        let found = frame(rest, index.end()).filter(|(len, ..)| *len > 0);
        let Some(((len, step, time), behind)) =
            found.and_then(|found| Some((found, rest.split_at_checked(found.0 as usize)?.1)))
        else {
            return Err(Error::new(ErrorKind::Internal, "the encoded bytes are not a whole frame"));
        };
        index.push(len, step, time)?;
        rest = behind;
    }
    Ok(())
}

/// Losses of GROMACS' formats, which are single precision, for these frames; the first is frame `first`.
pub(super) fn narrow_stamp_losses(stamps: &[Stamp], first: u64) -> Vec<(&'static str, u64)> {
    let lost = |what, test: fn(&Stamp) -> bool| first_lost(what, stamps, first, test);
    let rounded = [
        lost("times are rounded to float32", |stamp| {
            !stamp.time.is_nan() && f64::from(stamp.time as f32) != stamp.time
        }),
        lost("cells are rounded to float32", |stamp| !is_narrow(&stamp.cell)),
    ];
    wide_stamp_losses(stamps, first).into_iter().chain(rounded.into_iter().flatten()).collect()
}

/// The same in double precision.
pub(super) fn wide_stamp_losses(stamps: &[Stamp], first: u64) -> Vec<(&'static str, u64)> {
    let lost = |what, test: fn(&Stamp) -> bool| first_lost(what, stamps, first, test);
    let losses = [
        lost("steps beyond 32 bits are cut to their lower 32 bits, as GROMACS does", |stamp| {
            i32::try_from(stamp.step).is_err()
        }),
        lost("frames without a time have NaN in its place, as GROMACS' files have one for each", |stamp| {
            stamp.time.is_nan()
        }),
    ];
    losses.into_iter().flatten().collect()
}

/// Whether float32 holds the cell in the file's unit.
fn is_narrow(cell: &Cell) -> bool {
    cell.iter().flatten().all(|&value| f64::from(value as f32) == value)
}
