//! The arguments of a kernel by name, as callers of any language give them; and the checks that all kernels share.
//!
//! It knows no kernel: each kernel says which names there are, and which may be left out, by requesting them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use crate::cpu::Cpu;
use crate::geometry::Column;
use crate::weights::check_weights;

mod groups;

pub use groups::GroupedAtoms;

/// One argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// Left out.
    None,
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A word.
    Text(String),
    /// Atom indices, counted from 0, in any order: `shape` is (n) or (n, columns).
    Atoms {
        /// Dimensions.
        shape: Vec<usize>,
        /// Row-major.
        indices: Vec<u32>,
    },
    /// Numbers of any shape.
    Numbers {
        /// Dimensions.
        shape: Vec<usize>,
        /// Row-major.
        values: Vec<f64>,
    },
    /// Numbers of any shape in single precision, such as positions of many frames.
    Singles {
        /// Dimensions.
        shape: Vec<usize>,
        /// Row-major.
        values: Vec<f32>,
    },
    /// Several arguments.
    List(Vec<Argument>),
}

impl Argument {
    fn kind(&self) -> String {
        let array = |what: &str, shape: &[usize]| format!("{what} of shape {shape:?}");
        match self {
            Self::None => "nothing".to_owned(),
            Self::Flag(flag) => flag.to_string(),
            Self::Integer(number) => number.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => format!("{text:?}"),
            Self::Atoms { shape, .. } => array("atom indices", shape),
            Self::Numbers { shape, .. } => array("numbers", shape),
            Self::Singles { shape, .. } => array("single numbers", shape),
            Self::List(items) => format!("a list of {}", items.len()),
        }
    }
}

macro_rules! arguments_from {
    ($($type:ty, $value:ident => $argument:expr;)*) => {
        $(impl From<$type> for Argument {
            fn from($value: $type) -> Self {
                $argument
            }
        })*
    };
}

arguments_from! {
    bool, flag => Self::Flag(flag);
    i64, number => Self::Integer(number);
    f64, number => Self::Number(number);
    &str, text => Self::Text(text.to_owned());
    Vec<u32>, indices => Self::Atoms { shape: vec![indices.len()], indices };
    Vec<f64>, values => Self::Numbers { shape: vec![values.len()], values };
    &[f64], values => Self::from(values.to_vec());
    Vec<Argument>, items => Self::List(items);
}

impl<const N: usize> From<Vec<[u32; N]>> for Argument {
    fn from(rows: Vec<[u32; N]>) -> Self {
        Self::Atoms { shape: vec![rows.len(), N], indices: rows.as_flattened().to_vec() }
    }
}

impl<const N: usize> From<Vec<[f64; N]>> for Argument {
    fn from(rows: Vec<[f64; N]>) -> Self {
        Self::Numbers { shape: vec![rows.len(), N], values: rows.as_flattened().to_vec() }
    }
}

impl<T: Into<Self>> From<Option<T>> for Argument {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// Tuples of atoms, such as pairs: the set of all their atoms, and the first, second and further atoms of all tuples as
/// places in that set.
#[derive(Debug, Clone)]
pub struct AtomTuples<const N: usize> {
    /// All atoms.
    pub atoms: AtomSelection,
    /// Atom by atom of the tuples.
    pub columns: [Column; N],
    /// Number of tuples.
    pub len: usize,
}

/// All arguments of a kernel.
#[derive(Debug, Clone)]
pub struct Arguments {
    n_atoms: u32,
    cpu: Cpu,
    /// In front of a name in errors.
    of: String,
    named: BTreeMap<String, Argument>,
    /// Names that were requested.
    known: RefCell<BTreeSet<&'static str>>,
}

impl Arguments {
    /// No arguments yet, for a trajectory of `n_atoms` atoms.
    pub fn new(n_atoms: u32) -> Self {
        let known = RefCell::default();
        Self { n_atoms, cpu: Cpu::detect(), of: String::new(), named: BTreeMap::new(), known }
    }

    /// The same for a stated build of the loops.
    #[must_use]
    pub fn with_cpu(self, cpu: Cpu) -> Self {
        Self { cpu, ..self }
    }

    /// The same and one more.
    #[must_use]
    pub fn with(mut self, name: &str, argument: impl Into<Argument>) -> Self {
        self.named.insert(name.to_owned(), argument.into());
        self
    }

    /// Names and arguments.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Argument)> {
        self.named.iter().map(|(name, argument)| (name.as_str(), argument))
    }

