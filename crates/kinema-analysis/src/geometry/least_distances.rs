//! Least distances of groups of atoms, such as residues, with nearest images in any lattice.
//!
//! In double precision of single-precision positions. Two groups whose enclosing spheres are farther apart than a
//! cutoff are not looked into; the result is that of all pairs of atoms.

use kinema_core::frame::Lattice;
use kinema_core::{Error, ErrorKind, Result};

use super::nearest_images::{AlongAxes, General, Images, Open};
use super::vectors::{Vectors, all, difference, dot};
use crate::cpu::{Cpu, dispatch};
use crate::lanes::Quad;

/// Groups of atoms, by their numbers in a row of positions.
#[derive(Debug, Clone)]
pub struct AtomGroups {
    /// Four atoms each; the last atom of a group fills up its last block.
    blocks: Vec<[u32; 4]>,
    /// The first block of each group, and the end.
    starts: Vec<u32>,
    /// Number of atoms of each group.
    sizes: Vec<u32>,
    /// Atoms that a row must have.
    reach: usize,
}

impl AtomGroups {
    /// Groups of consecutive `atoms`, each of one atom at least, by the end of each.
    pub fn new(atoms: &[u32], ends: &[u32]) -> Self {
        let (mut blocks, mut starts, mut sizes) = (vec![], vec![0], vec![]);
        let mut start = 0;
        for &end in ends {
            for four in atoms[start as usize..end as usize].chunks(4) {
                let last = four[four.len() - 1];
                blocks.push(std::array::from_fn(|i| four.get(i).copied().unwrap_or(last)));
            }
            sizes.push(end - start);
            starts.push(blocks.len() as u32);
            start = end;
        }
        let reach = atoms.iter().max().map_or(0, |&last| last as usize + 1);
        Self { blocks, starts, sizes, reach }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    #[inline(always)]
    fn blocks_of(&self, group: usize) -> std::ops::Range<usize> {
        self.starts[group] as usize..self.starts[group + 1] as usize
    }

    /// The atom of a group by its place, or the last one.
    #[inline(always)]
    fn atom(&self, group: usize, place: usize) -> u32 {
        let place = place.min(self.sizes[group] as usize - 1);
        self.blocks[self.starts[group] as usize + place / 4][place % 4]
    }
}

/// Which pairs of groups are looked at: groups of different chains, or at least `separation` places apart.
#[derive(Debug, Clone)]
pub struct Separation {
    /// Chain of each group.
    pub chains: Vec<u32>,
    /// Place of each group in its chain.
    pub places: Vec<u32>,
    /// Least difference of places in one chain.
    pub separation: u32,
}

impl Separation {
    #[inline(always)]
    fn allows(&self, first: usize, second: usize) -> bool {
        self.chains[first] != self.chains[second] || self.places[first].abs_diff(self.places[second]) >= self.separation
    }
}

/// The two nearest atoms of two groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nearest {
    /// Numbers of the atoms in the row.
    pub atoms: [u32; 2],
    /// Angstrom.
    pub distance: f64,
}

/// Buffers of one worker.
#[derive(Debug, Default)]
pub struct LeastScratch {
    /// x, y and z of each block: as read; then the nearest images from the centre of the sphere around the group.
    placed: Vec<[[f64; 4]; 3]>,
    /// x, y, z and radius of a sphere around each group, four groups each.
    spheres: Vec<[[f64; 4]; 4]>,
}

/// The least distance of each of `pairs` of groups, angstrom. Returns whether all positions of the row are finite.
///
/// # Errors
/// `Internal` for a row that lacks atoms, or values that are not one a pair.
pub fn least_distances(
    cpu: Cpu,
    (groups, row): (&AtomGroups, &[f32]),
    pairs: &[[u32; 2]],
    lattice: &Lattice,
    scratch: &mut LeastScratch,
    values: &mut [f64],
) -> Result<bool> {
    run(cpu, (groups, row), lattice, scratch, &mut Task::Pairs { pairs, values })
}

/// All pairs of groups that `separation` allows with a least distance of at most `cutoff`, angstrom, ascending. If
/// several pairs of atoms have the least distance, one is found. Returns whether all positions of the row are finite.
///
/// # Errors
/// `Internal` for a row that lacks atoms.
pub fn near_groups(
    cpu: Cpu,
    (groups, row): (&AtomGroups, &[f32]),
    (separation, cutoff): (&Separation, f64),
    lattice: &Lattice,
    scratch: &mut LeastScratch,
    found: &mut Vec<Nearest>,
) -> Result<bool> {
    run(cpu, (groups, row), lattice, scratch, &mut Task::Near { separation, cutoff, found })
}

enum Task<'a> {
    Pairs { pairs: &'a [[u32; 2]], values: &'a mut [f64] },
    Near { separation: &'a Separation, cutoff: f64, found: &'a mut Vec<Nearest> },
}

