//! Frames as changed by the transforms of a trajectory. Decoded frames are changed in the caller's rows if these have
//! all atoms and fields that are needed, otherwise in a buffer.

use super::bound_stack::{BoundStack, Row, Step};
use super::reader::Reader;
use crate::clock::Work;
use crate::error::{Error, Result};
use crate::frame::{Block, BlockMut, Fields, Real, RowsMut, Scales, Stamp, Units, VectorsMut};
use crate::plan::{transform_room, transform_rows};
use crate::reduce::GroupRows;
use crate::selection::AtomSelection;
use crate::trace::activity::TRANSFORM;
use crate::trajectory::{Scanned, Trajectory};

/// Builds the rows of groups of atoms, and holds the vectors of one row.
struct Grouped {
    rows: Box<dyn GroupRows>,
    made: [Vec<f32>; 3],
}

/// The transforms of a trajectory, made ready for one reader.
pub(super) struct Applied {
    stack: BoundStack,
    /// Requested atoms.
    atoms: AtomSelection,
    /// Atoms and fields that must be decoded.
    decoded: (AtomSelection, Fields),
    /// Columns of the requested atoms among the decoded atoms; `None` if both are the same.
    columns: Option<Vec<u32>>,
    /// Set if groups of atoms are requested.
    grouped: Option<Grouped>,
    /// Requested fields.
    asked: Fields,
    /// Most frames in `room`.
    room_rows: usize,
    room: Block,
    /// Frames that transforms must see before the requested frames.
    before: Block,
}

impl Applied {
    /// The transforms of `trajectory`, if any, for these atoms and fields; reuses the state of an earlier reader.
    ///
    /// # Errors
    /// `InvalidArgument` if transforms cannot be applied to these atoms.
    pub fn bind(
        trajectory: &Trajectory,
        scanned: &Scanned,
        atoms: &AtomSelection,
        fields: Fields,
    ) -> Result<Option<Box<Self>>> {
        let stack = trajectory.stack();
        if stack.is_empty() {
            return Ok(None);
        }
        let fits = |known: &Self| known.atoms == *atoms && known.asked == fields;
        if let Some(kept) = trajectory.take_kept(|kept| kept.downcast_ref().is_some_and(fits)) {
            return Ok(kept.downcast().ok());
        }
        let (decoded, all_fields) = stack.united(atoms, fields)?;
        let room_rows = transform_rows(scanned, &decoded, all_fields);
        let grouped = stack.grouping().map(|grouping| grouping.bind(atoms, &decoded)).transpose()?;
        let applied = Self {
            stack: BoundStack::new(stack, &decoded)?,
            atoms: atoms.clone(),
            columns: if grouped.is_some() { None } else { atoms.positions_in(&decoded)? },
            grouped: grouped.map(|rows| Grouped { rows, made: Default::default() }),
            decoded: (decoded, all_fields),
            asked: fields,
            room_rows,
            room: Block::default(),
            before: Block::default(),
        };
        Ok(Some(Box::new(applied)))
    }

    /// Atoms and fields that must be decoded.
    pub fn decoded(&self) -> (AtomSelection, Fields) {
        self.decoded.clone()
    }

    /// Bytes of the buffer that a reader of a trajectory with transforms may take; 0 without transforms.
    ///
    /// # Errors
    /// As [`Applied::bind`].
    pub fn room_bytes(
        trajectory: &Trajectory,
        scanned: &Scanned,
        atoms: &AtomSelection,
        fields: Fields,
    ) -> Result<u64> {
        let stack = trajectory.stack();
        if stack.is_empty() {
            return Ok(0);
        }
        let (decoded, all_fields) = stack.united(atoms, fields)?;
        Ok(transform_room(scanned, &decoded, all_fields, 1 + u64::from(stack.looks_back())))
    }

    /// Same as [`Reader::read`], with the transforms applied.
    ///
    /// # Errors
    /// Errors of [`Reader::read`] and of the transforms, with path, format and frame.
    pub fn read(&mut self, reader: &mut Reader<'_>, frames: &[u64], out: &mut BlockMut<'_>) -> Result<()> {
        let mut order: Vec<usize> = (0..frames.len()).collect();
        if self.stack.looks_back() {
            order.sort_by_key(|&row| frames[row]);
        }
        if self.fits(reader, out) {
            reader.read_stored(frames, out)?;
            self.apply(reader, frames, &order, out)?;
            if reader.units != Units::Public {
                for (row, &frame) in frames.iter().enumerate() {
                    reader.to_units(frame, row, out)?;
                }
                reader.transformed(0);
            }
            return Ok(());
        }
        let mut room = std::mem::take(&mut self.room);
        let mut outcome = Ok(());
        for rows in order.chunks(self.room_rows) {
            outcome = self.read_in_room(reader, frames, rows, &mut room, out);
            if outcome.is_err() {
                break;
            }
        }
        self.room = room;
        outcome
    }

