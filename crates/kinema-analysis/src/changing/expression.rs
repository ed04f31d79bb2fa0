//! Expressions over sets of atoms: how they are read from arguments, which atoms they may give, and which they look at.

use kinema_core::{Error, ErrorKind, Result};

use crate::arguments::Argument;

/// A label that no atom shares with another.
const NO_LABEL: u32 = u32::MAX;
/// Deeper expressions are refused: they are evaluated by recursion.
const MOST_LEVELS: usize = 500;

/// How a coordinate is compared with a number, in single precision as MDAnalysis compares it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Within a tolerance.
    Equal(f32),
    NotEqual,
}

/// A set of atoms that may differ from frame to frame. Sets of fixed atoms, labels and bonds are by the number of the atom.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    /// The same atoms in all frames.
    Fixed(Vec<bool>),
    /// Atoms in all of the sets.
    And(Vec<Expression>),
    /// Atoms in any of the sets.
    Or(Vec<Expression>),
    /// All other atoms.
    Not(Box<Expression>),
    /// Atoms that are not in `of` and whose distance from the nearest atom of it is at most `outer`, and above `inner`.
    Near {
        /// The reference.
        of: Box<Expression>,
        /// Angstrom.
        inner: Option<f64>,
        /// Angstrom.
        outer: f64,
    },
    /// Atoms whose distance from the centre of geometry of `of` is at most `outer`, and above `inner`.
    Sphere {
        /// The reference.
        of: Box<Expression>,
        /// Angstrom.
        inner: Option<f64>,
        /// Angstrom.
        outer: f64,
    },
    /// Atoms whose distance from a place is at most `cutoff`.
    Point {
        /// Angstrom.
        at: [f64; 3],
        /// Angstrom.
        cutoff: f64,
    },
    /// Atoms within a cylinder along z about the centre of geometry of `of`, its faces excluded.
    Cylinder {
        /// The reference.
        of: Box<Expression>,
        /// Radius that is excluded, angstrom.
        inner: Option<f64>,
        /// Radius, angstrom.
        outer: f64,
        /// Lowest and highest z, from the centre, angstrom.
        z: [f64; 2],
    },
    /// Atoms whose coordinate compares so with a value.
    Coordinate {
        /// 0 for x.
        axis: usize,
        /// Whether the sign is left out.
        absolute: bool,
        /// Operator and value.
        compared: (Comparison, f32),
    },
    /// Atoms with the same coordinate as an atom of `of`, within the tolerances of MDAnalysis.
    SameCoordinate {
        /// The reference.
        of: Box<Expression>,
        /// 0 for x.
        axis: usize,
    },
    /// Atoms with the same label, such as the residue, as an atom of `of`.
    Share {
        /// The reference.
        of: Box<Expression>,
        /// One an atom; `u32::MAX` for an atom that shares with none.
        labels: Vec<u32>,
    },
    /// Atoms that a bond joins to an atom of `of`.
    Bonded {
        /// The reference.
        of: Box<Expression>,
        /// Pairs of atoms.
        bonds: Vec<[u32; 2]>,
    },
}

impl Expression {
    /// The expression of nested lists of arguments, each a word and what it takes: `["and", a, b]`, `["atoms", indices]`,
    /// `["near", of, inner, outer]`, `["sphere", of, inner, outer]`, `["point", xyz, cutoff]`,
    /// `["cylinder", of, inner, outer, zmin, zmax]`, `["coordinate", axis, absolute, operator, value, tolerance]`,
    /// `["same coordinate", of, axis]`, `["share", of, labels]`, `["bonded", of, bonds]`, `["or", a, b]`, `["not", a]`.
    /// Errors: `InvalidArgument` for anything else, and for a number that is not finite; `OutOfRange` for an atom that
    /// the trajectory does not have.
    pub(super) fn parse(given: &Argument, n_atoms: u32) -> Result<Self> {
        parse(given, n_atoms as usize, 0)
    }

