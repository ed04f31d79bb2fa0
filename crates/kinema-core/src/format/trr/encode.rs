//! TRR encoder: records in single or double precision made of values, or of the records of another TRR file without rounding.

use std::ops::Range;

use super::header::{FrameHeader, LONGEST_HEADER};
use super::{INFO, NAME};
use crate::error::{Error, ErrorKind, Result};
use crate::format::encoder::{index_frames, narrow_stamp_losses, wide_stamp_losses};
use crate::format::scan::HeaderFault;
use crate::format::{AtomPlane, EncodeScratch, Encoder, FrameLayout, Making, Placing, Record, SomeAtoms};
use crate::frame::{BlockView, Cell, Fields, NO_CELL, Stamp};
use crate::index::TableBuilder;
use crate::selection::AtomSelection;

/// Atoms of which a section in double precision has fewer bytes than the sizes of a header can say.
const MOST_ATOMS: u32 = (i32::MAX / 24) as u32;

/// Makes a TRR file.
#[derive(Debug)]
pub(super) struct TrrEncoder {
    n_atoms: u32,
    fields: Fields,
    /// Whether records that are made of values have float64.
    double: bool,
    recodes: bool,
    losses: Vec<String>,
}

impl TrrEncoder {
    /// # Errors
    /// `InvalidArgument` for fields that the source lacks and for a precision; `Unsupported` for too many atoms.
    pub fn new(making: &Making) -> Result<Self> {
        if making.precision.is_some() {
            return Err(Error::new(ErrorKind::InvalidArgument, "a TRR file holds float32, which no precision= rounds"));
        }
        if making.n_atoms > MOST_ATOMS {
            let what =
                format!("number of atoms of a TRR file, expected at most {MOST_ATOMS}, found {}", making.n_atoms);
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let vectors = Fields::POSITIONS | Fields::VELOCITIES | Fields::FORCES;
        let mut losses = Vec::new();
        // later frames may have fields that the first lacks
        let fields = if making.open_ended {
            making.fields.unwrap_or(vectors)
        } else {
            making.chosen_fields(vectors, &mut losses)?
        };
        let held = making.held - (Fields::ALL - vectors);
        let recodes = making.same_format && fields == held;
        let double = making.double.unwrap_or(false);
        if !recodes {
            if double {
                making.note_narrow_steps(&mut losses);
            } else {
                making.note_wide(fields, &mut losses);
                making.note_narrow_stamps(&mut losses);
            }
            making.note_extras(&mut losses);
        }
        Ok(Self { n_atoms: making.n_atoms, fields, double, recodes, losses })
    }

    fn check_atoms(&self, found: usize) -> Result<()> {
        if found == self.n_atoms as usize {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Internal, "the block has other atoms than the file"))
    }

    /// The vectors of a frame that are written.
    fn vectors_of(&self, stamp: &Stamp) -> Fields {
        self.fields - (self.fields - stamp.present)
    }

    fn frame_header(&self, stamp: &Stamp, frame: u64) -> Result<FrameHeader> {
        let vectors = self.vectors_of(stamp);
        if vectors.is_empty() && stamp.cell == NO_CELL {
            let what = "a frame without cell, positions, velocities and forces, which a TRR file cannot hold";
            return Err(Error::new(ErrorKind::Unsupported, what).with_frame(frame));
        }
        Ok(FrameHeader {
            n_atoms: self.n_atoms,
            step: stamp.step as i32,
            n_re: 0,
            time: stamp.time,
            lambda: 0.0,
            double: self.double,
            matrices: [true, false, false],
            vectors,
        })
    }

    /// Appends some values of a field.
    fn push_vectors(&self, rows: &BlockView<'_>, field: Fields, range: Range<usize>, out: &mut Vec<u8>) -> Result<()> {
        let number = Fields::VECTORS.into_iter().position(|one| one == field).unwrap_or_default();
        let other = || Error::new(ErrorKind::Internal, "the block has other fields than the file");
        if self.double {
            let values = rows.doubles[number].get(range).ok_or_else(other)?;
            out.extend(values.iter().flat_map(|value| value.to_be_bytes()));
        } else {
            let values = [rows.positions, rows.velocities, rows.forces][number].get(range).ok_or_else(other)?;
            out.extend(values.iter().flat_map(|value| value.to_be_bytes()));
        }
        Ok(())
    }
}

impl Encoder for TrrEncoder {
    fn fields(&self) -> Fields {
        self.fields
    }

    fn required(&self) -> Fields {
        // each frame says what it has
        Fields::NONE
    }

    fn losses(&self) -> &[String] {
        &self.losses
    }

