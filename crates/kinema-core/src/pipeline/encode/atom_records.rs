//! Records of which a process has only some atoms: for several processes that write one file together.
//!
//! Nothing here writes: the caller brings the bytes to their places in the file in any way.

use std::ops::Range;
use std::sync::Arc;

use super::append::Existing;
use super::resume::Committed;
use super::rows::Values;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{AtomLabels, AtomNumbers, Encoder, Format, FrameLayout, Making, Marker, SomeAtoms, no_planes};
use crate::frame::kept::infinite;
use crate::frame::{BlockView, Cell, Fields, NO_CELL, Scales, Stamp};
use crate::sink::Sink;
use crate::trajectory::Trajectory;

/// Atoms that are encoded at a time.
const BATCH: usize = 2048;

/// Encodes the records of one file.
pub struct AtomRecords {
    format: &'static dyn Format,
    encoder: Box<dyn Encoder>,
    n_atoms: u32,
    widths: Vec<usize>,
    /// Set if an existing file is extended.
    existing: Option<Existing>,
}

impl AtomRecords {
    /// For a new file. From `making`, the following are used: all atoms, the fields (all frames have them), their
    /// precision, labels, title, and the cells of the first frames, which decide whether the file has cells.
    ///
    /// # Errors
    /// Errors of [`Format::encoder`]; `Unsupported` if atoms do not have fixed places in a record.
    pub fn new(format: &'static dyn Format, making: &Making) -> Result<Self> {
        let place = |error: Error| error.with_format(format.info().name);
        if !format.info().places_atoms {
            return Err(place(no_planes()));
        }
        let there = making.cells.iter().any(|cell| *cell != NO_CELL);
        let cell = if there { Fields::CELL } else { Fields::NONE };
        let held = making.fields.unwrap_or(Fields::POSITIONS) | cell;
        let length = Scales::NATIVE.to_units_of(format.info().scales).length;
        let cells = making.cells.iter().map(|cell| cell.map(|row| row.map(|value| value * length))).collect();
        let known = Making { held, cells, open_ended: true, source_atoms: making.n_atoms, ..making.clone() };
        let encoder = format.encoder(&known).map_err(place)?;
        let cell = making.cells.first().copied().unwrap_or(NO_CELL);
        Self::with(format, encoder, making.n_atoms, cell, None)
    }

    /// Extends the file of a trajectory after its first `n_frames`, or after its last whole frame; `None` if it has no
    /// frames. The file is not changed: see [`AtomRecords::cut`].
    ///
    /// # Errors
    /// Errors of [`Existing::from_trajectory`]; `Unsupported` if atoms do not have fixed places in a record.
    pub fn resume(trajectory: &Trajectory, making: &Making, n_frames: Option<u64>) -> Result<Option<Self>> {
        let format = trajectory.format();
        if !format.info().places_atoms {
            return Err(no_planes().with_format(format.info().name));
        }
        let held = trajectory.header().fields;
        let vectors = Fields::VECTORS.into_iter().filter(|field| held.contains(*field));
        let fields = making.fields.unwrap_or_else(|| vectors.fold(Fields::NONE, |all, field| all | field));
        let making = Making { fields: Some(fields), ..making.clone() };
        let Some((existing, encoder)) = Existing::from_trajectory(trajectory, &making, n_frames)? else {
            return Ok(None);
        };
        Self::with(format, encoder, trajectory.n_atoms(), NO_CELL, Some(existing)).map(Some)
    }

    fn with(
        format: &'static dyn Format,
        encoder: Box<dyn Encoder>,
        n_atoms: u32,
        cell: Cell,
        existing: Option<Existing>,
    ) -> Result<Self> {
        let mut made = Self { format, encoder, n_atoms, widths: Vec::new(), existing };
        let layout = made.frame_layout(&Stamp { cell, time: 0.0, ..Stamp::default() }, 0)?;
        made.widths = layout.planes.iter().map(|plane| plane.width as usize).collect();
        Ok(made)
    }

