//! HDF5 filters: chunks that libhdf5 wrote, round trips, and what must be refused.
//!
//! tests/formats/h5md/test_filters.py compares many more with libhdf5 itself.

use std::sync::atomic::AtomicBool;

use kinema_core::ErrorKind;
use kinema_core::container::hdf5::encode::{ChunkedArray, encode_chunks};
use kinema_core::container::hdf5::filters::{FilterScratch, Pipeline, StoredFilter, creation_filters};

/// Contents of the chunks below: int32, i % 7 * (i % 3) * 37 - 60 for i from 0 to 29.
fn golden_values() -> Vec<u8> {
    (0..30_i32).flat_map(|i| (i % 7 * (i % 3) * 37 - 60).to_le_bytes()).collect()
}

/// Name, (filter id, client values), stored chunk in hexadecimal, as h5py 3.16 with HDF5 2.0 and hdf5plugin 7.1 wrote it.
type Golden = (&'static str, &'static [(u32, &'static [u32])], &'static str);

const GOLDEN: &[Golden] = &[
    (
        "shuffle, deflate, fletcher32",
        &[(2, &[4]), (1, &[9]), (3, &[])],
        "78da3bf232e24884d991237c478cdf1c5904a4171da96d380213fcff9fe13f03239804a2ff60921121081147914512c42b0b002e013d\
         f35c695c15",
    ),
    (
        "lzf",
        &[(32000, &[4, 261, 120])],
        "04c4ffffffe920030658000000c4ffff6007013601800b400f010e00800b0033200700ec2003401300a2a007400b401fc00f007d2017\
         0080a03be01553010000",
    ),
    (
        "lz4 in blocks",
        &[(32004, &[80])],
        "00000000000000780000005000000036c0c4ffffffe9ffffff580000000c000008002236010c00001000130e18005333000000ec0c00\
         13a2080004200003100050ff7d00000000000021e280010000c4ffffffe9ffffff58000c000008001336180080c4ffffff0e000000",
    ),
    (
        "zstd",
        &[(32015, &[3])],
        "28b52ffd2078ad0100e8c4ffffffe9ffffff58000000c436010e33000000ec00a2007d00000080090057c0e02ba733df3094c400d7ce\
         bc9d0d2f035b56be",
    ),
    (
        "bitshuffle",
        &[(32008, &[0, 4, 4, 0, 0])],
        "020448202503e9db2d1609c9340488222c4adfdaeccbfa76ebd274cbd264cbd264cbd264cbd264cbd264cbd264cbd264cbd264cbd264\
         cbd264cbd264cbd264cbd264cbd264cbd264cbd264cbd264cbd264cbd264cbd264cbd264cbd264cbd264c4ffffff5800000036010000\
         c4ffffffc4ffffff0e000000",
    ),
    (
        "bitshuffle-lz4 in blocks",
        &[(32008, &[0, 4, 4, 16, 2])],
        "0000000000000078000000400000001eff0402042025e9db16093404222cdfdacbfaebd2cb02001550d2cbd2cbd200000013ad48032d\
         c9884aec7674640100506464646464c4ffffff5800000036010000c4ffffffc4ffffff0e000000",
    ),
    (
        "bitshuffle-zstd",
        &[(32008, &[0, 4, 4, 0, 3, 3])],
        "0000000000000078000020000000002e28b52ffd20602d0100f0020448202503e9db2d1609c9340488222c4adfdaeccbfa76ebd274cb\
         d26401005ec93901c4ffffff5800000036010000c4ffffffc4ffffff0e000000",
    ),
    (
        "scaleoffset",
        &[(6, &[2, 0, 30, 0, 4, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])],
        "0900000008c4ffffffffffffff00000000000000000009528004a5c8000025000df280037800002537800b9de0004a9400252e400001\
         28",
    ),
];
/// The same values divided by 8 as float32, kept to two decimals.
const GOLDEN_FLOATS: Golden = (
    "scaleoffset of floats",
    &[(6, &[0, 2, 30, 1, 4, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])],
    "0d000000080000f0c0000000000000000000000000000073ce7400039d48440000001ce8000ad8e740002b5c0000001ceab5c000909a\
         d7000039e73a0001cea4220000000e74",
);

fn bytes_of(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks_exact(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn stored(filters: &[(u32, &[u32])]) -> Vec<StoredFilter> {
    filters.iter().map(|(id, values)| StoredFilter { id: *id, values: values.to_vec() }).collect()
}

fn decode_golden((name, filters, chunk): &Golden) -> Vec<u8> {
    let pipeline = Pipeline::new(&stored(filters), 4, 120).unwrap();
    let mut out = Vec::new();
    let decoded = pipeline.decode(&bytes_of(chunk), 0, &mut out, &mut FilterScratch::default());
    decoded.unwrap_or_else(|error| panic!("{name}: {error}"));
    out
}

/// Coordinates of sorts: their upper bytes are alike, their lower ones are not.
fn walk(bytes: usize) -> Vec<u8> {
    let (mut state, mut place) = (3_u32, 0.0_f32);
    let step = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        place += (state >> 8) as f32 / (1 << 24) as f32 - 0.5;
        place.to_le_bytes()
    };
    let mut walk: Vec<u8> = (0..bytes.div_ceil(4)).flat_map(step).collect();
    walk.truncate(bytes);
    walk
}

const WAYS: [&str; 7] = ["none", "gzip", "zstd", "lz4", "bitshuffle", "bitshuffle-lz4", "bitshuffle-zstd"];

#[test]
fn chunks_that_libhdf5_wrote_are_decoded() {
    for golden in GOLDEN {
        assert_eq!(decode_golden(golden), golden_values(), "{}", golden.0);
    }
    let floats = decode_golden(&GOLDEN_FLOATS);
    for (float, value) in floats.chunks_exact(4).zip(golden_values().chunks_exact(4)) {
        let float = f32::from_le_bytes(float.try_into().unwrap());
        let exact = i32::from_le_bytes(value.try_into().unwrap()) as f32 / 8.0;
        assert!((float - exact).abs() < 0.00501, "{float} instead of {exact}");
    }
}

#[test]
fn what_is_encoded_is_decoded() {
    let (mut encoded, mut decoded, mut scratch) = (Vec::new(), Vec::new(), FilterScratch::default());
    for way in WAYS {
        for element in [1, 2, 3, 4, 8, 24] {
            for count in [0, 1, 7, 8, 9, 100, 2047, 5000] {
                for checksum in [false, true] {
                    let raw = walk(count * element);
                    let mut filters = creation_filters(way, None, element).unwrap();
                    if checksum {
                        filters.push(StoredFilter { id: 3, values: vec![] });
                    }
                    let pipeline = Pipeline::new(&filters, element, raw.len()).unwrap();
                    pipeline.encode(&raw, &mut encoded, &mut scratch).unwrap();
                    pipeline.decode(&encoded, 0, &mut decoded, &mut scratch).unwrap();
                    assert_eq!(decoded, raw, "{way}, {count} elements of {element} bytes, checksum {checksum}");
                }
            }
        }
    }
}

#[test]
fn every_level_is_decoded_and_others_are_refused() {
    let (mut encoded, mut decoded, mut scratch) = (Vec::new(), Vec::new(), FilterScratch::default());
    let raw = walk(6000);
    for (way, levels) in [("gzip", 0..=9), ("zstd", 1..=22), ("bitshuffle-zstd", 1..=22)] {
        for level in levels.clone() {
            let filters = creation_filters(way, Some(level), 4).unwrap();
            let pipeline = Pipeline::new(&filters, 4, raw.len()).unwrap();
            pipeline.encode(&raw, &mut encoded, &mut scratch).unwrap();
            pipeline.decode(&encoded, 0, &mut decoded, &mut scratch).unwrap();
            assert_eq!(decoded, raw, "{way} {level}");
        }
        let error = creation_filters(way, Some(levels.end() + 1), 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(creation_filters("lz4", Some(1), 4).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(creation_filters("rar", None, 4).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(creation_filters("gzip", None, 0).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn buffers_are_reused_from_chunk_to_chunk() {
    for way in WAYS {
        let raw = walk(40_000);
        let pipeline = Pipeline::new(&creation_filters(way, None, 4).unwrap(), 4, raw.len()).unwrap();
        let (mut encoded, mut out, mut scratch) = (Vec::new(), Vec::new(), FilterScratch::default());
        pipeline.encode(&raw, &mut encoded, &mut scratch).unwrap();
        let mut places = Vec::new();
        for _ in 0..8 {
            pipeline.decode(&encoded, 0, &mut out, &mut scratch).unwrap();
            places.push(out.as_ptr());
        }
        // at most two buffers change places; none is allocated again
        let (first, later) = places.split_at(4);
        assert!(later.iter().all(|place| first.contains(place)), "{way}: {places:?}");
    }
}

#[test]
fn a_filter_that_a_chunk_has_skipped_is_not_undone() {
    let raw = walk(1200);
    let filters = stored(&[(2, &[4]), (32015, &[3]), (3, &[])]);
    let pipeline = Pipeline::new(&filters, 4, raw.len()).unwrap();
    let (mut encoded, mut decoded, mut scratch) = (Vec::new(), Vec::new(), FilterScratch::default());
    for mask in 0..8_u32 {
        let applied: Vec<StoredFilter> =
            filters.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 0).map(|(_, filter)| filter.clone()).collect();
        Pipeline::new(&applied, 4, raw.len()).unwrap().encode(&raw, &mut encoded, &mut scratch).unwrap();
        // bits beyond the filters mean nothing
        pipeline.decode(&encoded, mask | 0xffff_fff8, &mut decoded, &mut scratch).unwrap();
        assert_eq!(decoded, raw, "mask {mask}");
        let wrong = pipeline.decode(&encoded, mask ^ 4, &mut decoded, &mut scratch).map(|()| mask).unwrap_err();
        assert_eq!(wrong.kind(), ErrorKind::Corrupt, "mask {mask} with the checksum's bit wrong: {wrong}");
    }
}

#[test]
fn what_kinema_has_no_code_for_is_unsupported_by_name() {
    for (filters, what) in [
        (stored(&[(4, &[141, 4])]), "HDF5 filter 4 (szip), for which Kinema has no code"),
        (stored(&[(5, &[])]), "HDF5 filter 5 (nbit), for which Kinema has no code"),
        (stored(&[(32001, &[2, 2, 4])]), "HDF5 filter 32001 (blosc), for which Kinema has no code"),
        (stored(&[(777, &[])]), "HDF5 filter 777 (not registered), for which Kinema has no code"),
        (
            stored(&[(32008, &[0, 4, 4, 0, 9])]),
            "HDF5 filter 32008 (bitshuffle) with codec 9, for which Kinema has no code",
        ),
        (stored(&[(32004, &[0]), (1, &[1])]), "filter deflate on top of filter lz4"),
    ] {
        let error = Pipeline::new(&filters, 4, 400).unwrap_err();
        assert_eq!((error.kind(), error.what()), (ErrorKind::Unsupported, what));
    }
    let pipeline = Pipeline::new(&stored(&[(32000, &[4, 261, 400])]), 4, 400).unwrap();
    let error = pipeline.encode(&walk(400), &mut Vec::new(), &mut FilterScratch::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn client_values_that_cannot_be_are_corrupt() {
    let many: Vec<StoredFilter> = (0..33).map(|_| StoredFilter { id: 3, values: vec![] }).collect();
    for (filters, element, bytes) in [
        (stored(&[]), 0, 400),
        (stored(&[]), 3, 400),
        (stored(&[(2, &[])]), 4, 400),
        (stored(&[(2, &[0])]), 4, 400),
        (stored(&[(6, &[2, 0])]), 4, 400),
        (stored(&[(6, &[2, 0, 100, 1, 4, 1, 0, 0])]), 4, 400),
        (stored(&[(6, &[2, 0, 100, 0, 3, 1, 0, 0])]), 4, 400),
        (stored(&[(32008, &[0, 4])]), 4, 400),
        (stored(&[(32008, &[0, 4, 4, 7, 2])]), 4, 400),
        (stored(&[(32008, &[0, 4, 4, 0xffff_fff8, 2])]), 4, 400),
        (many, 4, 400),
    ] {
        let error = Pipeline::new(&filters, element, bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{filters:?}: {error}");
    }
}

#[test]
fn nothing_is_allocated_for_a_size_that_the_stored_bytes_cannot_give() {
    let terabyte = 1 << 40;
    for filters in [
        stored(&[]),
        stored(&[(2, &[4])]),
        stored(&[(1, &[6])]),
        stored(&[(3, &[])]),
        stored(&[(32000, &[])]),
        stored(&[(32004, &[0])]),
        stored(&[(32008, &[0, 4, 4, 0, 0])]),
        stored(&[(32008, &[0, 4, 4, 0, 2])]),
        stored(&[(32008, &[0, 4, 4, 0, 3])]),
        stored(&[(32015, &[3])]),
    ] {
        let pipeline = Pipeline::new(&filters, 4, terabyte).unwrap();
        let mut out = Vec::new();
        let mut chunk = [0_u8; 100];
        chunk[..8].copy_from_slice(&(terabyte as u64).to_be_bytes());
        let error = pipeline.decode(&chunk, 0, &mut out, &mut FilterScratch::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{filters:?}");
        assert_eq!(out.capacity(), 0, "{filters:?}");
    }
}

#[test]
fn every_shortened_chunk_is_corrupt() {
    for golden @ (name, filters, chunk) in GOLDEN {
        let pipeline = Pipeline::new(&stored(filters), 4, 120).unwrap();
        let (chunk, mut out, mut scratch) = (bytes_of(chunk), decode_golden(golden), FilterScratch::default());
        for length in 0..chunk.len() {
            // one byte that libhdf5 adds to the packed values of scaleoffset is not needed
            if *name == "scaleoffset" && length + 1 == chunk.len() {
                continue;
            }
            let error = pipeline.decode(&chunk[..length], 0, &mut out, &mut scratch).map(|()| length).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}, the first {length} bytes: {error}");
        }
    }
}

#[test]
fn an_array_is_cut_into_chunks_by_any_number_of_threads() {
    let (shape, chunk_shape) = ([5, 7, 3], [2, 4, 3]);
    let bytes = walk(5 * 7 * 3 * 4);
    let array = ChunkedArray { bytes: &bytes, element_size: 4, shape: &shape, chunk_shape: &chunk_shape };
    let filters = creation_filters("gzip", None, 4).unwrap();
    let alone = encode_chunks(array, &filters, 1, &AtomicBool::new(false)).unwrap();
    let offsets: Vec<_> = alone.iter().map(|chunk| chunk.offset.clone()).collect();
    assert_eq!(offsets, [[0, 0, 0], [0, 4, 0], [2, 0, 0], [2, 4, 0], [4, 0, 0], [4, 4, 0]]);
    assert_eq!(encode_chunks(array, &filters, 5, &AtomicBool::new(false)).unwrap(), alone);

    let pipeline = Pipeline::new(&filters, 4, 2 * 4 * 3 * 4).unwrap();
    let (mut decoded, mut scratch) = (Vec::new(), FilterScratch::default());
    for chunk in alone {
        pipeline.decode(&chunk.bytes, 0, &mut decoded, &mut scratch).unwrap();
        for (i, element) in decoded.chunks_exact(4).enumerate() {
            let (frame, atom, axis) = (chunk.offset[0] + i / 12, chunk.offset[1] + i / 3 % 4, i % 3);
            let place = 4 * ((frame * 7 + atom) * 3 + axis);
            let expected = if frame < 5 && atom < 7 { &bytes[place..place + 4] } else { &[0; 4] };
            assert_eq!(element, expected, "frame {frame}, atom {atom}, axis {axis}");
        }
    }

    let stopped = encode_chunks(array, &filters, 2, &AtomicBool::new(true)).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    for (shape, chunk_shape) in
        [(&[5, 7, 3][..], &[2, 4][..]), (&[], &[]), (&[5, 7, 3], &[2, 0, 3]), (&[5, 7, 4], &[2, 4, 3])]
    {
        let array = ChunkedArray { bytes: &bytes, element_size: 4, shape, chunk_shape };
        let error = encode_chunks(array, &filters, 2, &AtomicBool::new(false)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}
