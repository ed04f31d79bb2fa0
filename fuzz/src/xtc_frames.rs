//! Bytes as coordinates that are encoded as XTC, and as XTC frames that are encoded again.
//!
//! Whether the bytes equal those of other programs is not known here; the tests compare them with libmdaxdr's.

use kinema_core::format::xtc::Xtc;
use kinema_core::format::xtc::encode::{
    EncodeScratch, FrameToEncode, IntegersToEncode, decode_integers, encode, encode_integers,
};
use kinema_core::format::{Decoded, Format, Request, ScanOptions, Scratch, SegmentBytes, Wanted};
use kinema_core::frame::{Block, Fields, Scales};
use kinema_core::selection::AtomSelection;
use kinema_core::source::MemorySource;
use kinema_core::{ErrorKind, Result};

const PRECISIONS: [f32; 8] = [1.0, 3.5, 10.0, 100.0, 1000.0, 1024.0, 1e5, 1e6];

/// A file of XTC if the first byte is zero, as in its magic number; otherwise coordinates, see [`coordinates`].
pub fn round_trip(data: &[u8]) {
    match data.split_first() {
        Some((0, _)) => files(data),
        Some((&options, rest)) => coordinates(options, rest),
        None => {}
    }
}

/// Positions of one frame as the decoder reads them.
fn positions(bytes: &[u8]) -> Result<Vec<[f32; 3]>> {
    let source = MemorySource::new("fuzz", bytes);
    let decoder = Xtc.open(&source)?;
    let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
    let index = decoder.scan(&source, &options)?.index;
    assert_eq!((index.n_frames(), index.end()), (1, Some(bytes.len() as u64)));
    let atoms = AtomSelection::all(decoder.header().n_atoms);
    let request = Request { fields: Fields::POSITIONS, atoms, scales: Scales::NATIVE };
    let wanted = [Wanted { frame: 0, row: 0 }];
    let mut segments = Vec::new();
    decoder.segments(&index, &wanted, &request, &mut segments)?;
    let mut block = Block::default();
    block.reset([0], request.atoms.len(), request.fields);
    let [segment] = &segments[..] else { panic!("a frame is one segment") };
    let given = SegmentBytes { segment, bytes, wanted: &wanted, request: &request };
    let decoded = decoder.decode(given, &mut block.as_mut(), &mut Scratch::default())?;
    assert_eq!(decoded, Decoded::Done);
    Ok(block.positions.as_chunks::<3>().0.to_vec())
}

/// The decoder gives the same result through integers, and encoding keeps the integers.
fn files(data: &[u8]) {
    let source = MemorySource::new("fuzz", data);
    let Ok(decoder) = Xtc.open(&source) else { return };
    let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
    let Ok(scan) = decoder.scan(&source, &options) else { return };
    for frame in 0..scan.index.n_frames() {
        let extent = scan.index.extent(frame);
        let bytes = &data[extent.offset as usize..extent.end() as usize];
        let atoms = AtomSelection::all(decoder.header().n_atoms);
        let (mut room, mut integers) = (vec![7; 3], vec![[7; 3]]);
        let found = decode_integers(bytes, extent.offset, &atoms, &mut room, &mut integers);
        let (found, positions) = match (found, positions(bytes)) {
            (Ok(found), Ok(positions)) => (found, positions),
            (Err(error), Err(other)) => {
                assert_eq!(error.kind(), other.kind(), "{error} and {other}");
                continue;
            }
            (found, positions) => panic!("{found:?} through integers, {positions:?} through positions"),
        };
        let Some(precision) = found.precision else { continue };
        check_floats(&integers, precision, &positions);
        check_integers(&integers, precision);
    }
}

/// Compares positions with those that a reader computes from the integers.
fn check_floats(integers: &[[i32; 3]], precision: f32, positions: &[[f32; 3]]) {
    let inverse = 1.0 / precision;
    assert_eq!(integers.len(), positions.len());
    for (atom, (integers, positions)) in integers.iter().zip(positions).enumerate() {
        let expected = integers.map(|integer| (integer as f32 * inverse).to_bits());
        assert_eq!(positions.map(f32::to_bits), expected, "atom {atom}");
    }
}

