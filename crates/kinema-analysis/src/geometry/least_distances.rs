//! Least distances of groups of atoms, such as residues, with nearest images in any lattice.
//!
//! In double precision of single-precision positions. Two groups whose enclosing spheres are farther apart than a
//! cutoff are not looked into; the result is that of all pairs of atoms.

use kinema_core::frame::Lattice;
use kinema_core::{Error, ErrorKind, Result};

use super::cell_list::CellList;
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
    /// The search for near spheres of many groups: their centres, and pairs of groups.
    cells: CellList,
    centers: Vec<f32>,
    candidates: Vec<[u32; 2]>,
}

/// All spheres are compared with each other up to this number of groups; more are sorted into cells.
const FEW_GROUPS: usize = 768;

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
        Placed { groups, scratch, images: Open, sure }.carry_out::<Q>(lattice, task);
    } else if let Some([edges, inverse]) = lattice.edges_on_axes() {
        Placed { groups, scratch, images: AlongAxes::new(edges, inverse), sure }.carry_out::<Q>(lattice, task);
    } else {
        Placed { groups, scratch, images: General::new(lattice), sure }.carry_out::<Q>(lattice, task);
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
    fn carry_out<Q: Quad>(mut self, lattice: &Lattice, task: &mut Task<'_>)
    where
        I: Images<Q>,
    {
        self.enclose::<Q>();
        match task {
            Task::Pairs { pairs, values } => self.fill::<Q>(pairs, values),
            Task::Near { separation, cutoff, found } => {
                if self.groups.len() > FEW_GROUPS && self.find_candidates(lattice, *cutoff).is_ok() {
                    for &[first, second] in &self.scratch.candidates {
                        self.near_of_two::<Q>([first as usize, second as usize], (separation, *cutoff), found);
                    }
                    return;
                }
                for first in 0..self.groups.len() {
                    self.near::<Q>(first, (separation, *cutoff), found);
                }
            }
        }
    }

    /// Finds the pairs of groups whose spheres may be within the cutoff, ascending, in cells.
    /// Errors as [`CellList::between`].
    fn find_candidates(&mut self, lattice: &Lattice, cutoff: f64) -> Result<()> {
        let n_groups = self.groups.len();
        let LeastScratch { spheres, cells, centers, candidates, .. } = &mut *self.scratch;
        let sphere = |group: usize| spheres[group / 4].map(|lanes| lanes[group % 4]);
        centers.clear();
        centers.extend((0..n_groups).flat_map(|group| {
            let [x, y, z, _] = sphere(group);
            [x as f32, y as f32, z as f32]
        }));
        let largest = (0..n_groups).map(|group| sphere(group)[3]).fold(0.0, f64::max);
        // more than what rounding adds
        let slack = |reach: f64| reach * (1.0 + 1e-6) + 1e-6;
        candidates.clear();
        cells.visit_within(lattice, centers, slack(cutoff + 2.0 * largest), |pair| {
            let (first, second) = (pair.first.min(pair.second), pair.first.max(pair.second));
            if first < second && pair.distance <= slack(cutoff + sphere(first as usize)[3] + sphere(second as usize)[3])
            {
                candidates.push([first, second]);
            }
        })?;
        candidates.sort_unstable();
        candidates.dedup();
        Ok(())
    }

    /// Adds two groups if they are near each other, with the bits of [`Self::near`].
    #[inline(always)]
    fn near_of_two<Q: Quad>(
        &self,
        [first, second]: [usize; 2],
        (separation, cutoff): (&Separation, f64),
        found: &mut Vec<Nearest>,
    ) where
        I: Images<Q>,
    {
        if !separation.allows(first, second) {
            return;
        }
        let ([x, y, z, _], [to_x, to_y, to_z, _]) = (self.sphere(first), self.sphere(second));
        let apart = self.images.nearest(difference(all([to_x, to_y, to_z]), all([x, y, z])));
        let apart = apart.map(|lanes| lanes.store()[0]);
        let nearest = self.nearest::<Q>([first, second], apart);
        if nearest.distance <= cutoff {
            found.push(nearest);
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
        let LeastScratch { placed, spheres, .. } = &mut *self.scratch;
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
mod tests;
