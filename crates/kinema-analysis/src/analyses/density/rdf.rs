//! Counts of pairs of atoms in bins of their distance, and the volume of each frame: what radial distribution functions
//! and coordination numbers are made of.
//!
//! Pairs are ordered: within one group (i, j) and (j, i) both count. An atom and itself do not, but an atom and its own
//! images do. Counts are exact: distances are those of double precision, as `sqrt(|r_j - r_i + shift|^2)`. All images
//! count, also those beyond half of the cell, unless only the nearest is asked for.

use std::sync::Arc;

use kinema_core::frame::{Fields, Lattice};
use kinema_core::reduce::{Frame, Needs, ResultArray};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use crate::analyses::pairs::neighbors::{ExcludedPairs, explained};
use crate::analyses::sum_per_frame::{SumPerFrame, Sums};
use crate::arguments::Arguments;
use crate::bins::Bins;
use crate::geometry::cell_list::{CellList, FoundPair, PairImages};
use crate::partials::bytes::{Reader, Writer};
use crate::registry::KernelInfo;
use crate::run_parts::RunParts;

/// Results: "counts" (blocks, columns, bins), uint64; "n_pairs" (columns), uint64, ordered pairs that could count; "edges"
/// (bins + 1), angstrom; "time"; "values" (frames, 2): volume, angstrom^3, nan without a cell that is closed; with `plane`
/// the area of a and b, angstrom^2; and half of the shortest lattice vector, angstrom, up to which the nearest image is the
/// only one.
///
/// `atoms` and `other`, by default the same; `most`, `bins`, `least`. `images`: "all", "minimum" or "none". `labels` (one
/// for each atom of `atoms`, then of `other` if it is given) with `same`: "different" leaves out pairs of one label,
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
        vec![
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

/// A pair that has no column.
const NO_COLUMN: u32 = u32::MAX;

/// Which images of a pair count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Images {
    All,
    Minimum,
    None,
}

/// Which pairs count by the labels of their atoms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Same {
    Any,
    Different,
    Only,
}

struct Rdf {
    atoms: AtomSelection,
    other: Option<AtomSelection>,
    bins: Bins,
    images: Images,
    plane: bool,
    pairs: PairRule,
    n_columns: usize,
    /// Columns with the number of atoms that are in both groups: they are at distance 0 from themselves.
    selves: Vec<(u32, u64)>,
    count_self: bool,
    n_pairs: Vec<u64>,
    blocks: RunParts,
}

/// Which pairs count, and in which column.
struct PairRule {
    same: Same,
    /// Labels of the first set, and of the second one.
    labels: [Vec<u32>; 2],
    excluded: Option<ExcludedPairs>,
    /// Numbers of the atoms of both sets, if pairs are excluded.
    numbers: [Vec<u32>; 2],
    types: [Vec<u32>; 2],
    columns: Vec<u32>,
    n_second_types: usize,
}

impl PairRule {
    /// Whether all pairs count, in one column.
    fn is_plain(&self) -> bool {
        self.same == Same::Any && self.excluded.is_none() && self.columns.is_empty()
    }

    /// Whether a pair counts in the same column in either order.
    fn is_symmetric(&self) -> bool {
        self.columns.is_empty()
    }

    /// The type of an atom of a set; 0 if there are no types.
    fn type_of(&self, set: usize, place: u32) -> u32 {
        self.types[set].get(place as usize).copied().unwrap_or_default()
    }

    /// Calls `see` with the places of each atom that is in both sets.
    fn each_shared(&self, mut see: impl FnMut(u32, u32)) {
        let places: std::collections::HashMap<u32, u32> = self.numbers[1].iter().copied().zip(0..).collect();
        for (first, number) in (0..).zip(&self.numbers[0]) {
            if let Some(&second) = places.get(number) {
                see(first, second);
            }
        }
    }

    /// The column of a pair, given the places of its atoms.
    #[inline(always)]
    fn column(&self, first: u32, second: u32) -> Option<usize> {
        let (first, second) = (first as usize, second as usize);
        if let Some(excluded) = &self.excluded
            && excluded.contains(self.numbers[0][first], self.numbers[1][second])
        {
            return None;
        }
        self.by_label_and_type(first, second)
    }

