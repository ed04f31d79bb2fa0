//! Positions that are made in the memory of each process from a seed and the number of the frame: a control without I/O.
//!
//! A file of this format is a head of 64 bytes and holds no positions. All workers of a process share the positions,
//! which are made when the file is opened, and kernels read them in place.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::scan::UniformFrames;
use super::{Arrangement, Decoded, Decoder, Format, FormatInfo, Header, Request, Scratch, Segment, Wanted};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{BlockMut, Fields, Real, Scales, Stamp, VectorsMut};
use crate::index::{Index, Spacing, UniformIndex};
use crate::source::{Extent, Source};

const NAME: &str = "made";
const MAGIC: &[u8; 16] = b"KINEMA POSITIONS";
/// Bytes of a file.
const HEAD: usize = 64;
/// Edge of the cube that atoms lie in, and largest shift of an atom from frame to frame along an axis, angstrom.
const EDGE: f32 = 30.0;
const SHIFT: f32 = 0.5;

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

/// Positions to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Making {
    /// Decides all positions, with the number of the frame.
    pub seed: u64,
    /// Number of atoms.
    pub n_atoms: u32,
    /// Number of frames.
    pub n_frames: u64,
    /// Frames that are kept in memory: frame `i` is frame `i % kept`.
    pub kept: u64,
}

impl Making {
    /// # Errors
    /// `InvalidArgument` unless there are atoms and frames, of which some are kept.
    fn check(self) -> Result<Self> {
        if self.n_atoms == 0 || self.n_frames == 0 || self.kept == 0 || self.kept > self.n_frames {
            let what = format!(
                "positions are made of at least one atom and frame, of which some are kept, found {} atoms, {} frames, \
                 {} kept",
                self.n_atoms, self.n_frames, self.kept
            );
            return Err(Error::new(ErrorKind::InvalidArgument, what).with_format(NAME));
        }
        Ok(self)
    }

    /// The file that stands for these positions.
    ///
    /// # Errors
    /// `InvalidArgument` unless there are atoms and frames, of which some are kept.
    pub fn file(self) -> Result<[u8; HEAD]> {
        self.check()?;
        let mut bytes = [0; HEAD];
        bytes[..16].copy_from_slice(MAGIC);
        let numbers = [self.seed, u64::from(self.n_atoms), self.n_frames, self.kept];
        for (place, number) in bytes[16..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        Ok(bytes)
    }

    fn read(source: &dyn Source) -> Result<Self> {
        let mut bytes = [0; HEAD];
        source.read_exact_at(0, &mut bytes)?;
        let number = |place: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[16 + 8 * place..24 + 8 * place]);
            u64::from_le_bytes(number)
        };
        let n_atoms = u32::try_from(number(1)).unwrap_or(0);
        Self { seed: number(0), n_atoms, n_frames: number(2), kept: number(3) }.check().map_err(|error| {
            Error::new(ErrorKind::Corrupt, error.to_string()).with_format(NAME).with_path(source.path())
        })
    }
}

/// A number from 0 to 1 for each counter.
fn uniform(counter: u64) -> f32 {
    // the finalizer of MurmurHash3 with the constants of SplitMix64
    let mut bits = counter.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((bits ^ (bits >> 31)) >> 40) as f32 / (1 << 24) as f32
}

/// Positions in memory.
#[derive(Debug)]
pub struct MadePositions {
    making: Making,
    /// `kept` rows.
    rows: Vec<f32>,
}

/// All that the process holds: files of the same head share one.
static HELD: Mutex<Vec<Weak<MadePositions>>> = Mutex::new(Vec::new());

