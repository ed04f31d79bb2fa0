//! Points on the unit sphere along a golden spiral, in blocks of points that are near each other.
//!
//! A sphere that covers the small cap around a block covers all of its points: of many points, most blocks are decided
//! at once.

use crate::lanes::EIGHT as LANES;

/// The cosine and the sine of the golden angle, pi (3 - sqrt 5).
const GOLDEN: [f64; 2] = [-0.737_368_878_078_319_9, 0.675_490_294_261_523_7];
/// Added to the caps of blocks for rounding in single precision.
const ROUNDING: f32 = 1e-5;
/// Number of points from which caps of blocks are so small that single spheres cover most of them.
const MANY: usize = 300;

/// Points in blocks of [`LANES`], which are looked at together.
#[derive(Debug)]
pub(crate) struct SpherePoints {
    pub(crate) blocks: Vec<Block>,
    len: usize,
    /// Cosine and sine of the angle at the centre of the largest cap around a block.
    cap: [f32; 2],
}

/// Points that are near each other.
#[derive(Debug)]
pub(crate) struct Block {
    /// x, y and z of the points; the last block is filled up with its last point.
    pub(crate) points: [[f32; LANES]; 3],
    /// The middle of the cap around the points.
    pub(crate) center: [f32; 3],
}

impl SpherePoints {
    /// `n` points, at least one: the k-th is `(cos(k g) r, y, sin(k g) r)`, `y = (2 k + 1)/n - 1`, g the golden angle.
    pub(crate) fn new(n: usize) -> Self {
        let mut points = spiral(n);
        bisect(&mut points);
        let mut blocks = Vec::new();
        let mut cosine = 1.0_f64;
        for of_block in points.chunks(LANES) {
            let center = middle(of_block);
            cosine = of_block.iter().map(|point| dot(center, *point)).fold(cosine, f64::min);
            let lane = |i: usize| of_block[i.min(of_block.len() - 1)];
            let points = [0, 1, 2].map(|axis| std::array::from_fn(|i| lane(i)[axis] as f32));
            blocks.push(Block { points, center: center.map(|x| x as f32) });
        }
        let cosine = (cosine as f32 - ROUNDING).max(-1.0);
        Self { blocks, len: n, cap: [cosine, (1.0 - cosine * cosine).sqrt()] }
    }

    /// Number of points.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether most blocks are so small that one sphere covers them.
    pub(crate) fn are_many(&self) -> bool {
        self.len >= MANY
    }

    /// Lanes of a block that are points, a bit each.
    #[inline(always)]
    pub(crate) fn lanes(&self, block: usize) -> u32 {
        let left = self.len - block * LANES;
        if left < LANES { (1 << left) - 1 } else { (1 << LANES) - 1 }
    }

    /// Bounds for spherical caps with these cosines of the angles of their rims: if the product of a cap's direction and
    /// the middle of a block is above the first, the cap may cover points of the block; above the second, it covers all.
    #[inline(always)]
    pub(crate) fn bounds(&self, cosines: &[f32; LANES]) -> [[f32; LANES]; 2] {
        let [of_block, sine_of_block] = self.cap;
        let [mut some, mut all] = [[0.0; LANES]; 2];
        for i in 0..LANES {
            let (cosine, sines) = (cosines[i], (1.0 - cosines[i] * cosines[i]).max(0.0).sqrt() * sine_of_block);
            // of the sum and of the difference of both angles, unless these are above 180 degrees and below zero
            some[i] = if cosine <= -of_block { -2.0 } else { cosine * of_block - sines - ROUNDING };
            all[i] = if cosine >= of_block { 2.0 } else { cosine * of_block + sines + ROUNDING };
        }
        [some, all]
    }
}

/// The points in the order of the spiral. Sums, products and roots alone: these are the same on every machine.
fn spiral(n: usize) -> Vec<[f64; 3]> {
    let [cosine, sine] = GOLDEN;
    let mut turned = [1.0, 0.0];
    let mut points = Vec::with_capacity(n);
    for k in 0..n {
        let y = (2 * k + 1) as f64 / n as f64 - 1.0;
        let radius = (1.0 - y * y).sqrt();
        points.push([turned[0] * radius, y, turned[1] * radius]);
        let [c, s] = turned;
        turned = [c * cosine - s * sine, c * sine + s * cosine];
        // rounding would change the length
        let length = (turned[0] * turned[0] + turned[1] * turned[1]).sqrt();
        turned = turned.map(|x| x / length);
    }
    points
}

/// Sorts points so that the points of each block, and blocks that follow each other, are near each other.
fn bisect(points: &mut [[f64; 3]]) {
    let n_blocks = points.len().div_ceil(LANES);
    if n_blocks < 2 {
        return;
    }
    let spread = |axis: usize| {
        let (least, most) = points.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), point| {
            (least.min(point[axis]), most.max(point[axis]))
        });
        most - least
    };
    let axis = (0..3).max_by(|&a, &b| spread(a).total_cmp(&spread(b))).unwrap_or(0);
    points.sort_by(|a, b| a[axis].total_cmp(&b[axis]));
    let (first, second) = points.split_at_mut(n_blocks / 2 * LANES);
    bisect(first);
    bisect(second);
}

/// The direction of the sum; of the first point if the sum is zero.
fn middle(points: &[[f64; 3]]) -> [f64; 3] {
    let sum = points.iter().fold([0.0; 3], |sum, point| [0, 1, 2].map(|axis| sum[axis] + point[axis]));
    let length = dot(sum, sum).sqrt();
    if length < 1e-3 { points[0] } else { sum.map(|x| x / length) }
}

fn dot(u: [f64; 3], v: [f64; 3]) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_in_one_block_and_in_its_cap() {
        for n in [1, 2, 7, 8, 9, 24, 100, 960, 1001] {
            let points = SpherePoints::new(n);
            assert_eq!(points.blocks.len(), n.div_ceil(LANES));
            let mut found = Vec::new();
            for (number, block) in points.blocks.iter().enumerate() {
                let lanes = points.lanes(number);
                for lane in (0..LANES).filter(|lane| lanes >> lane & 1 == 1) {
                    let point = [0, 1, 2].map(|axis| block.points[axis][lane]);
                    assert!(dot(point.map(f64::from), block.center.map(f64::from)) >= f64::from(points.cap[0]));
                    found.push(point);
                }
            }
            let mut expected: Vec<[f32; 3]> = spiral(n).iter().map(|point| point.map(|x| x as f32)).collect();
            let order = |a: &[f32; 3], b: &[f32; 3]| a[1].total_cmp(&b[1]);
            found.sort_by(order);
            expected.sort_by(order);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn points_are_those_of_the_golden_spiral() {
        let n = 100_000;
        let golden = std::f64::consts::PI * (3.0 - 5_f64.sqrt());
        assert!((golden.cos() - GOLDEN[0]).abs() < 1e-15 && (golden.sin() - GOLDEN[1]).abs() < 1e-15);
        for (k, point) in spiral(n).iter().enumerate() {
            let angle = k as f64 * golden;
            let radius = (1.0 - point[1] * point[1]).sqrt();
            assert!((point[0] - radius * angle.cos()).abs() < 1e-9 && (point[2] - radius * angle.sin()).abs() < 1e-9);
        }
        let sum = spiral(960).iter().fold([0.0; 3], |sum, point| [0, 1, 2].map(|axis| sum[axis] + point[axis]));
        assert!(dot(sum, sum).sqrt() < 1.0);
    }
}
