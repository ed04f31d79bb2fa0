//! Evaluation of an expression in one frame.
//!
//! An expression is asked only about the atoms that are still wanted: `name OW and around 3.5 protein` looks at oxygens.
//! Distances are those of the nearest images, decided in double precision; coordinates are compared in single precision,
//! as MDAnalysis does.

use kinema_core::Result;
use kinema_core::frame::Cell;
use kinema_core::frame::lattice::Lattice;

use super::cylinder::Cylinder;
use super::expression::{Comparison, Expression, joined, mark, most};
use crate::geometry::CellList;

type Vector = [f64; 3];

/// Tolerances of MDAnalysis' comparison of coordinates: absolute, and relative to the second number.
const TOLERANCES: [f32; 2] = [1e-8, 1e-5];

/// Buffers of one worker.
#[derive(Debug, Default)]
pub struct GroupScratch {
    cells: CellList,
    members: Vec<u32>,
    /// Sets that are not in use.
    sets: Vec<Vec<bool>>,
    points: [Vec<f32>; 2],
    numbers: Vec<u32>,
    near: Vec<bool>,
}

/// A frame, and the buffers to work with.
struct Work<'a> {
    positions: &'a [[f32; 3]],
    lattice: &'a Lattice,
    cell: &'a Cell,
    scratch: &'a mut GroupScratch,
}

/// Places of the atoms in the set, of those at `candidates`, ascending.
pub(super) fn members<'a>(
    expression: &Expression,
    positions: &[[f32; 3]],
    (lattice, cell): (&Lattice, &Cell),
    candidates: &[u32],
    scratch: &'a mut GroupScratch,
) -> Result<&'a [u32]> {
    let mut work = Work { positions, lattice, cell, scratch: &mut *scratch };
    let mut wanted = work.set(candidates.len() == positions.len());
    if candidates.len() < positions.len() {
        candidates.iter().for_each(|&place| wanted[place as usize] = true);
    }
    work.narrow(expression, &mut wanted)?;
    scratch.members.clear();
    scratch.members.extend(candidates.iter().filter(|place| wanted[**place as usize]));
    scratch.sets.push(wanted);
    Ok(&scratch.members)
}

