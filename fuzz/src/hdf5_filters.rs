//! Bytes as HDF5 chunks: stored chunks are refused or decoded to their size; encoded chunks decode to the same bytes.
//!
//! The right decoded values are not known here; the tests compare them with libhdf5's.

use kinema_core::ErrorKind;
use kinema_core::container::hdf5::filters::{FilterScratch, Pipeline, StoredFilter, creation_filters};

/// Filters that a byte chooses among; the last has no code.
const IDS: [u32; 9] = [1, 2, 3, 6, 32000, 32004, 32008, 32015, 32001];
/// Compression that a byte chooses among.
const WAYS: [&str; 7] = ["none", "gzip", "zstd", "lz4", "bitshuffle", "bitshuffle-lz4", "bitshuffle-zstd"];

/// Takes the fields of an input one after another; missing ones are zero.
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        byte
    }

    fn half(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// A value of one byte, or of four bytes after 0xff.
    fn value(&mut self) -> u32 {
        match self.byte() {
            0xff => u32::from(self.half()) | u32::from(self.half()) << 16,
            byte => u32::from(byte),
        }
    }
}

/// Up to four filters (kind, number of client values, these), filter mask, element size, elements of a chunk in two
/// bytes: filters, mask, element size and size of a chunk.
pub fn head(input: &mut Input<'_>) -> (Vec<StoredFilter>, u32, usize, usize) {
    let n_filters = input.byte() % 5;
    let mut filters = Vec::new();
    for _ in 0..n_filters {
        let id = IDS[usize::from(input.byte()) % IDS.len()];
        let n_values = input.byte() % 21;
        filters.push(StoredFilter { id, values: (0..n_values).map(|_| input.value()).collect() });
    }
    let mask = u32::from(input.byte());
    let element = usize::from(input.byte());
    (filters, mask, element, element * usize::from(input.half()))
}

/// The bytes that [`head`] takes; the rest is the stored chunk.
pub fn decode(data: &[u8]) {
    let mut input = Input(data);
    let (filters, mask, element, chunk_bytes) = head(&mut input);
    let stored = input.0;
    let pipeline = match Pipeline::new(&filters, element, chunk_bytes) {
        Ok(pipeline) => pipeline,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{error}");
            return;
        }
    };
    let (mut fresh, mut scratch) = (Vec::new(), FilterScratch::default());
    let outcome = pipeline.decode(stored, mask, &mut fresh, &mut scratch);
    // buffers of another length and content change nothing
    let mut used = vec![0xa5; chunk_bytes / 2 + 77];
    let again = pipeline.decode(stored, mask, &mut used, &mut scratch);
    match (outcome, again) {
        (Ok(()), Ok(())) => {
            assert_eq!(fresh.len(), chunk_bytes, "{filters:?}");
            assert_eq!(fresh, used, "{filters:?}: what was in the buffers before is in the chunk");
        }
        (Err(error), Err(other)) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert_eq!(error.what(), other.what());
        }
        (outcome, again) => panic!("{filters:?}: {outcome:?} at first, then {again:?}"),
    }
}

/// Compression, level, element size, block size of bitshuffle or LZ4, whether there is a checksum, which filters are
/// skipped, and how many bytes repeat the rest, which is the chunk.
pub fn round_trip(data: &[u8]) {
    let mut input = Input(data);
    let way = WAYS[usize::from(input.byte()) % WAYS.len()];
    let level = Some(u32::from(input.byte()) % 13);
    let element = 1 + usize::from(input.byte()) % 33;
    let block = u32::from(input.half());
    let (with_checksum, mask) = (input.byte() & 1 == 1, u32::from(input.byte()));
    let repeats = 1 + usize::from(input.byte()) % 8;
    let Ok(mut filters) = creation_filters(way, level, element).or_else(|_| creation_filters(way, None, element))
    else {
        panic!("{way} without a level is refused");
    };
    for filter in &mut filters {
        match (filter.id, filter.values.as_mut_slice()) {
            (32004, [size, ..]) => *size = block,
            (32008, [_, _, _, size, ..]) => *size = block / 8 * 8,
            _ => {}
        }
    }
    if with_checksum {
        filters.push(StoredFilter { id: 3, values: vec![] });
    }
    let raw = input.0.repeat(repeats);
    let raw = &raw[..raw.len() / element * element];
    let applied: Vec<StoredFilter> =
        filters.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 0).map(|(_, filter)| filter.clone()).collect();
    let (mut encoded, mut decoded, mut scratch) = (vec![1; 9], vec![2; 7], FilterScratch::default());
    let sound = "filters that Kinema chose itself";
    let writing = Pipeline::new(&applied, element, raw.len()).expect(sound);
    writing.encode(raw, &mut encoded, &mut scratch).expect(sound);
    let reading = Pipeline::new(&filters, element, raw.len()).expect(sound);
    let outcome = reading.decode(&encoded, mask, &mut decoded, &mut scratch);
    outcome.unwrap_or_else(|error| panic!("{filters:?}, mask {mask}: {error}"));
    assert!(decoded == raw, "{filters:?}, mask {mask}: other bytes than were encoded");
}