    /// Whether the rows of `out` hold the decoded values, atom by atom, so that they can be changed there.
    fn fits(&self, reader: &Reader<'_>, out: &BlockMut<'_>) -> bool {
        let has = |(vectors, field): (&VectorsMut<'_>, Fields)| match vectors {
            VectorsMut::Absent => !reader.request.fields.contains(field),
            VectorsMut::F32(_) => true,
            VectorsMut::F64(_) => false,
        };
        self.columns.is_none() && self.grouped.is_none() && out.vectors.iter().zip(Fields::VECTORS).all(has)
    }

    fn read_in_room(
        &mut self,
        reader: &mut Reader<'_>,
        frames: &[u64],
        rows: &[usize],
        room: &mut Block,
        out: &mut BlockMut<'_>,
    ) -> Result<()> {
        let n_decoded = reader.request.atoms.len();
        room.reset(rows.iter().map(|&row| frames[row]), n_decoded, reader.request.fields);
        let numbers = std::mem::take(&mut room.frames);
        let order: Vec<usize> = (0..rows.len()).collect();
        let read = reader.read_stored(&numbers, &mut room.as_mut());
        let applied = read.and_then(|()| self.apply(reader, &numbers, &order, &mut room.as_mut()));
        room.frames = numbers;
        applied?;
        for (from, &to) in rows.iter().enumerate() {
            self.put(reader, room, from, out, to)?;
        }
        reader.transformed(rows.len());
        Ok(())
    }

    /// Applies the transforms to decoded rows, in that order.
    fn apply(
        &mut self,
        reader: &mut Reader<'_>,
        frames: &[u64],
        order: &[usize],
        out: &mut BlockMut<'_>,
    ) -> Result<()> {
        for &row in order {
            let step = if self.stack.looks_back() {
                let steps = self.stack.steps(frames[row]);
                let Some((step, before)) = steps.split_last() else { continue };
                self.see(reader, before)?;
                *step
            } else {
                self.stack.step(frames[row])
            };
            self.apply_row(reader, step, row, out)?;
        }
        reader.transformed(frames.len());
        Ok(())
    }

    /// Reads frames that transforms must see, and applies these.
    fn see(&mut self, reader: &mut Reader<'_>, steps: &[Step]) -> Result<()> {
        if steps.is_empty() {
            return Ok(());
        }
        reader.transformed(0);
        let mut before = std::mem::take(&mut self.before);
        for steps in steps.chunks(self.room_rows) {
            before.reset(steps.iter().map(|step| step.frame), reader.request.atoms.len(), reader.request.fields);
            let numbers = std::mem::take(&mut before.frames);
            reader.read_stored(&numbers, &mut before.as_mut())?;
            before.frames = numbers;
            for (row, step) in steps.iter().enumerate() {
                self.apply_row(reader, *step, row, &mut before.as_mut())?;
            }
            reader.transformed(steps.len());
        }
        self.before = before;
        Ok(())
    }

    fn apply_row(&mut self, reader: &Reader<'_>, step: Step, row: usize, out: &mut BlockMut<'_>) -> Result<()> {
        let len = 3 * reader.request.atoms.len();
        let [positions, velocities, forces] = &mut out.vectors;
        let vectors = [single(positions, row, len)?, single(velocities, row, len)?, single(forces, row, len)?];
        let stamp = &mut out.stamps.row(row, 1)?[0];
        // times are those of the reader's units
        let time = stamp.time;
        stamp.time = reader.picoseconds(step.frame, time);
        let applied = self.stack.apply(step, Row { number: step.frame, vectors, stamp });
        stamp.time = time;
        applied.map_err(|error| placed(reader.trajectory, error))
    }

    /// Computes the requested vectors of groups of atoms of a row.
    fn group(&mut self, stamp: &Stamp, vectors: [&[f32]; 3]) -> Result<()> {
        let Some(Grouped { rows, made }) = &mut self.grouped else { return Ok(()) };
        for ((field, row), made) in Fields::VECTORS.into_iter().zip(vectors).zip(made) {
            made.clear();
            if self.asked.contains(field) {
                made.resize(3 * self.atoms.len(), f32::NAN);
                if stamp.present.contains(field) {
                    rows.make(field, row, made)?;
                }
            }
        }
        Ok(())
    }

