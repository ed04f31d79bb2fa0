//! Fourier sums of points, `sum_j f_j exp(i k . r_j)`, for all wave vectors of a cell up to a length.
//!
//! Wave vectors are those of the reciprocal lattice, `2 pi (h a* + k b* + l c*)`; of k and -k there is one, because their sums
//! are conjugate. Powers of `exp(2 pi i a* . r)` and of the other two come from one another; each product of them serves two
//! wave vectors, l and -l.

use std::f64::consts::TAU;
use std::ops::RangeInclusive;

use kinema_core::frame::Lattice;
use kinema_core::{Error, ErrorKind, Result};

use crate::cpu::{Cpu, dispatch};
use crate::geometry::turns::sine_and_cosine;
use crate::geometry::vectors::dot;
use crate::lanes::Quad;

/// Points whose powers are kept at a time: a multiple of 4.
const CHUNK: usize = 256;
/// Wave vectors at most.
const MOST_VECTORS: f64 = (1_u64 << 28) as f64;

type Complex = [f64; 2];

/// Wave vectors of one h and k.
#[derive(Debug, Clone)]
struct Row {
    h: usize,
    k: i64,
    l: RangeInclusive<i64>,
    /// The place of the first.
    start: usize,
}

/// The wave vectors of a cell: half of them.
#[derive(Debug, Default)]
pub(super) struct WaveVectors {
    dual: [[f64; 3]; 3],
    rows: Vec<Row>,
    /// Largest power along each vector.
    most: [usize; 3],
    len: usize,
}

impl WaveVectors {
    /// Wave vectors up to the length `longest`, 1/angstrom, except 0; some may be longer by rounding.
    /// Errors: `InvalidArgument` for too many.
    pub(super) fn new(lattice: &Lattice, longest: f64) -> Result<Self> {
        let (dual, basis) = (*lattice.dual(), lattice.basis());
        let radius = longest / TAU * (1.0 + 1e-12);
        let length = |vector: &[f64; 3]| product(*vector, *vector).sqrt();
        let most = [0, 1, 2].map(|i| (radius * length(&basis[i])).floor());
        if most.iter().map(|most| 2.0 * most + 1.0).product::<f64>() > 4.0 * MOST_VECTORS {
            let what =
                format!("{longest} per angstrom are too many wave vectors in this cell, expected a smaller limit");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let most = most.map(|most| most as i64);
        let mut found = Self { dual, rows: Vec::new(), most: most.map(|most| most as usize), len: 0 };
        let square = product(dual[2], dual[2]);
        for h in 0..=most[0] {
            for k in (if h == 0 { 0 } else { -most[1] })..=most[1] {
                let base = [0, 1, 2].map(|x| h as f64 * dual[0][x] + k as f64 * dual[1][x]);
                let middle = -product(base, dual[2]) / square;
                let rest = radius * radius - (product(base, base) - middle * middle * square);
                if rest < 0.0 {
                    continue;
                }
                let half = (rest / square).sqrt();
                let (first, last) = ((middle - half).ceil() as i64, (middle + half).floor() as i64);
                let first = if (h, k) == (0, 0) { 1 } else { first.max(-most[2]) };
                let last = last.min(most[2]);
                if first <= last {
                    found.rows.push(Row { h: h as usize, k, l: first..=last, start: found.len });
                    found.len += (last - first + 1) as usize;
                }
            }
        }
        Ok(found)
    }

    /// The same in parts of about `most` wave vectors, in their order.
    pub(super) fn in_parts(&self, most: usize) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        for row in &self.rows {
            let length = (row.l.end() - row.l.start() + 1) as usize;
            if parts.last().is_none_or(|part| part.len + length > most) {
                parts.push(Self { rows: Vec::new(), len: 0, ..*self });
            }
            if let Some(part) = parts.last_mut() {
                part.rows.push(Row { start: part.len, ..row.clone() });
                part.len += length;
            }
        }
        parts
    }

    /// Number of wave vectors.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Their lengths, 1/angstrom, in the order of the sums.
    pub(super) fn lengths(&self) -> impl Iterator<Item = f64> + '_ {
        self.rows.iter().flat_map(move |row| {
            row.l.clone().map(move |l| {
                let [a, b, c] = self.dual;
                let turns = [0, 1, 2].map(|x| row.h as f64 * a[x] + row.k as f64 * b[x] + l as f64 * c[x]);
                TAU * product(turns, turns).sqrt()
            })
        })
    }

    /// Adds points with their weights to the sums, one for each wave vector.
    pub(super) fn add(
        &self,
        cpu: Cpu,
        points: impl Iterator<Item = ([f32; 3], f64)>,
        powers: &mut Powers,
        sums: &mut [Complex],
    ) {
        let mut points = points.peekable();
        while points.peek().is_some() {
            powers.points.clear();
            powers.weights.clear();
            for (point, weight) in points.by_ref().take(CHUNK) {
                powers.points.push(point);
                powers.weights.push(weight);
            }
            // points without weight fill up the last four
            let n = powers.points.len().next_multiple_of(4);
            powers.points.resize(n, [0.0; 3]);
            powers.weights.resize(n, 0.0);
            dispatch!(cpu, (), add_chunk, (
                vectors: &WaveVectors = self, powers: &mut Powers = powers, sums: &mut [Complex] = sums,
            ));
        }
    }
}

