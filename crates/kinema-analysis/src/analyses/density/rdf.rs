//! Counts of pairs of atoms in bins of their distance, and the volume of each frame: what radial distribution functions
//! and coordination numbers are made of.
//!
//! Points are atoms, or centres of groups of atoms in single precision. Pairs are ordered: within one group (i, j) and
//! (j, i) both count. A point and itself do not, but a point and its own images do. Counts are exact: distances are those
//! of double precision, as `sqrt(|r_j - r_i + shift|^2)`. All images count, also those beyond half of the cell, unless
//! only the nearest is asked for.

use std::sync::Arc;

use kinema_core::frame::{Fields, Lattice};
use kinema_core::reduce::{Frame, Needs, ResultArray};
use kinema_core::{Error, ErrorKind, Result};

use super::pair_rule::{PairRule, n_pairs, selves};
use super::point_sets::{Found, PointScratch, PointSet};
use crate::analyses::of_members;
use crate::analyses::pairs::neighbors::explained;
use crate::analyses::sum_per_frame::{SumPerFrame, Sums};
use crate::arguments::Arguments;
use crate::bins::Bins;
use crate::geometry::cell_list::{CellList, FoundPair, PairImages};
use crate::partials::bytes::{Reader, Writer};
use crate::registry::KernelInfo;
use crate::run_parts::RunParts;

/// Results: "counts" (blocks, columns, bins), uint64; "n_pairs" (columns), uint64, ordered pairs that could count; "edges"
/// (bins + 1), angstrom; "time"; "values" (frames, 4): volume, angstrom^3, nan without a cell that is closed; with `plane`
/// the area of a and b, angstrom^2; half of the shortest lattice vector, angstrom, up to which the nearest image is the
/// only one; the ordered pairs that could count in the frame, over all columns; the points of the first set.
///
/// `atoms` and `other`, by default the same; `most`, `bins`, `least`. With `ends` and `other_ends` (and `masses`,
/// `other_masses`) points are centres of groups; `group` and `other_group` are atoms that change with the frame; both
/// have no labels, types or excluded pairs. `images`: "all", "minimum" or "none". `labels` (one for each atom of `atoms`,
/// then of `other` if it is given) with `same`: "different" leaves out pairs of one label,
/// "only" all others. `excluded` are pairs of atoms that are left out, (n, 2). `count_self`: an atom and itself count as
/// well. `columns`, (n, m), has the column of a pair, or 2^32 - 1 for none, by the types of both atoms; `types` has the types of
/// `atoms`, then of `other`. `blocks`: the first frame of each part of the run. `plane`: distances along x and y.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Rdf::ID,
    make: |arguments| Ok(Arc::new(Sums(Rdf::from_arguments(arguments)?))),
    examples: |n_atoms, _| {
        let every = |step| (0..n_atoms).step_by(step).collect::<Vec<_>>();
        let of = |most: f64, bins: i64| {
            Arguments::new(n_atoms).with("atoms", every(1)).with("most", most).with("bins", bins)
        };
        let next: Vec<_> = (1..n_atoms).map(|atom| [atom, atom - 1]).collect();
        let thirds: Vec<u32> = every(1).iter().chain(&every(2)).map(|atom| atom / 3).collect();
        let types: Vec<u32> = every(1).iter().chain(&every(1)).map(|atom| atom % 2).collect();
        let by_type = of(9.0, 20).with("other", every(1)).with("types", types);
        let ends: Vec<u32> = (1..=n_atoms).filter(|end| end % 3 == 0 || *end == n_atoms).collect();
        let group = of_members::example(n_atoms);
        let changing = Arguments::new(n_atoms).with("group", group).with("other", every(3)).with("most", 9.0);
        vec![
            of(8.0, 30).with("ends", ends).with("masses", vec![2.0; n_atoms as usize]),
            changing.with("bins", 12_i64),
            of(30.0, 75).with("excluded", next).with("blocks", vec![0.0, 103.0]),
            of(6.0, 10)
                .with("other", every(2))
                .with("labels", thirds)
                .with("same", "different")
                .with("images", "minimum"),
            by_type.with("columns", vec![[0_u32, 1], [u32::MAX, 0]]).with("least", 1.0).with("count_self", true),
        ]
    },
};

/// Which images of a pair count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Images {
    All,
    Minimum,
    None,
}

struct Rdf {
    first: PointSet,
    other: Option<PointSet>,
    /// Whether a set changes with the frame.
    change: bool,
    bins: Bins,
    images: Images,
    plane: bool,
    pairs: PairRule,
    n_columns: usize,
    /// Columns with the number of points that are in both sets, in all frames: at distance 0 from themselves.
    selves: Vec<(u32, u64)>,
    count_self: bool,
    n_pairs: Vec<u64>,
    blocks: RunParts,
}