fn run(
    cpu: Cpu,
    (groups, row): (&AtomGroups, &[f32]),
    lattice: &Lattice,
    scratch: &mut LeastScratch,
    task: &mut Task<'_>,
) -> Result<bool> {
    let (atoms, _) = row.as_chunks::<3>();
    if atoms.len() < groups.reach {
        let what = format!("too few atoms in a row of positions, expected {}, found {}", groups.reach, atoms.len());
        return Err(Error::new(ErrorKind::Internal, what));
    }
    if !row.iter().all(|x| x.is_finite()) {
        return Ok(false);
    }
    let place = |block: &[u32; 4]| [0, 1, 2].map(|c| block.map(|atom| f64::from(atoms[atom as usize][c])));
    scratch.placed.clear();
    scratch.placed.extend(groups.blocks.iter().map(place));
    dispatch!(
        cpu,
        (),
        with_images,
        (
            groups: &AtomGroups = groups,
            lattice: &Lattice = lattice,
            scratch: &mut LeastScratch = scratch,
            task: &mut Task<'_> = task,
        )
    );
    Ok(true)
}

#[inline(always)]
fn with_images<Q: Quad>(groups: &AtomGroups, lattice: &Lattice, scratch: &mut LeastScratch, task: &mut Task<'_>) {
    let sure = lattice.sure();
    if lattice.is_open() {
        Placed { groups, scratch, images: Open, sure }.carry_out::<Q>(task);
    } else if let Some([edges, inverse]) = lattice.edges_on_axes() {
        Placed { groups, scratch, images: AlongAxes::new(edges, inverse), sure }.carry_out::<Q>(task);
    } else {
        Placed { groups, scratch, images: General::new(lattice), sure }.carry_out::<Q>(task);
    }
}

struct Placed<'a, I> {
    groups: &'a AtomGroups,
    scratch: &'a mut LeastScratch,
    images: I,
    /// A displacement up to this length, squared, is its own nearest image.
    sure: f64,
}

#[inline(always)]
fn load<Q: Quad>(lanes: &[[f64; 4]; 3]) -> Vectors<Q> {
    [Q::load(&lanes[0]), Q::load(&lanes[1]), Q::load(&lanes[2])]
}

/// The sum of four lanes, divided.
#[inline(always)]
fn mean<Q: Quad>(sum: Q, count: f64) -> f64 {
    let [a, b, c, d] = sum.store();
    ((a + b) + (c + d)) / count
}