fn product(u: [f64; 3], v: [f64; 3]) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

/// Points of a chunk, and powers of their `exp(2 pi i a* . r)`: one row a power, real and imaginary parts apart.
#[derive(Debug, Default)]
pub(super) struct Powers {
    points: Vec<[f32; 3]>,
    weights: Vec<f64>,
    of: [[Vec<f64>; 2]; 3],
    product: [Vec<f64>; 2],
}

#[inline(always)]
fn add_chunk<Q: Quad>(vectors: &WaveVectors, powers: &mut Powers, sums: &mut [Complex]) {
    let n = powers.points.len();
    fill_powers::<Q>(vectors, powers);
    let Powers { of: [x, y, z], product, .. } = powers;
    for row in &vectors.rows {
        let (at_x, at_y) = (row.h * n, row.k.unsigned_abs() as usize * n);
        let sign = if row.k < 0 { -1.0 } else { 1.0 };
        multiply_rows::<Q>(
            [&x[0][at_x..][..n], &x[1][at_x..][..n]],
            [&y[0][at_y..][..n], &y[1][at_y..][..n]],
            sign,
            product,
        );
        let (first, last) = (*row.l.start(), *row.l.end());
        let sums = &mut sums[row.start..][..(last - first + 1) as usize];
        let largest = first.abs().max(last.abs());
        let mut l = if first > 0 { first } else { (-last).max(0) };
        while l <= largest {
            let at = l as usize * n;
            let [rr, ii, ri, ir] = four_products::<Q>([&product[0], &product[1]], [&z[0][at..][..n], &z[1][at..][..n]]);
            if first <= l && l <= last {
                add(&mut sums[(l - first) as usize], [rr - ii, ri + ir]);
            }
            if l > 0 && first <= -l && -l <= last {
                add(&mut sums[(-l - first) as usize], [rr + ii, ir - ri]);
            }
            l += 1;
        }
    }
}

#[inline(always)]
fn add(sum: &mut Complex, value: Complex) {
    *sum = [sum[0] + value[0], sum[1] + value[1]];
}

#[inline(always)]
fn fill_powers<Q: Quad>(vectors: &WaveVectors, powers: &mut Powers) {
    let n = powers.points.len();
    for (axis, [real, imaginary]) in powers.of.iter_mut().enumerate() {
        let size = n * (vectors.most[axis] + 1);
        real.resize(size.max(real.len()), 0.0);
        imaginary.resize(size.max(imaginary.len()), 0.0);
        let [a, b, c] = vectors.dual[axis];
        let dual = [Q::all(a), Q::all(b), Q::all(c)];
        for (four, points) in powers.points.as_chunks::<4>().0.iter().enumerate() {
            let [sine, cosine] = sine_and_cosine(dot(dual, Q::xyz_of_row(points)));
            // weights belong to the powers along x
            let mut weights = [0.0; 4];
            weights.copy_from_slice(&powers.weights[4 * four..][..4]);
            let mut power = if axis == 0 { [Q::load(&weights), Q::all(0.0)] } else { [Q::all(1.0), Q::all(0.0)] };
            for number in 0..=vectors.most[axis] {
                let at = number * n + 4 * four;
                real[at..at + 4].copy_from_slice(&power[0].store());
                imaginary[at..at + 4].copy_from_slice(&power[1].store());
                power = multiply(power, [cosine, sine]);
            }
        }
    }
    for part in &mut powers.product {
        part.resize(n, 0.0);
    }
}

/// Product of complex numbers.
#[inline(always)]
fn multiply<Q: Quad>([a, b]: [Q; 2], [c, d]: [Q; 2]) -> [Q; 2] {
    [a.multiply_add(c, Q::all(0.0).subtract(b.multiply(d))), a.multiply_add(d, b.multiply(c))]
}

/// Products of two rows of complex numbers; the imaginary part of the second times `sign`.
#[inline(always)]
fn multiply_rows<Q: Quad>([a, b]: [&[f64]; 2], [c, d]: [&[f64]; 2], sign: f64, product: &mut [Vec<f64>; 2]) {
    let [real, imaginary] = product;
    let (real, imaginary) = (real.as_chunks_mut::<4>().0, imaginary.as_chunks_mut::<4>().0);
    let x = a.as_chunks::<4>().0.iter().zip(b.as_chunks::<4>().0);
    let y = c.as_chunks::<4>().0.iter().zip(d.as_chunks::<4>().0);
    let sign = Q::all(sign);
    for (((a, b), (c, d)), (real, imaginary)) in x.zip(y).zip(real.iter_mut().zip(imaginary)) {
        let [re, im] = multiply([Q::load(a), Q::load(b)], [Q::load(c), Q::load(d).multiply(sign)]);
        *real = re.store();
        *imaginary = im.store();
    }
}

