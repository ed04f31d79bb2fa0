//! HDF5 filters: decoding and encoding of chunks, one module a filter.
//!
//! A chunk is a run of bytes here; files and arrays are unknown.

mod bitshuffle;
mod creation;
mod deflate;
mod fletcher32;
mod lz4;
mod lzf;
mod pipeline;
mod planes;
mod scale_offset;
mod zstandard;

pub use creation::{COMPRESSIONS, Compression, Levels, creation_filters};
pub use pipeline::Pipeline;

use crate::{Error, ErrorKind, Result};

use bitshuffle::Bitshuffle;
use deflate::Deflate;
use lz4::Lz4;
use scale_offset::ScaleOffset;
use zstandard::Zstandard;

/// One filter of a data set's pipeline as stored: HDF5 filter id and client values.
///
/// The ids are those of the HDF5 library (1 to 6) and of the HDF Group's register of filter plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFilter {
    /// HDF5 filter id.
    pub id: u32,
    /// Client values, as the filter message of the data set has them.
    pub values: Vec<u32>,
}

/// The name of a filter id, if known; Kinema need not have code for it.
pub fn filter_name(id: u32) -> Option<&'static str> {
    KNOWN.iter().find(|(known, _)| *known == id).map(|(_, name)| *name)
}

/// Registered filters (HDF Group, "Registered Filter Plugins").
const KNOWN: &[(u32, &str)] = &[
    (1, "deflate"),
    (2, "shuffle"),
    (3, "fletcher32"),
    (4, "szip"),
    (5, "nbit"),
    (6, "scaleoffset"),
    (305, "lzo"),
    (307, "bzip2"),
    (32000, "lzf"),
    (32001, "blosc"),
    (32002, "mafisc"),
    (32003, "snappy"),
    (32004, "lz4"),
    (32005, "apax"),
    (32006, "cbf"),
    (32007, "jpeg-xr"),
    (32008, "bitshuffle"),
    (32009, "spdp"),
    (32010, "lpc-rice"),
    (32011, "ccsds-123"),
    (32012, "jpeg-ls"),
    (32013, "zfp"),
    (32014, "fpzip"),
    (32015, "zstd"),
    (32016, "b3d"),
    (32017, "sz"),
    (32018, "fcidecomp"),
    (32019, "jpeg"),
    (32020, "vbz"),
    (32021, "fapec"),
    (32022, "bitgroom"),
    (32023, "granular bitround"),
    (32024, "sz3"),
    (32025, "delta-rice"),
    (32026, "blosc2"),
    (32028, "sperr"),
];

/// Buffers and decoders that are kept from chunk to chunk; one for each thread.
#[derive(Default)]
pub struct FilterScratch {
    /// The other of the two buffers between which the filters work to and fro.
    spare: Vec<u8>,
    coders: Coders,
}

impl FilterScratch {
    /// Bytes of its buffers; the buffers of the filters are bounded by their own settings.
    pub fn capacity(&self) -> usize {
        self.spare.capacity()
    }
}

/// State of the filters from chunk to chunk, made when it is first needed.
#[derive(Default)]
struct Coders {
    inflate: Option<libdeflater::Decompressor>,
    deflate: Option<(u32, libdeflater::Compressor)>,
    zstd_decoder: Option<zstd::bulk::Decompressor<'static>>,
    zstd_encoder: Option<(i32, zstd::bulk::Compressor<'static>)>,
    lz4_table: Option<lz4_flex::block::CompressTable>,
    /// A block of bitshuffle in its shuffled form.
    block: Vec<u8>,
    /// The same by byte planes.
    planes: Vec<u8>,
}

/// How many bytes a filter's decoded form has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    bytes: usize,
    /// Otherwise `bytes` is an upper bound.
    exact: bool,
}

impl Size {
    /// Checks a size that the encoded bytes state or have led to.
    fn check(self, what: &str, found: usize) -> Result<()> {
        if found > self.bytes || (self.exact && found != self.bytes) {
            let bound = if self.exact { "" } else { "at most " };
            return Err(Error::corrupt(what, format!("{bound}{} bytes", self.bytes), found));
        }
        Ok(())
    }
}

/// One filter with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Filter {
    Deflate(Deflate),
    Shuffle { element: usize },
    Fletcher32,
    ScaleOffset(ScaleOffset),
    Lzf,
    Lz4(Lz4),
    Bitshuffle(Bitshuffle),
    Zstandard(Zstandard),
}