impl Work<'_> {
    /// A set of all atoms or of none.
    fn set(&mut self, value: bool) -> Vec<bool> {
        let mut set = self.scratch.sets.pop().unwrap_or_default();
        set.clear();
        set.resize(self.positions.len(), value);
        set
    }

    /// The atoms of an expression.
    fn all_of(&mut self, expression: &Expression) -> Result<Vec<bool>> {
        let mut set = self.set(true);
        self.narrow(expression, &mut set)?;
        Ok(set)
    }

    /// Takes away what is not in the set of the expression.
    fn narrow(&mut self, expression: &Expression, wanted: &mut [bool]) -> Result<()> {
        match expression {
            Expression::Fixed(atoms) => keep(wanted, atoms),
            Expression::And(parts) => {
                // the parts that cost nothing first
                for parts_of in [Expression::is_fixed as fn(&Expression) -> bool, |part| !part.is_fixed()] {
                    parts.iter().filter(|part| parts_of(part)).try_for_each(|part| self.narrow(part, wanted))?;
                }
            }
            Expression::Or(parts) => self.narrow_to_any(parts, wanted)?,
            Expression::Not(of) => {
                let mut rest = self.set(false);
                rest.copy_from_slice(wanted);
                self.narrow(of, &mut rest)?;
                remove(wanted, &rest);
                self.scratch.sets.push(rest);
            }
            Expression::Near { of, inner, outer } => {
                let reference = self.all_of(of)?;
                self.narrow_to_near(&reference, *inner, *outer, wanted)?;
                self.scratch.sets.push(reference);
            }
            Expression::Sphere { of, inner, outer } => match self.center_of(of)? {
                // to single precision, as MDAnalysis
                Some(center) => self.narrow_to_sphere(center.map(|x| f64::from(x as f32)), *inner, *outer, wanted),
                None => wanted.fill(false),
            },
            Expression::Point { at, cutoff } => {
                self.narrow_to_sphere(at.map(|x| f64::from(x as f32)), None, *cutoff, wanted);
            }
            Expression::Cylinder { of, inner, outer, z } => match self.center_of(of)? {
                Some(center) => {
                    let cylinder = Cylinder::new((self.lattice, self.cell), center, (*inner, *outer), *z)?;
                    self.filter(wanted, |position| cylinder.has(position));
                }
                None => wanted.fill(false),
            },
            Expression::Coordinate { axis, absolute, compared: (comparison, value) } => {
                self.filter(wanted, |position| {
                    let x = if *absolute { position[*axis].abs() } else { position[*axis] };
                    comparison.holds(x, *value)
                })
            }
            Expression::SameCoordinate { of, axis } => self.narrow_to_same(of, *axis, wanted)?,
            Expression::Share { of, labels } => self.narrow_to_sharing(of, labels, wanted)?,
            Expression::Bonded { of, bonds } => {
                let reference = self.all_of(of)?;
                keep(wanted, &joined(&reference, bonds));
                self.scratch.sets.push(reference);
            }
        }
        Ok(())
    }

    fn narrow_to_any(&mut self, parts: &[Expression], wanted: &mut [bool]) -> Result<()> {
        let mut found = self.set(false);
        let mut left = self.set(false);
        for part in parts {
            left.iter_mut().zip(&*wanted).zip(&found).for_each(|((left, wanted), found)| *left = *wanted & !found);
            self.narrow(part, &mut left)?;
            found.iter_mut().zip(&left).for_each(|(found, more)| *found |= more);
        }
        keep(wanted, &found);
        self.scratch.sets.extend([found, left]);
        Ok(())
    }

    /// Keeps atoms outside the reference whose least distance from it is above `inner` and at most `outer`.
    fn narrow_to_near(
        &mut self,
        reference: &[bool],
        inner: Option<f64>,
        outer: f64,
        wanted: &mut [bool],
    ) -> Result<()> {
        remove(wanted, reference);
        let GroupScratch { cells, points: [of_reference, points], numbers, near, .. } = &mut *self.scratch;
        gather(self.positions, reference, of_reference, numbers);
        for (cutoff, is_inside) in [(Some(outer), true), (inner, false)] {
            let Some(cutoff) = cutoff else { continue };
            gather(self.positions, wanted, points, numbers);
            near.resize(numbers.len(), false);
            cells.any_within(self.lattice, of_reference, points, cutoff, near)?;
            numbers.iter().zip(&*near).for_each(|(&atom, &near)| wanted[atom as usize] = near == is_inside);
        }
        Ok(())
    }

    fn narrow_to_sphere(&self, center: Vector, inner: Option<f64>, outer: f64, wanted: &mut [bool]) {
        self.filter(wanted, |position| {
            let [x, y, z] = self.lattice.nearest(std::array::from_fn(|c| f64::from(position[c]) - center[c]));
            let distance = (x * x + y * y + z * z).sqrt();
            distance <= outer && inner.is_none_or(|inner| distance > inner)
        });
    }

    fn narrow_to_same(&mut self, of: &Expression, axis: usize, wanted: &mut [bool]) -> Result<()> {
        let reference = self.all_of(of)?;
        let along = self.positions.iter().map(|position| position[axis]);
        let mut values: Vec<f32> = along.zip(&reference).filter(|(_, of)| **of).map(|(value, _)| value).collect();
        values.sort_unstable_by(f32::total_cmp);
        let [absolute, relative] = TOLERANCES;
        self.filter(wanted, |position| {
            let x = position[axis];
            // wider than the tolerance of any value in it
            let reach = 2.0 * (absolute + relative * x.abs());
            let first = values.partition_point(|value| *value < x - reach);
            let near = values[first..].iter().take_while(|value| **value <= x + reach);
            near.into_iter().any(|value| (x - value).abs() <= absolute + relative * value.abs())
        });
        self.scratch.sets.push(reference);
        Ok(())
    }

    fn narrow_to_sharing(&mut self, of: &Expression, labels: &[u32], wanted: &mut [bool]) -> Result<()> {
        let mut found = vec![false; most(labels)];
        mark(wanted, labels, &mut found);
        // of atoms with other labels nobody needs to know
        let mut reference = self.set(false);
        for (atom, &label) in reference.iter_mut().zip(labels) {
            *atom = found.get(label as usize).is_some_and(|found| *found);
        }
        self.narrow(of, &mut reference)?;
        found.fill(false);
        mark(&reference, labels, &mut found);
        for (atom, &label) in wanted.iter_mut().zip(labels) {
            *atom &= found.get(label as usize).is_some_and(|found| *found);
        }
        self.scratch.sets.push(reference);
        Ok(())
    }

    /// Keeps atoms whose position passes.
    fn filter(&self, wanted: &mut [bool], passes: impl Fn(&[f32; 3]) -> bool) {
        for (atom, position) in wanted.iter_mut().zip(self.positions).filter(|(atom, _)| **atom) {
            *atom = passes(position);
        }
    }

    /// The centre of geometry of an expression, of positions as they are; `None` of no atoms.
    fn center_of(&mut self, of: &Expression) -> Result<Option<Vector>> {
        let reference = self.all_of(of)?;
        let (mut sum, mut count) = ([0.0; 3], 0);
        for (_, position) in reference.iter().zip(self.positions).filter(|(of, _)| **of) {
            sum.iter_mut().zip(position).for_each(|(sum, x)| *sum += f64::from(*x));
            count += 1;
        }
        self.scratch.sets.push(reference);
        Ok((count > 0).then(|| sum.map(|sum| sum / f64::from(count))))
    }
}

impl Expression {
    fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }
}

impl Comparison {
    fn holds(self, x: f32, value: f32) -> bool {
        match self {
            Self::Less => x < value,
            Self::LessOrEqual => x <= value,
            Self::Greater => x > value,
            Self::GreaterOrEqual => x >= value,
            Self::Equal(tolerance) => (x - value).abs() <= tolerance,
            Self::NotEqual => x != value,
        }
    }
}

fn keep(wanted: &mut [bool], set: &[bool]) {
    wanted.iter_mut().zip(set).for_each(|(wanted, one)| *wanted &= one);
}

fn remove(wanted: &mut [bool], set: &[bool]) {
    wanted.iter_mut().zip(set).for_each(|(wanted, one)| *wanted &= !one);
}

/// Positions of a set, and their places.
fn gather(positions: &[[f32; 3]], set: &[bool], found: &mut Vec<f32>, numbers: &mut Vec<u32>) {
    let most = set.len().min(positions.len());
    found.resize(3 * most, 0.0);
    numbers.resize(most, 0);
    let rows = found.as_chunks_mut::<3>().0;
    let mut n = 0;
    // each is written, and the next one over it if it is not of the set: no branch
    for ((one, position), number) in set.iter().zip(positions).zip(0..) {
        rows[n] = *position;
        numbers[n] = number;
        n += usize::from(*one);
    }
    found.truncate(3 * n);
    numbers.truncate(n);
}