    fn takes_doubles(&self) -> bool {
        self.double
    }

    fn placing(&self) -> Placing {
        let width = if self.recodes || self.double { 8 } else { 4 };
        Placing::Ordered(LONGEST_HEADER as u64 + width * (3 * 9 + 9 * u64::from(self.n_atoms)))
    }

    fn head(&self) -> Vec<u8> {
        Vec::new()
    }

    fn cell_read_back(&self, cell: &Cell) -> Cell {
        if self.double { *cell } else { cell.map(|row| row.map(|value| f64::from(value as f32))) }
    }

    fn has_narrow_times(&self) -> bool {
        !self.double
    }

    fn length_unit(&self) -> f64 {
        INFO.scales.length
    }

    fn push_records(&self, rows: &BlockView<'_>, first: u64, _: &mut EncodeScratch, out: &mut Vec<u8>) -> Result<()> {
        self.check_atoms(rows.n_selected)?;
        let width = 3 * rows.n_selected;
        for (row, stamp) in rows.stamps.iter().enumerate() {
            let header = self.frame_header(stamp, first + row as u64)?;
            header.push(out);
            push_cell(&header, &stamp.cell, out);
            for field in sections(header.vectors) {
                self.push_vectors(rows, field, row * width..(row + 1) * width, out)?;
            }
        }
        Ok(())
    }

    fn plane_layout(&self, stamp: &Stamp, frame: u64) -> Result<FrameLayout> {
        let header = self.frame_header(stamp, frame)?;
        let mut head = Vec::new();
        header.push(&mut head);
        push_cell(&header, &stamp.cell, &mut head);
        let width = 3 * header.width() as u64;
        let planes = sections(header.vectors).map(|field| AtomPlane { offset: header.section_at(field), width });
        Ok(FrameLayout { bytes: header.frame_len(), planes: planes.collect(), pieces: vec![(0, head)] })
    }

    fn encode_atoms(&self, atoms: &SomeAtoms<'_>, plane: usize, out: &mut Vec<u8>) -> Result<()> {
        let Some(field) = sections(self.vectors_of(&atoms.stamp())).nth(plane) else {
            return Err(Error::new(ErrorKind::Internal, "the frame has fewer planes"));
        };
        self.push_vectors(&atoms.rows, field, 0..3 * atoms.rows.n_selected, out)
    }

    fn index(&self, records: &[u8], index: &mut TableBuilder) -> Result<()> {
        index_frames(records, index, |bytes, offset| {
            let header = FrameHeader::parse(bytes, offset, Some(self.n_atoms)).ok()?;
            Some((header.frame_len(), i64::from(header.step), header.time))
        })
    }

    fn stamp_losses(&self, stamps: &[Stamp], first: u64) -> Vec<(&'static str, u64)> {
        if self.double { wide_stamp_losses(stamps, first) } else { narrow_stamp_losses(stamps, first) }
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
        let place = |error: Error| error.with_frame(record.frame).with_format(NAME);
        let header =
            FrameHeader::parse(record.bytes, record.offset, Some(atoms.n_atoms())).map_err(|fault| match fault {
                HeaderFault::Wrong(error) => place(error),
                HeaderFault::Short(_) => {
                    place(Error::new(ErrorKind::Truncated, "a record without its header").with_byte(record.offset))
                }
            })?;
        if header.frame_len() != record.bytes.len() as u64 {
            let error = Error::corrupt("wrong length of the frame", record.bytes.len(), header.frame_len());
            return Err(place(error.with_byte(record.offset)));
        }
        if atoms.indices().is_none() && atoms.columns().is_none() {
            out.extend_from_slice(record.bytes);
            return Ok(());
        }
        self.check_atoms(atoms.n_requested())?;
        FrameHeader { n_atoms: self.n_atoms, ..header }.push(out);
        out.extend_from_slice(&record.bytes[header.len()..header.vectors_at() as usize]);
        let vector = 3 * header.width();
        for field in Fields::VECTORS.into_iter().filter(|&field| header.vectors.contains(field)) {
            let section = &record.bytes[header.section_at(field) as usize..];
            for atom in atoms.requested() {
                out.extend_from_slice(&section[vector * atom as usize..][..vector]);
            }
        }
        Ok(())
    }
}

/// The vectors of a frame in the order in which they are stored.
fn sections(vectors: Fields) -> impl Iterator<Item = Fields> {
    Fields::VECTORS.into_iter().filter(move |field| vectors.contains(*field))
}

fn push_cell(header: &FrameHeader, cell: &Cell, out: &mut Vec<u8>) {
    cell.iter().flatten().for_each(|&value| header.push_number(value, out));
}