    /// Whether the cell of the frame matters.
    pub(super) fn needs_cell(&self) -> bool {
        match self {
            Self::Near { .. } | Self::Sphere { .. } | Self::Point { .. } | Self::Cylinder { .. } => true,
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::needs_cell),
            Self::Not(of) | Self::SameCoordinate { of, .. } | Self::Share { of, .. } | Self::Bonded { of, .. } => {
                of.needs_cell()
            }
            Self::Fixed(_) | Self::Coordinate { .. } => false,
        }
    }

    /// Which of `n_atoms` atoms can be in the set in some frame.
    pub(super) fn possible(&self, n_atoms: usize) -> Vec<bool> {
        match self {
            Self::Fixed(atoms) => atoms.clone(),
            Self::And(parts) => parts.iter().fold(vec![true; n_atoms], |mut all, part| {
                all.iter_mut().zip(part.possible(n_atoms)).for_each(|(all, one)| *all &= one);
                all
            }),
            Self::Or(parts) => parts.iter().fold(vec![false; n_atoms], |mut all, part| {
                all.iter_mut().zip(part.possible(n_atoms)).for_each(|(all, one)| *all |= one);
                all
            }),
            Self::Share { of, labels } => sharing(&of.possible(n_atoms), labels),
            Self::Bonded { of, bonds } => joined(&of.possible(n_atoms), bonds),
            Self::Near { of, .. } => match &**of {
                Self::Fixed(atoms) => atoms.iter().map(|atom| !atom).collect(),
                _ => vec![true; n_atoms],
            },
            Self::Not(of) => match &**of {
                Self::Fixed(atoms) => atoms.iter().map(|atom| !atom).collect(),
                _ => vec![true; n_atoms],
            },
            Self::Sphere { .. }
            | Self::Point { .. }
            | Self::Cylinder { .. }
            | Self::Coordinate { .. }
            | Self::SameCoordinate { .. } => vec![true; n_atoms],
        }
    }

    /// Adds to `seen` the atoms whose positions decide which of the atoms `wanted` are in the set.
    pub(super) fn look(&self, wanted: &[bool], seen: &mut [bool]) {
        match self {
            Self::Fixed(_) => {}
            Self::And(parts) => {
                let mut wanted = wanted.to_vec();
                for part in parts {
                    wanted.iter_mut().zip(part.possible(seen.len())).for_each(|(one, may)| *one &= may);
                }
                parts.iter().for_each(|part| part.look(&wanted, seen));
            }
            Self::Or(parts) => parts.iter().for_each(|part| part.look(wanted, seen)),
            Self::Not(of) => of.look(wanted, seen),
            Self::Point { .. } | Self::Coordinate { .. } => add(seen, wanted),
            Self::Near { of, .. }
            | Self::Sphere { of, .. }
            | Self::Cylinder { of, .. }
            | Self::SameCoordinate { of, .. } => {
                let reference = of.possible(seen.len());
                add(seen, wanted);
                add(seen, &reference);
                of.look(&reference, seen);
            }
            Self::Share { of, labels } => of.look(&both(&sharing(wanted, labels), &of.possible(seen.len())), seen),
            Self::Bonded { of, bonds } => of.look(&both(&joined(wanted, bonds), &of.possible(seen.len())), seen),
        }
    }

    /// The same for the atoms at `places` alone, in their order: `places[new] = old`.
    pub(super) fn at_places(&self, places: &[u32], n_atoms: usize) -> Self {
        let same = |of: &Self| Box::new(of.at_places(places, n_atoms));
        match self {
            Self::Fixed(atoms) => Self::Fixed(places.iter().map(|&place| atoms[place as usize]).collect()),
            Self::And(parts) => Self::And(parts.iter().map(|part| part.at_places(places, n_atoms)).collect()),
            Self::Or(parts) => Self::Or(parts.iter().map(|part| part.at_places(places, n_atoms)).collect()),
            Self::Not(of) => Self::Not(same(of)),
            Self::Near { of, inner, outer } => Self::Near { of: same(of), inner: *inner, outer: *outer },
            Self::Sphere { of, inner, outer } => Self::Sphere { of: same(of), inner: *inner, outer: *outer },
            Self::Cylinder { of, inner, outer, z } => {
                Self::Cylinder { of: same(of), inner: *inner, outer: *outer, z: *z }
            }
            Self::SameCoordinate { of, axis } => Self::SameCoordinate { of: same(of), axis: *axis },
            Self::Share { of, labels } => {
                Self::Share { of: same(of), labels: places.iter().map(|&place| labels[place as usize]).collect() }
            }
            Self::Bonded { of, bonds } => {
                let mut new = vec![NO_LABEL; n_atoms];
                places.iter().zip(0..).for_each(|(&place, number)| new[place as usize] = number);
                let bonds = bonds.iter().map(|bond| bond.map(|atom| new[atom as usize]));
                Self::Bonded { of: same(of), bonds: bonds.filter(|bond| !bond.contains(&NO_LABEL)).collect() }
            }
            Self::Point { .. } | Self::Coordinate { .. } => self.clone(),
        }
    }
}

