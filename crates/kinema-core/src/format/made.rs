//! Positions that are made in the memory of each process from a seed and the number of the frame: a control without I/O.
//!
//! A file of this format is a head of 64 bytes and holds no positions. All workers of a process share the positions,
//! which are made when the file is opened, and kernels read them in place.

use std::sync::Arc;

use super::scan::UniformFrames;
use super::{Arrangement, Decoded, Decoder, Format, FormatInfo, Header, Request, Scratch, Segment, Wanted};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{BlockMut, Fields, MadePositions, Making, Real, Scales, VectorsMut};
use crate::index::{Index, Spacing, UniformIndex};
use crate::source::{Extent, Source};

const NAME: &str = "made";
const MAGIC: &[u8; 16] = b"KINEMA POSITIONS";
/// Bytes of a file.
const HEAD: usize = 64;

static INFO: FormatInfo = FormatInfo {
    name: NAME,
    extensions: &[],
    file_names: &[],
    description: "positions that are made in memory, for scaling experiments without I/O",
    reads: true,
    writes: false,
    encodes: false,
    places_atoms: false,
    fields: Fields::POSITIONS.union(Fields::STEP).union(Fields::TIME),
    length_unit: "angstrom",
    time_unit: "ps",
    scales: Scales::NATIVE,
    reference: "docs/accounting.md",
};

/// The file that stands for these positions.
///
/// # Errors
/// `InvalidArgument` unless there are atoms and frames, of which some are kept.
pub fn file_of(making: Making) -> Result<[u8; HEAD]> {
    making.check().map_err(|error| error.with_format(NAME))?;
    let mut bytes = [0; HEAD];
    bytes[..16].copy_from_slice(MAGIC);
    let numbers = [making.seed, u64::from(making.n_atoms), making.n_frames, making.kept];
    for (place, number) in bytes[16..].chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    Ok(bytes)
}

fn read(source: &dyn Source) -> Result<Making> {
    let mut bytes = [0; HEAD];
    source.read_exact_at(0, &mut bytes)?;
    if !bytes.starts_with(MAGIC) {
        let what = "not positions that are made in memory: the file begins otherwise";
        return Err(Error::new(ErrorKind::Corrupt, what).with_format(NAME));
    }
    let number = |place: usize| {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[16 + 8 * place..24 + 8 * place]);
        u64::from_le_bytes(number)
    };
    let n_atoms = u32::try_from(number(1)).unwrap_or(0);
    let making = Making { seed: number(0), n_atoms, n_frames: number(2), kept: number(3) };
    making.check().map_err(|error| Error::new(ErrorKind::Corrupt, error.to_string()).with_format(NAME))
}

/// The format of positions that are made in memory.
#[derive(Debug, Clone, Copy)]
pub struct Made;

impl Format for Made {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    /// Never: the caller names the format.
    fn sniff(&self, _: &[u8]) -> bool {
        false
    }

    fn open(&self, source: &dyn Source) -> Result<Arc<dyn Decoder>> {
        let making = read(source)?;
        let header = Header {
            n_atoms: making.n_atoms,
            fields: INFO.fields,
            remarks: Vec::new(),
            variant: format!("seed {}, {} frames in memory", making.seed, making.kept),
            warnings: Vec::new(),
        };
        Ok(Arc::new(MadeDecoder { header, made: MadePositions::get(making)? }))
    }
}

struct MadeDecoder {
    header: Header,
    made: Arc<MadePositions>,
}

impl UniformFrames for MadeDecoder {
    fn name(&self) -> &'static str {
        NAME
    }

    fn places(&self, source: &dyn Source) -> Result<(UniformIndex, Option<Error>)> {
        let first = Extent { offset: source.len()?, len: 0 };
        let spacing = Some(Spacing { first_step: 0, steps: 1, time: Some(1.0) });
        let n_frames = self.made.making().n_frames;
        Ok((UniformIndex { n_frames, first, stride: 0, spacing, steps: None, times: None }, None))
    }
}

impl Decoder for MadeDecoder {
    fn header(&self) -> &Header {
        &self.header
    }

