//! XTC encoder: records made of positions, or of the records of another XTC file without rounding.

use super::encode::{
    FrameToEncode, IntegersToEncode, MAX_CLASSIC_ATOMS, decode_integers, encode, encode_integers, is_whole_frame,
};
use super::header::{FrameHeader, LONGEST_HEADER, MAGIC_LONG, MAX_PLAIN_ATOMS, TIME};
use super::{INFO, NAME};
use crate::error::{Error, ErrorKind, Result};
use crate::format::encoder::{index_frames, narrow_stamp_losses};
use crate::format::{EncodeScratch, Encoder, Making, Placing, Record};
use crate::frame::kept::check_narrow_time;
use crate::frame::{BlockView, Cell, Fields, Stamp};
use crate::index::{Index, TableBuilder};
use crate::selection::AtomSelection;
use crate::source::Source;

/// Integers in a nm by default: as GROMACS writes.
const USUAL_PRECISION: f32 = 1000.0;

/// The most bytes that an atom takes: three integers of 32 bits, and the bits that begin a run.
const MOST_ATOM_BYTES: u64 = 13;

/// Makes an XTC file.
#[derive(Debug)]
pub(super) struct XtcEncoder {
    n_atoms: u32,
    precision: f32,
    long: bool,
    recodes: bool,
    losses: Vec<String>,
}

impl XtcEncoder {
    /// # Errors
    /// `InvalidArgument` for fields that a file cannot hold, and for a precision that is not a positive number.
    pub fn new(making: &Making) -> Result<Self> {
        let copied = making.same_format || making.same_but_times;
        let recodes = copied && making.precision.is_none() && making.source_atoms > MAX_PLAIN_ATOMS;
        let mut losses = Vec::new();
        making.only_field(&[Fields::POSITIONS], &mut losses)?;
        let asked = making.precision.or(making.source_precision);
        let precision = asked.map_or(USUAL_PRECISION, |precision| precision as f32);
        if !(precision > 0.0 && precision.is_finite()) {
            let what = format!("wrong precision, expected a positive number, found {precision}");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        if !recodes && making.n_atoms > MAX_PLAIN_ATOMS {
            losses.push(format!("positions are rounded to multiples of {} nm", 1.0 / precision));
        }
        if !recodes || making.same_but_times {
            making.note_narrow_stamps(&mut losses);
        }
        if !recodes {
            making.note_extras(&mut losses);
        }
        let long = making.n_atoms as usize > MAX_CLASSIC_ATOMS;
        Ok(Self { n_atoms: making.n_atoms, precision, long, recodes, losses })
    }

    /// The encoder that extends a file in the way of its last frame.
    ///
    /// # Errors
    /// As [`XtcEncoder::new`]; `InvalidArgument` if the precision differs from that of the last frame.
    pub fn resume(source: &dyn Source, index: &Index, making: &Making) -> Result<Self> {
        let Some(last) = index.n_frames().checked_sub(1) else {
            return Err(Error::new(ErrorKind::Internal, "a file without frames is not extended but begun"));
        };
        let extent = index.extent(last);
        let mut bytes = vec![0; extent.len.min(LONGEST_HEADER as u64) as usize];
        source.read_exact_at(extent.offset, &mut bytes)?;
        let header = FrameHeader::parse(&bytes, extent.offset, Some(making.n_atoms));
        let header = header.map_err(|_| Error::corrupt("no frame where the index has one", last, "other bytes"))?;
        let found = header.packing.map(|packing| packing.precision);
        if let (Some(found), Some(asked)) = (found, making.precision)
            && asked as f32 != found
        {
            let what = format!("the precision is that of the frames in the file, expected {found}, found {asked}");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let made = Self::new(&Making { source_precision: found.map(f64::from), ..making.clone() })?;
        Ok(Self { long: header.magic == MAGIC_LONG, ..made })
    }

    fn check_atoms(&self, found: usize) -> Result<()> {
        if found == self.n_atoms as usize {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Internal, "the block has other atoms than the file"))
    }
}

impl Encoder for XtcEncoder {
    fn fields(&self) -> Fields {
        Fields::POSITIONS
    }

