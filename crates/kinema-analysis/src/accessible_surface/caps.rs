//! Caps of a sphere that other spheres cover, and how many points of the sphere are in none of them.

use super::points::{Block, SpherePoints};
use crate::geometry::cell_list::Neighbors;
use crate::lanes::{EIGHT as LANES, Eight, Quad, WithEight};

/// A bit for each lane.
const LANES_OF_ALL: u32 = 0xff;

/// Eight numbers.
type Row = [f32; LANES];

/// A cap: direction, and cosine of the angle of the rim.
type Cap = [f32; 4];

/// Four numbers and both bounds of eight caps.
type Eights = [Row; 6];

/// The caps of one sphere.
#[derive(Debug, Default)]
pub(crate) struct Caps {
    list: Vec<Cap>,
    /// The numbers of eight caps each, and the bounds for blocks of points.
    eights: Vec<Eights>,
}

/// No product is above these cosines.
const NONE: Eights = [[0.0; LANES], [0.0; LANES], [0.0; LANES], [2.0; LANES], [2.0; LANES], [2.0; LANES]];

impl Caps {
    /// Puts the caps in eights.
    #[inline(always)]
    fn fill_eights(&mut self, points: &SpherePoints) {
        self.eights.clear();
        for caps in self.list.chunks(LANES) {
            let mut eight = NONE;
            for (lane, cap) in caps.iter().enumerate() {
                for row in 0..4 {
                    eight[row][lane] = cap[row];
                }
            }
            [eight[4], eight[5]] = points.bounds(&eight[3]);
            // lanes without a cap
            eight[4][caps.len()..].fill(2.0);
            eight[5][caps.len()..].fill(2.0);
            self.eights.push(eight);
        }
    }
}

/// Lists the caps that neighbours cover. Returns false if one covers the sphere as a whole.
#[inline(always)]
fn find(points: &SpherePoints, (radius, radii): (f32, &[f32]), neighbors: &Neighbors, caps: &mut Caps) -> bool {
    caps.list.resize(neighbors.len(), [0.0; 4]);
    let mut n = 0;
    let mut is_covered = false;
    for first in (0..neighbors.len()).step_by(LANES) {
        let ([x, y, z], numbers) = neighbors.eight(first);
        let n_lanes = LANES.min(neighbors.len() - first);
        let mut others = [0.0_f32; LANES];
        for lane in 0..n_lanes {
            others[lane] = radii[numbers[lane] as usize];
        }
        let [mut distance, mut inverse, mut cosine] = [[0.0_f32; LANES]; 3];
        // loops over arrays, not closures: only these are compiled for AVX2
        for i in 0..LANES {
            distance[i] = (x[i] * x[i] + y[i] * y[i] + z[i] * z[i]).sqrt();
            inverse[i] = 1.0 / distance[i];
            // a point p of the unit sphere is inside if |radius p - apart| < other
            let difference = (radius - others[i]) * (radius + others[i]);
            cosine[i] = (distance[i] * distance[i] + difference) * inverse[i] / (2.0 * radius);
        }
        let [x, y, z] = [scaled(x, &inverse), scaled(y, &inverse), scaled(z, &inverse)];
        for lane in 0..n_lanes {
            let (distance, other) = (distance[lane], others[lane]);
            // the sphere itself is inside of itself
            let meets = distance < radius + other && distance + other > radius;
            is_covered |= meets && distance + radius <= other;
            caps.list[n] = [x[lane], y[lane], z[lane], cosine[lane]];
            n += usize::from(meets);
        }
    }
    caps.list.truncate(n);
    if points.are_many() && !is_covered {
        caps.fill_eights(points);
    }
    !is_covered
}

#[inline(always)]
fn scaled(row: &Row, factors: &Row) -> Row {
    let mut found = [0.0; LANES];
    for i in 0..LANES {
        found[i] = row[i] * factors[i];
    }
    found
}