fn add(seen: &mut [bool], more: &[bool]) {
    seen.iter_mut().zip(more).for_each(|(seen, more)| *seen |= more);
}

fn both(one: &[bool], other: &[bool]) -> Vec<bool> {
    one.iter().zip(other).map(|(one, other)| one & other).collect()
}

/// Atoms with a label of `atoms`.
fn sharing(atoms: &[bool], labels: &[u32]) -> Vec<bool> {
    let mut found = vec![false; most(labels)];
    mark(atoms, labels, &mut found);
    labels.iter().map(|&label| label != NO_LABEL && found[label as usize]).collect()
}

/// Number of labels.
pub(super) fn most(labels: &[u32]) -> usize {
    labels.iter().filter(|label| **label != NO_LABEL).max().map_or(0, |most| *most as usize + 1)
}

/// Marks the labels of `atoms`.
pub(super) fn mark(atoms: &[bool], labels: &[u32], found: &mut [bool]) {
    for (_, &label) in atoms.iter().zip(labels).filter(|(atom, label)| **atom && **label != NO_LABEL) {
        found[label as usize] = true;
    }
}

/// Atoms that a bond joins to one of `atoms`.
pub(super) fn joined(atoms: &[bool], bonds: &[[u32; 2]]) -> Vec<bool> {
    let mut found = vec![false; atoms.len()];
    for &[one, other] in bonds {
        found[one as usize] |= atoms[other as usize];
        found[other as usize] |= atoms[one as usize];
    }
    found
}

fn wrong(expected: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("the expression of a changing group must have {expected}"))
}

