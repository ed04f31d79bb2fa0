//! First and mixed second moments of all coordinates over frames, mergeable: the partial of covariances.
//!
//! Coordinates may be taken one by one, or x, y and z of an atom together: then a product is that of two vectors. With
//! `axes` = 3 a frame is three rows of the matrix' width, the x of all atoms, their y and their z; with 1 it is one.
//!
//! Sums are kept about the first frame, as in [`super::moments`]. Products of coordinates are kept in blocks of 24 x 24
//! of one half of the matrix: a part of a block stays in registers while all frames of a block are added, 4 x 12 products
//! or, with AVX-512, 8 x 24. Each product is added frame by frame, rounded once, so that blocks of frames may be split
//! anywhere, and all builds give the same bits.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::Frames;

use super::bytes::{Reader, Writer};
use crate::cpu::{Cpu, dispatch, prefetch};
use crate::lanes::Quad;

/// Coordinates of a panel: the side of a block.
const SIDE: usize = 24;
const BLOCK: usize = SIDE * SIDE;
/// Rows of a block, and vectors of four of its columns, that stay in registers together.
const ROWS: usize = 4;
const QUADS: usize = 3;
/// Frames that are packed at a time: two panels stay in the first-level cache.
const PACKED: usize = 128;
/// Panels that stay in the second-level cache while all others go past them.
const TILE: usize = 16;

/// Sums about the first frame; all are empty as long as there is no frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Covariance {
    n_frames: u64,
    /// The first frame: `atoms * 3`, angstrom.
    shift: Vec<f64>,
    /// `sum (x - shift)`
    first: Vec<f64>,
    /// `sum (x_i - shift_i) (x_j - shift_j)` over frames and axes, for the panels p <= q of i and j: block
    /// q (q + 1) / 2 + p, row-major.
    products: Vec<f64>,
}

/// Frames as differences from the shift, panel by panel: panel, frame, coordinate.
pub(crate) type Panels = Vec<f64>;

/// Products of partials that have been merged, for partials that begin: to get as much memory from the system again takes
/// longer than to add the products of a frame. They never are more than partials have lived at a time.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<Vec<f64>>>);

impl Spare {
    fn get(&self) -> MutexGuard<'_, Vec<Vec<f64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `n` numbers, whatever they are.
    fn take(&self, n: usize) -> Vec<f64> {
        let found = self.get().pop();
        found.filter(|found| found.len() == n).unwrap_or_else(|| vec![0.0; n])
    }

    fn put(&self, products: Vec<f64>) {
        self.get().push(products);
    }

    /// Gives the memory back.
    pub(crate) fn clear(&self) {
        self.get().clear();
    }
}

fn n_panels(width: usize) -> usize {
    width.div_ceil(SIDE)
}

/// Numbers of all blocks.
fn n_products(width: usize) -> usize {
    n_panels(width) * (n_panels(width) + 1) / 2 * BLOCK
}

/// Bytes of a partial, given the number of coordinates.
pub(crate) fn partial_bytes(n_coordinates: usize, axes: usize) -> u64 {
    (size_of::<f64>() * (n_products(n_coordinates / axes) + 2 * n_coordinates)) as u64
}

impl Covariance {
    pub(crate) fn n_frames(&self) -> u64 {
        self.n_frames
    }

    /// The mean of each coordinate.
    pub(crate) fn means(&self) -> Vec<f64> {
        let n = self.n_frames as f64;
        self.shift.iter().zip(&self.first).map(|(shift, sum)| shift + sum / n).collect()
    }