    fn losses(&self) -> &[String] {
        &self.losses
    }

    fn largest_rounding(&self) -> f64 {
        if self.recodes || self.n_atoms <= MAX_PLAIN_ATOMS { 0.0 } else { 0.5 / f64::from(self.precision) }
    }

    fn placing(&self) -> Placing {
        Placing::Ordered(LONGEST_HEADER as u64 + MOST_ATOM_BYTES * u64::from(self.n_atoms) + 8)
    }

    fn head(&self) -> Vec<u8> {
        Vec::new()
    }

    fn cell_read_back(&self, cell: &Cell) -> Cell {
        narrow(cell).map(|row| row.map(f64::from))
    }

    fn has_narrow_times(&self) -> bool {
        true
    }

    fn length_unit(&self) -> f64 {
        INFO.scales.length
    }

    fn push_records(
        &self,
        rows: &BlockView<'_>,
        first: u64,
        scratch: &mut EncodeScratch,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.check_atoms(rows.n_selected)?;
        for (row, stamp) in rows.stamps.iter().enumerate() {
            let frame = FrameToEncode {
                step: stamp.step as i32,
                time: stamp.time as f32,
                cell: narrow(&stamp.cell),
                positions: rows.positions_of(row).as_chunks::<3>().0,
                precision: self.precision,
                long: self.long,
            };
            encode(&frame, &mut scratch.xtc, out).map_err(|error| error.with_frame(first + row as u64))?;
        }
        Ok(())
    }

    fn recodes(&self) -> bool {
        self.recodes
    }

    fn recode(
        &self,
        record: &Record<'_>,
        atoms: &AtomSelection,
        scratch: &mut EncodeScratch,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let place = |error: Error| error.with_frame(record.frame).with_format(NAME);
        check_narrow_time(record.time.unwrap_or_default()).map_err(place)?;
        if atoms.indices().is_none() && atoms.columns().is_none() {
            is_whole_frame(record.bytes, record.offset, self.n_atoms).map_err(place)?;
            let start = out.len();
            out.extend_from_slice(record.bytes);
            if let Some(time) = record.time {
                out[start..][TIME].copy_from_slice(&(time as f32).to_be_bytes());
            }
            return Ok(());
        }
        let EncodeScratch { bytes, integers, ordered, .. } = scratch;
        let found = decode_integers(record.bytes, record.offset, atoms, bytes, integers).map_err(place)?;
        let precision = found.precision.ok_or_else(|| {
            let what = "a frame of plain floats among packed ones";
            place(Error::new(ErrorKind::Corrupt, what).with_byte(record.offset))
        })?;
        let integers = match atoms.columns() {
            None => integers,
            Some(columns) => {
                ordered.clear();
                ordered.extend(columns.iter().map(|&column| integers[column as usize]));
                ordered
            }
        };
        self.check_atoms(integers.len())?;
        let (step, cell, long) = (found.step, found.cell, found.long);
        let time = record.time.map_or(found.time, |time| time as f32);
        encode_integers(&IntegersToEncode { step, time, cell, integers, precision, long }, out).map_err(place)
    }

    fn index(&self, records: &[u8], index: &mut TableBuilder) -> Result<()> {
        index_frames(records, index, |bytes, offset| {
            let header = FrameHeader::parse(bytes, offset, Some(self.n_atoms)).ok()?;
            Some((header.frame_len(), i64::from(header.step), f64::from(header.time)))
        })
    }

    fn stamp_losses(&self, stamps: &[Stamp], first: u64) -> Vec<(&'static str, u64)> {
        narrow_stamp_losses(stamps, first)
    }
}

/// The cell as the file has it.
fn narrow(cell: &Cell) -> [[f32; 3]; 3] {
    cell.map(|row| row.map(|value| value as f32))
}
