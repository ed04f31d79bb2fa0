//! Caps of a sphere that other spheres cover, and how many points of the sphere are in none of them.

use super::points::{LANES, SpherePoints};
use crate::lanes::{Eight, Quad};

/// A neighbour that covers a part of a sphere: the direction to it, and the cosine of the angle of the rim.
#[derive(Debug, Clone, Copy)]
struct Cap {
    direction: [f32; 3],
    cosine: f32,
    bounds: [f32; 2],
}

/// The caps of one sphere.
#[derive(Debug, Default)]
pub(crate) struct Caps {
    caps: Vec<Cap>,
    /// Whether a neighbour covers the sphere as a whole.
    is_covered: bool,
    /// x, y, z of directions, and both bounds, of eight caps each.
    eights: Vec<[[f32; LANES]; 5]>,
    /// Caps that reach the points at hand: direction and cosine.
    near: Vec<[f32; 4]>,
}

impl Caps {
    /// Begins with a sphere that is free.
    pub(crate) fn clear(&mut self) {
        self.caps.clear();
        self.is_covered = false;
    }

    /// Number of caps, and one more if a neighbour covers the sphere as a whole.
    pub(crate) fn len(&self) -> usize {
        self.caps.len() + usize::from(self.is_covered)
    }

    /// Adds the cap that a neighbour covers: `apart` is where the neighbour is, as far as `distance`, and `radii` those of
    /// both, angstrom.
    #[inline(always)]
    pub(crate) fn add(&mut self, points: &SpherePoints, apart: [f64; 3], distance: f64, radii: [f64; 2]) {
        let [radius, other] = radii;
        if distance >= radius + other || distance + other <= radius {
            return;
        }
        if distance + radius <= other {
            self.is_covered = true;
            return;
        }
        // a point p of the unit sphere is inside if |radius p - apart| < other
        let cosine = (radius * radius + distance * distance - other * other) / (2.0 * radius * distance);
        let direction = apart.map(|x| (x / distance) as f32);
        let bounds = points.bounds(cosine).map(|bound| bound as f32);
        self.caps.push(Cap { direction, cosine: cosine as f32, bounds });
    }

    /// Puts the caps in order, the largest first, and in eights.
    fn prepare(&mut self) {
        self.caps.sort_unstable_by(|a, b| a.cosine.total_cmp(&b.cosine));
        self.eights.clear();
        for caps in self.caps.chunks(LANES) {
            let mut eight = [[0.0; LANES], [0.0; LANES], [0.0; LANES], [2.0; LANES], [2.0; LANES]];
            for (lane, cap) in caps.iter().enumerate() {
                let ([x, y, z], [some, all]) = (cap.direction, cap.bounds);
                for (row, value) in eight.iter_mut().zip([x, y, z, some, all]) {
                    row[lane] = value;
                }
            }
            self.eights.push(eight);
        }
    }
}

/// Number of points in no cap.
#[inline(always)]
pub(crate) fn exposed<Q: Quad>(points: &SpherePoints, caps: &mut Caps) -> u32 {
    if caps.is_covered {
        return 0;
    }
    caps.prepare();
    let mut free = 0;
    for group in &points.groups {
        if reaching::<Q>(group.center, caps) {
            continue;
        }
        for block in group.blocks.clone() {
            let all = points.lanes(block);
            free += (all & !covered::<Q>(&points.blocks[block], &mut caps.near)).count_ones();
        }
    }
    free
}

/// Lists the caps that may cover points near a direction. Returns whether a cap covers all of these.
#[inline(always)]
fn reaching<Q: Quad>(center: [f32; 3], caps: &mut Caps) -> bool {
    let [x, y, z] = center.map(Q::Eight::all);
    caps.near.clear();
    for (eight, caps_of_eight) in caps.eights.iter().zip(caps.caps.chunks(LANES)) {
        let [xs, ys, zs, some, all] = eight.each_ref().map(Q::Eight::load);
        let product = x.multiply(xs).add(y.multiply(ys)).add(z.multiply(zs));
        if product.above(all) != 0 {
            return true;
        }
        let mut near = product.above(some);
        while near != 0 {
            let Cap { direction: [x, y, z], cosine, .. } = caps_of_eight[near.trailing_zeros() as usize];
            caps.near.push([x, y, z, cosine]);
            near &= near - 1;
        }
    }
    false
}

/// The lanes of a block that are in a cap.
#[inline(always)]
fn covered<Q: Quad>(block: &[[f32; LANES]; 3], near: &mut [[f32; 4]]) -> u32 {
    let [xs, ys, zs] = block.each_ref().map(Q::Eight::load);
    let mut covered = 0;
    for at in 0..near.len() {
        let [x, y, z, cosine] = near[at].map(Q::Eight::all);
        covered |= xs.multiply(x).add(ys.multiply(y)).add(zs.multiply(z)).above(cosine);
        if covered == 0xff {
            // it is the first to try at the next block, which is near
            near.swap(0, at);
            break;
        }
    }
    covered
}