/// Number of points of a sphere of the first radius, in single precision, that are in no sphere of a neighbour; `radii`
/// are those of all spheres, by the numbers of neighbours.
#[inline(always)]
pub(crate) fn exposed<Q: Quad>(
    points: &SpherePoints,
    (radius, radii): (f32, &[f32]),
    neighbors: &Neighbors,
    caps: &mut Caps,
) -> u32 {
    if !find(points, (radius, radii), neighbors, caps) {
        return 0;
    }
    let (mut n_free, mut last) = (0, 0);
    for (number, block) in points.blocks.iter().enumerate() {
        let free = if points.are_many() {
            let center = all::<Q>(block.center);
            if is_in_one::<Q>(center, &caps.eights, &mut last) {
                continue;
            }
            free_of_near::<Q>(center, block, &caps.eights)
        } else {
            free_of_all::<Q>(block, &mut caps.list)
        };
        n_free += (points.lanes(number) & free).count_ones();
    }
    n_free
}

/// x, y and z of one direction or of several.
type Directions<Q> = (<Q as WithEight>::Eight, <Q as WithEight>::Eight, <Q as WithEight>::Eight);

#[inline(always)]
fn all<Q: Quad>([x, y, z]: [f32; 3]) -> Directions<Q> {
    (Q::Eight::all(x), Q::Eight::all(y), Q::Eight::all(z))
}

#[inline(always)]
fn loaded<Q: Quad>(x: &Row, y: &Row, z: &Row) -> Directions<Q> {
    (Q::Eight::load(x), Q::Eight::load(y), Q::Eight::load(z))
}

#[inline(always)]
fn product<Q: Quad>(u: Directions<Q>, v: Directions<Q>) -> Q::Eight {
    u.0.multiply(v.0).add(u.1.multiply(v.1)).add(u.2.multiply(v.2))
}

/// Whether a cap covers all points of the block around a direction. `last` is where the cap was that did so before.
#[inline(always)]
fn is_in_one<Q: Quad>(center: Directions<Q>, eights: &[Eights], last: &mut usize) -> bool {
    // blocks that follow each other are near each other
    if let Some(eight) = eights.get(*last)
        && is_in_one_of::<Q>(center, eight)
    {
        return true;
    }
    for (at, eight) in eights.iter().enumerate() {
        if is_in_one_of::<Q>(center, eight) {
            *last = at;
            return true;
        }
    }
    false
}

#[inline(always)]
fn is_in_one_of<Q: Quad>(center: Directions<Q>, eight: &Eights) -> bool {
    product::<Q>(center, loaded::<Q>(&eight[0], &eight[1], &eight[2])).at_most(Q::Eight::load(&eight[5]))
        != LANES_OF_ALL
}

/// The lanes of a block that are in no cap, of the caps that come near its centre.
#[inline(always)]
fn free_of_near<Q: Quad>(center: Directions<Q>, block: &Block, eights: &[Eights]) -> u32 {
    let [x, y, z] = &block.points;
    let points = loaded::<Q>(x, y, z);
    let mut free = LANES_OF_ALL;
    for eights in eights.chunks(8) {
        // a bit for each cap
        let mut near = 0_u64;
        for (at, eight) in eights.iter().enumerate() {
            let products = product::<Q>(center, loaded::<Q>(&eight[0], &eight[1], &eight[2]));
            near |= u64::from(LANES_OF_ALL & !products.at_most(Q::Eight::load(&eight[4]))) << (LANES * at);
        }
        while near != 0 {
            let cap = near.trailing_zeros() as usize;
            near &= near - 1;
            let (eight, lane) = (&eights[cap / LANES], cap % LANES);
            let direction = all::<Q>([eight[0][lane], eight[1][lane], eight[2][lane]]);
            free &= product::<Q>(points, direction).at_most(Q::Eight::all(eight[3][lane]));
            if free == 0 {
                return 0;
            }
        }
    }
    free
}

