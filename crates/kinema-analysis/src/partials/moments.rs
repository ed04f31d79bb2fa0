//! First and second moments of each coordinate over frames, mergeable: the partial of averages and fluctuations.
//!
//! It takes no root and no mean: kernels do. Sums are kept about the first frame, not about zero. That frame is one of
//! the samples, so its squared distance from the mean is at most n times the variance. The differences taken at the end
//! therefore lose at most log10(n) of sixteen digits, without a division for each frame as in Welford's method. When
//! two sets of sums merge, the right one is moved to the left one's frame (as in Chan, Golub and LeVeque 1979, for
//! sums).

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::Frames;

use super::bytes::{Reader, Writer};
use crate::cpu::{Cpu, dispatch};
use crate::lanes::Quad;

/// Coordinates whose sums stay in registers while all rows of a block are added.
const TILE: usize = 16;

/// Which sums are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Sums of the coordinates.
    First,
    /// Sums of the coordinates and of their squares.
    Second,
}

/// Sums about the first frame; all three are empty as long as there is no frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    order: Order,
    n_frames: u64,
    /// The first frame: `atoms * 3`, angstrom.
    shift: Vec<f64>,
    /// `sum (x - shift)`
    first: Vec<f64>,
    /// `sum (x - shift)^2`, or empty
    second: Vec<f64>,
}

impl Moments {
    pub(crate) fn new(order: Order) -> Self {
        Self { order, n_frames: 0, shift: Vec::new(), first: Vec::new(), second: Vec::new() }
    }

    pub(crate) fn n_frames(&self) -> u64 {
        self.n_frames
    }

    /// The mean of each coordinate.
    pub fn means(&self) -> Vec<f64> {
        let n = self.n_frames as f64;
        self.shift.iter().zip(&self.first).map(|(shift, sum)| shift + sum / n).collect()
    }

    /// The mean square about the mean, of each coordinate; never negative.
    pub fn variances(&self) -> Vec<f64> {
        let n = self.n_frames as f64;
        let about_mean = |(sum, square): (&f64, &f64)| ((square - sum * (sum / n)) / n).max(0.0);
        self.first.iter().zip(&self.second).map(about_mean).collect()
    }

    /// Adds the positions of an atom set in all frames.
    /// Errors: `Corrupt`, with the frame, for a position that is not finite.
    pub(crate) fn add(&mut self, cpu: Cpu, frames: &Frames<'_>, set: usize) -> Result<()> {
        self.add_rows(cpu, frames.all(Fields::POSITIONS, set), frames.rows());
        let finite = self.first.iter().all(|sum| sum.is_finite());
        if finite { Ok(()) } else { Err(frames.not_finite(Fields::POSITIONS, set)) }
    }

    fn add_rows(&mut self, cpu: Cpu, rows: &[f32], n_rows: usize) {
        let Some(width) = rows.len().checked_div(n_rows).filter(|width| *width > 0) else {
            return;
        };
        if self.n_frames == 0 {
            self.shift = rows.iter().take(width).map(|x| f64::from(*x)).collect();
            self.first = vec![0.0; width];
            self.second = if self.order == Order::Second { vec![0.0; width] } else { Vec::new() };
        }
        self.n_frames = self.n_frames.saturating_add(n_rows as u64);
        let second = (self.order == Order::Second).then_some(&mut self.second[..]);
        dispatch!(cpu, (), add_tiles, (
            rows: &[f32] = rows,
            shift: &[f64] = &self.shift,
            first: &mut [f64] = &mut self.first,
            second: Option<&mut [f64]> = second,
        ));
    }

    /// Adds `right`, which holds later frames.
    pub(crate) fn merge(&mut self, right: Self) {
        if self.n_frames == 0 {
            *self = right;
            return;
        }
        if right.n_frames == 0 {
            return;
        }
        let n = right.n_frames as f64;
        for (i, sum) in self.first.iter_mut().enumerate() {
            let (Some(shift), Some(right_shift), Some(right_sum)) =
                (self.shift.get(i), right.shift.get(i), right.first.get(i))
            else {
                continue;
            };
            let apart = right_shift - shift;
            *sum += right_sum + n * apart;
            if let (Some(square), Some(right_square)) = (self.second.get_mut(i), right.second.get(i)) {
                *square += right_square + apart * (2.0 * right_sum + n * apart);
            }
        }
        // Counts read from bytes may have any value, but sums are never over that many frames, so saturation hides
        // nothing.
        self.n_frames = self.n_frames.saturating_add(right.n_frames);
    }

    /// Number of coordinates and of frames, then the sums.
    pub(crate) fn to_bytes(&self, id: &str, n_coordinates: usize) -> Vec<u8> {
        let mut writer = Writer::new(id);
        writer.u64(n_coordinates as u64);
        writer.u64(self.n_frames);
        writer.numbers(&self.shift);
        writer.numbers(&self.first);
        writer.numbers(&self.second);
        writer.finish()
    }