impl MadePositions {
    /// The positions, which are made unless the process holds them.
    ///
    /// # Errors
    /// `MemoryLimit` if the system does not have the memory.
    fn get(making: Making) -> Result<Arc<Self>> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|one| one.strong_count() > 0);
        if let Some(found) = held.iter().filter_map(Weak::upgrade).find(|one| one.making == making) {
            return Ok(found);
        }
        let made = Arc::new(Self::new(making)?);
        held.push(Arc::downgrade(&made));
        Ok(made)
    }

    fn new(making: Making) -> Result<Self> {
        let width = 3 * making.n_atoms as usize;
        let room = usize::try_from(making.kept).ok().and_then(|kept| kept.checked_mul(width));
        let mut rows = Vec::new();
        room.and_then(|room| rows.try_reserve_exact(room).ok()).ok_or_else(|| {
            let what = format!("the system has no memory for {} frames of {} atoms", making.kept, making.n_atoms);
            Error::new(ErrorKind::MemoryLimit, what).with_format(NAME)
        })?;
        for frame in 0..making.kept {
            let (places, shifts) = (making.seed << 40, making.seed.wrapping_add(1 + frame) << 40);
            rows.extend((0..width as u64).map(|number| {
                EDGE * (uniform(places ^ number) - 0.5) + SHIFT * (2.0 * uniform(!(shifts ^ number)) - 1.0)
            }));
        }
        Ok(Self { making, rows })
    }

    /// How many of these frames, from the first on, lie one after the other in memory.
    pub fn neighbours(&self, frames: impl IntoIterator<Item = u64>) -> u64 {
        let mut expected = None;
        let is_next = |frame: &u64| {
            let row = *frame % self.making.kept;
            let next = expected.is_none_or(|expected| expected == row);
            expected = Some(row + 1);
            next
        };
        frames.into_iter().take_while(is_next).count() as u64
    }

    /// The positions of some frames that lie one after the other.
    pub fn rows(&self, first_frame: u64, n_frames: usize) -> &[f32] {
        let width = 3 * self.making.n_atoms as usize;
        let first = (first_frame % self.making.kept) as usize;
        &self.rows[first * width..(first + n_frames) * width]
    }
}

/// The format of positions that are made in memory.
#[derive(Debug, Clone, Copy)]
pub struct Made;

impl Format for Made {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn sniff(&self, head: &[u8]) -> bool {
        head.starts_with(MAGIC)
    }

    fn open(&self, source: &dyn Source) -> Result<Arc<dyn Decoder>> {
        let making = Making::read(source)?;
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
        let n_frames = self.made.making.n_frames;
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
        *out.stamp(row)? = stamp(one.frame);
        Ok(Decoded::Done)
    }
}

fn put<R: Real>(row: &mut [R], places: impl Iterator<Item = [f32; 3]>, factor: f64) {
    for (to, place) in row.as_chunks_mut::<3>().0.iter_mut().zip(places) {
        *to = place.map(|value| R::scaled_f32(value, factor));
    }
}

/// Step and time (ps) of a frame are its number.
pub fn stamp(frame: u64) -> Stamp {
    Stamp { step: frame as i64, time: frame as f64, present: Fields::POSITIONS, ..Stamp::default() }
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
        let bytes = making.file().unwrap();
        assert!(Made.sniff(&bytes));
        let (one, other) = (opened(&bytes).unwrap(), opened(&bytes).unwrap());
        let (one, other) = (one.made_positions().unwrap(), other.made_positions().unwrap());
        assert!(std::ptr::eq(one, other));
        assert_eq!(one.rows(3, 1), one.rows(11, 1));
        assert_ne!(one.rows(3, 1), one.rows(4, 1));
        assert!(one.rows(0, 8).iter().all(|value| value.abs() <= EDGE / 2.0 + SHIFT));
        // frame 8 is frame 0 again
        assert_eq!(one.neighbours(5..20), 3);
        assert_eq!(one.neighbours([0, 2, 4]), 1);
        let further = Making { seed: 8, ..making }.file().unwrap();
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
            assert_eq!(wrong.file().unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        let mut bytes = making.file().unwrap();
        bytes[24] = 0;
        assert_eq!(opened(&bytes).err().map(|error| error.kind()), Some(ErrorKind::Corrupt));
        bytes[24] = 2;
        bytes[47] = 1;
        bytes[39] = 1;
        assert_eq!(opened(&bytes).err().map(|error| error.kind()), Some(ErrorKind::MemoryLimit));
    }
}