fn parse(given: &Argument, n_atoms: usize, level: usize) -> Result<Expression> {
    let Argument::List(items) = given else { return Err(wrong("lists that begin with a word")) };
    let Some((Argument::Text(word), rest)) = items.split_first() else {
        return Err(wrong("lists that begin with a word"));
    };
    if level > MOST_LEVELS {
        return Err(wrong(&format!("at most {MOST_LEVELS} levels")));
    }
    let inside = |item: &Argument| parse(item, n_atoms, level + 1);
    let of = |item: &Argument| inside(item).map(Box::new);
    match (word.as_str(), rest) {
        ("atoms", [atoms]) => Ok(Expression::Fixed(mask(atoms, n_atoms)?)),
        ("and", [_, ..]) => Ok(Expression::And(rest.iter().map(inside).collect::<Result<_>>()?)),
        ("or", [_, ..]) => Ok(Expression::Or(rest.iter().map(inside).collect::<Result<_>>()?)),
        ("not", [one]) => Ok(Expression::Not(of(one)?)),
        ("near", [one, inner, outer]) => {
            Ok(Expression::Near { of: of(one)?, inner: optional(inner)?, outer: number(outer)? })
        }
        ("sphere", [one, inner, outer]) => {
            Ok(Expression::Sphere { of: of(one)?, inner: optional(inner)?, outer: number(outer)? })
        }
        ("point", [at, cutoff]) => Ok(Expression::Point { at: place(at)?, cutoff: number(cutoff)? }),
        ("cylinder", [one, inner, outer, low, high]) => {
            let z = [number(low)?, number(high)?];
            Ok(Expression::Cylinder { of: of(one)?, inner: optional(inner)?, outer: number(outer)?, z })
        }
        ("coordinate", [axis, Argument::Flag(absolute), Argument::Text(operator), value, tolerance]) => {
            let compared = (comparison(operator, number(tolerance)? as f32)?, number(value)? as f32);
            Ok(Expression::Coordinate { axis: axis_of(axis)?, absolute: *absolute, compared })
        }
        ("same coordinate", [one, axis]) => Ok(Expression::SameCoordinate { of: of(one)?, axis: axis_of(axis)? }),
        ("share", [one, Argument::Atoms { indices, .. }]) if indices.len() == n_atoms => {
            Ok(Expression::Share { of: of(one)?, labels: checked_labels(indices)? })
        }
        ("bonded", [one, Argument::Atoms { shape, indices }]) if shape.get(1..) == Some(&[2]) => {
            indices.iter().try_for_each(|&atom| in_range(atom, n_atoms))?;
            Ok(Expression::Bonded { of: of(one)?, bonds: indices.as_chunks::<2>().0.to_vec() })
        }
        _ => Err(wrong(&format!("other arguments after the word {word:?}, or another word"))),
    }
}

fn in_range(atom: u32, n_atoms: usize) -> Result<()> {
    if (atom as usize) < n_atoms {
        return Ok(());
    }
    let what = format!("atom index {atom} of a changing group is out of range, the trajectory has {n_atoms} atoms");
    Err(Error::new(ErrorKind::OutOfRange, what))
}

fn mask(given: &Argument, n_atoms: usize) -> Result<Vec<bool>> {
    let Argument::Atoms { indices, .. } = given else { return Err(wrong("atom indices after the word \"atoms\"")) };
    let mut atoms = vec![false; n_atoms];
    for &atom in indices {
        in_range(atom, n_atoms)?;
        atoms[atom as usize] = true;
    }
    Ok(atoms)
}

/// Labels are below the number of atoms, so that tables of them are no larger than the trajectory's.
fn checked_labels(labels: &[u32]) -> Result<Vec<u32>> {
    if labels.iter().any(|label| *label != NO_LABEL && *label as usize >= labels.len()) {
        return Err(wrong("labels below the number of atoms"));
    }
    Ok(labels.to_vec())
}

fn number(given: &Argument) -> Result<f64> {
    let number = match given {
        Argument::Number(number) => *number,
        Argument::Integer(number) => *number as f64,
        _ => f64::NAN,
    };
    if number.is_finite() { Ok(number) } else { Err(wrong("finite numbers")) }
}

fn optional(given: &Argument) -> Result<Option<f64>> {
    if *given == Argument::None { Ok(None) } else { number(given).map(Some) }
}

fn place(given: &Argument) -> Result<[f64; 3]> {
    match given {
        Argument::Numbers { values, .. } => values.as_slice().try_into().ok(),
        _ => None,
    }
    .filter(|at: &[f64; 3]| at.iter().all(|x| x.is_finite()))
    .ok_or_else(|| wrong("x, y and z of a point, finite"))
}

fn axis_of(given: &Argument) -> Result<usize> {
    match given {
        Argument::Integer(axis @ 0..=2) => Ok(*axis as usize),
        _ => Err(wrong("an axis from 0 to 2")),
    }
}

fn comparison(operator: &str, tolerance: f32) -> Result<Comparison> {
    Ok(match operator {
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        "==" => Comparison::Equal(tolerance),
        "!=" => Comparison::NotEqual,
        _ => return Err(wrong("an operator of <, <=, >, >=, == and !=")),
    })
}