    /// Restores the sums.
    /// Errors: `Corrupt` if the bytes are not of this kernel, version and number of coordinates.
    pub(crate) fn from_bytes(id: &str, order: Order, n_coordinates: usize, bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(id, bytes)?;
        reader.same(n_coordinates as u64, "number of coordinates")?;
        let n_frames = reader.u64("number of frames")?;
        let width = if n_frames == 0 { 0 } else { n_coordinates as u64 };
        let shift = reader.numbers(width, "first frame")?;
        let first = reader.numbers(width, "sums")?;
        let second = reader.numbers(if order == Order::Second { width } else { 0 }, "sums of squares")?;
        reader.finish()?;
        Ok(Self { order, n_frames, shift, first, second })
    }
}

/// Adds rows tile by tile. For each coordinate the rows are added in order, so blocks may be split anywhere.
#[inline(always)]
fn add_tiles<Q: Quad>(rows: &[f32], shift: &[f64], first: &mut [f64], second: Option<&mut [f64]>) {
    let width = shift.len();
    let mut unused: [f64; 0] = [];
    let with_squares = second.is_some();
    let second = second.unwrap_or(&mut unused);
    let mut at = 0;
    while at < width {
        let length = TILE.min(width - at);
        let mut sums = [[0.0; TILE]; 3];
        sums[0][..length].copy_from_slice(&shift[at..at + length]);
        sums[1][..length].copy_from_slice(&first[at..at + length]);
        if with_squares {
            sums[2][..length].copy_from_slice(&second[at..at + length]);
            sums = add_tile::<Q, true>(rows, width, at, sums);
            second[at..at + length].copy_from_slice(&sums[2][..length]);
        } else {
            sums = add_tile::<Q, false>(rows, width, at, sums);
        }
        first[at..at + length].copy_from_slice(&sums[1][..length]);
        at += TILE;
    }
}

/// Adds one tile of each row to the sums: shift, first and second moments.
#[inline(always)]
fn add_tile<Q: Quad, const SQUARES: bool>(
    rows: &[f32],
    width: usize,
    at: usize,
    sums: [[f64; TILE]; 3],
) -> [[f64; TILE]; 3] {
    let [shift, mut first, mut second] = sums.map(|tile| quads::<Q>(&tile));
    for row in rows.chunks_exact(width) {
        let rest = &row[at..];
        let mut filled = [0.0; TILE];
        let values = match rest.first_chunk::<TILE>() {
            Some(values) => values,
            None => {
                filled[..rest.len()].copy_from_slice(rest);
                &filled
            }
        };
        let (values, _) = values.as_chunks::<4>();
        for i in 0..TILE / 4 {
            let apart = Q::widen(&values[i]).subtract(shift[i]);
            first[i] = first[i].add(apart);
            if SQUARES {
                second[i] = apart.multiply_add(apart, second[i]);
            }
        }
    }
    [shift, first, second].map(|tile| {
        let mut values = [0.0; TILE];
        for (four, quad) in values.as_chunks_mut::<4>().0.iter_mut().zip(tile) {
            *four = quad.store();
        }
        values
    })
}

#[inline(always)]
fn quads<Q: Quad>(tile: &[f64; TILE]) -> [Q; TILE / 4] {
    let (fours, _) = tile.as_chunks::<4>();
    [Q::load(&fours[0]), Q::load(&fours[1]), Q::load(&fours[2]), Q::load(&fours[3])]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(cpu: Cpu, rows: &[f32], width: usize) -> Moments {
        let mut moments = Moments::new(Order::Second);
        moments.add_rows(cpu, rows, rows.len() / width);
        moments
    }

    #[test]
    fn both_builds_give_the_same_bits() {
        for width in [3, 12, 15, 48, 51] {
            let rows: Vec<f32> = (0..width * 9).map(|i| ((i * 7919) % 1013) as f32 * 0.37 + 1e4).collect();
            let (wide, plain) = (gathered(Cpu::detect(), &rows, width), gathered(Cpu::baseline(), &rows, width));
            assert_eq!(wide, plain);
        }
    }

    #[test]
    fn moments_are_those_of_the_definition_far_from_the_origin() {
        let rows: Vec<f32> = (0..3000).map(|i| 1000.0 + ((i * 7919) % 1013) as f32 * 0.001).collect();
        let mut merged = gathered(Cpu::detect(), &rows[..600], 3);
        merged.merge(gathered(Cpu::detect(), &rows[600..1500], 3));
        merged.merge(gathered(Cpu::detect(), &rows[1500..], 3));
        assert_eq!(merged.n_frames(), 1000);
        let (means, variances) = (merged.means(), merged.variances());
        for c in 0..3 {
            let values: Vec<f64> = rows.iter().skip(c).step_by(3).map(|x| f64::from(*x)).collect();
            let mean = values.iter().sum::<f64>() / 1000.0;
            let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1000.0;
            assert!((means[c] - mean).abs() < 1e-11 * mean);
            assert!((variances[c] - variance).abs() < 1e-11 * variance, "{} {variance}", variances[c]);
        }
    }
}
