//! The filter pipeline of a data set: checked once, then used for every chunk.

use super::{Coders, Filter, FilterScratch, Size, StoredFilter, make_room};
use super::{deflate, fletcher32, lz4, lzf, planes, zstandard};
use crate::{Error, ErrorKind, Result};

/// HDF5's bound on the filters of a pipeline (`H5Z_MAX_NFILTERS`); the filter mask has a bit for each.
const MOST_FILTERS: usize = 32;

/// The filters of a data set, validated once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    pub(super) filters: Vec<Filter>,
    chunk_bytes: usize,
}

impl Pipeline {
    /// The pipeline of a data set.
    ///
    /// `filters` in the order of writing, `element_size` in bytes, `chunk_bytes` the size of a decoded chunk.
    ///
    /// # Errors
    /// `Unsupported` names the filter (or combination) for which Kinema has no code: libhdf5 may read it. `Corrupt` for
    /// impossible client values, or if `chunk_bytes` is impossible as a number of elements.
    pub fn new(filters: &[StoredFilter], element_size: usize, chunk_bytes: usize) -> Result<Self> {
        if element_size == 0 || !chunk_bytes.is_multiple_of(element_size) {
            return Err(Error::corrupt(
                "wrong size of a chunk",
                format!("elements of {element_size} bytes"),
                chunk_bytes,
            ));
        }
        if filters.len() > MOST_FILTERS {
            return Err(Error::corrupt("too many filters", format!("at most {MOST_FILTERS}"), filters.len()));
        }
        let filters: Vec<Filter> = filters.iter().map(Filter::new).collect::<Result<_>>()?;
        let mut compressed_by = None;
        for filter in &filters {
            let needs_size = filter.compresses() || matches!(filter, Filter::ScaleOffset(_));
            if let (Some(first), true) = (compressed_by, needs_size) {
                let what = format!("filter {} on top of filter {first}", filter.name());
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
            if filter.compresses() {
                compressed_by = Some(filter.name());
            }
        }
        Ok(Self { filters, chunk_bytes })
    }

    /// Whether chunks are stored as they are.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty()
    }

    /// Bytes of a decoded chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// Decodes one stored chunk into `out`, which is made exactly [`Self::chunk_bytes`] long.
    ///
    /// Bit i of `mask` set: filter i was skipped when this chunk was written. Keep `out` and `scratch` from chunk to
    /// chunk: then nothing is allocated.
    ///
    /// # Errors
    /// `Corrupt` if the filters cannot have made `stored` of a chunk; `out` is then of no use.
    pub fn decode(&self, stored: &[u8], mask: u32, out: &mut Vec<u8>, scratch: &mut FilterScratch) -> Result<()> {
        let mut sizes = [Size { bytes: self.chunk_bytes, exact: true }; MOST_FILTERS];
        let mut size = Size { bytes: self.chunk_bytes, exact: true };
        for (i, (filter, decoded)) in self.filters.iter().zip(&mut sizes).enumerate() {
            *decoded = size;
            if !skipped(mask, i) {
                size = filter.encoded_size(size);
            }
        }
        size.check("wrong stored size of a chunk", stored.len())?;
        // the bytes to decode next: the first `length` of `stored`, or of `out` once a filter has written there
        let (mut length, mut moved) = (stored.len(), false);
        for (i, (filter, &decoded)) in self.filters.iter().zip(&sizes).enumerate().rev() {
            if skipped(mask, i) {
                continue;
            }
            if moved {
                std::mem::swap(out, &mut scratch.spare);
            }
            let whole = if moved { &scratch.spare } else { stored };
            let encoded = whole.get(..length).unwrap_or(whole);
            match decode_one(filter, encoded, decoded, out, &mut scratch.coders)? {
                Decoded::Written => (length, moved) = (out.len(), true),
                Decoded::Beginning(bytes) => {
                    length = bytes;
                    if moved {
                        std::mem::swap(out, &mut scratch.spare);
                    }
                }
            }
        }
        if moved {
            out.truncate(length);
        } else {
            let raw = stored.get(..length).unwrap_or(stored);
            make_room(out, raw.len())?;
            out.copy_from_slice(raw);
        }
        Size { bytes: self.chunk_bytes, exact: true }.check("wrong size of a decoded chunk", out.len())
    }