    /// `sum (x_i - mean_i) (x_j - mean_j) / divisor`, the whole matrix, row-major.
    pub(crate) fn about_means(&self, axes: usize, divisor: f64) -> Vec<f64> {
        let (width, n) = (self.shift.len() / axes, self.n_frames as f64);
        let first = by_axis(&self.first, axes);
        let means = by_axis(&self.first.iter().map(|sum| sum / n).collect::<Vec<_>>(), axes);
        let mut matrix = vec![0.0; width * width];
        // block by block, so that a row and its mirror image, which is a column, both stay in the cache
        let panels = (0..n_panels(width)).flat_map(|q| (0..=q).map(move |p| (p, q)));
        for ((p, q), products) in panels.zip(self.products.as_chunks::<BLOCK>().0) {
            for (row, products) in products.as_chunks::<SIDE>().0.iter().enumerate() {
                let i = p * SIDE + row;
                for (column, product) in products.iter().enumerate() {
                    let j = q * SIDE + column;
                    if i <= j && j < width {
                        let of = |axis: usize| first[axis][p][row] * means[axis][q][column];
                        let value = (0..axes).fold(*product, |value, axis| value - of(axis)) / divisor;
                        matrix[i * width + j] = value;
                        matrix[j * width + i] = value;
                    }
                }
            }
        }
        matrix
    }

    /// Adds the positions of an atom set in all frames.
    /// Errors: `Corrupt`, with the frame, for a position that is not finite.
    pub(crate) fn add(
        &mut self,
        (cpu, spare): (Cpu, &Spare),
        frames: &Frames<'_>,
        set: usize,
        axes: usize,
        panels: &mut Panels,
    ) -> Result<()> {
        let rows = frames.all(Fields::POSITIONS, set);
        let Some(n_coordinates) = rows.len().checked_div(frames.rows()).filter(|number| *number > 0) else {
            return Ok(());
        };
        let mut is_first = self.n_frames == 0;
        if is_first {
            self.shift = rows.iter().take(n_coordinates).map(|x| f64::from(*x)).collect();
            self.first = vec![0.0; n_coordinates];
            self.products = spare.take(n_products(n_coordinates / axes));
        }
        self.n_frames = self.n_frames.saturating_add(frames.rows() as u64);
        for rows in rows.chunks(PACKED * n_coordinates) {
            self.pack(rows, axes, panels);
            let n_rows = axes * rows.len() / n_coordinates;
            add(cpu, (panels, n_rows), is_first, &mut self.products);
            is_first = false;
        }
        let finite = self.first.iter().all(|sum| sum.is_finite());
        if finite { Ok(()) } else { Err(frames.not_finite(Fields::POSITIONS, set)) }
    }

    /// Writes the differences from the shift into panels, and adds them to the first moments.
    fn pack(&mut self, rows: &[f32], axes: usize, panels: &mut Panels) {
        let n_coordinates = self.shift.len();
        let width = n_coordinates / axes;
        let n_rows = axes * rows.len() / n_coordinates;
        panels.clear();
        panels.resize(n_panels(width) * n_rows * SIDE, 0.0);
        for (panel, packed) in panels.chunks_exact_mut(n_rows * SIDE).enumerate() {
            let places = axes * panel * SIDE..n_coordinates.min(axes * (panel + 1) * SIDE);
            let (shift, first) = (&self.shift[places.clone()], &mut self.first[places.clone()]);
            for (row, packed) in rows.chunks_exact(n_coordinates).zip(packed.chunks_exact_mut(axes * SIDE)) {
                let values = row[places.clone()].iter().zip(shift).zip(first.iter_mut());
                for (at, ((x, shift), sum)) in values.enumerate() {
                    let difference = f64::from(*x) - shift;
                    *sum += difference;
                    // with a constant: a division takes as long as ten products
                    let place = if axes == 1 { at } else { at % 3 * SIDE + at / 3 };
                    packed[place] = difference;
                }
            }
        }
    }

