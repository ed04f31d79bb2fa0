//! Encoded XTC frames against bytes of libmdaxdr, against their own reader, and what is refused.

mod common;

use std::path::{Path, PathBuf};

use kinema_core::ErrorKind;
use kinema_core::format::xtc::Xtc;
use kinema_core::format::xtc::encode::{
    EncodeScratch, FrameIntegers, FrameToEncode, IntegersToEncode, decode_integers, encode, encode_integers,
};
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
    let read = common::read(&Xtc, &source, None, None).expect("a sound file");
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
        // what is written is read: to half an integer and the rounding of singles, and to the bit in plain floats
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
