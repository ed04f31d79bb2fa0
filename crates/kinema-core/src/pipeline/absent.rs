//! Fields that frames lack, in formats where each frame says what it has. By the rule of the trajectory, this is an
//! error, or the field gets NaN or the values of the last earlier frame that has it.

use super::reader::Reader;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Wanted;
use crate::frame::{BlockMut, Fields, RowsMut, Stamp, VectorsMut};
use crate::source::Source;
use crate::trajectory::{Absent, Part};

/// Values of one field as they hold at a frame.
#[derive(Default)]
pub(super) struct Held {
    /// Part and frame.
    at: Option<(usize, u64)>,
    /// Scaled values of all selected atoms; empty if no frame up to this one has the field.
    values: Vec<f64>,
}

impl Reader<'_> {
    /// Fills the rows of some frames of a part, ascending, with the values that the rule gives to fields that they
    /// lack.
    pub(super) fn settle_absent(
        &mut self,
        number: usize,
        part: &Part,
        source: &dyn Source,
        batch: &[Wanted],
        out: &mut BlockMut<'_>,
    ) -> Result<()> {
        for one in batch {
            for (i, field) in Fields::VECTORS.into_iter().enumerate() {
                let present = out.stamp(one.row as usize)?.present;
                if !self.request.fields.contains(field) || present.contains(field) {
                    continue;
                }
                match self.absent {
                    Absent::Nan => {}
                    Absent::Error => return Err(lacks(field).with_frame(one.frame)),
                    Absent::Hold => {
                        self.hold(i, field, number, part, source, one.frame)?;
                        if !self.held[i].values.is_empty() {
                            put(&self.held[i].values, &mut out.vectors[i], one.row as usize)?;
                            out.stamp(one.row as usize)?.present = present | field;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Finds the values of a field that hold at a frame without it.
    fn hold(
        &mut self,
        i: usize,
        field: Fields,
        number: usize,
        part: &Part,
        source: &dyn Source,
        frame: u64,
    ) -> Result<()> {
        let known = self.held[i].at.filter(|&(part, at)| part == number && at <= frame);
        let mut held = std::mem::take(&mut self.held[i]);
        let mut outcome = Ok(());
        if known.is_none() {
            held.values.clear();
        }
        for earlier in (known.map_or(0, |(_, at)| at + 1)..frame).rev() {
            match self.read_field(i, field, part, source, earlier) {
                Ok(Some(values)) => held.values = values,
                Ok(None) => continue,
                Err(error) => outcome = Err(error),
            }
            break;
        }
        held.at = Some((number, frame));
        self.held[i] = held;
        outcome
    }

    /// The values of one field of one frame; `None` if the frame lacks the field.
    fn read_field(
        &mut self,
        i: usize,
        field: Fields,
        part: &Part,
        source: &dyn Source,
        frame: u64,
    ) -> Result<Option<Vec<f64>>> {
        let n_selected = self.request.atoms.len();
        let (mut values, mut stamp) = (vec![0.0; 3 * n_selected], [Stamp::default()]);
        let mut vectors: [VectorsMut<'_>; 3] = Default::default();
        vectors[i] = VectorsMut::F64(RowsMut::Adjacent(&mut values, 3 * n_selected));
        let mut one = BlockMut { n_selected, vectors, stamps: RowsMut::Adjacent(&mut stamp, 1) };
        let wanted = std::mem::replace(&mut self.buffers.wanted, vec![Wanted { frame, row: 0 }]);
        let fields = std::mem::replace(&mut self.request.fields, field);
        let outcome = self.read_batch(part, source, &mut one);
        self.request.fields = fields;
        self.buffers.wanted = wanted;
        outcome?;
        Ok(stamp[0].present.contains(field).then_some(values))
    }
}

/// The error for a frame that lacks requested fields.
pub(super) fn lacks(fields: Fields) -> Error {
    let names = fields.names().join(" and ");
    let what = format!("the frame has no {names}, which are asked for; choose frames that have them (frames=, step=)");
    Error::new(ErrorKind::InvalidArgument, what)
}

fn put(values: &[f64], vectors: &mut VectorsMut<'_>, row: usize) -> Result<()> {
    match vectors {
        VectorsMut::Absent => {}
        VectorsMut::F64(rows) => rows.row(row, values.len())?.copy_from_slice(values),
        VectorsMut::F32(rows) => {
            rows.row(row, values.len())?.iter_mut().zip(values).for_each(|(to, &from)| *to = from as f32);
        }
    }
    Ok(())
}
