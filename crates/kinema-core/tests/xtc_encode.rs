//! Encoded XTC frames against bytes of libmdaxdr and against their own reader, and refused frames.

use std::path::{Path, PathBuf};

use kinema_core::ErrorKind;
use kinema_core::format::xtc::Xtc;
use kinema_core::format::xtc::encode::{
    EncodeScratch, FrameIntegers, FrameToEncode, IntegersToEncode, decode_integers, encode, encode_integers,
};
use kinema_core::format::{Format, ScanOptions};
use kinema_core::selection::AtomSelection;
use kinema_core::source::MemorySource;

const PRECISIONS: [f32; 11] = [1.0, 3.5, 10.0, 64.0, 100.0, 997.0, 1000.0, 1024.0, 1e4, 1e5, 1e6];

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// CRC-32 as in zlib.
fn crc32(bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|i| {
        (0..8).fold(i as u32, |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 })
    });
    !bytes.iter().fold(!0, |crc, &byte| (crc >> 8) ^ table[((crc ^ u32::from(byte)) & 255) as usize])
}

/// Steele's SplitMix64, by counter, as in `make_xtc_encoded_golden.py`.
fn draw(frame: u64, counter: u64) -> u64 {
    let z = (counter + (frame << 32) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Positions and precision of a frame that follows from its number, as in `make_xtc_encoded_golden.py`.
fn made_up(frame: u64) -> (Vec<[f32; 3]>, f32) {
    let below = |counter: u64, n: u64| draw(frame, counter) % n;
    let kind = below(0, 6);
    let n_atoms = 1 + below(2, [30, 30, 30, 300, 300, 2000][below(1, 6) as usize]) as usize;
    let precision = PRECISIONS[below(3, 11) as usize];
    let spread = f64::powi(2.0, 1 + below(4, 31) as i32) / f64::from(precision);
    let raw = |atom: usize, column: u64| draw(frame, 16 + 4 * atom as u64 + column);
    let around = |atom: usize| [0, 1, 2].map(|axis| (raw(atom, axis) >> 11) as f64 * f64::powi(2.0, -53) - 0.5);
    let choice = |atom: usize| raw(atom, 3) >> 40;
    let mut positions: Vec<[f64; 3]> = Vec::new();
    for atom in 0..n_atoms {
        let here = around(atom).map(|x| x * spread);
        let zip = |a: [f64; 3], b: [f64; 3]| [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
        let before = atom.checked_sub(1).map(|before| positions[before]);
        positions.push(match (kind, before) {
            (0, before) => {
                let step = here.map(|x| x * f64::powi(2.0, -((choice(atom) % 12) as i32)));
                before.map_or(step, |before| zip(before, step))
            }
            (1, _) => {
                let middle = around(atom - atom % 3).map(|x| x * spread);
                let near = if atom % 3 == 0 { 0.0 } else { 1.0 };
                zip(middle, here.map(|x| x * f64::powi(2.0, -6) * near))
            }
            (3, _) => around(0).map(|x| x * spread),
            (4, Some(before)) if choice(atom) % 4 != 0 => zip(before, here.map(|x| x * f64::powi(2.0, -8))),
            (5, _) => around(atom).map(|x| ((x * spread * f64::from(precision)).floor() + 0.5) / f64::from(precision)),
            _ => here,
        });
    }
    (positions.iter().map(|position| position.map(|x| x as f32)).collect(), precision)
}

fn made_up_frame<'a>(number: u64, positions: &'a [[f32; 3]], precision: f32, long: bool) -> FrameToEncode<'a> {
    let f = number as f32;
    let cell = [[f, 0.0, 0.0], [0.5, f, 0.0], [-1.0, 1.25, f]];
    FrameToEncode { step: number as i32 - 1000, time: 0.25 * f, cell, positions, precision, long }
}

/// The frame of the integers in `bytes`, encoded; `None` for plain floats.
fn through_integers(bytes: &[u8], n_atoms: u32) -> Option<(Vec<u8>, Vec<[i32; 3]>, FrameIntegers)> {
    let mut integers = Vec::new();
    let all = AtomSelection::all(n_atoms);
    let found = decode_integers(bytes, 0, &all, &mut Vec::new(), &mut integers).expect("a sound frame");
    let FrameIntegers { step, time, cell, precision, long } = found;
    let frame = IntegersToEncode { step, time, cell, integers: &integers, precision: precision?, long };
    let mut out = Vec::new();
    encode_integers(&frame, &mut out).expect("a sound frame");
    Some((out, integers, found))
}

/// Positions (nm) of a file of frames, each with its first byte.
fn positions_in(bytes: &[u8]) -> (Vec<[f32; 3]>, u64) {
    let source = MemorySource::new("test.xtc", bytes.to_vec());
    let read = crate::common::read(&Xtc, &source, None, None).expect("a sound file");
    (read.block.positions.as_chunks::<3>().0.to_vec(), read.n_frames)
}

#[test]
fn thousands_of_frames_have_the_bytes_of_libmdaxdr() {
    let golden = std::fs::read_to_string(data().join("xtc_encoded_golden.txt")).expect("test data");
    let mut scratch = EncodeScratch::default();
    let (mut equal, mut refused, mut unsound) = (0, 0, 0);
    for (number, line) in golden.lines().enumerate() {
        let (positions, precision) = made_up(number as u64);
        let n_atoms = positions.len() as u32;
        let frame = made_up_frame(number as u64, &positions, precision, false);
        let mut out = b"before".to_vec();
        let outcome = encode(&frame, &mut scratch, &mut out);
        let found = match outcome {
            Err(error) => {
                assert_eq!((error.kind(), &out[..]), (ErrorKind::InvalidArgument, &b"before"[..]), "{error}");
                refused += 1;
                format!("{n_atoms} refused")
            }
            Ok(()) if line.ends_with("unsound") => {
                unsound += 1;
                format!("{n_atoms} unsound")
            }
            Ok(()) => {
                equal += 1;
                format!("{n_atoms} {} {:08x}", out.len() - 6, crc32(&out[6..]))
            }
        };
        assert_eq!(found, line, "frame {number}");
        if out.len() == 6 {
            continue;
        }
        // the written frames are read: to half an integer and the rounding of singles, and to the bit in plain floats
        let (read, n_frames) = positions_in(&out[6..]);
        assert_eq!(n_frames, 1);
        match through_integers(&out[6..], n_atoms) {
            None => assert_eq!(read, positions, "frame {number}"),
            Some((again, integers, _)) => {
                assert!(again == out[6..], "frame {number}");
                for (integer, position) in integers.as_flattened().iter().zip(positions.as_flattened()) {
                    let exact = f64::from(*position) * f64::from(precision);
                    let error = (f64::from(*integer) - exact).abs();
                    assert!(error <= 0.5 + exact.abs() * 1.2e-7, "frame {number}: {position} became {integer}");
                }
                let inverse = 1.0 / precision;
                let floats = integers.as_flattened().iter().map(|&integer| integer as f32 * inverse);
                assert!(floats.eq(read.as_flattened().iter().copied()), "frame {number}");
            }
        }
    }
    assert!(equal > 3000 && refused > 20 && unsound > 20, "{equal} equal, {refused} refused, {unsound} unsound");
}

/// The frames of a file as they lie in it, and their number of atoms.
fn frames_of(bytes: &[u8]) -> (Vec<&[u8]>, u32) {
    let source = MemorySource::new("test.xtc", bytes.to_vec());
    let decoder = Xtc.open(&source).expect("a sound file");
    let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
    let index = decoder.scan(&source, &options).expect("a sound file").index;
    let extents = (0..index.n_frames()).map(|frame| index.extent(frame));
    let frames = extents.map(|extent| &bytes[extent.offset as usize..extent.end() as usize]).collect();
    (frames, decoder.header().n_atoms)
}

/// Encodes every frame of a file through its integers and, where singles hold these, through its positions.
fn re_encode(label: &str, bytes: &[u8]) {
    let (frames, n_atoms) = frames_of(bytes);
    assert!(!frames.is_empty(), "{label}");
    let (positions, _) = positions_in(bytes);
    let mut scratch = EncodeScratch::default();
    for (i, (frame, positions)) in frames.into_iter().zip(positions.chunks(n_atoms as usize)).enumerate() {
        let all = AtomSelection::all(n_atoms);
        let mut integers = Vec::new();
        let FrameIntegers { step, time, cell, precision, long } =
            decode_integers(frame, 0, &all, &mut Vec::new(), &mut integers).expect("a sound frame");
        let precision = precision.unwrap_or(1000.0);
        if n_atoms > 9 {
            let mut out = Vec::new();
            let to_encode = IntegersToEncode { step, time, cell, integers: &integers, precision, long };
            encode_integers(&to_encode, &mut out).expect("a sound frame");
            assert!(out == frame, "{label} frame {i} through integers");
        }
        // beyond, an integer times 1 / precision times precision may be its neighbour
        if integers.as_flattened().iter().all(|integer| integer.unsigned_abs() < 1 << 21) {
            let mut out = Vec::new();
            let to_encode = FrameToEncode { step, time, cell, positions, precision, long };
            encode(&to_encode, &mut scratch, &mut out).expect("a sound frame");
            assert!(out == frame, "{label} frame {i} through positions");
        }
    }
}

#[test]
fn every_small_file_re_encodes_to_itself() {
    let mut n_files = 0;
    for entry in std::fs::read_dir(data().join("xtc")).expect("test data") {
        let path = entry.expect("test data").path();
        re_encode(&path.display().to_string(), &std::fs::read(&path).expect("test data"));
        n_files += 1;
    }
    assert_eq!(n_files, 13);
}

/// The files are not in this repository: `MDANALYSIS_TESTS_DATA` names the folder `data` of MDAnalysisTests.
#[test]
#[ignore = "needs MDAnalysisTests; set MDANALYSIS_TESTS_DATA and run with --ignored"]
fn files_of_mdanalysis_re_encode_to_themselves() {
    let folder = std::env::var_os("MDANALYSIS_TESTS_DATA").expect("MDANALYSIS_TESTS_DATA");
    let list = std::fs::read_to_string(data().join("xtc_golden_mdanalysis.txt")).expect("test data");
    let mut labels: Vec<&str> = list.lines().filter_map(|line| line.split(' ').next()).collect();
    labels.dedup();
    assert!(labels.len() > 3);
    for label in labels {
        re_encode(label, &std::fs::read(Path::new(&folder).join(label)).expect("test data"));
    }
}

/// Integers of 50 nm at precision 10^6 are beyond what singles hold.
#[test]
fn a_selection_keeps_the_integers_that_singles_do_not_hold() {
    let n_atoms = 1000;
    let place = |atom: u64, axis: u64| (draw(1, 3 * (atom / 3) + axis) % 50_000_000) as i32;
    let near = |atom: u64, axis: u64| (draw(2, 3 * atom + axis) % 90_000) as i32 * i32::from(!atom.is_multiple_of(3));
    let integers: Vec<[i32; 3]> =
        (0..n_atoms).map(|atom| [0, 1, 2].map(|axis| place(atom, axis) + near(atom, axis))).collect();
    let whole = IntegersToEncode {
        step: -3,
        time: 1.5,
        cell: [[50.0, 0.0, 0.0], [0.0, 50.0, 0.0], [0.0, 0.0, 50.0]],
        integers: &integers,
        precision: 1e6,
        long: false,
    };
    let mut bytes = Vec::new();
    encode_integers(&whole, &mut bytes).expect("a sound frame");
    let selections =
        [(0..1000).step_by(3).collect::<Vec<u32>>(), (500..510).collect(), vec![0, 1, 999], vec![], (0..999).collect()];
    for atoms in selections {
        let selection = AtomSelection::from_sorted(atoms.clone(), 1000).expect("sorted");
        let mut found = Vec::new();
        let header = decode_integers(&bytes, 0, &selection, &mut Vec::new(), &mut found).expect("a sound frame");
        assert_eq!((header.precision, header.cell, header.step), (Some(1e6), whole.cell, -3));
        let expected: Vec<[i32; 3]> = atoms.iter().map(|&atom| integers[atom as usize]).collect();
        assert_eq!(found, expected);
        if found.is_empty() {
            continue; // no file has a frame of no atoms
        }
        let mut part = Vec::new();
        encode_integers(&IntegersToEncode { integers: &found, ..whole }, &mut part).expect("a sound frame");
        let (read, _) = positions_in(&part);
        let inverse = 1.0_f32 / 1e6;
        assert_eq!(read, expected.iter().map(|atom| atom.map(|x| x as f32 * inverse)).collect::<Vec<_>>());
        if found.len() > 9 {
            assert_eq!(through_integers(&part, found.len() as u32).expect("packed").1, expected);
        }
    }
    // through positions they are not kept: the reason why there is this way
    let (positions, _) = positions_in(&bytes);
    let mut rounded = Vec::new();
    let frame = FrameToEncode { positions: &positions, ..made_up_frame(0, &[], 1e6, false) };
    encode(&frame, &mut EncodeScratch::default(), &mut rounded).expect("a sound frame");
    assert_ne!(through_integers(&rounded, 1000).expect("packed").1, integers);
}

#[test]
fn magic_2023_has_the_same_packed_bytes() {
    let mut scratch = EncodeScratch::default();
    let mut packed = 0;
    for number in 0..500 {
        let (positions, precision) = made_up(number);
        let mut outs = [vec![], vec![]];
        let mut refused = 0;
        for (out, long) in outs.iter_mut().zip([false, true]) {
            let frame = made_up_frame(number, &positions, precision, long);
            refused += usize::from(encode(&frame, &mut scratch, out).is_err());
        }
        let [classic, long] = outs;
        if refused > 0 {
            assert_eq!(refused, 2, "frame {number}");
            continue;
        }
        assert_eq!((&classic[..4], &long[..4]), (&1995_i32.to_be_bytes()[..], &2023_i32.to_be_bytes()[..]));
        if positions.len() <= 9 {
            assert_eq!(classic[4..], long[4..]);
        } else {
            assert_eq!(classic[4..88], long[4..88]);
            assert_eq!(long[88..92], [0; 4]);
            assert_eq!(classic[88..], long[92..], "frame {number}");
            packed += 1;
        }
        assert_eq!(positions_in(&classic), positions_in(&long));
    }
    assert!(packed > 300);
}

#[test]
fn up_to_nine_atoms_are_the_floats_that_they_are() {
    let odd = [f32::NAN, -0.0, f32::INFINITY, 1e30, f32::MIN_POSITIVE / 8.0, f32::from_bits(0x7fa0_0001)];
    for n_atoms in 0..10 {
        let positions: Vec<[f32; 3]> = (0..n_atoms).map(|i| [odd[i % 6], i as f32, odd[(i + 1) % 6]]).collect();
        let mut out = Vec::new();
        let frame = made_up_frame(1, &positions, 1000.0, false);
        encode(&frame, &mut EncodeScratch::default(), &mut out).expect("any floats");
        let expected: Vec<u8> = positions.as_flattened().iter().flat_map(|value| value.to_be_bytes()).collect();
        assert_eq!((out.len(), &out[56..]), (56 + 12 * n_atoms, &expected[..]));
    }
}

#[test]
fn what_cannot_be_stored_is_refused_by_atom() {
    let good: Vec<[f32; 3]> = (0..20).map(|i| [i as f32, 0.5, -1.0]).collect();
    let refused = |positions: &[[f32; 3]], precision: f32| {
        let mut out = vec![9; 3];
        let frame = FrameToEncode { positions, ..made_up_frame(1, &[], precision, false) };
        let error = encode(&frame, &mut EncodeScratch::default(), &mut out).expect_err("refused");
        assert_eq!((error.kind(), out), (ErrorKind::InvalidArgument, vec![9; 3]));
        error.what().to_owned()
    };
    let range = "expected -2147483.5 to 2147483.5 nm";
    for (atom, axis, value) in [(0, 0, f32::NAN), (7, 1, f32::NEG_INFINITY), (19, 2, 2_147_483.7), (13, 1, -3e30)] {
        let mut positions = good.clone();
        positions[atom][axis] = value;
        let name = ["x", "y", "z"][axis];
        let found = format!("{name} of atom {} (counted from 1) cannot be stored at precision 1000", atom + 1);
        let found = format!("{found}, {range}, found {value} nm");
        assert_eq!(refused(&positions, 1000.0), found);
    }
    let mut far = good.clone();
    far[3][0] = 1_200_000.0;
    far[4][0] = -1_200_000.0;
    let found = refused(&far, 1000.0);
    assert!(
        found.starts_with("the integers are too far apart, expected a range below 2^31, found [-1200000000, "),
        "{found}"
    );
    for precision in [0.0, -1000.0, f32::NAN, f32::INFINITY] {
        let expected = format!("wrong precision, expected a positive number, found {precision}");
        assert_eq!(refused(&good, precision), expected);
        assert_eq!(refused(&good[..2], precision), expected);
    }
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let (mut corrupt, mut sound) = (0, 0);
    for name in ["mixed", "wide", "separate", "mixed_2023", "atoms_10", "one_point", "atoms_9"] {
        let bytes = std::fs::read(data().join(format!("xtc/{name}.xtc"))).expect("test data");
        let (frames, n_atoms) = frames_of(&bytes);
        let frame = frames[0];
        let third = AtomSelection::from_sorted((0..n_atoms).step_by(3).collect(), n_atoms).expect("sorted");
        let (mut room, mut integers) = (Vec::new(), Vec::new());
        for end in 0..frame.len() {
            let error = decode_integers(&frame[..end], 0, &third, &mut room, &mut integers).expect_err("cut");
            assert!(matches!(error.kind(), ErrorKind::Truncated | ErrorKind::Corrupt), "{name} cut at {end}: {error}");
        }
        for bit in 0..frame.len() * 8 {
            let mut broken = frame.to_vec();
            broken[bit / 8] ^= 1 << (bit % 8);
            for atoms in [&AtomSelection::all(n_atoms), &third] {
                match decode_integers(&broken, 100, atoms, &mut room, &mut integers) {
                    Ok(found) => {
                        assert_eq!(integers.len(), if found.precision.is_some() { atoms.len() } else { 0 });
                        sound += 1;
                    }
                    Err(error) => {
                        assert!(matches!(
                            error.kind(),
                            ErrorKind::Corrupt | ErrorKind::Truncated | ErrorKind::Unsupported
                        ));
                        assert!(
                            error.offset().is_some_and(|at| (100..100 + frame.len() as u64).contains(&at)),
                            "{error}"
                        );
                        corrupt += 1;
                    }
                }
            }
        }
    }
    assert!(corrupt > 1000 && sound > 1000, "{corrupt} errors, {sound} without");
}