    /// The same without regard to the pairs that are excluded one by one.
    #[inline(always)]
    fn by_label_and_type(&self, first: usize, second: usize) -> Option<usize> {
        if self.same != Same::Any {
            let is_same = self.labels[0][first] == self.labels[1][second];
            // an image of an atom is not another atom of its molecule
            let is_itself = self.same == Same::Only && self.numbers[0][first] == self.numbers[1][second];
            if is_same != (self.same == Same::Only) || is_itself {
                return None;
            }
        }
        if self.columns.is_empty() {
            Some(0)
        } else {
            self.column_of_types(self.types[0][first], self.types[1][second])
        }
    }

    #[inline(always)]
    fn column_of_types(&self, first: u32, second: u32) -> Option<usize> {
        if self.columns.is_empty() {
            return Some(0);
        }
        let column = self.columns[first as usize * self.n_second_types + second as usize];
        (column != NO_COLUMN).then_some(column as usize)
    }
}

impl Rdf {
    fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let atoms = arguments.unique_atoms("atoms")?;
        let other = if arguments.has("other") { Some(arguments.unique_atoms("other")?) } else { None };
        let sizes = [atoms.len(), other.as_ref().map_or(0, AtomSelection::len)];
        let two_sets = |name: &'static str| -> Result<[Vec<u32>; 2]> {
            if !arguments.has(name) {
                return Ok([Vec::new(), Vec::new()]);
            }
            let given = arguments.index_rows::<1>(name)?.as_flattened();
            if given.len() != sizes[0] + sizes[1] {
                return Err(arguments.wrong(name, &format!("{} numbers", sizes[0] + sizes[1])));
            }
            let first = given[..sizes[0]].to_vec();
            let second = if other.is_some() { given[sizes[0]..].to_vec() } else { first.clone() };
            Ok([first, second])
        };
        let same =
            arguments.choice("same", &[("any", Same::Any), ("different", Same::Different), ("only", Same::Only)])?;
        let (labels, types) = (two_sets("labels")?, two_sets("types")?);
        if same != Same::Any && labels[0].is_empty() {
            return Err(arguments.wrong("labels", "one for each atom"));
        }
        let (columns, n_second_types) = columns_of(arguments, &types)?;
        let excluded = arguments.has("excluded").then(|| arguments.index_rows::<2>("excluded")).transpose()?;
        let excluded = excluded.map(|pairs| ExcludedPairs::new(arguments.n_atoms(), pairs));
        let excluded = excluded.transpose().map_err(|expected| arguments.wrong("excluded", &expected))?;
        let numbers = [&atoms, other.as_ref().unwrap_or(&atoms)].map(|set| set.iter().collect::<Vec<_>>());
        let n_columns =
            columns.iter().filter(|column| **column != NO_COLUMN).max().map_or(1, |most| *most as usize + 1);
        let pairs = PairRule { same, labels, excluded, numbers, types, columns, n_second_types };
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
        Ok(Self { atoms, other, bins, images, plane, pairs, n_columns, selves, count_self, n_pairs, blocks })
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
        if self.other.is_some() || !self.pairs.is_symmetric() {
            return scratch.cells.count_between(lattice, sets, &self.bins, row, counts);
        }
        // each pair once: both orders of it count
        if self.pairs.is_plain() {
            scratch.cells.count_within(lattice, sets[0], &self.bins, |_, _| Some(0), counts)?;
        } else {
            scratch.cells.count_within(lattice, sets[0], &self.bins, row, counts)?;
        }
        counts.iter_mut().for_each(|count| *count *= 2);
        if let (Some(bin), [(_, n_selves)]) = (self.bins.number(0.0), &self.selves[..]) {
            counts[bin as usize] += n_selves;
        }
        Ok(())
    }
}

/// The columns of pairs of types, by rows of the first type, and the number of second types.
fn columns_of(arguments: &Arguments, types: &[Vec<u32>; 2]) -> Result<(Vec<u32>, usize)> {
    if !arguments.has("columns") {
        return if types[0].is_empty() {
            Ok((Vec::new(), 0))
        } else {
            Err(arguments.wrong("columns", "(n, m) numbers"))
        };
    }
    let (shape, columns) = arguments.index_table("columns")?;
    let fits = |types: &[u32], n: usize| !types.is_empty() && types.iter().all(|of| (*of as usize) < n);
    if !fits(&types[0], shape[0]) || !fits(&types[1], shape[1]) {
        return Err(arguments.wrong("types", &format!("numbers below {} and {}", shape[0], shape[1])));
    }
    if columns.iter().any(|column| *column != NO_COLUMN && *column as usize >= columns.len()) {
        return Err(arguments.wrong("columns", &format!("numbers below {}", columns.len())));
    }
    Ok((columns.to_vec(), shape[1]))
}