/// The lanes of a block that are in no cap.
#[inline(always)]
fn free_of_all<Q: Quad>(block: &Block, caps: &mut [Cap]) -> u32 {
    let [x, y, z] = &block.points;
    let points = loaded::<Q>(x, y, z);
    let mut free = LANES_OF_ALL;
    for at in 0..caps.len() {
        let [x, y, z, cosine] = caps[at];
        free &= product::<Q>(points, all::<Q>([x, y, z])).at_most(Q::Eight::all(cosine));
        if free == 0 {
            // the first to try with the next block, which is near
            caps.swap(0, at);
            break;
        }
    }
    free
}

#[cfg(test)]
mod tests {
    use kinema_core::frame::Lattice;

    use super::*;
    use crate::cpu::{Cpu, dispatch};
    use crate::geometry::CellList;

    /// Free points of each sphere, of all pairs in double precision.
    fn brute_force(points: &SpherePoints, spheres: &[([f32; 3], f32)]) -> Vec<u32> {
        let free = |i: usize| {
            let (center, radius) = spheres[i];
            let is_free = |point: [f32; 3]| {
                let at = [0, 1, 2].map(|c| f64::from(center[c]) + f64::from(radius) * f64::from(point[c]));
                spheres.iter().enumerate().filter(|(j, _)| *j != i).all(|(_, (other, r))| {
                    let apart = [0, 1, 2].map(|c| at[c] - f64::from(other[c]));
                    apart.iter().map(|x| x * x).sum::<f64>() >= f64::from(*r) * f64::from(*r)
                })
            };
            let mut count = 0;
            for (number, block) in points.blocks.iter().enumerate() {
                let lanes = points.lanes(number);
                let wanted = (0..LANES).filter(|lane| lanes >> lane & 1 == 1);
                count += wanted.filter(|lane| is_free([0, 1, 2].map(|c| block.points[c][*lane]))).count() as u32;
            }
            count
        };
        (0..spheres.len()).map(free).collect()
    }

    #[test]
    fn free_points_are_those_of_brute_force_on_every_processor() {
        // places as by chance, radii of hydrogens, of carbons, and of some inside of others
        let number = |i: usize, k: usize| (((i + 1) * (7919 + 104_729 * k)) % 1000) as f32 / 1000.0;
        let spheres: Vec<_> =
            (0..150).map(|i| ([0, 1, 2].map(|k| 13.0 * number(i, k)), [2.6, 3.1, 1.0, 4.0][i % 4])).collect();
        let places: Vec<f32> = spheres.iter().flat_map(|(place, _)| *place).collect();
        let radii: Vec<f32> = spheres.iter().map(|(_, radius)| *radius).collect();
        let lattice = Lattice::from_cell(&[[0.0; 3]; 3]).unwrap();
        for n in [1, 50, 299, 300, 960] {
            let points = SpherePoints::new(n);
            let expected = brute_force(&points, &spheres);
            let mut of_builds = Vec::new();
            for cpu in [Cpu::detect(), Cpu::baseline()] {
                let mut caps = Caps::default();
                let mut found = vec![0; spheres.len()];
                CellList::default()
                    .visit_each(&lattice, [&places, &places], 8.0, |atom, neighbors| {
                        found[atom as usize] = dispatch!(
                            cpu,
                            u32,
                            exposed,
                            (
                                points: &SpherePoints = &points,
                                radii: (f32, &[f32]) = (radii[atom as usize], &radii),
                                neighbors: &Neighbors = neighbors,
                                caps: &mut Caps = &mut caps,
                            )
                        );
                    })
                    .unwrap();
                of_builds.push(found);
            }
            assert_eq!(of_builds[0], of_builds[1], "{n}");
            let different: u32 = of_builds[0].iter().zip(&expected).map(|(a, b)| a.abs_diff(*b)).sum();
            // a point at a rim may be on the other side by rounding
            assert!(different <= 2, "{n}: {different} of {}", expected.iter().sum::<u32>());
            assert!(expected.iter().any(|free| *free > 0));
        }
    }
}