/// Integers are refused as too far apart, or come back from both magics, all and some, and through positions.
fn check_integers(integers: &[[i32; 3]], precision: f32) {
    let frame =
        |integers, long| IntegersToEncode { step: 1, time: 2.0, cell: [[3.0; 3]; 3], integers, precision, long };
    let mut classic = vec![1, 2, 3];
    if let Err(error) = encode_integers(&frame(integers, false), &mut classic) {
        let spans = [0, 1, 2].map(|axis| {
            let values = || integers.iter().map(|atom| i64::from(atom[axis]));
            values().max().unwrap_or(0) - values().min().unwrap_or(0)
        });
        assert!(error.kind() == ErrorKind::InvalidArgument && spans.iter().any(|&span| span >= 0x7fff_ffff), "{error}");
        assert_eq!(classic, [1, 2, 3]);
        return;
    }
    let classic = &classic[3..];
    let mut long = Vec::new();
    encode_integers(&frame(integers, true), &mut long).expect("as for the other magic");
    let (n_atoms, header) = (integers.len() as u32, if integers.len() > 9 { 92 } else { 56 });
    assert_eq!(classic[header..], long[header + if n_atoms > 9 { 4 } else { 0 }..]);
    let read = [classic, &long].map(|bytes| positions(bytes).expect("what is encoded is sound"));
    read.iter().for_each(|positions| check_floats(integers, precision, positions));
    if n_atoms <= 9 {
        return;
    }
    let third = AtomSelection::from_sorted((0..n_atoms).step_by(3).collect(), n_atoms).expect("ascending");
    let (mut room, mut found) = (Vec::new(), Vec::new());
    for bytes in [classic, &long] {
        decode_integers(bytes, 0, &AtomSelection::all(n_atoms), &mut room, &mut found).expect("sound");
        assert_eq!(found, integers);
        decode_integers(bytes, 0, &third, &mut room, &mut found).expect("sound");
        assert!(found.iter().eq(integers.iter().step_by(3)));
    }
    // singles hold these: an integer over precision, times precision, is nearest to the integer
    if integers.as_flattened().iter().all(|integer| integer.unsigned_abs() < 1 << 20)
        && (1e-30..1e30).contains(&precision)
    {
        let mut again = Vec::new();
        let positions = &read[0];
        let to_encode = FrameToEncode { step: 1, time: 2.0, cell: [[3.0; 3]; 3], positions, precision, long: false };
        encode(&to_encode, &mut EncodeScratch::default(), &mut again).expect("what was read can be written");
        assert!(again == classic);
    }
}

/// Precision in the options; then four bytes an atom: its shift, whether the shift is from the atom before, and three
/// numbers.
fn coordinates(options: u8, data: &[u8]) {
    let precision = PRECISIONS[usize::from(options) % PRECISIONS.len()];
    let mut integers: Vec<[i32; 3]> = Vec::new();
    for &[how, x, y, z] in data.as_chunks::<4>().0 {
        let shifted = [x, y, z].map(|number| i32::from(number as i8).wrapping_shl(u32::from(how & 31)));
        let before = if how & 32 == 0 { [0; 3] } else { integers.last().copied().unwrap_or_default() };
        integers.push([0, 1, 2].map(|axis| before[axis].wrapping_add(shifted[axis])));
    }
    check_integers(&integers, precision);
    // as positions: refused by atom, or to half an integer and the rounding of singles
    let wanted: Vec<[f32; 3]> = integers.iter().map(|atom| atom.map(|integer| integer as f32 / precision)).collect();
    let frame = FrameToEncode { step: 1, time: 2.0, cell: [[3.0; 3]; 3], positions: &wanted, precision, long: false };
    let mut bytes = Vec::new();
    if let Err(error) = encode(&frame, &mut EncodeScratch::default(), &mut bytes) {
        assert!(error.kind() == ErrorKind::InvalidArgument && bytes.is_empty(), "{error}");
        return;
    }
    let found = positions(&bytes).expect("what is encoded is sound");
    for (found, wanted) in found.as_flattened().iter().zip(wanted.as_flattened()) {
        let error = (f64::from(*found) - f64::from(*wanted)).abs();
        assert!(error <= 0.501 / f64::from(precision) + 3e-7 * f64::from(*wanted).abs(), "{wanted} became {found}");
    }
}
