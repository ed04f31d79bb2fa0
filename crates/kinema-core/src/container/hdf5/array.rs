//! A numeric HDF5 data set: its chunk grid, addresses and filters, and the conversion of its numbers into rows of the caller.
//!
//! It reads nothing itself: libhdf5 (in Python) has described the chunks, a source has read the bytes.

use std::ops::Range;

use super::columns::{Columns, Places};
use super::filters::{FilterScratch, Pipeline, StoredFilter};
use super::number::{Kind, Number, with_loader};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::Real;
use crate::source::{Extent, Gather, MultiFileSource, Source};

/// The address of a chunk that was never written: it reads as the fill value.
pub const NOT_STORED: u64 = u64::MAX;

/// Pieces of a large chunk that [`Array::samples`] names.
const SAMPLES: u64 = 16;

/// Stored bytes, and chunks, that [`Array::read_row`] reads at a time.
const READ_AT_ONCE: (u64, u64) = (1 << 20, 1 << 12);

/// Bytes that filters may add to a chunk, small as it may be.
const MOST_ADDED: u64 = 1 << 16;

/// Description of a data set, as libhdf5 has it.
#[derive(Debug, Clone)]
pub struct ArrayDescription {
    /// Path of the data set in the file, for messages.
    pub name: String,
    /// Which of the part's files it is in.
    pub file: u32,
    /// Frames, units (atoms, or numbers if a data set is frames x 3N), components of a unit.
    pub shape: [u64; 3],
    /// Type of the stored numbers.
    pub number: Number,
    /// Shape of a chunk; `None` for contiguous and compact data sets.
    pub chunks: Option<[u64; 3]>,
    /// Byte address of each chunk of the whole grid, row-major; one for contiguous data sets.
    pub addresses: Vec<u64>,
    /// Stored bytes of each.
    pub sizes: Vec<u64>,
    /// Which filters were skipped for each.
    pub masks: Vec<u32>,
    /// In the order of writing.
    pub filters: Vec<StoredFilter>,
    /// Chunks that stick out of the data set are stored without filters.
    pub partial_chunks_unfiltered: bool,
    /// One number as the file has it, or nothing for zero.
    pub fill: Vec<u8>,
    /// The data of a compact data set.
    pub inline: Option<Vec<u8>>,
}

/// A data set, checked: every chunk has the bytes that its shape needs.
#[derive(Debug)]
pub struct Array {
    name: String,
    pub(super) shape: [u64; 3],
    pub(super) number: Number,
    pub(super) chunk: [u64; 3],
    pub(super) grid: [u64; 3],
    addresses: Vec<u64>,
    sizes: Vec<u64>,
    masks: Vec<u32>,
    pipeline: Pipeline,
    partial_chunks_unfiltered: bool,
    pub(super) fill: Vec<u8>,
    inline: Option<Vec<u8>>,
}

/// One chunk, clipped to the data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub(super) number: usize,
    /// Frames in it.
    pub rows: Range<u64>,
    /// Units in it.
    pub units: Range<u64>,
    /// Components in it.
    pub components: Range<u64>,
}

/// How the bytes of a chunk are obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// Read all of them and decode.
    Filtered(Extent),
    /// Any of them can be read alone; this is the address of the first.
    Plain(u64),
    /// They are in the description.
    Inline,
    /// They read as the fill value.
    Nowhere,
}

impl Array {
    /// Checks a description.
    ///
    /// # Errors
    /// `Unsupported` for a filter that is not known here; `Corrupt` for sizes and addresses that contradict the shape.
    pub fn new(description: ArrayDescription) -> Result<Self> {
        let ArrayDescription { name, shape, number, .. } = description;
        let wrong = |what: &str| Error::new(ErrorKind::Corrupt, format!("data set {name}: {what}"));
        let chunk = description.chunks.unwrap_or(shape.map(|n| n.max(1)));
        if chunk.contains(&0) {
            return Err(wrong("a chunk has no elements"));
        }
        let size = number.size() as u64;
        let bytes = chunk.iter().try_fold(size, |all, &n| all.checked_mul(n)).filter(|&bytes| bytes < 1 << 56);
        let bytes = bytes.ok_or_else(|| wrong("a chunk is larger than any file"))?;
        let grid = [0, 1, 2].map(|axis| shape[axis].div_ceil(chunk[axis]));
        let n_chunks = grid.iter().try_fold(1_u64, |all, &n| all.checked_mul(n)).unwrap_or(u64::MAX);
        if !description.filters.is_empty() && bytes > u64::from(u32::MAX) {
            return Err(wrong("a compressed chunk is larger than 4 GiB"));
        }
        let pipeline = Pipeline::new(&description.filters, size as usize, bytes as usize)
            .map_err(|error| Error::new(error.kind(), format!("data set {name}: {}", error.what())))?;
        let fill = if description.fill.is_empty() { vec![0; size as usize] } else { description.fill };
        if fill.len() as u64 != size {
            return Err(wrong("the fill value has another size than the elements"));
        }
        let ArrayDescription { mut addresses, mut sizes, mut masks, .. } = description;
        match &description.inline {
            Some(inline) if n_chunks > 1 || inline.len() as u64 != bytes && n_chunks > 0 => {
                return Err(wrong("the compact data have another size than their shape"));
            }
            Some(_) => {
                addresses.clear();
                sizes.clear();
                masks.clear();
            }
            None => {
                let lengths = [addresses.len(), sizes.len(), masks.len()];
                if lengths.iter().any(|&len| len as u64 != n_chunks) {
                    return Err(wrong("the list of chunks does not fit the shape"));
                }
                let outside = |(&at, &len): (&u64, &u64)| {
                    at != NOT_STORED && at.checked_add(len).is_none_or(|end| end >= MultiFileSource::LARGEST)
                };
                if addresses.iter().zip(&sizes).any(outside) || description.file >= MultiFileSource::MOST_FILES {
                    return Err(wrong("a chunk lies beyond any file"));
                }
                let stored = addresses.iter_mut().filter(|at| **at != NOT_STORED);
                stored.for_each(|at| *at = MultiFileSource::address(description.file, *at));
            }
        }
        let array = Self {
            name,
            shape,
            number,
            chunk,
            grid,
            addresses,
            sizes,
            masks,
            pipeline,
            partial_chunks_unfiltered: description.partial_chunks_unfiltered,
            fill,
            inline: description.inline,
        };
        array.check_sizes(bytes)?;
        Ok(array)
    }