    /// Adds `right`, which holds later frames.
    pub(crate) fn merge(&mut self, (cpu, spare): (Cpu, &Spare), right: Self, axes: usize) {
        if self.n_frames == 0 {
            *self = right;
            return;
        }
        if right.n_frames == 0 {
            return;
        }
        let n = right.n_frames as f64;
        let apart: Vec<f64> = right.shift.iter().zip(&self.shift).map(|(right, left)| right - left).collect();
        let more: Vec<f64> = right.first.iter().zip(&apart).map(|(right, apart)| right + n * apart).collect();
        let moves: Vec<Move> = by_axis(&apart, axes)
            .into_iter()
            .zip(by_axis(&right.first, axes))
            .zip(by_axis(&more, axes))
            .map(|((apart, first), more)| Move { apart, first, more })
            .collect();
        dispatch!(cpu, (), move_and_add, (
            left: &mut [f64] = &mut self.products,
            right: &[f64] = &right.products,
            moves: &[Move] = &moves,
        ));
        for ((sum, right), apart) in self.first.iter_mut().zip(&right.first).zip(&apart) {
            *sum += right + n * apart;
        }
        self.n_frames = self.n_frames.saturating_add(right.n_frames);
        spare.put(right.products);
    }

    /// Number of coordinates and of frames, then the sums.
    pub(crate) fn to_bytes(&self, id: &str, n_coordinates: usize) -> Vec<u8> {
        let mut writer = Writer::new(id);
        writer.u64(n_coordinates as u64);
        writer.u64(self.n_frames);
        writer.numbers(&self.shift);
        writer.numbers(&self.first);
        writer.numbers(&self.products);
        writer.finish()
    }

    /// Restores the sums.
    /// Errors: `Corrupt` if the bytes are not of this kernel, version and number of coordinates.
    pub(crate) fn from_bytes(id: &str, n_coordinates: usize, axes: usize, bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(id, bytes)?;
        reader.same(n_coordinates as u64, "number of coordinates")?;
        let n_frames = reader.u64("number of frames")?;
        let width = if n_frames == 0 { 0 } else { n_coordinates };
        let shift = reader.numbers(width as u64, "first frame")?;
        let first = reader.numbers(width as u64, "sums")?;
        let products = reader.numbers(n_products(width / axes) as u64, "sums of products")?;
        reader.finish()?;
        Ok(Self { n_frames, shift, first, products })
    }
}

/// Moves products of later frames from their first frame to that of earlier frames, for one axis, panel by panel. The
/// product of coordinates i and j grows by `u_i more_j + r_i u_j`: u is how far the first frames are apart, r the sums of
/// the later frames about their own first frame, `more` about that of the earlier frames.
struct Move {
    apart: Vec<[f64; SIDE]>,
    first: Vec<[f64; SIDE]>,
    more: Vec<[f64; SIDE]>,
}

/// Adds the products of later frames. `Q` only says for which processor it is compiled.
#[inline(always)]
fn move_and_add<Q: Quad>(left: &mut [f64], right: &[f64], moves: &[Move]) {
    let n_panels = moves.first().map_or(0, |one| one.apart.len());
    let panels = (0..n_panels).flat_map(|q| (0..=q).map(move |p| (p, q)));
    let blocks = left.as_chunks_mut::<BLOCK>().0.iter_mut().zip(right.as_chunks::<BLOCK>().0);
    for ((p, q), (left, right)) in panels.zip(blocks) {
        let rows = left.as_chunks_mut::<SIDE>().0.iter_mut().zip(right.as_chunks::<SIDE>().0);
        for (row, (sums, right)) in rows.enumerate() {
            for line in (0..SIDE).step_by(8) {
                // the same row of the next block
                prefetch(sums.as_ptr().wrapping_add(BLOCK + line));
                prefetch(right.as_ptr().wrapping_add(BLOCK + line));
            }
            let mut moved: [f64; SIDE] = std::array::from_fn(|i| sums[i] + right[i]);
            for Move { apart, first, more } in moves {
                let (u, r) = (apart[p][row], first[p][row]);
                for ((sum, more), apart) in moved.iter_mut().zip(&more[q]).zip(&apart[q]) {
                    *sum += u * more + r * apart;
                }
            }
            *sums = moved;
        }
    }
}

/// Numbers of coordinates for each axis, panel by panel; the last panel is filled with zeros.
fn by_axis(values: &[f64], axes: usize) -> Vec<Vec<[f64; SIDE]>> {
    let mut panels = vec![vec![[0.0; SIDE]; n_panels(values.len() / axes)]; axes];
    for (place, value) in values.iter().enumerate() {
        panels[place % axes][place / axes / SIDE][place / axes % SIDE] = *value;
    }
    panels
}