    fn arrangement(&self) -> Arrangement<'_> {
        Arrangement::Uniform(self)
    }

    fn made_positions(&self) -> Option<&MadePositions> {
        Some(&self.made)
    }

    fn segments(&self, index: &Index, wanted: &[Wanted], _: &Request, segments: &mut Vec<Segment>) -> Result<()> {
        for (number, one) in (0_u32..).zip(wanted) {
            one.check_indexed(index, NAME)?;
            let extent = index.extent(one.frame);
            segments.push(Segment {
                wanted: number..number + 1,
                atoms: 0..self.header.n_atoms,
                part: 0,
                extent,
                whole: extent,
            });
        }
        Ok(())
    }

    fn decode(
        &self,
        segment: &Segment,
        _: &[u8],
        wanted: &[Wanted],
        request: &Request,
        out: &mut BlockMut<'_>,
        _: &mut Scratch,
    ) -> Result<Decoded> {
        let one = segment.first_wanted(wanted, NAME)?;
        let row = one.row as usize;
        let places = self.made.rows(one.frame, 1).as_chunks::<3>().0;
        let factor = request.scales.length;
        let chosen = || request.atoms.iter().map(|atom| places[atom as usize]);
        let len = 3 * out.n_selected;
        match &mut out.vectors[0] {
            VectorsMut::Absent => {}
            VectorsMut::F32(rows) => put(rows.row(row, len)?, chosen(), factor),
            VectorsMut::F64(rows) => put(rows.row(row, len)?, chosen(), factor),
        }
        *out.stamp(row)? = MadePositions::stamp(one.frame);
        Ok(Decoded::Done)
    }
}

fn put<R: Real>(row: &mut [R], places: impl Iterator<Item = [f32; 3]>, factor: f64) {
    for (to, place) in row.as_chunks_mut::<3>().0.iter_mut().zip(places) {
        *to = place.map(|value| R::scaled_f32(value, factor));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;

    fn opened(bytes: &[u8]) -> Result<Arc<dyn Decoder>> {
        Made.open(&MemorySource::new("none", bytes.to_vec()))
    }

    #[test]
    fn files_of_one_head_share_their_positions_in_memory() {
        let making = Making { seed: 7, n_atoms: 5, n_frames: 20, kept: 8 };
        let bytes = file_of(making).unwrap();
        assert_eq!(opened(&[0; HEAD]).err().map(|error| error.kind()), Some(ErrorKind::Corrupt));
        let (one, other) = (opened(&bytes).unwrap(), opened(&bytes).unwrap());
        let (one, other) = (one.made_positions().unwrap(), other.made_positions().unwrap());
        assert!(std::ptr::eq(one, other));
        assert_eq!(one.rows(3, 1), one.rows(11, 1));
        assert_ne!(one.rows(3, 1), one.rows(4, 1));
        assert!(one.rows(0, 8).iter().all(|value| value.abs() <= 15.5));
        // frame 8 is frame 0 again
        assert_eq!(one.neighbours(5..20), 3);
        assert_eq!(one.neighbours([0, 2, 4]), 1);
        let further = file_of(Making { seed: 8, ..making }).unwrap();
        assert_ne!(opened(&further).unwrap().made_positions().unwrap().rows(3, 1), one.rows(3, 1));
    }

    #[test]
    fn heads_without_atoms_or_frames_are_refused() {
        let making = Making { seed: 0, n_atoms: 2, n_frames: 3, kept: 3 };
        for wrong in [
            Making { n_atoms: 0, ..making },
            Making { n_frames: 0, ..making },
            Making { kept: 0, ..making },
            Making { kept: 4, ..making },
        ] {
            assert_eq!(file_of(wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        let mut bytes = file_of(making).unwrap();
        bytes[24] = 0;
        assert_eq!(opened(&bytes).err().map(|error| error.kind()), Some(ErrorKind::Corrupt));
        bytes[24] = 2;
        bytes[47] = 1;
        bytes[39] = 1;
        assert_eq!(opened(&bytes).err().map(|error| error.kind()), Some(ErrorKind::MemoryLimit));
    }
}