    /// Copies the requested atoms and fields of a buffered row into one of the caller's rows, in the caller's units.
    fn put(&mut self, reader: &Reader<'_>, room: &Block, from: usize, out: &mut BlockMut<'_>, to: usize) -> Result<()> {
        let scales = reader.scales_of_units(room.frames[from]);
        let len = 3 * reader.request.atoms.len();
        let factors = [scales.length, scales.velocity, scales.force];
        let decoded = [&room.positions, &room.velocities, &room.forces];
        let mut rows =
            decoded.map(|values| values.get(from * len..).and_then(|values| values.get(..len)).unwrap_or_default());
        let frame = room.frames[from];
        self.group(&room.stamps[from], rows).map_err(|error| placed(reader.trajectory, error.with_frame(frame)))?;
        if let Some(Grouped { made, .. }) = &self.grouped {
            rows = [&made[0], &made[1], &made[2]];
        }
        let n_asked = self.atoms.len();
        for ((row, factor), vectors) in rows.into_iter().zip(factors).zip(&mut out.vectors) {
            match vectors {
                VectorsMut::Absent => {}
                VectorsMut::F32(rows) => {
                    let out = rows.row(to, 3 * n_asked)?;
                    self.put_row(row, |value| value, out);
                    divide(out, factor);
                }
                VectorsMut::F64(rows) => {
                    self.put_row(row, |value| f64::from(value) / factor, rows.row(to, 3 * n_asked)?)
                }
            }
        }
        let stamp = room.stamps[from];
        let cell = stamp.cell.map(|edge| edge.map(|value| value / scales.length));
        let unasked = Fields::VECTORS.into_iter().filter(|&field| !self.asked.contains(field));
        let present = unasked.fold(stamp.present, |present, field| present - field);
        *out.stamp(to)? = Stamp { cell, present, ..stamp };
        Ok(())
    }

    fn put_row<R: Real>(&self, row: &[f32], value: impl Fn(f32) -> R + Copy, out: &mut [R]) {
        let atoms = row.as_chunks::<3>().0;
        let places = out.as_chunks_mut::<3>().0;
        match &self.columns {
            None => places.iter_mut().zip(atoms).for_each(|(place, atom)| *place = atom.map(value)),
            Some(columns) => {
                places.iter_mut().zip(columns).for_each(|(place, &column)| *place = atoms[column as usize].map(value));
            }
        }
    }
}

/// Divides values, each rounded once.
fn divide(row: &mut [f32], by: f64) {
    if by == 1.0 {
        return;
    }
    let narrow = by as f32;
    if f64::from(narrow) == by {
        // the same bits: a quotient of two float32 that is rounded to float64 first is rounded the same way
        row.iter_mut().for_each(|value| *value /= narrow);
    } else {
        row.iter_mut().for_each(|value| *value = (f64::from(*value) / by) as f32);
    }
}

/// The vectors of a row; empty if they are not read.
fn single<'b>(vectors: &'b mut VectorsMut<'_>, row: usize, len: usize) -> Result<&'b mut [f32]> {
    match vectors {
        VectorsMut::F32(rows) => RowsMut::row(rows, row, len),
        VectorsMut::Absent | VectorsMut::F64(_) => Ok(&mut []),
    }
}

impl Reader<'_> {
    /// Time until now went into transforms.
    fn transformed(&mut self, frames: usize) {
        let lap = self.meter().watch.lap(&TRANSFORM, Work::frames(frames as u64));
        self.transforming += lap;
    }

    /// Converts a row of a frame of the trajectory from angstrom and ps to the reader's units.
    fn to_units(&self, frame: u64, row: usize, out: &mut BlockMut<'_>) -> Result<()> {
        let scales = self.scales_of_units(frame);
        let len = 3 * self.request.atoms.len();
        for (vectors, factor) in out.vectors.iter_mut().zip([scales.length, scales.velocity, scales.force]) {
            divide(single(vectors, row, len)?, factor);
        }
        let stamp = out.stamp(row)?;
        stamp.cell = stamp.cell.map(|edge| edge.map(|value| value / scales.length));
        Ok(())
    }

    /// A time in the reader's units, of that frame of the trajectory, in ps.
    fn picoseconds(&self, frame: u64, time: f64) -> f64 {
        match self.units {
            Units::Public => time,
            Units::Native | Units::Of(_) => time * self.scales_of_units(frame).time,
        }
    }

    /// Factors from the reader's units to angstrom and ps, for a frame of the trajectory.
    fn scales_of_units(&self, frame: u64) -> Scales {
        match self.units {
            Units::Public => Scales::NATIVE,
            Units::Native => self.scanned.parts[self.scanned.concatenation.span_of(frame).part].scales,
            Units::Of(target) => target,
        }
    }
}

/// Adds the file and the frame in it to the error of a kernel or transform, whose frame counts in the trajectory.
pub(super) fn placed(trajectory: &Trajectory, error: Error) -> Error {
    let (Some(frame), Some(scanned)) = (error.frame(), trajectory.scanned()) else { return error };
    let span = scanned.concatenation.span_of(frame);
    let part = &scanned.parts[span.part];
    error
        .moved_to_frame(span.kept.start + (frame - span.first_frame))
        .with_format(part.format.info().name)
        .with_path(&part.path)
}