/// Pairs of panels p <= q, in an order in which p stays in the cache.
#[inline(always)]
fn tiled(n_panels: usize) -> impl Iterator<Item = (usize, usize)> {
    let tiles = (0..n_panels).step_by(TILE);
    tiles.flat_map(move |first| {
        (first..n_panels).flat_map(move |q| (first..n_panels.min(first + TILE).min(q + 1)).map(move |p| (p, q)))
    })
}

/// The first number of the block of panels p <= q.
fn block(p: usize, q: usize) -> usize {
    (q * (q + 1) / 2 + p) * BLOCK
}

/// The place of the product of coordinates i <= j.
#[cfg(test)]
fn place(i: usize, j: usize) -> usize {
    block(i / SIDE, j / SIDE) + (i % SIDE) * SIDE + j % SIDE
}

/// Adds the products of all pairs of panels, frame by frame, by the widest build that the processor runs.
/// The first ones take the place of what the products were.
fn add(cpu: Cpu, (panels, n_rows): (&[f64], usize), are_first: bool, products: &mut [f64]) {
    #[cfg(target_arch = "x86_64")]
    if cpu.is_wider() {
        // SAFETY: `is_wider` is true only if `Cpu::detect` has found AVX-512 on this processor.
        return unsafe { wider::add_products(panels, n_rows, are_first, products) };
    }
    dispatch!(cpu, (), add_products, (
        panels: &[f64] = panels,
        n_rows: usize = n_rows,
        are_first: bool = are_first,
        products: &mut [f64] = products,
    ));
}

/// The same, for all builds but AVX-512.
#[inline(always)]
fn add_products<Q: Quad>(panels: &[f64], n_rows: usize, are_first: bool, products: &mut [f64]) {
    let length = n_rows * SIDE;
    for (p, q) in tiled(panels.len() / length) {
        let (first, second) = (&panels[p * length..][..length], &panels[q * length..][..length]);
        let (sums, _) = products[block(p, q)..][..BLOCK].as_chunks_mut::<{ ROWS * SIDE }>();
        for (part, sums) in sums.iter_mut().enumerate() {
            if are_first {
                sums.fill(0.0);
            }
            for columns in 0..SIDE / (4 * QUADS) {
                add_part::<Q>(first, part, second, columns, sums);
            }
        }
    }
}

/// Adds the products of four coordinates of one panel, and of twelve of another.
#[inline(always)]
fn add_part<Q: Quad>(first: &[f64], part: usize, second: &[f64], columns: usize, sums: &mut [f64; ROWS * SIDE]) {
    let (quads, _) = sums.as_chunks_mut::<4>();
    let place = |i: usize| i / QUADS * (SIDE / 4) + columns * QUADS + i % QUADS;
    let mut kept: [Q; ROWS * QUADS] = std::array::from_fn(|i| Q::load(&quads[place(i)]));
    let (firsts, seconds) = (first.as_chunks::<SIDE>().0, second.as_chunks::<SIDE>().0);
    for (a, b) in firsts.iter().zip(seconds) {
        let a = a.as_chunks::<ROWS>().0[part];
        let (b, _) = b.as_chunks::<{ 4 * QUADS }>().0[columns].as_chunks::<4>();
        let b = [Q::load(&b[0]), Q::load(&b[1]), Q::load(&b[2])];
        for (row, a) in a.into_iter().enumerate() {
            let a = Q::all(a);
            for (column, b) in b.iter().enumerate() {
                let sum = &mut kept[QUADS * row + column];
                *sum = a.multiply_add(*b, *sum);
            }
        }
    }
    for (i, kept) in kept.into_iter().enumerate() {
        quads[place(i)] = kept.store();
    }
}

/// The build for AVX-512: eight rows of a block stay in registers.
#[cfg(target_arch = "x86_64")]
mod wider {
    use std::arch::x86_64::{__m512d, _mm512_fmadd_pd, _mm512_loadu_pd, _mm512_set1_pd, _mm512_storeu_pd};