    /// Checks the stored sizes of all chunks, which have `bytes` when they are decoded.
    fn check_sizes(&self, bytes: u64) -> Result<()> {
        for (number, (&address, &found)) in self.addresses.iter().zip(&self.sizes).enumerate() {
            let what = || format!("data set {}: stored bytes of chunk {number}", self.name);
            if address == NOT_STORED {
                continue;
            }
            if !self.is_filtered(&self.chunk(number)) {
                if found < bytes {
                    return Err(Error::corrupt(&what(), bytes, found));
                }
            } else if found > 4 * bytes + MOST_ADDED {
                return Err(Error::corrupt(&what(), format!("at most {}", 4 * bytes + MOST_ADDED), found));
            }
        }
        Ok(())
    }

    /// Frames, units, components.
    pub fn shape(&self) -> [u64; 3] {
        self.shape
    }
    /// Whether numbers are of a kind that float32 does not hold.
    pub fn is_wide(&self) -> bool {
        matches!(self.number.kind, Kind::F64 | Kind::I32 | Kind::I64 | Kind::U32 | Kind::U64)
    }

    /// Path in the file.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Shape of a chunk.
    pub fn chunk_shape(&self) -> [u64; 3] {
        self.chunk
    }
    /// Whether chunks must be decoded whole.
    pub fn filtered(&self) -> bool {
        !self.pipeline.is_empty() && self.inline.is_none()
    }
    /// Bytes of a decoded chunk.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk.iter().product::<u64>() * self.number.size() as u64
    }
    /// Bytes of working memory that decoding takes: for the largest chunk as it is stored, and for a decoded one.
    pub fn decoding_bytes(&self) -> u64 {
        self.chunk_bytes() + self.largest_stored()
    }
    /// Bytes of the longest stored chunk.
    pub fn largest_stored(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }
    /// Bytes between a frame and the next within a chunk.
    pub fn row_bytes(&self) -> u64 {
        self.chunk[1] * self.unit_bytes()
    }
    /// Whether the rows of a chunk are float32 values one after the other, as they are in memory.
    pub fn is_dense_f32(&self) -> bool {
        let f32 = Number { kind: Kind::F32, big_endian: cfg!(target_endian = "big") };
        self.number == f32 && self.chunk[1..] == self.shape[1..] && !self.filtered()
    }
    /// Bytes between a unit and the next within a chunk.
    pub fn unit_bytes(&self) -> u64 {
        self.chunk[2] * self.number.size() as u64
    }

    /// Bytes here and there, in the order of the frames: bytes of the first chunk of each run of frames that shares
    /// chunks; or, if few chunks hold all frames and can be read in parts, bytes of pieces of those chunks.
    pub fn samples(&self) -> Vec<Extent> {
        let step = (self.grid[1] * self.grid[2]).max(1) as usize;
        let chunks = self.addresses.iter().zip(&self.sizes).step_by(step).map(|(&offset, &len)| match offset {
            NOT_STORED => Extent::default(),
            _ => Extent { offset, len },
        });
        if self.filtered() || self.grid[0] >= SAMPLES {
            return chunks.collect();
        }
        chunks
            .flat_map(|Extent { offset, len }| {
                let piece = len / SAMPLES;
                (0..SAMPLES).map(move |i| Extent { offset: offset + i * piece, len: piece })
            })
            .collect()
    }

    pub(super) fn chunk(&self, number: usize) -> Chunk {
        let n = number as u64;
        let at = [n / (self.grid[1] * self.grid[2]), n / self.grid[2] % self.grid[1], n % self.grid[2]];
        let range = |axis: usize| {
            let start = at[axis] * self.chunk[axis];
            start..(start + self.chunk[axis]).min(self.shape[axis])
        };
        Chunk { number, rows: range(0), units: range(1), components: range(2) }
    }

    /// The chunk that holds a frame and a unit, the `component_chunk`-th along the components; all must be there.
    pub fn chunk_at(&self, row: u64, unit: u64, component_chunk: u64) -> Chunk {
        let number = (row / self.chunk[0] * self.grid[1] + unit / self.chunk[1]) * self.grid[2] + component_chunk;
        self.chunk(number as usize)
    }

    /// Number of chunks along the components.
    pub fn component_chunks(&self) -> u64 {
        self.grid[2]
    }

    fn is_filtered(&self, chunk: &Chunk) -> bool {
        let whole = |range: &Range<u64>, axis: usize| range.end - range.start == self.chunk[axis];
        let partial = !(whole(&chunk.rows, 0) && whole(&chunk.units, 1) && whole(&chunk.components, 2));
        self.filtered() && !(partial && self.partial_chunks_unfiltered)
    }

    /// Where the bytes of a chunk are.
    pub fn stored(&self, chunk: &Chunk) -> Stored {
        if self.inline.is_some() {
            return Stored::Inline;
        }
        match self.addresses[chunk.number] {
            NOT_STORED => Stored::Nowhere,
            offset if self.is_filtered(chunk) => Stored::Filtered(Extent { offset, len: self.sizes[chunk.number] }),
            offset => Stored::Plain(offset),
        }
    }

    /// Decodes the bytes of a filtered chunk into `out`.
    ///
    /// # Errors
    /// `Corrupt` if a filter contradicts the bytes.
    pub fn decode(&self, chunk: &Chunk, bytes: &[u8], out: &mut Vec<u8>, scratch: &mut FilterScratch) -> Result<()> {
        self.pipeline.decode(bytes, self.masks[chunk.number], out, scratch).map_err(|error| {
            let what = format!("data set {}, chunk {}: {}", self.name, chunk.number, error.what());
            Error::new(error.kind(), what)
        })
    }

    /// Puts the numbers of one frame into `out`: `bytes` begins with unit `first_unit` of that frame.
    ///
    /// `bytes` is `None` for the fill value. Units that the bytes do not reach mean that the caller's sizes are wrong.
    ///
    /// # Errors
    /// `Internal` if `bytes` or `out` are too short.
    pub fn scatter<R: Real>(
        &self,
        chunk: &Chunk,
        bytes: Option<&[u8]>,
        first_unit: u64,
        columns: &Columns<'_>,
        factor: f64,
        out: &mut [R],
    ) -> Result<()> {
        let short = || Error::new(ErrorKind::Internal, "a chunk's bytes or the block are shorter than planned");
        with_loader!(self.number, factor, R, |load| {
            let places = Places { array: self, chunk, first_unit, columns };
            match bytes {
                Some(bytes) => places.copy(bytes, out, load),
                None => {
                    let value = self.fill.as_slice().try_into().ok().map(load).ok_or_else(short)?;
                    places.fill(value, out)
                }
            }
            .ok_or_else(short)
        })
    }

    /// The numbers of an array of one frame and one unit, in the bytes that the file has for them.
    ///
    /// # Errors
    /// `Internal` for other shapes; errors of the source; `Corrupt` if a filter contradicts the bytes.
    pub fn read_row(&self, source: &dyn Source) -> Result<Vec<u8>> {
        if self.shape[..2] != [1, 1] {
            return Err(Error::new(ErrorKind::Internal, format!("data set {} is more than one row", self.name)));
        }
        let (mut row, mut gather) = (Vec::new(), Gather::default());
        let (mut decoded, mut scratch) = (Vec::new(), FilterScratch::default());
        let (bytes, most) = READ_AT_ONCE;
        let at_once = (bytes / self.largest_stored().max(1)).clamp(1, most);
        for first in (0..self.grid[2]).step_by(at_once as usize) {
            let chunks = || (first..self.grid[2].min(first + at_once)).map(|number| self.chunk_at(0, 0, number));
            let length = |chunk: &Chunk| (chunk.components.end - chunk.components.start) as usize * self.number.size();
            let extent = |chunk: &Chunk| match self.stored(chunk) {
                Stored::Filtered(extent) => extent,
                Stored::Plain(offset) => Extent { offset, len: length(chunk) as u64 },
                Stored::Inline | Stored::Nowhere => Extent::default(),
            };
            gather.read(source, chunks().map(|chunk| extent(&chunk)))?;
            for (i, chunk) in chunks().enumerate() {
                match self.stored(&chunk) {
                    Stored::Filtered(_) => {
                        self.decode(&chunk, gather.bytes(i), &mut decoded, &mut scratch)?;
                        row.extend(decoded.iter().take(length(&chunk)));
                    }
                    Stored::Plain(_) => row.extend(gather.bytes(i)),
                    Stored::Inline => row.extend(self.inline().unwrap_or_default()),
                    Stored::Nowhere => row.extend(self.fill.iter().cycle().take(length(&chunk))),
                }
            }
        }
        Ok(row)
    }

    /// The bytes of a compact data set.
    pub fn inline(&self) -> Option<&[u8]> {
        self.inline.as_deref()
    }
}
