//! HISTORY encoder: records of one width made of values, or of the records of other HISTORY files without rounding.

use std::sync::Arc;

use super::encode::{
    AtomLines, CELLS, Kind, NO_TIME, SLAB, WIDTH, cell_in_columns, check_rows, checked, end_record, holds, holds_cell,
    imcon_of, imcon_of_all, layout_of, levels, note_digits, put_atoms, put_cell, put_title, takes_doubles,
};
use super::history::NAME;
use super::layout::{FRAME_RECORDS, HEAD_RECORDS, Layout};
use super::records::{AtomBlock, Lines, RECORD, integer};
use super::timestep::TIMESTEP;
use crate::container::text::fortran::{put_f, put_i, put_text};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    AtomLabels, AtomNumbers, EncodeScratch, Encoder, FrameLayout, Making, Marker, Placing, Record, SomeAtoms,
    first_lost,
};
use crate::frame::{BlockView, Cell, Fields, Stamp};
use crate::selection::AtomSelection;
use crate::source::Source;

/// A loss.
const TIMES: &str = "times are rounded to 1e-6 ps";

/// Where the second record counts frames and records.
const COUNTS: usize = WIDTH + 30;
/// Where the first frame has the time of a step.
const BETWEEN: usize = HEAD_RECORDS * WIDTH + 32;

/// The values of the second record that must agree between two files, so that records can be copied from one to the
/// other.
pub(super) fn version_of(keytrj: i64, imcon: i64) -> i32 {
    (10 * imcon + keytrj) as i32
}

/// Makes a HISTORY file.
#[derive(Debug)]
pub(super) struct HistoryEncoder {
    n_atoms: u32,
    levels: usize,
    imcon: i64,
    title: Option<String>,
    /// Time of a step, ps; 0 if it is unknown.
    between: f64,
    /// None if records are copied.
    atoms: AtomLines,
    recodes: bool,
    losses: Vec<String>,
    takes_doubles: bool,
    labels: Option<Arc<AtomLabels>>,
}

impl HistoryEncoder {
    /// # Errors
    /// `InvalidArgument` for fields that the source lacks or that are not held together, for a precision, and for
    /// masses and charges beyond their columns.
    pub fn new(making: &Making) -> Result<Self> {
        let mut losses = Vec::new();
        let levels = levels(making, &mut losses)?;
        let version = making.recoded_version.filter(|version| making.same_format && version % 10 + 1 >= levels as i32);
        let recodes = version.is_some() && making.labels.as_ref().is_none_or(|labels| labels.of_source);
        let mut atoms = AtomLines::default();
        if !recodes {
            note_digits(making, super::fields_of(levels), &mut losses);
            making.note_extras(&mut losses);
            atoms = AtomLines::new(making, Kind::History, &mut losses)?;
        }
        if !recodes && !making.open_ended {
            if making.times.iter().any(|time| time.is_nan()) {
                losses.push(NO_TIME.to_owned());
            }
            if making.times.iter().any(|&time| !holds(time, 6)) {
                losses.push(TIMES.to_owned());
            }
            if making.cells.iter().any(|cell| !holds_cell(cell)) {
                losses.push(CELLS.to_owned());
            }
        }
        let imcon = version.filter(|_| recodes).map_or_else(|| imcon_of_all(&making.cells), |v| i64::from(v / 10));
        let mut made = Self {
            n_atoms: making.n_atoms,
            levels,
            imcon,
            title: making.title.clone(),
            between: 0.0,
            recodes,
            losses,
            takes_doubles: takes_doubles(making),
            labels: atoms.labels().or(making.labels.as_ref()).cloned(),
            atoms,
        };
        made.time_by(&making.steps, &making.times);
        Ok(made)
    }