    use super::{BLOCK, SIDE, block, tiled};
    use crate::cpu::prefetch;

    const LANES: usize = 8;
    /// Vectors of a row.
    const WIDE: usize = SIDE / LANES;

    /// See [`super::add_products`].
    #[target_feature(enable = "avx512f")]
    pub(super) fn add_products(panels: &[f64], n_rows: usize, are_first: bool, products: &mut [f64]) {
        let length = n_rows * SIDE;
        for (p, q) in tiled(panels.len() / length) {
            let (first, second) = (&panels[p * length..][..length], &panels[q * length..][..length]);
            let (sums, _) = products[block(p, q)..][..BLOCK].as_chunks_mut::<{ LANES * SIDE }>();
            for (part, sums) in sums.iter_mut().enumerate() {
                if are_first {
                    sums.fill(0.0);
                }
                add_part(first, part, second, sums);
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    fn add_part(first: &[f64], part: usize, second: &[f64], sums: &mut [f64; LANES * SIDE]) {
        let next = sums.as_ptr_range().end;
        let (vectors, _) = sums.as_chunks_mut::<LANES>();
        let mut kept: [__m512d; LANES * WIDE] = std::array::from_fn(|i| load(&vectors[i]));
        let (firsts, seconds) = (first.as_chunks::<SIDE>().0, second.as_chunks::<SIDE>().0);
        for (row, (a, b)) in firsts.iter().zip(seconds).enumerate() {
            if row < LANES * WIDE {
                // the part that comes next, which no earlier read has brought into the cache
                prefetch(next.wrapping_add(row * LANES));
            }
            let a = a.as_chunks::<LANES>().0[part];
            let (b, _) = b.as_chunks::<LANES>();
            let b = [load(&b[0]), load(&b[1]), load(&b[2])];
            for (row, a) in a.into_iter().enumerate() {
                let a = _mm512_set1_pd(a);
                for (column, b) in b.iter().enumerate() {
                    let sum = &mut kept[WIDE * row + column];
                    *sum = _mm512_fmadd_pd(a, *b, *sum);
                }
            }
        }
        for (vector, kept) in vectors.iter_mut().zip(kept) {
            // SAFETY: eight numbers are written into an array of eight.
            unsafe { _mm512_storeu_pd(vector.as_mut_ptr(), kept) };
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(numbers: &[f64; LANES]) -> __m512d {
        // SAFETY: an array of eight is read.
        unsafe { _mm512_loadu_pd(numbers.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_builds_add_the_same_bits() {
        for (width, n_rows) in [(3, 1), (24, 5), (50, 17), (75, 64), (24 * TILE + 30, 40)] {
            let n_panels = n_panels(width);
            let panels: Vec<f64> = (0..n_panels * n_rows * SIDE).map(|i| (i as f64 * 0.7).sin()).collect();
            let mut sums = [Cpu::baseline(), Cpu::detect()].map(|cpu| {
                let mut products = vec![0.25; n_products(width)];
                add(cpu, (&panels, n_rows), false, &mut products);
                let mut anew = vec![f64::NAN; n_products(width)];
                add(cpu, (&panels, n_rows), true, &mut anew);
                let mut from_zero = vec![0.0; n_products(width)];
                add(cpu, (&panels, n_rows), false, &mut from_zero);
                assert_eq!(anew, from_zero);
                products
            });
            let mut products = vec![0.25; n_products(width)];
            dispatch!(Cpu::detect(), (), add_products, (
                panels: &[f64] = &panels,
                n_rows: usize = n_rows,
                are_first: bool = false,
                products: &mut [f64] = &mut products,
            ));
            assert_eq!(sums[0], sums[1]);
            assert_eq!(sums[0], products);
            let expected: f64 = (0..n_rows).map(|row| panels[row * SIDE] * panels[row * SIDE + 2]).sum::<f64>() + 0.25;
            assert!((std::mem::take(&mut sums[0])[place(0, 2)] - expected).abs() < 1e-12);
        }
    }
}