impl Filter {
    fn new(stored: &StoredFilter) -> Result<Self> {
        let values = stored.values.as_slice();
        Ok(match stored.id {
            1 => Self::Deflate(Deflate::new(values)),
            2 => match values {
                [element, ..] if *element > 0 => Self::Shuffle { element: *element as usize },
                _ => return Err(Error::corrupt("wrong client values of filter shuffle", "an element size", "none")),
            },
            3 => Self::Fletcher32,
            6 => Self::ScaleOffset(ScaleOffset::new(values)?),
            32000 => Self::Lzf,
            32004 => Self::Lz4(Lz4::new(values)),
            32008 => Self::Bitshuffle(Bitshuffle::new(values)?),
            32015 => Self::Zstandard(Zstandard::new(values)),
            id => {
                let name = filter_name(id).unwrap_or("not registered");
                let what = format!("HDF5 filter {id} ({name}), for which Kinema has no code");
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Deflate(_) => "deflate",
            Self::Shuffle { .. } => "shuffle",
            Self::Fletcher32 => "fletcher32",
            Self::ScaleOffset(_) => "scaleoffset",
            Self::Lzf => "lzf",
            Self::Lz4(_) => "lz4",
            Self::Bitshuffle(_) => "bitshuffle",
            Self::Zstandard(_) => "zstd",
        }
    }

    /// Whether the encoded size hangs on the values, so that a decoder of it cannot know it beforehand.
    fn compresses(&self) -> bool {
        match self {
            Self::Deflate(_) | Self::Lzf | Self::Lz4(_) | Self::Zstandard(_) => true,
            Self::Bitshuffle(bitshuffle) => bitshuffle.compresses(),
            Self::Shuffle { .. } | Self::Fletcher32 | Self::ScaleOffset(_) => false,
        }
    }

    /// Size of the encoded form of `raw`. Nothing is known of that of a compressing filter; [`Pipeline::new`] sees to
    /// it that no other filter needs it to find its buffer's size.
    fn encoded_size(&self, raw: Size) -> Size {
        match self {
            Self::Fletcher32 => Size { bytes: raw.bytes.saturating_add(fletcher32::SUM_BYTES), ..raw },
            Self::ScaleOffset(filter) => filter.encoded_size(raw),
            _ if self.compresses() => Size { bytes: usize::MAX, exact: false },
            _ => raw,
        }
    }

    /// The most bytes that `encoded` bytes can decode to: checked before anything is allocated for them.
    fn largest_decoded(&self, encoded: usize) -> usize {
        let growth = match self {
            Self::Deflate(_) => deflate::LARGEST_GROWTH,
            Self::Lzf => lzf::LARGEST_GROWTH,
            Self::Lz4(_) => lz4::LARGEST_GROWTH,
            Self::Zstandard(_) => zstandard::LARGEST_GROWTH,
            Self::Bitshuffle(bitshuffle) => bitshuffle.largest_growth(),
            // a chunk of equal values has no bits at all
            Self::ScaleOffset(_) => usize::MAX,
            Self::Shuffle { .. } | Self::Fletcher32 => 1,
        };
        encoded.saturating_mul(growth)
    }
}

/// Makes room for exactly `bytes` bytes, whose values are left over from the last chunk.
fn make_room(buffer: &mut Vec<u8>, bytes: usize) -> Result<()> {
    if bytes > buffer.len() {
        buffer.try_reserve_exact(bytes - buffer.len()).map_err(|_| {
            Error::new(ErrorKind::MemoryLimit, format!("no memory for {bytes} bytes of a decoded chunk"))
        })?;
    }
    buffer.resize(bytes, 0);
    Ok(())
}

/// The big-endian word at `at`, as the framings of lz4 and bitshuffle have them.
fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(word)).ok()
}

/// The big-endian double word at `at`.
fn double_word(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..at.checked_add(8)?)?.try_into().ok()?;
    usize::try_from(u64::from_be_bytes(word)).ok()
}

/// Copies `from` to the place in `to` that begins at `at`, for which there is room.
fn put(from: &[u8], to: &mut [u8], at: usize) {
    if let Some(place) = to.get_mut(at..at + from.len()) {
        place.copy_from_slice(from);
    }
}
