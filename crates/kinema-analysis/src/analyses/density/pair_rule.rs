//! Which pairs of points count, and in which column: by labels, types, or one by one.

use std::collections::HashMap;

use kinema_core::Result;

use crate::analyses::pairs::neighbors::ExcludedPairs;
use crate::arguments::Arguments;

/// A pair that has no column.
const NO_COLUMN: u32 = u32::MAX;

/// Which pairs count by the labels of their atoms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Same {
    Any,
    Different,
    Only,
}

/// Which pairs count, and in which column.
pub(super) struct PairRule {
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
    /// Reads `same`, `labels`, `types`, `columns` and `excluded`, as the kernel has them. `numbers` are those of the
    /// points of both sets, the same if there are not `two` of them.
    pub(super) fn from_arguments(arguments: &Arguments, numbers: [Vec<u32>; 2], two: bool) -> Result<Self> {
        let sizes = [numbers[0].len(), if two { numbers[1].len() } else { 0 }];
        let two_sets = |name: &'static str| -> Result<[Vec<u32>; 2]> {
            if !arguments.has(name) {
                return Ok([Vec::new(), Vec::new()]);
            }
            let given = arguments.index_rows::<1>(name)?.as_flattened();
            if given.len() != sizes[0] + sizes[1] {
                return Err(arguments.wrong(name, &format!("{} numbers", sizes[0] + sizes[1])));
            }
            let first = given[..sizes[0]].to_vec();
            let second = if two { given[sizes[0]..].to_vec() } else { first.clone() };
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
        Ok(Self { same, labels, excluded, numbers, types, columns, n_second_types })
    }

    /// Number of columns.
    pub(super) fn n_columns(&self) -> usize {
        self.columns.iter().filter(|column| **column != NO_COLUMN).max().map_or(1, |most| *most as usize + 1)
    }

    /// Whether all pairs count, in one column.
    pub(super) fn is_plain(&self) -> bool {
        self.same == Same::Any && self.excluded.is_none() && self.columns.is_empty()
    }

    /// Whether a pair counts in the same column in either order.
    pub(super) fn is_symmetric(&self) -> bool {
        self.columns.is_empty()
    }

    /// The type of an atom of a set; 0 if there are no types.
    fn type_of(&self, set: usize, place: u32) -> u32 {
        self.types[set].get(place as usize).copied().unwrap_or_default()
    }

    /// Calls `see` with the places of each atom that is in both sets.
    fn each_shared(&self, mut see: impl FnMut(u32, u32)) {
        let places: HashMap<u32, u32> = self.numbers[1].iter().copied().zip(0..).collect();
        for (first, number) in (0..).zip(&self.numbers[0]) {
            if let Some(&second) = places.get(number) {
                see(first, second);
            }
        }
    }

    /// The column of a pair, given the places of its atoms.
    #[inline(always)]
    pub(super) fn column(&self, first: u32, second: u32) -> Option<usize> {
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
pub(super) fn selves(pairs: &PairRule) -> Vec<(u32, u64)> {
    let mut found = std::collections::BTreeMap::<u32, u64>::new();
    pairs.each_shared(|first, second| {
        if let Some(column) = pairs.column(first, second) {
            *found.entry(column as u32).or_default() += 1;
        }
    });
    found.into_iter().collect()
}

/// Number of ordered pairs that count in each column, with atoms and themselves.
pub(super) fn n_pairs(pairs: &PairRule, n_columns: usize) -> Vec<u64> {
    // atoms of each type, and of each type and label
    let numbers = |labelled: bool| {
        [0, 1].map(|set| {
            let mut numbers = HashMap::<[u32; 2], u64>::new();
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
        let mut of_label = HashMap::<u32, Vec<(u32, u64)>>::new();
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