/// Columns with the number of atoms that are in both sets and count there with themselves, if they may.
fn selves(pairs: &PairRule) -> Vec<(u32, u64)> {
    let mut found = std::collections::BTreeMap::<u32, u64>::new();
    pairs.each_shared(|first, second| {
        if let Some(column) = pairs.column(first, second) {
            *found.entry(column as u32).or_default() += 1;
        }
    });
    found.into_iter().collect()
}

/// Number of ordered pairs that count in each column, with atoms and themselves.
fn n_pairs(pairs: &PairRule, n_columns: usize) -> Vec<u64> {
    // atoms of each type, and of each type and label
    let numbers = |labelled: bool| {
        [0, 1].map(|set| {
            let mut numbers = std::collections::HashMap::<[u32; 2], u64>::new();
            for place in 0..pairs.numbers[set].len() {
                let label = if labelled { pairs.labels[set][place] } else { 0 };
                *numbers.entry([label, pairs.type_of(set, place as u32)]).or_default() += 1;
            }
            numbers
        })
    };
    let by_column = |labelled: bool| {
        let mut found = vec![0_u64; n_columns];
        let [first, second] = numbers(labelled);
        let mut of_label = std::collections::HashMap::<u32, Vec<(u32, u64)>>::new();
        for ([label, of_type], number) in second {
            of_label.entry(label).or_default().push((of_type, number));
        }
        for ([label, of_first], number) in first {
            for (of_second, other) in of_label.get(&label).into_iter().flatten() {
                if let Some(column) = pairs.column_of_types(of_first, *of_second) {
                    found[column] += number * other;
                }
            }
        }
        found
    };
    let mut found = match pairs.same {
        Same::Any => by_column(false),
        Same::Only => by_column(true),
        Same::Different => {
            let all = by_column(false);
            all.into_iter().zip(by_column(true)).map(|(all, same)| all - same).collect()
        }
    };
    if pairs.same == Same::Only {
        pairs.each_shared(|first, second| {
            if let Some(column) = pairs.column_of_types(pairs.type_of(0, first), pairs.type_of(1, second)) {
                found[column] -= 1;
            }
        });
    }
    if let Some(excluded) = &pairs.excluded {
        excluded.each_within(&pairs.numbers, |first, second| {
            if let Some(column) = pairs.by_label_and_type(first as usize, second as usize) {
                found[column] -= 1;
            }
        });
    }
    found
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
    flat: [Vec<f32>; 2],
}

impl SumPerFrame for Rdf {
    const ID: &'static str = "rdf/1";
    /// Counts of all blocks, columns and bins.
    type Sum = Vec<u64>;
    type Scratch = Scratch;

    fn needs(&self) -> Needs {
        let atom_sets = [&self.atoms].into_iter().chain(&self.other).cloned().collect();
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets }
    }

    fn empty(&self) -> Vec<u64> {
        Vec::new()
    }

    fn sum_bytes(&self) -> u64 {
        (size_of::<u64>() * self.n_counts()) as u64
    }

    fn width(&self) -> usize {
        2
    }

    fn add(&self, frame: &Frame<'_>, scratch: &mut Scratch, sum: &mut Vec<u64>, row: &mut [f64]) -> Result<()> {
        let (lattice, volume) = self.lattice(frame)?;
        let mut sets = [0, usize::from(self.other.is_some())].map(|set| frame.positions(set));
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
            for (column, n_selves) in &self.selves {
                counts[*column as usize * self.bins.len() + bin as usize] -= n_selves;
            }
        }
        sum.resize(self.n_counts(), 0);
        let block = self.blocks.of(frame.number);
        let sums = sum.iter_mut().skip(block * counts.len());
        sums.zip(&counts).for_each(|(sum, count)| *sum += count);
        row.copy_from_slice(&[volume, lattice.sure().sqrt()]);
        (scratch.counts, scratch.flat) = (counts, flat);
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