    /// The encoder that extends a file that begins so, with the names, masses and charges of its first frame.
    ///
    /// # Errors
    /// `Unsupported` if records are laid out otherwise than they are written here; `InvalidArgument` for other fields.
    pub fn resume(source: &dyn Source, layout: &Layout, making: &Making) -> Result<Self> {
        let fields = super::fields_of(layout.block.levels);
        if let Some(asked) = making.fields.filter(|asked| *asked != fields) {
            let (expected, found) = (fields.names().join(", "), asked.names().join(", "));
            let what = format!("the file holds the same fields in all frames, expected {expected}, found {found}");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        if layout.block.compressed || layout.block.lines.width() != WIDTH {
            let what = "the file cannot be extended: its records do not have 72 characters and a line feed, as they are written \
                        here";
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let labels = match making.labels.clone() {
            Some(labels) => labels,
            None => {
                let known = super::atoms::read_atoms(source)?;
                let names = Some(known.names);
                let (masses, charges) = (known.masses, known.charges);
                Arc::new(AtomLabels { names, masses, charges, codes: None, of_source: true })
            }
        };
        let held = making.held | fields;
        let made = Self::new(&Making {
            held,
            fields: Some(fields),
            labels: Some(labels),
            cells: Vec::new(),
            same_format: false,
            ..making.clone()
        })?;
        let mut record = [0; WIDTH];
        source.read_exact_at(layout.head_len(), &mut record)?;
        let between = layout.frame_head(&record, layout.head_len())?.between;
        Ok(Self { imcon: layout.imcon, title: Some(layout.title.clone()), between, ..made })
    }

    fn record_len(&self) -> u64 {
        let records = FRAME_RECORDS as u64 + u64::from(self.n_atoms) * (1 + self.levels as u64);
        WIDTH as u64 * records
    }

    fn counts(&self, frames: u64) -> Vec<u8> {
        let records = HEAD_RECORDS as u64 + frames * (self.record_len() / WIDTH as u64);
        let mut bytes = Vec::new();
        put_i(&mut bytes, frames.cast_signed(), 21);
        put_i(&mut bytes, records.cast_signed(), 21);
        bytes
    }

    fn put_timestep(&self, stamp: &Stamp, out: &mut Vec<u8>) -> Result<()> {
        let own = imcon_of(&stamp.cell);
        // all frames of the file with a cell have one shape, if possible
        let imcon = if own == 0 || own == SLAB || self.imcon == SLAB { own } else { own.max(self.imcon) };
        let start = out.len();
        put_text(out, TIMESTEP, 8);
        checked(out, "a step", |out| put_i(out, stamp.step, 10))?;
        checked(out, "a number of atoms", |out| put_i(out, i64::from(self.n_atoms), 10))?;
        put_i(out, self.levels as i64 - 1, 2);
        put_i(out, imcon, 2);
        checked(out, "a time step", |out| put_f(out, self.between, 20, 6))?;
        checked(out, "a time", |out| put_f(out, stamp.time, 20, 6))?;
        end_record(out, start);
        put_cell(out, &stamp.cell)
    }
}

impl Encoder for HistoryEncoder {
    fn fields(&self) -> Fields {
        super::fields_of(self.levels)
    }

    fn losses(&self) -> &[String] {
        &self.losses
    }

    fn labels(&self) -> Option<Arc<AtomLabels>> {
        self.labels.clone()
    }

    fn takes_doubles(&self) -> bool {
        self.takes_doubles
    }

    fn placing(&self) -> Placing {
        Placing::Uniform(self.record_len())
    }

    fn head(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_title(&mut out, self.title.as_deref());
        put_i(&mut out, self.levels as i64 - 1, 10);
        put_i(&mut out, self.imcon, 10);
        put_i(&mut out, i64::from(self.n_atoms), 10);
        out.extend(self.counts(0));
        out.push(b'\n');
        out
    }

    fn cell_read_back(&self, cell: &Cell) -> Cell {
        cell_in_columns(cell)
    }

    fn push_records(&self, rows: &BlockView<'_>, first: u64, _: &mut EncodeScratch, out: &mut Vec<u8>) -> Result<()> {
        check_rows(rows, self.n_atoms)?;
        out.reserve(rows.rows() * self.record_len() as usize);
        for (row, stamp) in rows.stamps.iter().enumerate() {
            let put = self.put_timestep(stamp, out);
            put.and_then(|()| put_atoms(&self.atoms, rows, AtomNumbers::From(0), row, self.levels, out))
                .map_err(|error| error.with_frame(first + row as u64))?;
        }
        Ok(())
    }

    fn plane_layout(&self, stamp: &Stamp, frame: u64) -> Result<FrameLayout> {
        let mut head = Vec::new();
        self.put_timestep(stamp, &mut head).map_err(|error| error.with_frame(frame))?;
        Ok(layout_of(head, self.n_atoms, self.levels))
    }

    fn encode_atoms(&self, atoms: &SomeAtoms<'_>, _: usize, out: &mut Vec<u8>) -> Result<()> {
        put_atoms(&self.atoms, &atoms.rows, atoms.numbers, 0, self.levels, out)
    }

    fn marker(&self, committed: u64) -> Option<Marker> {
        Some(Marker { offset: COUNTS as u64, bytes: self.counts(committed) })
    }

    fn time_by(&mut self, steps: &[i64], times: &[f64]) -> Option<Marker> {
        let ([one, other, ..], [before, after, ..]) = (steps, times) else { return None };
        if self.between != 0.0 || other <= one || !(after - before).is_finite() {
            return None;
        }
        self.between = (after - before) / (other - one) as f64;
        // also in the first frame, if the file has one
        let mut bytes = Vec::new();
        put_f(&mut bytes, self.between, 20, 6);
        Some(Marker { offset: BETWEEN as u64, bytes })
    }

    fn stamp_losses(&self, stamps: &[Stamp], first: u64) -> Vec<(&'static str, u64)> {
        let losses = [
            first_lost(TIMES, stamps, first, |stamp| !holds(stamp.time, 6)),
            first_lost(NO_TIME, stamps, first, |stamp| stamp.time.is_nan()),
            first_lost(CELLS, stamps, first, |stamp| !holds_cell(&stamp.cell)),
        ];
        losses.into_iter().flatten().collect()
    }

    fn recodes(&self) -> bool {
        self.recodes
    }

    fn recode(
        &self,
        record: &Record<'_>,
        atoms: &AtomSelection,
        _: &mut EncodeScratch,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let made = self.recode_frame(record, atoms, out);
        made.map_err(|error| error.with_byte(record.offset).with_frame(record.frame).with_format(NAME))
    }
}

impl HistoryEncoder {
    fn recode_frame(&self, record: &Record<'_>, atoms: &AtomSelection, out: &mut Vec<u8>) -> Result<()> {
        let (bytes, at) = (record.bytes, record.offset);
        let end = if bytes.get(RECORD) == Some(&b'\r') { 2 } else { 1 };
        let lines = Lines { text: RECORD, end };
        let head = lines.record(bytes, 0, at)?;
        let keytrj = integer(head, 28..30, "keytrj", at)?;
        let levels = usize::try_from(keytrj).ok().filter(|key| (self.levels - 1..3).contains(key)).map(|key| key + 1);
        let levels = levels.ok_or_else(|| Error::corrupt("keytrj", "0, 1 or 2", keytrj))?;
        let block = AtomBlock { lines, n_atoms: atoms.n_atoms(), levels, compressed: false };
        let head_len = (FRAME_RECORDS * lines.width()) as u64;
        if bytes.len() as u64 != head_len + block.len() || !head.starts_with(TIMESTEP) {
            return Err(Error::corrupt("length of a frame", head_len + block.len(), bytes.len()));
        }
        let start = out.len();
        out.extend_from_slice(head);
        if self.levels != levels || self.n_atoms != block.n_atoms {
            out.truncate(start + 18);
            put_i(out, i64::from(self.n_atoms), 10);
            put_i(out, self.levels as i64 - 1, 2);
            out.extend_from_slice(&head[30..]);
        }
        out.push(b'\n');
        for number in 1..FRAME_RECORDS {
            out.extend_from_slice(lines.record(bytes, number, at)?);
            out.push(b'\n');
        }
        let (all, first) = (&bytes[head_len as usize..], at + head_len);
        if atoms.indices().is_none() && atoms.columns().is_none() {
            for atom in 0..block.n_atoms {
                self.copy_atom(&block, all, first, atom, None, out)?;
            }
            return Ok(());
        }
        let mut order = Vec::new();
        let sorted = block.order(all, first, &mut order)?;
        for (place, atom) in (1..).zip(atoms.requested()) {
            let number = if sorted { atom } else { order[atom as usize].cast_unsigned() };
            self.copy_atom(&block, all, first, number, Some(place), out)?;
        }
        Ok(())
    }

    /// Appends the records of one atom of another file, with another index if one is given.
    fn copy_atom(
        &self,
        block: &AtomBlock,
        bytes: &[u8],
        at: u64,
        number: u32,
        index: Option<i64>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let first = number as usize * block.records_an_atom();
        for level in 0..=self.levels {
            let record = block.lines.record(bytes, first + level, at)?;
            match index.filter(|_| level == 0) {
                None => out.extend_from_slice(record),
                Some(index) => {
                    out.extend_from_slice(&record[..8]);
                    put_i(out, index, 10);
                    out.extend_from_slice(&record[18..]);
                }
            }
            out.push(b'\n');
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_that_hold_a_value() {
        assert!(holds(0.005, 6) && holds(123.456789, 6) && holds(f64::NAN, 6));
        assert!(!holds(1.0 / 3.0, 6) && !holds(1e17, 6));
    }
}