    /// Number of atoms of the trajectory.
    pub fn n_atoms(&self) -> u32 {
        self.n_atoms
    }

    /// The build of the loops that the kernel is to run.
    pub fn cpu(&self) -> Cpu {
        self.cpu
    }

    fn get(&self, name: &'static str) -> &Argument {
        self.known.borrow_mut().insert(name);
        self.named.get(name).unwrap_or(&Argument::None)
    }

    /// An argument of any kind.
    pub fn any(&self, name: &'static str) -> &Argument {
        self.get(name)
    }

    /// The error for an argument that does not fit.
    pub fn wrong(&self, name: &str, expected: &str) -> Error {
        let found = self.named.get(name).unwrap_or(&Argument::None).kind();
        let what = format!("argument {}{name} of the kernel must be {expected}, found {found}", self.of);
        Error::new(ErrorKind::InvalidArgument, what)
    }

    /// Refuses arguments that were not requested.
    /// Errors: `InvalidArgument`, naming the first one.
    pub(crate) fn check_known(&self) -> Result<()> {
        let known = self.known.borrow();
        let Some(name) = self.named.keys().find(|name| !known.contains(name.as_str())) else { return Ok(()) };
        let known: Vec<&str> = known.iter().copied().collect();
        let what = format!("the kernel has no argument {}{name}, expected one of {}", self.of, known.join(", "));
        Err(Error::new(ErrorKind::InvalidArgument, what))
    }

    /// Whether an argument was given.
    pub fn has(&self, name: &'static str) -> bool {
        *self.get(name) != Argument::None
    }

    /// A set of atoms: at least one, and all of them in the trajectory.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else, `OutOfRange` for an atom that the trajectory does not have.
    pub fn atoms(&self, name: &'static str) -> Result<AtomSelection> {
        match self.get(name) {
            Argument::Atoms { shape, indices } if shape.len() == 1 && !indices.is_empty() => {
                AtomSelection::new(indices.clone(), self.n_atoms)
            }
            Argument::Atoms { indices, .. } if indices.is_empty() => {
                let what = format!("{}{name} has no atoms, expected at least one", self.of);
                Err(Error::new(ErrorKind::InvalidArgument, what))
            }
            _ => Err(self.wrong(name, "atom indices (n,)")),
        }
    }

    /// A set of atoms, each given once.
    ///
    /// # Errors
    /// As [`Arguments::atoms`]; `InvalidArgument` for an atom that is given twice.
    pub fn unique_atoms(&self, name: &'static str) -> Result<AtomSelection> {
        let atoms = self.atoms(name)?;
        atoms.check_unique()?;
        Ok(atoms)
    }

