//! XTC frames made of positions or of integers; it opens no file and starts no thread.
//!
//! The bytes are those of the reference implementation (libxdrf) at the same precision. They differ only if the
//! neighbours of a frame are all further apart than 2,642,245 integers (sum over the axes): then the reference reads
//! beyond the end of its table.

use super::coordinates::Cpu;
use super::header::{LONGEST_HEADER, MAGIC_CLASSIC, MAGIC_LONG, MAX_PLAIN_ATOMS};
use super::pack::{self, Extent};
use crate::error::{Error, ErrorKind, Result};

pub use super::integers::{FrameIntegers, decode_integers, is_whole_frame};

/// Most atoms of a frame of magic 1995; GROMACS writes magic 2023 for more.
pub const MAX_CLASSIC_ATOMS: usize = 298_261_617;

/// Most bytes of packed coordinates in a frame of magic 1995.
const MAX_CLASSIC_BYTES: u64 = i32::MAX as u64;

/// Coordinates times precision are below this; the next single is 2^31.
const MAX_INTEGER: f32 = 2_147_483_520.0;

/// One frame: the values before its coordinates, and its coordinates.
#[derive(Debug, Clone, Copy)]
pub struct FrameToEncode<'a> {
    /// Number of the step.
    pub step: i32,
    /// ps
    pub time: f32,
    /// Row vectors, nm.
    pub cell: [[f32; 3]; 3],
    /// Atoms x 3, nm.
    pub positions: &'a [[f32; 3]],
    /// Integers in a nm; positive. Up to nine atoms are stored as they are.
    pub precision: f32,
    /// Magic 2023, in which the coordinates may take more than 2^31 bytes.
    pub long: bool,
}

/// One frame whose coordinates are the integers of another.
#[derive(Debug, Clone, Copy)]
pub struct IntegersToEncode<'a> {
    /// Number of the step.
    pub step: i32,
    /// ps
    pub time: f32,
    /// Row vectors, nm.
    pub cell: [[f32; 3]; 3],
    /// Atoms x 3, coordinates times precision.
    pub integers: &'a [[i32; 3]],
    /// Integers in a nm; positive.
    pub precision: f32,
    /// Magic 2023, in which the coordinates may take more than 2^31 bytes.
    pub long: bool,
}

/// Memory that is used again from frame to frame.
#[derive(Debug, Default)]
pub struct EncodeScratch {
    integers: Vec<[i32; 3]>,
}

/// Appends the bytes of the frame.
///
/// Up to nine atoms are stored as the floats that they are, whatever they are.
///
/// # Errors
/// `InvalidArgument`: a precision that is not positive and finite, a coordinate that is not finite or beyond the integers
/// at this precision (the atom is named), atoms too far apart, too many atoms or bytes for the magic. `out` is as before.
pub fn encode(frame: &FrameToEncode<'_>, scratch: &mut EncodeScratch, out: &mut Vec<u8>) -> Result<()> {
    let &FrameToEncode { step, time, cell, positions, precision, long } = frame;
    check(positions.len(), precision, long)?;
    if positions.len() <= MAX_PLAIN_ATOMS as usize {
        head(&IntegersToEncode { step, time, cell, integers: &[], precision, long }, positions.len(), out);
        words(out, positions.as_flattened().iter().map(|value| value.to_bits()));
        return Ok(());
    }
    let cpu = Cpu::detect();
    scratch.integers.resize(positions.len(), [0; 3]);
    if !scale(positions, precision, &mut scratch.integers, cpu) {
        return Err(not_an_integer(positions, precision));
    }
    packed(
        &IntegersToEncode { step, time, cell, integers: &scratch.integers, precision, long },
        cpu,
        i32::MAX as u64,
        out,
    )
}

/// Appends the bytes of the frame, its coordinates unchanged.
///
/// Up to nine atoms are stored as the floats that a reader makes of the integers.
///
/// # Errors
/// As [`encode`], except for errors of single coordinates.
pub fn encode_integers(frame: &IntegersToEncode<'_>, out: &mut Vec<u8>) -> Result<()> {
    check(frame.integers.len(), frame.precision, frame.long)?;
    if frame.integers.len() <= MAX_PLAIN_ATOMS as usize {
        let inverse = 1.0 / frame.precision;
        head(frame, frame.integers.len(), out);
        words(out, frame.integers.as_flattened().iter().map(|&integer| (integer as f32 * inverse).to_bits()));
        return Ok(());
    }
    packed(frame, Cpu::detect(), MAX_CLASSIC_BYTES, out)
}