/// Sums of real x real, imaginary x imaginary, real x imaginary, imaginary x real parts of two rows.
#[inline(always)]
fn four_products<Q: Quad>([a, b]: [&[f64]; 2], [c, d]: [&[f64]; 2]) -> [f64; 4] {
    // eight points at a time with sums of their own: no sum waits for the one before
    let mut left = [Q::all(0.0); 4];
    let mut right = [Q::all(0.0); 4];
    let (a, a_rest) = a.as_chunks::<8>();
    let (b, b_rest) = b.as_chunks::<8>();
    let (c, c_rest) = c.as_chunks::<8>();
    let (d, d_rest) = d.as_chunks::<8>();
    for ((a, b), (c, d)) in a.iter().zip(b).zip(c.iter().zip(d)) {
        left = plus_products(left, [first(a), first(b)], [first(c), first(d)]);
        right = plus_products(right, [second(a), second(b)], [second(c), second(d)]);
    }
    let rest = [a_rest, b_rest, c_rest, d_rest];
    if let [Some(a), Some(b), Some(c), Some(d)] =
        [rest[0].first_chunk(), rest[1].first_chunk(), rest[2].first_chunk(), rest[3].first_chunk()]
    {
        left = plus_products(left, [Q::load(a), Q::load(b)], [Q::load(c), Q::load(d)]);
    }
    let [rr, ii, ri, ir] = left;
    let [other_rr, other_ii, other_ri, other_ir] = right;
    [total(rr.add(other_rr)), total(ii.add(other_ii)), total(ri.add(other_ri)), total(ir.add(other_ir))]
}

#[inline(always)]
fn first<Q: Quad>([a, b, c, d, ..]: &[f64; 8]) -> Q {
    Q::load(&[*a, *b, *c, *d])
}

#[inline(always)]
fn second<Q: Quad>([.., a, b, c, d]: &[f64; 8]) -> Q {
    Q::load(&[*a, *b, *c, *d])
}

#[inline(always)]
fn plus_products<Q: Quad>([rr, ii, ri, ir]: [Q; 4], [a, b]: [Q; 2], [c, d]: [Q; 2]) -> [Q; 4] {
    [a.multiply_add(c, rr), b.multiply_add(d, ii), a.multiply_add(d, ri), b.multiply_add(c, ir)]
}

#[inline(always)]
fn total<Q: Quad>(sum: Q) -> f64 {
    let [a, b, c, d] = sum.store();
    (a + b) + (c + d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_definition() {
        let cell = [[9.0, 0.0, 0.0], [4.0, 8.0, 0.0], [-2.0, 3.0, 7.5]];
        let lattice = Lattice::from_cell(&cell).unwrap();
        let vectors = WaveVectors::new(&lattice, 3.0).unwrap();
        // half of a sphere of lattice points
        let expected = 4.0 / 3.0 * std::f64::consts::PI * 27.0 * 9.0 * 8.0 * 7.5 / TAU.powi(3);
        assert!((2.0 * vectors.len() as f64 - expected).abs() < 0.15 * expected, "{} {expected}", vectors.len());
        let points: Vec<([f32; 3], f64)> = (0..2 * CHUNK + 3)
            .map(|i| ([0, 1, 2].map(|x| ((i * 7919 + x * 104_729) % 1013) as f32 * 0.05 - 20.0), 1.0 + (i % 5) as f64))
            .collect();
        let sums = [Cpu::detect(), Cpu::baseline()].map(|cpu| {
            let mut sums = vec![[0.0; 2]; vectors.len()];
            vectors.add(cpu, points.iter().copied(), &mut Powers::default(), &mut sums);
            sums
        });
        assert_eq!(sums[0], sums[1]);
        let (lengths, mut at) = (vectors.lengths().collect::<Vec<_>>(), 0);
        for row in &vectors.rows {
            for l in row.l.clone() {
                let [a, b, c] = vectors.dual;
                let k = [0, 1, 2].map(|x| TAU * (row.h as f64 * a[x] + row.k as f64 * b[x] + l as f64 * c[x]));
                assert!((product(k, k).sqrt() - lengths[at]).abs() < 1e-12);
                let mut sum = [0.0; 2];
                for (point, weight) in &points {
                    let angle = product(k, point.map(f64::from));
                    sum = [sum[0] + weight * angle.cos(), sum[1] + weight * angle.sin()];
                }
                let apart = (sum[0] - sums[0][at][0]).hypot(sum[1] - sums[0][at][1]);
                assert!(apart < 1e-9, "{row:?} {l}: {sum:?} {:?}", sums[0][at]);
                at += 1;
            }
        }
        assert!(WaveVectors::new(&lattice, 1e4).is_err());
        let mut parts = Vec::new();
        for part in vectors.in_parts(50) {
            let mut found = vec![[0.0; 2]; part.len()];
            part.add(Cpu::detect(), points.iter().copied(), &mut Powers::default(), &mut found);
            parts.extend(found);
        }
        assert_eq!(parts, sums[0]);
    }
}