    /// Number of frames of the existing file that stay, and the offset of their end.
    pub fn kept(&self) -> Committed {
        let new = || Committed { frames: 0, bytes: self.encoder.head().len() as u64 };
        self.existing.as_ref().map_or_else(new, |existing| existing.kept)
    }

    /// Steps and times (ps) of the first two frames that the file has.
    pub fn first(&self) -> &[Stamp] {
        self.existing.as_ref().map_or(&[], |existing| &existing.first)
    }

    /// [`Encoder::labels`].
    pub fn labels(&self) -> Option<Arc<AtomLabels>> {
        self.encoder.labels()
    }

    /// Calls [`Existing::cut`]; does nothing for a new file. One process calls this, after all have read what they need
    /// of the file.
    ///
    /// # Errors
    /// Errors of [`Existing::cut`].
    pub fn cut(&self, sink: &dyn Sink) -> Result<()> {
        self.existing.as_ref().map_or(Ok(()), |existing| existing.cut(&*self.encoder, sink))
    }

    /// Number of atoms.
    pub fn n_atoms(&self) -> u32 {
        self.n_atoms
    }

    /// Name of the format.
    pub fn format(&self) -> &'static str {
        self.format.info().name
    }

    /// Fields that are written of each frame.
    pub fn fields(&self) -> Fields {
        self.encoder.fields()
    }

    /// Messages for people: data of the frames that the file omits or rounds.
    pub fn losses(&self) -> &[String] {
        self.encoder.losses()
    }

    /// [`Encoder::head`].
    pub fn head(&self) -> Vec<u8> {
        self.encoder.head()
    }

    /// [`Encoder::time_by`]: before the head with the first frame, and before the second record with both.
    pub fn time_by(&mut self, steps: &[i64], times: &[f64]) -> Option<Marker> {
        self.encoder.time_by(steps, times)
    }

    /// [`Encoder::marker`].
    pub fn marker(&self, committed: u64) -> Option<Marker> {
        self.encoder.marker(committed)
    }

    /// [`Encoder::stamp_losses`] of one frame, whose cell is in angstrom.
    pub fn stamp_losses(&self, stamp: &Stamp, frame: u64) -> Vec<(&'static str, u64)> {
        self.encoder.stamp_losses(&[self.stamp(stamp)], frame)
    }

    /// The record of a frame without its atoms; the cell is in angstrom.
    ///
    /// # Errors
    /// Errors of [`Encoder::frame_layout`].
    pub fn frame_layout(&self, stamp: &Stamp, frame: u64) -> Result<FrameLayout> {
        self.encoder.frame_layout(&self.stamp(stamp), frame).map_err(|error| error.with_format(self.format()))
    }

    /// Bytes of an atom in each plane.
    pub fn widths(&self) -> &[usize] {
        &self.widths
    }

    fn stamp(&self, stamp: &Stamp) -> Stamp {
        let length = Scales::NATIVE.to_units_of(self.format.info().scales).length;
        let cell = stamp.cell.map(|row| row.map(|value| value * length));
        Stamp { cell, present: self.fields(), ..*stamp }
    }

    /// Encodes some atoms for each plane, into `out[i]` for plane `i`. `vectors` are positions, velocities and forces
    /// of the caller's atoms in angstrom and ps; `numbers` are the numbers of the same atoms. Only `rows` of them are
    /// encoded.
    ///
    /// # Errors
    /// `InvalidArgument` if fields, numbers of atoms or lengths of `out` do not match.
    pub fn encode(
        &self,
        vectors: [Option<Values<'_>>; 3],
        rows: Range<usize>,
        numbers: AtomNumbers<'_>,
        out: &mut [&mut [u8]],
    ) -> Result<()> {
        self.check(vectors, &rows, numbers, out)?;
        let scales = Scales::NATIVE.to_units_of(self.format.info().scales);
        let factors = [scales.length, scales.velocity, scales.force];
        let (mut singles, mut doubles): ([Vec<f32>; 3], [Vec<f64>; 3]) = Default::default();
        let (mut bytes, stamp) = (Vec::new(), self.stamp(&Stamp::default()));
        for first in rows.clone().step_by(BATCH) {
            let batch = first..(first + BATCH).min(rows.end);
            let range = 3 * batch.start..3 * batch.end;
            let chosen = Fields::VECTORS.into_iter().enumerate().filter(|(_, one)| self.fields().contains(*one));
            for (i, field) in chosen {
                let Some(values) = vectors[i] else { continue };
                singles[i].clear();
                doubles[i].clear();
                let beyond = if self.encoder.takes_doubles() {
                    values.scale_doubles(range.clone(), factors[i], &mut doubles[i]);
                    values.first_infinite(range.clone(), &doubles[i])
                } else {
                    values.scale(range.clone(), factors[i], &mut singles[i]);
                    values.first_infinite(range.clone(), &singles[i])
                };
                if let Some(at) = beyond {
                    let atom = match numbers {
                        AtomNumbers::From(first) => u64::from(first) + (batch.start + at / 3) as u64,
                        AtomNumbers::Listed(all) => u64::from(all[batch.start + at / 3]),
                    };
                    return Err(infinite(field, atom).with_format(self.format()));
                }
            }
            let within = batch.start - rows.start..batch.end - rows.start;
            let numbers = match numbers {
                AtomNumbers::From(number) => AtomNumbers::From(number + batch.start as u32),
                AtomNumbers::Listed(all) => AtomNumbers::Listed(&all[batch.clone()]),
            };
            let rows = BlockView {
                n_selected: batch.len(),
                frames: &[0],
                positions: &singles[0],
                velocities: &singles[1],
                forces: &singles[2],
                doubles: doubles.each_ref().map(Vec::as_slice),
                stamps: &[stamp],
            };
            for (plane, (&width, out)) in self.widths.iter().zip(&mut *out).enumerate() {
                bytes.clear();
                self.encoder
                    .encode_atoms(&SomeAtoms { rows, numbers }, plane, &mut bytes)
                    .map_err(|error| error.with_format(self.format()))?;
                out[width * within.start..width * within.end].copy_from_slice(&bytes);
            }
        }
        Ok(())
    }

    fn check(
        &self,
        vectors: [Option<Values<'_>>; 3],
        rows: &Range<usize>,
        numbers: AtomNumbers<'_>,
        out: &[&mut [u8]],
    ) -> Result<()> {
        let invalid = |what: String| Err(Error::new(ErrorKind::InvalidArgument, what).with_format(self.format()));
        for (field, values) in Fields::VECTORS.into_iter().zip(vectors).filter(|(one, _)| self.fields().contains(*one))
        {
            let names = field.names().join(", ");
            match values {
                None => return invalid(format!("the frame lacks {names}, which the file holds")),
                Some(values) if values.len() < 3 * rows.end => {
                    return invalid(format!(
                        "values of {names}, expected {} or more, found {}",
                        3 * rows.end,
                        values.len()
                    ));
                }
                Some(_) => {}
            }
        }
        let beyond = match numbers {
            AtomNumbers::From(first) => {
                let end = u64::from(first) + rows.end as u64;
                Some(end).filter(|&end| !rows.is_empty() && end > u64::from(self.n_atoms)).map(|end| end - 1)
            }
            AtomNumbers::Listed(all) => {
                let Some(listed) = all.get(rows.clone()) else {
                    return invalid(format!("numbers of atoms, expected {} or more, found {}", rows.end, all.len()));
                };
                listed.iter().find(|&&atom| atom >= self.n_atoms).map(|&atom| u64::from(atom))
            }
        };
        if let Some(atom) = beyond {
            return invalid(format!("number of an atom, expected less than {}, found {atom}", self.n_atoms));
        }
        if out.len() != self.widths.len() {
            let (expected, found) = (self.widths.len(), out.len());
            return invalid(format!("arrays of bytes, expected {expected}, one a plane, found {found}"));
        }
        for (width, out) in self.widths.iter().zip(out) {
            let (n, expected) = (rows.len(), rows.len() * width);
            if out.len() != expected {
                return invalid(format!("bytes of {n} atoms in a plane, expected {expected}, found {}", out.len()));
            }
        }
        Ok(())
    }
}