    /// Encodes one chunk of [`Self::chunk_bytes`] bytes into `out` by all filters: its filter mask is 0.
    ///
    /// # Errors
    /// `InvalidArgument` for another number of bytes, `Unsupported` for a filter that Kinema only decodes.
    pub fn encode(&self, raw: &[u8], out: &mut Vec<u8>, scratch: &mut FilterScratch) -> Result<()> {
        if raw.len() != self.chunk_bytes {
            let what =
                format!("wrong size of a chunk to encode, expected {} bytes, found {}", self.chunk_bytes, raw.len());
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let mut moved = false;
        for filter in &self.filters {
            if moved {
                std::mem::swap(out, &mut scratch.spare);
            }
            let plain = if moved { &scratch.spare } else { raw };
            encode_one(filter, plain, out, &mut scratch.coders)?;
            moved = true;
        }
        if !moved {
            make_room(out, raw.len())?;
            out.copy_from_slice(raw);
        }
        Ok(())
    }
}

fn skipped(mask: u32, filter: usize) -> bool {
    mask >> filter & 1 == 1
}

/// Where the decoded form is.
enum Decoded {
    /// In the buffer for it.
    Written,
    /// It is this many bytes from the beginning of the encoded form.
    Beginning(usize),
}

/// Undoes one filter.
fn decode_one(
    filter: &Filter,
    encoded: &[u8],
    decoded: Size,
    out: &mut Vec<u8>,
    coders: &mut Coders,
) -> Result<Decoded> {
    if decoded.exact && decoded.bytes > filter.largest_decoded(encoded.len()) {
        let what = format!("too few bytes in a chunk of filter {}", filter.name());
        return Err(Error::corrupt(&what, format!("what gives {} bytes", decoded.bytes), encoded.len()));
    }
    match filter {
        Filter::Deflate(_) => deflate::decode(encoded, decoded, out, coders)?,
        Filter::Shuffle { element } => {
            decoded.check("wrong size of a shuffled chunk", encoded.len())?;
            make_room(out, encoded.len())?;
            planes::unshuffle(encoded, *element, out);
        }
        Filter::Fletcher32 => {
            let length = fletcher32::verify(encoded)?;
            decoded.check("wrong size of a chunk before its checksum", length)?;
            return Ok(Decoded::Beginning(length));
        }
        Filter::ScaleOffset(filter) => filter.decode(encoded, decoded, out)?,
        Filter::Lzf => lzf::decode(encoded, decoded, out)?,
        Filter::Lz4(_) => lz4::decode(encoded, decoded, out)?,
        Filter::Bitshuffle(filter) => filter.decode(encoded, decoded, out, coders)?,
        Filter::Zstandard(_) => zstandard::decode(encoded, decoded, out, coders)?,
    }
    Ok(Decoded::Written)
}

/// Applies one filter; `out` gets the size that comes out.
fn encode_one(filter: &Filter, plain: &[u8], out: &mut Vec<u8>, coders: &mut Coders) -> Result<()> {
    match filter {
        Filter::Deflate(filter) => filter.encode(plain, out, coders),
        Filter::Shuffle { element } => {
            make_room(out, plain.len())?;
            planes::shuffle(plain, *element, out);
            Ok(())
        }
        Filter::Fletcher32 => fletcher32::append(plain, out),
        Filter::Lz4(filter) => filter.encode(plain, out, coders),
        Filter::Bitshuffle(filter) => filter.encode(plain, out, coders),
        Filter::Zstandard(filter) => filter.encode(plain, out, coders),
        Filter::ScaleOffset(_) | Filter::Lzf => {
            let what = format!("HDF5 filter {}, which Kinema reads but does not write", filter.name());
            Err(Error::new(ErrorKind::Unsupported, what))
        }
    }
}