impl<I> Placed<'_, I> {
    #[inline(always)]
    fn carry_out<Q: Quad>(mut self, task: &mut Task<'_>)
    where
        I: Images<Q>,
    {
        self.enclose::<Q>();
        match task {
            Task::Pairs { pairs, values } => self.fill::<Q>(pairs, values),
            Task::Near { separation, cutoff, found } => {
                for first in 0..self.groups.len() {
                    self.near::<Q>(first, (separation, *cutoff), found);
                }
            }
        }
    }

    /// Puts a sphere around each group, and places its atoms about the centre. The centre may be any point: distances are
    /// those of nearest images, for which the triangle inequality holds. It is of single precision, as positions are, so
    /// that differences are exact.
    #[inline(always)]
    fn enclose<Q: Quad>(&mut self)
    where
        I: Images<Q>,
    {
        let LeastScratch { placed, spheres } = &mut *self.scratch;
        spheres.clear();
        for group in 0..self.groups.len() {
            let blocks = &mut placed[self.groups.blocks_of(group)];
            let count = (4 * blocks.len()) as f64;
            let first = [blocks[0][0][0], blocks[0][1][0], blocks[0][2][0]];
            let mut sums = all::<Q>([0.0; 3]);
            for block in &*blocks {
                let nearest = self.images.nearest(difference(load(block), all(first)));
                sums = [sums[0].add(nearest[0]), sums[1].add(nearest[1]), sums[2].add(nearest[2])];
            }
            let [x, y, z] =
                [first[0] + mean(sums[0], count), first[1] + mean(sums[1], count), first[2] + mean(sums[2], count)];
            let center = [f64::from(x as f32), f64::from(y as f32), f64::from(z as f32)];
            let mut most = Q::all(0.0);
            for block in &mut *blocks {
                let nearest = self.images.nearest(difference(load(block), all(center)));
                most = dot(nearest, nearest).maximum(most);
                *block = [nearest[0].store(), nearest[1].store(), nearest[2].store()];
            }
            let radius = most.store().into_iter().fold(0.0, f64::max).sqrt();
            if group % 4 == 0 {
                spheres.push([[0.0; 4]; 4]);
            }
            let four = &mut spheres[group / 4];
            for (lanes, value) in four.iter_mut().zip([center[0], center[1], center[2], radius]) {
                lanes[group % 4] = value;
            }
        }
    }

    /// x, y, z and radius of the sphere around a group.
    #[inline(always)]
    fn sphere(&self, group: usize) -> [f64; 4] {
        let four = &self.scratch.spheres[group / 4];
        [four[0][group % 4], four[1][group % 4], four[2][group % 4], four[3][group % 4]]
    }

    /// The least distances of pairs.
    #[inline(always)]
    fn fill<Q: Quad>(&self, pairs: &[[u32; 2]], values: &mut [f64])
    where
        I: Images<Q>,
    {
        for (pairs, values) in pairs.chunks(4).zip(values.chunks_mut(4)) {
            let mut apart = [[0.0; 4]; 3];
            for (lane, [first, second]) in pairs.iter().enumerate() {
                let (from, to) = (self.sphere(*first as usize), self.sphere(*second as usize));
                for (lanes, (to, from)) in apart.iter_mut().zip(to.iter().zip(&from)) {
                    lanes[lane] = to - from;
                }
            }
            let [x, y, z] = self.images.nearest(load::<Q>(&apart));
            let (x, y, z) = (x.store(), y.store(), z.store());
            for (lane, ([first, second], value)) in pairs.iter().zip(values).enumerate() {
                let groups = [*first as usize, *second as usize];
                *value = self.nearest::<Q>(groups, [x[lane], y[lane], z[lane]]).distance;
            }
        }
    }

    /// Adds the groups after `first` that are near it.
    #[inline(always)]
    fn near<Q: Quad>(&self, first: usize, (separation, cutoff): (&Separation, f64), found: &mut Vec<Nearest>)
    where
        I: Images<Q>,
    {
        let spheres = &self.scratch.spheres;
        let [x, y, z, radius] = self.sphere(first);
        let center = all::<Q>([x, y, z]);
        // what is added is more than double precision rounds
        let reach = Q::all((cutoff + radius) * (1.0 + 1e-9) + 1e-9);
        for (block, four) in spheres.iter().enumerate().skip((first + 1) / 4) {
            let apart = difference([Q::load(&four[0]), Q::load(&four[1]), Q::load(&four[2])], center);
            let apart = self.images.nearest(apart);
            let reach = reach.add(Q::load(&four[3]));
            let near = dot(apart, apart).less(reach.multiply(reach));
            if !Q::any(near) {
                continue;
            }
            let near = Q::select(near, Q::all(1.0), Q::all(0.0)).store();
            let (x, y, z) = (apart[0].store(), apart[1].store(), apart[2].store());
            for lane in 0..4 {
                let second = 4 * block + lane;
                if near[lane] > 0.0 && second > first && second < self.groups.len() && separation.allows(first, second)
                {
                    let nearest = self.nearest::<Q>([first, second], [x[lane], y[lane], z[lane]]);
                    if nearest.distance <= cutoff {
                        found.push(nearest);
                    }
                }
            }
        }
    }

    /// The nearest atoms of two groups, whose centres are `apart`, as nearest images.
    #[inline(always)]
    fn nearest<Q: Quad>(&self, [first, second]: [usize; 2], apart: [f64; 3]) -> Nearest
    where
        I: Images<Q>,
    {
        let [x, y, z] = apart;
        let most = (x * x + y * y + z * z).sqrt() + self.sphere(first)[3] + self.sphere(second)[3];
        if most * most * (1.0 + 1e-9) < self.sure {
            // no displacement of their atoms is longer than that: each is its own nearest image
            self.nearest_by::<Q, Open>(&Open, [first, second], apart)
        } else {
            self.nearest_by::<Q, I>(&self.images, [first, second], apart)
        }
    }

    #[inline(always)]
    fn nearest_by<Q: Quad, J: Images<Q>>(&self, images: &J, [first, second]: [usize; 2], apart: [f64; 3]) -> Nearest {
        let blocks = &self.scratch.placed[self.groups.blocks_of(second)];
        let before = &self.scratch.placed[self.groups.blocks_of(first)];
        let (mut least, mut at) = (Q::all(f64::INFINITY), Q::all(0.0));
        let (mut number, one) = (Q::all(0.0), Q::all(1.0));
        for i in 0..self.groups.sizes[first] as usize {
            let lanes = &before[i / 4];
            let from = all([lanes[0][i % 4] - apart[0], lanes[1][i % 4] - apart[1], lanes[2][i % 4] - apart[2]]);
            for block in blocks {
                let squared = images.shortest_squared(difference(load::<Q>(block), from));
                let nearer = squared.less(least);
                least = Q::select(nearer, squared, least);
                at = Q::select(nearer, number, at);
                number = number.add(one);
            }
        }
        let (least, at) = (least.store(), at.store());
        let mut lane = 0;
        for other in 1..4 {
            if least[other] < least[lane] {
                lane = other;
            }
        }
        let place = at[lane] as usize;
        let atoms = [
            self.groups.atom(first, place / blocks.len()),
            self.groups.atom(second, 4 * (place % blocks.len()) + lane),
        ];
        // a square of nearest images may be below zero by rounding
        Nearest { atoms, distance: least[lane].max(0.0).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n_atoms: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 24) as f32
        };
        // residues of up to nine atoms within some 4 angstrom, some of them far outside of the cell
        let mut row = vec![];
        for atom in 0..n_atoms {
            let center = if atom % 7 == 0 || row.len() < 3 {
                [60.0 * next(), 60.0 * next(), 60.0 * next()]
            } else {
                [row[3 * atom - 3], row[3 * atom - 2], row[3 * atom - 1]]
            };
            row.extend(center.map(|x| x + 2.0 * next() - 1.0));
        }
        row
    }

    #[test]
    fn near_groups_are_those_of_all_pairs_of_atoms() {
        let cells = [
            [[0.0; 3]; 3],
            [[31.0, 0.0, 0.0], [0.0, 27.0, 0.0], [0.0, 0.0, 36.0]],
            [[30.0, 0.0, 0.0], [10.0, 28.0, 0.0], [-10.0, 14.0, 24.0]],
            [[30.0, 0.0, 0.0], [70.0, 28.0, 0.0], [0.0; 3]],
            [[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]],
        ];
        let ends: Vec<u32> =
            [1, 3, 7, 12, 13, 21, 30].iter().flat_map(|end| [0, 30, 60, 90].map(|x| x + end)).collect();
        let ends = {
            let mut ends = ends;
            ends.sort_unstable();
            ends
        };
        let groups = AtomGroups::new(&(0..120).collect::<Vec<_>>(), &ends);
        let separation = Separation {
            chains: (0..groups.len() as u32).map(|i| i / 10).collect(),
            places: (0..groups.len() as u32).map(|i| i % 10).collect(),
            separation: 3,
        };
        for (number, cell) in cells.iter().enumerate() {
            let (row, lattice) = (row(120, number as u64), Lattice::from_cell(cell).unwrap());
            let positions = row.as_chunks::<3>().0;
            let mut expected = vec![];
            for second in 0..groups.len() {
                for first in (0..second).filter(|first| separation.allows(*first, second)) {
                    let atoms = |group: usize| (if group == 0 { 0 } else { ends[group - 1] })..ends[group];
                    let mut least = f64::INFINITY;
                    for i in atoms(first) {
                        for j in atoms(second) {
                            let apart = [0, 1, 2]
                                .map(|c| f64::from(positions[j as usize][c]) - f64::from(positions[i as usize][c]));
                            let v = lattice.nearest(apart);
                            least = least.min((v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt());
                        }
                    }
                    expected.push(([first as u32, second as u32], least));
                }
            }
            expected.sort_by_key(|(pair, _)| *pair);
            for cpu in [Cpu::detect(), Cpu::baseline()] {
                let mut scratch = LeastScratch::default();
                let pairs: Vec<_> = expected.iter().map(|(pair, _)| *pair).collect();
                let mut values = vec![0.0; pairs.len()];
                assert!(least_distances(cpu, (&groups, &row), &pairs, &lattice, &mut scratch, &mut values).unwrap());
                for (value, (_, least)) in values.iter().zip(&expected) {
                    assert!((value - least).abs() < 1e-12, "{value} {least}");
                }
                for cutoff in [0.5, 4.5, 12.0] {
                    let mut found = vec![];
                    near_groups(cpu, (&groups, &row), (&separation, cutoff), &lattice, &mut scratch, &mut found)
                        .unwrap();
                    let near: Vec<f64> = values.iter().copied().filter(|value| *value <= cutoff).collect();
                    assert_eq!(found.iter().map(|one| one.distance).collect::<Vec<_>>(), near);
                    for Nearest { atoms: [i, j], distance } in found {
                        let [p, q] = [i, j].map(|atom| positions[atom as usize].map(f64::from));
                        let v = lattice.nearest([q[0] - p[0], q[1] - p[1], q[2] - p[2]]);
                        assert!(((v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt() - distance).abs() < 1e-12);
                    }
                }
            }
        }
    }

    #[test]
    fn positions_that_are_not_finite_are_reported() {
        let groups = AtomGroups::new(&[0, 1], &[1, 2]);
        let (mut values, mut scratch) = ([0.0], LeastScratch::default());
        let mut least = |row: &[f32]| {
            let lattice = Lattice::open();
            least_distances(Cpu::detect(), (&groups, row), &[[0, 1]], &lattice, &mut scratch, &mut values)
        };
        assert!(!least(&[0.0, 0.0, 0.0, 1.0, f32::INFINITY, 1.0]).unwrap());
        assert!(least(&[0.0; 3]).is_err());
    }
}