impl Rdf {
    fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let [first, other] = PointSet::two_from_arguments(arguments)?;
        let first = first.ok_or_else(|| arguments.wrong("atoms", "atoms or a group"))?;
        let change = first.change() || other.as_ref().is_some_and(PointSet::change);
        let is_bare = first.is_bare() || other.as_ref().is_some_and(PointSet::is_bare);
        let numbers = [&first, other.as_ref().unwrap_or(&first)].map(|set| set.numbers().to_vec());
        let pairs = PairRule::from_arguments(arguments, numbers, other.is_some())?;
        if is_bare && !pairs.is_plain() {
            return Err(
                arguments.wrong("same", "\"any\" for centres and for atoms that change, without types or exclusions")
            );
        }
        let n_columns = pairs.n_columns();
        let bins = Bins::from_arguments(arguments)?;
        let blocks = RunParts::from_arguments(arguments)?;
        let images = [("all", Images::All), ("minimum", Images::Minimum), ("none", Images::None)];
        let images = arguments.choice("images", &images)?;
        let (plane, count_self) = (arguments.flag("plane", false)?, arguments.flag("count_self", false)?);
        let selves = selves(&pairs);
        let mut n_pairs = n_pairs(&pairs, n_columns);
        if !count_self {
            selves.iter().for_each(|(column, number)| n_pairs[*column as usize] -= number);
        }
        Ok(Self { first, other, change, bins, images, plane, pairs, n_columns, selves, count_self, n_pairs, blocks })
    }

    fn n_counts(&self) -> usize {
        self.blocks.len() * self.n_columns * self.bins.len()
    }

    /// The lattice whose images count, and the volume or area; nan if there is none.
    fn lattice(&self, frame: &Frame<'_>) -> Result<(Arc<Lattice>, f64)> {
        if self.plane {
            let lattice = plane_of(frame)?;
            let [a, b, c] = *lattice.basis();
            let area = if c == [0.0; 3] && b != [0.0; 3] { (a[0] * b[1] - a[1] * b[0]).abs() } else { f64::NAN };
            let open = self.images == Images::None;
            return Ok((Arc::new(if open { Lattice::open() } else { lattice }), area));
        }
        let lattice = frame.lattice()?;
        let [a, b, c] = *lattice.basis();
        let cross = [b[1] * c[2] - b[2] * c[1], b[2] * c[0] - b[0] * c[2], b[0] * c[1] - b[1] * c[0]];
        let volume = (a[0] * cross[0] + a[1] * cross[1] + a[2] * cross[2]).abs();
        let volume = if c == [0.0; 3] { f64::NAN } else { volume };
        Ok((frame.lattice_if(self.images != Images::None)?, volume))
    }

    /// Counts the pairs of a frame, with the atoms that are in both groups.
    fn count(&self, lattice: &Lattice, sets: [&[f32]; 2], scratch: &mut Scratch, counts: &mut [u64]) -> Result<()> {
        let (n_bins, most) = (self.bins.len(), self.bins.edge(self.bins.len()));
        let row = |first: u32, second: u32| self.pairs.column(first, second).map(|column| column * n_bins);
        if self.images == Images::Minimum && most * most >= 0.999 * lattice.sure() {
            let found = &mut scratch.found;
            scratch.cells.between(lattice, sets[0], sets[1], most, PairImages::Minimum, found)?;
            for pair in found.iter() {
                if let (Some(bin), Some(row)) = (self.bins.number(pair.distance), row(pair.first, pair.second)) {
                    counts[row + bin as usize] += 1;
                }
            }
            return Ok(());
        }
        let row = (!self.pairs.is_plain()).then_some(row);
        if self.other.is_some() || !self.pairs.is_symmetric() {
            return scratch.cells.count_between(lattice, sets, &self.bins, row, counts);
        }
        // each pair once: both orders of it count
        scratch.cells.count_within(lattice, sets[0], &self.bins, row, counts)?;
        counts.iter_mut().for_each(|count| *count *= 2);
        if let (Some(bin), [(_, n_selves)]) = (self.bins.number(0.0), &scratch.selves[..]) {
            counts[bin as usize] += n_selves;
        }
        Ok(())
    }

    /// Ordered pairs that could count in a frame, over all columns. `selves` are those of the frame.
    fn n_pairs_of(&self, found: [&Found<'_>; 2], selves: &mut Vec<(u32, u64)>) -> u64 {
        selves.clear();
        if !self.change {
            selves.extend(&self.selves);
            return self.n_pairs.iter().sum();
        }
        let n_shared = found[0].n_shared(found[1]);
        selves.push((0, n_shared));
        let all = found[0].len() as u64 * found[1].len() as u64;
        if self.count_self { all } else { all - n_shared }
    }
}