    /// A set of atoms, each given once; all atoms of the trajectory if the argument is left out.
    ///
    /// # Errors
    /// As [`Arguments::unique_atoms`]; `InvalidArgument` if all atoms are meant and the trajectory has none.
    pub fn unique_atoms_or_all(&self, name: &'static str) -> Result<AtomSelection> {
        if self.has(name) {
            return self.unique_atoms(name);
        }
        if self.n_atoms == 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, "the trajectory has no atoms, expected at least one"));
        }
        Ok(AtomSelection::all(self.n_atoms))
    }

    /// Tuples of `N` atoms, at least one; an atom may be in several.
    ///
    /// # Errors
    /// As [`Arguments::atoms`].
    pub fn atom_tuples<const N: usize>(&self, name: &'static str) -> Result<AtomTuples<N>> {
        let indices = match self.get(name) {
            Argument::Atoms { shape, indices } if shape.len() == 2 && shape[1] == N && !indices.is_empty() => indices,
            _ => return Err(self.wrong(name, &format!("atom indices (n, {N}), at least one row"))),
        };
        let requested = AtomSelection::new(indices.clone(), self.n_atoms)?;
        let places: Vec<u32> = match requested.columns() {
            Some(columns) => columns.to_vec(),
            None => (0..indices.len() as u32).collect(),
        };
        let (tuples, _) = places.as_chunks::<N>();
        let columns = std::array::from_fn(|i| Column::new(tuples.iter().map(|tuple| tuple[i]).collect()));
        // only the set: results are one a tuple, not one an atom
        let atoms = AtomSelection::union(self.n_atoms, [&requested]);
        Ok(AtomTuples { atoms, columns, len: tuples.len() })
    }

    /// Whole numbers, (n, N), or (n) if N is 1; n may be 0.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else.
    pub fn index_rows<const N: usize>(&self, name: &'static str) -> Result<&[[u32; N]]> {
        match self.get(name) {
            Argument::Atoms { shape, indices } if shape.get(1..) == Some(&[N]) || (N == 1 && shape.len() == 1) => {
                Ok(indices.as_chunks::<N>().0)
            }
            _ => Err(self.wrong(name, &format!("whole numbers (n, {N})"))),
        }
    }

    /// A table of whole numbers, (n, m) with its shape.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else.
    pub fn index_table(&self, name: &'static str) -> Result<([usize; 2], &[u32])> {
        match self.get(name) {
            Argument::Atoms { shape, indices } if shape.len() == 2 => Ok(([shape[0], shape[1]], indices)),
            _ => Err(self.wrong(name, "whole numbers (n, m)")),
        }
    }

    /// Numbers, one dimension.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else.
    pub fn numbers(&self, name: &'static str) -> Result<&[f64]> {
        match self.get(name) {
            Argument::Numbers { shape, values } if shape.len() == 1 => Ok(values),
            _ => Err(self.wrong(name, "numbers (n,)")),
        }
    }

    /// Numbers in single precision, with their shape.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else.
    pub fn singles(&self, name: &'static str) -> Result<(&[usize], &[f32])> {
        match self.get(name) {
            Argument::Singles { shape, values } => Ok((shape, values)),
            _ => Err(self.wrong(name, "numbers in single precision")),
        }
    }

    /// As [`Arguments::numbers`], or `None` if the argument is left out.
    ///
    /// # Errors
    /// As [`Arguments::numbers`].
    pub fn optional_numbers(&self, name: &'static str) -> Result<Option<&[f64]>> {
        if self.has(name) { self.numbers(name).map(Some) } else { Ok(None) }
    }

    /// One weight for each of `atoms`, given in the requested order and returned in the order of the set; all 1 by
    /// default.
    ///
    /// # Errors
    /// `InvalidArgument` for values that are not numbers, a wrong number of weights, and weights that are negative, not
    /// finite or all zero.
    pub fn weights(&self, name: &'static str, atoms: &AtomSelection) -> Result<Vec<f64>> {
        let Some(weights) = self.optional_numbers(name)? else { return Ok(vec![1.0; atoms.len()]) };
        check_weights(weights, atoms.n_requested())?;
        Ok(atoms.reorder_as_set(weights, 1)?.into_owned())
    }

    /// Rows of x, y and z.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else.
    pub fn vectors(&self, name: &'static str) -> Result<&[[f64; 3]]> {
        match self.get(name) {
            Argument::Numbers { shape, values } if shape.len() == 2 && shape[1] == 3 => Ok(values.as_chunks::<3>().0),
            _ => Err(self.wrong(name, "numbers (n, 3)")),
        }
    }

    /// A number.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else, and for one that is not finite.
    pub fn number(&self, name: &'static str) -> Result<f64> {
        let number = match self.get(name) {
            Argument::Number(number) => Some(*number),
            Argument::Integer(number) => Some(*number as f64),
            _ => None,
        };
        number.filter(|number| number.is_finite()).ok_or_else(|| self.wrong(name, "a finite number"))
    }

    /// A number above 0.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else.
    pub fn positive(&self, name: &'static str) -> Result<f64> {
        let number = self.number(name)?;
        if number > 0.0 { Ok(number) } else { Err(self.wrong(name, "above 0")) }
    }

    /// A whole number of at least `least`.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else.
    pub fn count(&self, name: &'static str, least: usize) -> Result<usize> {
        match self.get(name) {
            Argument::Integer(number) => usize::try_from(*number).ok().filter(|number| *number >= least),
            _ => None,
        }
        .ok_or_else(|| self.wrong(name, &format!("a whole number of at least {least}")))
    }

    /// Yes or no; `default` if the argument is left out.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else.
    pub fn flag(&self, name: &'static str, default: bool) -> Result<bool> {
        match self.get(name) {
            Argument::None => Ok(default),
            Argument::Flag(flag) => Ok(*flag),
            _ => Err(self.wrong(name, "true or false")),
        }
    }

    /// The value of a word in `choices`; the first value if the argument is left out.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else; the error lists all words.
    pub fn choice<T: Copy>(&self, name: &'static str, choices: &[(&str, T)]) -> Result<T> {
        let found = match self.get(name) {
            Argument::None => choices.first(),
            Argument::Text(text) => choices.iter().find(|(word, _)| word == text),
            _ => None,
        };
        let words = || choices.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
        found.map(|(_, choice)| *choice).ok_or_else(|| self.wrong(name, &format!("one of {}", words())))
    }

    /// A list of tuples, each with arguments of the names `names`; empty if the argument is left out.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else.
    pub fn tuples(&self, name: &'static str, names: &[&str]) -> Result<Vec<Self>> {
        let wrong = || self.wrong(name, &format!("a list of ({})", names.join(", ")));
        let items: &[Argument] = match self.get(name) {
            Argument::None => &[],
            Argument::List(items) => items,
            _ => return Err(wrong()),
        };
        let named = |(number, item): (usize, &Argument)| match item {
            Argument::List(parts) if parts.len() == names.len() => {
                let of = format!("{}{name}[{number}].", self.of);
                let named = names.iter().map(|name| (*name).to_owned()).zip(parts.iter().cloned()).collect();
                Ok(Self { of, named, known: RefCell::default(), ..*self })
            }
            _ => Err(wrong()),
        };
        items.iter().enumerate().map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Arguments {
        let groups = vec![Argument::List(vec![vec![1_u32].into(), 0.5.into()])];
        Arguments::new(10)
            .with("atoms", vec![7_u32, 2, 7])
            .with("pairs", vec![[7_u32, 2], [3, 7]])
            .with("at", vec![[0.0, 1.0, 2.0]])
            .with("cutoff", 4.5)
            .with("bins", 3_i64)
            .with("kind", "second")
            .with("groups", groups)
    }

    #[test]
    fn arguments_are_what_was_given() {
        let given = some();
        assert_eq!(given.atoms("atoms").unwrap().columns(), Some(&[1, 0, 1][..]));
        let pairs = given.atom_tuples::<2>("pairs").unwrap();
        assert_eq!((pairs.atoms.indices(), pairs.len), (Some(&[2, 3, 7][..]), 2));
        assert_eq!(pairs.columns, [Column::new(vec![2, 1]), Column::new(vec![0, 2])]);
        assert_eq!(given.vectors("at").unwrap(), [[0.0, 1.0, 2.0]]);
        assert_eq!((given.number("cutoff").unwrap(), given.count("bins", 1).unwrap()), (4.5, 3));
        assert_eq!(given.choice("kind", &[("first", 1), ("second", 2)]).unwrap(), 2);
        assert_eq!(given.choice("other", &[("first", 1), ("second", 2)]).unwrap(), 1);
        assert_eq!(given.optional_numbers("masses").unwrap(), None);
        assert!(given.flag("axes", true).unwrap() && !given.has("axes"));
        let groups = given.tuples("groups", &["atoms", "radius"]).unwrap();
        assert_eq!((groups[0].number("radius").unwrap(), groups[0].atoms("atoms").unwrap().len()), (0.5, 1));
        given.check_known().unwrap();
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let given = some().with("many", vec![1_u32]);
        let refused = |error: Error, what: &str| {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert_eq!(error.what(), what);
        };
        refused(
            given.number("atoms").unwrap_err(),
            "argument atoms of the kernel must be a finite number, found atom indices of shape [3]",
        );
        refused(
            given.count("bins", 4).unwrap_err(),
            "argument bins of the kernel must be a whole number of at least 4, found 3",
        );
        let group = &given.tuples("groups", &["atoms", "radius"]).unwrap()[0];
        refused(
            group.vectors("radius").unwrap_err(),
            "argument groups[0].radius of the kernel must be numbers (n, 3), found 0.5",
        );
        refused(given.unique_atoms("atoms").unwrap_err(), "atom index 7 is selected twice, expected each atom once");
        for name in ["pairs", "at", "cutoff", "kind"] {
            assert_eq!(given.atoms(name).unwrap_err().kind(), ErrorKind::InvalidArgument, "{name}");
            assert_eq!(given.atom_tuples::<3>(name).map(|_| ()).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        refused(
            given.check_known().unwrap_err(),
            "the kernel has no argument many, expected one of at, atoms, bins, cutoff, groups, kind, pairs",
        );
        assert_eq!(
            Arguments::new(5).with("atoms", vec![5_u32]).atoms("atoms").unwrap_err().kind(),
            ErrorKind::OutOfRange
        );
    }
}
