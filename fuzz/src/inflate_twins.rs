//! Several zlib streams decoded together and one at a time: where both give bytes, they give the same.
//!
//! Which streams are worth decoding together it does not ask: one that is left undone is no finding.

use kinema_core::ErrorKind;
use kinema_core::container::hdf5::filters::{FilterScratch, Pipeline, StoredChunk, StoredFilter, decode_together};

/// Most streams of an input.
const MOST: usize = 14;

/// A stream and how many bytes it is said to give.
type Stream = (Vec<u8>, usize);

/// Takes one stream off the input: a byte that says what it is, its size and the number of its bytes in two bytes each.
///
/// The lowest bits of the first byte: 0 a stream, 1 a deflate body that gets its head and, where libdeflate makes
/// something of it, its checksum and true size; 2 and 3 raw bytes, deflated at the level that the other bits say.
fn take(input: &mut &[u8]) -> Option<Stream> {
    let ([kind, size @ .., a, b], rest) = input.split_first_chunk::<5>()?;
    let (bytes, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([*a, *b]))));
    *input = rest;
    let size = usize::from(u16::from_le_bytes(*size));
    Some(match kind & 3 {
        0 => (bytes.to_vec(), size),
        1 => {
            let mut out = vec![0; size];
            let length = libdeflater::Decompressor::new().deflate_decompress(bytes, &mut out).unwrap_or(size);
            let sum = libdeflater::adler32(&out[..length]).to_be_bytes();
            ([&[0x78, 0x9c], bytes, &sum].concat(), length)
        }
        _ => {
            let mut stored = Vec::new();
            let encoded = pipeline(u32::from(kind >> 2) % 10, bytes.len()).encode(bytes, &mut stored, &mut scratch());
            encoded.expect("bytes and a level that Kinema chose itself");
            (stored, bytes.len())
        }
    })
}

fn scratch() -> FilterScratch {
    FilterScratch::default()
}

fn pipeline(level: u32, bytes: usize) -> Pipeline {
    Pipeline::new(&[StoredFilter { id: 1, values: vec![level] }], 1, bytes).expect("one known filter")
}

/// What comes of streams that are decoded in one call.
fn together(streams: &[Stream], scratch: &mut FilterScratch) -> Vec<Option<Vec<u8>>> {
    let pipelines: Vec<Pipeline> = streams.iter().map(|(_, bytes)| pipeline(0, *bytes)).collect();
    let chunks = streams.iter().zip(&pipelines);
    let chunks: Vec<StoredChunk<'_>> =
        chunks.map(|((bytes, _), pipeline)| StoredChunk { pipeline, bytes, mask: 0 }).collect();
    let mut out = vec![vec![0xa5; 3]; chunks.len()];
    let done = decode_together(&chunks, &mut out, scratch);
    assert_eq!(done.len(), chunks.len());
    out.into_iter().zip(done).map(|(out, done)| done.then_some(out)).collect()
}

/// Decodes the streams of an input together, in the other order, and one at a time.
pub fn decode(data: &[u8]) {
    let mut input = data;
    let mut streams: Vec<Stream> = std::iter::from_fn(|| take(&mut input)).take(MOST).collect();
    let mut used = scratch();
    let found = together(&streams, &mut used);
    for ((stored, bytes), found) in streams.iter().zip(&found) {
        let mut out = Vec::new();
        match (pipeline(0, *bytes).decode(stored, 0, &mut out, &mut used), found) {
            (Ok(()), Some(found)) => assert!(out == *found, "other bytes together than alone"),
            (Err(error), Some(_)) => panic!("decoded together, refused alone: {error}"),
            (Err(error), None) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
            (Ok(()), None) => {}
        }
        let alone = together(&[(stored.clone(), *bytes)], &mut used);
        assert!(agree(&alone[0], found), "the neighbours of a stream make a difference");
    }
    streams.reverse();
    let mut again = together(&streams, &mut used);
    again.reverse();
    assert!(again.iter().zip(&found).all(|(a, b)| agree(a, b)), "the order of streams makes a difference");
}

/// Whether both are the same, or one was left undone.
fn agree(one: &Option<Vec<u8>>, other: &Option<Vec<u8>>) -> bool {
    one.is_none() || other.is_none() || one == other
}