/// Checks what does not depend on the coordinates.
fn check(n_atoms: usize, precision: f32, long: bool) -> Result<()> {
    if !(precision > 0.0 && precision.is_finite()) {
        let what = format!("wrong precision, expected a positive number, found {precision}");
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    let most = if long { i32::MAX as usize } else { MAX_CLASSIC_ATOMS };
    if n_atoms > most {
        let magic = if long { MAGIC_LONG } else { MAGIC_CLASSIC };
        let what = format!("too many atoms for magic {magic}, expected at most {most}, found {n_atoms}");
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    Ok(())
}

/// Appends big-endian words.
fn words(out: &mut Vec<u8>, words: impl Iterator<Item = u32>) {
    out.extend(words.flat_map(u32::to_be_bytes));
}

/// Appends the words before the coordinates, packed or not.
fn head(frame: &IntegersToEncode<'_>, n_atoms: usize, out: &mut Vec<u8>) {
    let magic = if frame.long { MAGIC_LONG } else { MAGIC_CLASSIC };
    // below 2^31: checked by the callers
    let n_atoms = n_atoms as u32;
    words(out, [magic as u32, n_atoms, frame.step as u32, frame.time.to_bits()].into_iter());
    words(out, frame.cell.as_flattened().iter().map(|value| value.to_bits()));
    words(out, [n_atoms].into_iter());
}

/// Makes integers of positions as the reference does: the single nearest to the product, moved half a step away from
/// zero, cut. `false` if one is not an integer of 32 bits.
fn scale(positions: &[[f32; 3]], precision: f32, integers: &mut [[i32; 3]], cpu: Cpu) -> bool {
    match cpu {
        Cpu::Baseline => scale_body(positions, precision, integers),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Avx2Proof` is made by `Cpu::detect` alone, after it found all of these features.
        // The safe twin is `scale_body`, to which it is compared in the tests.
        Cpu::Avx2(_) => unsafe { scale_avx2(positions, precision, integers) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn scale_avx2(positions: &[[f32; 3]], precision: f32, integers: &mut [[i32; 3]]) -> bool {
    scale_body(positions, precision, integers)
}

#[inline(always)]
fn rounded(value: f32, precision: f32) -> f32 {
    let scaled = value * precision;
    scaled + 0.5_f32.copysign(scaled)
}

#[inline(always)]
fn scale_body(positions: &[[f32; 3]], precision: f32, integers: &mut [[i32; 3]]) -> bool {
    let mut largest = 0;
    for (integer, &value) in integers.as_flattened_mut().iter_mut().zip(positions.as_flattened()) {
        let value = rounded(value, precision);
        // without the sign, singles have the order of their bits, and NaN is above all others
        largest = largest.max(value.abs().to_bits());
        let bounded = if value.abs() <= MAX_INTEGER { value } else { 0.0 };
        // SAFETY: it is finite and below 2^31. `as` would check that once more, one value at a time.
        *integer = unsafe { bounded.to_int_unchecked() };
    }
    largest <= MAX_INTEGER.to_bits()
}

/// Names the first coordinate that cannot be stored.
#[cold]
fn not_an_integer(positions: &[[f32; 3]], precision: f32) -> Error {
    let sound = |value: f32| rounded(value, precision).abs() <= MAX_INTEGER;
    let found = positions.iter().enumerate().find_map(|(atom, position)| {
        position
            .iter()
            .zip(["x", "y", "z"])
            .find(|(value, _)| !sound(**value))
            .map(|(value, axis)| (atom, axis, *value))
    });
    let Some((atom, axis, value)) = found else {
        return Error::new(ErrorKind::Internal, "a coordinate that cannot be stored is not found again");
    };
    let (number, range) = (atom + 1, MAX_INTEGER / precision);
    let what = format!("{axis} of atom {number} (counted from 1) cannot be stored at precision {precision}");
    Error::new(ErrorKind::InvalidArgument, format!("{what}, expected -{range} to {range} nm, found {value} nm"))
}

/// Appends a frame of packed coordinates; with magic 1995, they may take `most_bytes`.
fn packed(frame: &IntegersToEncode<'_>, cpu: Cpu, most_bytes: u64, out: &mut Vec<u8>) -> Result<()> {
    let start = out.len();
    let extent = Extent::measure(frame.integers, cpu);
    let sizes = extent.sizes().ok_or_else(|| too_far_apart(&extent))?;
    head(frame, frame.integers.len(), out);
    words(out, [frame.precision.to_bits()].into_iter());
    words(out, extent.min.into_iter().chain(extent.max).map(|value| value as u32));
    words(out, [extent.first_place() as u32].into_iter());
    let header = if frame.long { LONGEST_HEADER } else { LONGEST_HEADER - 4 };
    out.resize(start + header, 0);
    pack::pack(frame.integers, &extent, sizes, out, cpu);
    let n_bytes = (out.len() - start - header) as u64;
    if frame.long {
        out[start + header - 8..start + header].copy_from_slice(&n_bytes.to_be_bytes());
    } else if n_bytes <= most_bytes {
        out[start + header - 4..start + header].copy_from_slice(&(n_bytes as u32).to_be_bytes());
    } else {
        out.truncate(start);
        let what = format!(
            "too many bytes of coordinates for magic {MAGIC_CLASSIC}, expected at most {most_bytes}, found {n_bytes}"
        );
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    out.resize(start + (out.len() - start).next_multiple_of(4), 0);
    Ok(())
}

#[cold]
fn too_far_apart(extent: &Extent) -> Error {
    let Extent { min, max, .. } = extent;
    let what = format!("the integers are too far apart, expected a range below 2^31, found {min:?} to {max:?}");
    Error::new(ErrorKind::InvalidArgument, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame<'a>(integers: &'a [[i32; 3]], long: bool) -> IntegersToEncode<'a> {
        IntegersToEncode { step: 7, time: 0.5, cell: [[1.0; 3]; 3], integers, precision: 1000.0, long }
    }

    /// Near neighbours, far ones and same ones, of up to `bits` bits.
    fn mixture(bits: u32) -> Vec<[f32; 3]> {
        let mut state = 88_172_645_463_325_252_u64;
        let mut position = [0.0; 3];
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut positions = Vec::new();
        for _ in 0..1003 {
            let width = random() % u64::from(bits);
            let far = random() % 5 == 0;
            position = position.map(|x: f32| {
                let step = (random() % (1 << width)) as f32 * if random() % 2 == 0 { -1.0 } else { 1.0 };
                if far { step } else { (x + step).clamp(-1e9, 1e9) }
            });
            positions.push(position);
        }
        positions
    }

    /// The safe twins of the AVX2 paths, and their results.
    #[test]
    fn all_instruction_sets_give_the_same_bytes() {
        for bits in [3, 8, 16, 20, 24, 29] {
            let positions = mixture(bits);
            let mut integers = [vec![[0; 3]; positions.len()], vec![[1; 3]; positions.len()]];
            let [plain, fast] = &mut integers;
            assert!(scale(&positions, 1.3, plain, Cpu::Baseline) && scale(&positions, 1.3, fast, Cpu::detect()));
            assert_eq!(plain, fast);
            let extent = Extent::measure(plain, Cpu::Baseline);
            assert_eq!(Extent::measure(plain, Cpu::detect()), extent);
            let axis = |i: usize| plain.iter().map(move |atom| atom[i]);
            assert_eq!([0, 1, 2].map(|i| axis(i).min()), extent.min.map(Some));
            assert_eq!([0, 1, 2].map(|i| axis(i).max()), extent.max.map(Some));
            let sizes = extent.sizes().expect("below 2^31");
            let mut streams = [Vec::new(), Vec::new()];
            pack::pack(plain, &extent, sizes, &mut streams[0], Cpu::Baseline);
            pack::pack(plain, &extent, sizes, &mut streams[1], Cpu::detect());
            assert_eq!(streams[0], streams[1], "{bits} bits");
            let too_large = [positions.as_slice(), &[[0.0, f32::NAN, 0.0]]].concat();
            integers.iter_mut().for_each(|integers| integers.push([0; 3]));
            assert!([Cpu::Baseline, Cpu::detect()].iter().all(|cpu| !scale(&too_large, 1.3, &mut integers[0], *cpu)));
        }
    }

    #[test]
    fn each_magic_has_its_limits_of_atoms_and_bytes() {
        let refused = |outcome: Result<()>| outcome.err().map(|error| (error.kind(), error.what().to_owned()));
        let invalid = |what: &str| Some((ErrorKind::InvalidArgument, what.to_owned()));
        assert_eq!(refused(check(MAX_CLASSIC_ATOMS, 1.0, false)), None);
        assert_eq!(
            refused(check(MAX_CLASSIC_ATOMS + 1, 1.0, false)),
            invalid("too many atoms for magic 1995, expected at most 298261617, found 298261618")
        );
        assert_eq!(refused(check(i32::MAX as usize, 1.0, true)), None);
        assert_eq!(
            refused(check(1 << 31, 1.0, true)),
            invalid("too many atoms for magic 2023, expected at most 2147483647, found 2147483648")
        );
        let integers: Vec<[i32; 3]> = (0..100).map(|i| [i * i, -i, 5]).collect();
        let mut out = vec![1, 2];
        packed(&frame(&integers, false), Cpu::detect(), MAX_CLASSIC_BYTES, &mut out).expect("small");
        let n_bytes = u64::from(u32::from_be_bytes(out[90..94].try_into().expect("four bytes")));
        for (long, most, fits) in [(false, n_bytes, true), (false, n_bytes - 1, false), (true, n_bytes - 1, true)] {
            let mut out = vec![1, 2];
            let outcome = packed(&frame(&integers, long), Cpu::detect(), most, &mut out);
            assert_eq!(outcome.is_ok(), fits);
            if let Some((kind, what)) = refused(outcome) {
                assert_eq!((kind, &out[..]), (ErrorKind::InvalidArgument, &[1, 2][..]));
                let expected = format!("expected at most {most}, found {n_bytes}");
                assert_eq!(what, format!("too many bytes of coordinates for magic 1995, {expected}"));
            }
        }
    }
}