/// The lattice of the cell's edges a and b, which lie in the plane of x and y.
fn plane_of(frame: &Frame<'_>) -> Result<Lattice> {
    let (mut cell, mut periodic) = (frame.stamp.cell, frame.stamp.periodic);
    if cell[0][2] != 0.0 || cell[1][2] != 0.0 {
        let what = format!("distances along x and y need a cell with two edges in that plane, found {cell:?}");
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    (cell[2], periodic[2]) = ([0.0; 3], false);
    Lattice::new(&cell, periodic)
}

/// Writes x and y of positions, with 0 for z. If the third edge leans over, positions are those in the cell along it.
fn flatten(frame: &Frame<'_>, positions: &[f32], flat: &mut Vec<f32>) -> Result<()> {
    let along = frame.lattice()?.dual_of_edges()[2];
    let edge = frame.stamp.cell[2];
    let leans = edge[0] != 0.0 || edge[1] != 0.0;
    flat.clear();
    flat.extend(positions.as_chunks::<3>().0.iter().flat_map(|position| {
        let [x, y, z] = position.map(f64::from);
        if !leans {
            return [position[0], position[1], if z.is_finite() { 0.0 } else { position[2] }];
        }
        let count = (along[0] * x + along[1] * y + along[2] * z).floor();
        [(x - count * edge[0]) as f32, (y - count * edge[1]) as f32, 0.0]
    }));
    Ok(())
}

/// Buffers of a worker.
#[derive(Default)]
struct Scratch {
    cells: CellList,
    found: Vec<FoundPair>,
    counts: Vec<u64>,
    points: [PointScratch; 2],
    flat: [Vec<f32>; 2],
    selves: Vec<(u32, u64)>,
}

impl SumPerFrame for Rdf {
    const ID: &'static str = "rdf/2";
    /// Counts of all blocks, columns and bins.
    type Sum = Vec<u64>;
    type Scratch = Scratch;

    fn needs(&self) -> Needs {
        let both = || [&self.first].into_iter().chain(&self.other);
        let fields = both().fold(Fields::POSITIONS | Fields::CELL, |fields, one| fields | one.atoms().fields());
        Needs { fields, atom_sets: both().map(|one| one.atoms().read().clone()).collect() }
    }

    fn empty(&self) -> Vec<u64> {
        Vec::new()
    }

    fn sum_bytes(&self) -> u64 {
        (size_of::<u64>() * self.n_counts()) as u64
    }

    fn width(&self) -> usize {
        4
    }

    fn add(&self, frame: &Frame<'_>, scratch: &mut Scratch, sum: &mut Vec<u64>, row: &mut [f64]) -> Result<()> {
        let (lattice, volume) = self.lattice(frame)?;
        let mut points = std::mem::take(&mut scratch.points);
        let [of_first, of_second] = &mut points;
        let first = self.first.find(frame, 0, of_first)?;
        let second = self.other.as_ref().map(|other| other.find(frame, 1, of_second)).transpose()?;
        let second = second.as_ref().unwrap_or(&first);
        let n_pairs = self.n_pairs_of([&first, second], &mut scratch.selves);
        let mut sets = [first.positions, second.positions];
        let mut flat = std::mem::take(&mut scratch.flat);
        if self.plane {
            for (flat, set) in flat.iter_mut().zip(&mut sets) {
                flatten(frame, set, flat)?;
                *set = flat;
            }
        }
        let mut counts = std::mem::take(&mut scratch.counts);
        counts.clear();
        counts.resize(self.n_columns * self.bins.len(), 0);
        let counted = self.count(&lattice, sets, scratch, &mut counts);
        counted.map_err(|error| explained(frame, 1 + usize::from(self.other.is_some()), error))?;
        if !self.count_self
            && let Some(bin) = self.bins.number(0.0)
        {
            for (column, n_selves) in &scratch.selves {
                counts[*column as usize * self.bins.len() + bin as usize] -= n_selves;
            }
        }
        row.copy_from_slice(&[volume, lattice.sure().sqrt(), n_pairs as f64, first.len() as f64]);
        sum.resize(self.n_counts(), 0);
        let block = self.blocks.of(frame.number);
        let sums = sum.iter_mut().skip(block * counts.len());
        sums.zip(&counts).for_each(|(sum, count)| *sum += count);
        (scratch.counts, scratch.flat, scratch.points) = (counts, flat, points);
        Ok(())
    }

    fn merge(&self, left: &mut Vec<u64>, right: Vec<u64>) {
        if left.is_empty() {
            *left = right;
        } else {
            left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
        }
    }

    fn results(&self, mut sum: Vec<u64>) -> Vec<ResultArray> {
        sum.resize(self.n_counts(), 0);
        let edges = self.bins.edges();
        vec![
            ResultArray::new("counts", vec![self.blocks.len(), self.n_columns, self.bins.len()], sum),
            ResultArray::new("n_pairs", vec![self.n_columns], self.n_pairs.clone()),
            ResultArray::new("edges", vec![edges.len()], edges),
        ]
    }

    fn to_bytes(&self, sum: &Vec<u64>) -> Vec<u8> {
        let mut writer = Writer::new(Self::ID);
        writer.u64(self.n_counts() as u64);
        writer.u64(sum.len() as u64);
        writer.numbers(sum);
        writer.finish()
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Vec<u64>> {
        let mut reader = Reader::new(Self::ID, bytes)?;
        reader.same(self.n_counts() as u64, "number of bins")?;
        let length = reader.u64("number of counts")?;
        if length != 0 && length != self.n_counts() as u64 {
            return Err(reader.wrong("number of counts", self.n_counts(), length));
        }
        let sum = reader.numbers(length, "counts")?;
        reader.finish()?;
        Ok(sum)
    }
}
