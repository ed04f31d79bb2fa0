//! Numbers of tuples of atoms in each frame: distances of pairs, angles of triples, dihedrals of quadruples.
//!
//! It knows none of these: [`TupleNumber`] says how many atoms a tuple has and computes all numbers of a frame.

use std::marker::PhantomData;
use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{AnyKernel, Frame, Needs};

use super::per_frame::{PerFrame, Rows};
use crate::arguments::{Arguments, AtomTuples};
use crate::cpu::Cpu;
use crate::geometry::{Lattice, Points, Results};
use crate::registry::KernelInfo;

/// A number of `N` atoms.
pub(super) trait TupleNumber<const N: usize>: Send + Sync + 'static {
    /// Name and version of the partial's bytes.
    const ID: &'static str;
    /// Name of the argument with the tuples.
    const TUPLES: &'static str;
    /// Factor of the results.
    const FACTOR: f64;
    /// Computes the number of each tuple; returns whether all of them are finite.
    ///
    /// # Errors
    /// As the function in `geometry`.
    fn numbers(cpu: Cpu, atoms: [Points<'_>; N], lattice: &Lattice, results: Results<'_>) -> Result<bool>;
}

/// The kernel of a number. Columns: one a tuple. With `minimum_image`, the default, bonds are the nearest images in the
/// frame's cell; without it, positions are used as they are. A number that is not defined is NaN.
pub(super) const fn kernel<T: TupleNumber<N>, const N: usize>() -> KernelInfo {
    KernelInfo { id: T::ID, make: make::<T, N>, examples: examples::<T, N> }
}

fn make<T: TupleNumber<N>, const N: usize>(arguments: &Arguments) -> Result<Arc<dyn AnyKernel>> {
    Ok(Arc::new(Rows(Tuples::<T, N>::from_arguments(arguments)?)))
}

fn examples<T: TupleNumber<N>, const N: usize>(n_atoms: u32, _: &[[f64; 3]]) -> Vec<Arguments> {
    let tuple = |first: u32| std::array::from_fn(|i| (first + i as u32) % n_atoms);
    let tuples: Vec<[u32; N]> = (0..n_atoms).rev().step_by(2).chain([0, 0]).map(tuple).collect();
    let all = Arguments::new(n_atoms).with(T::TUPLES, tuples);
    vec![all.clone(), all.with("minimum_image", false), Arguments::new(n_atoms).with(T::TUPLES, vec![tuple(1)])]
}

/// Tuples of atoms, and which number of them.
pub(super) struct Tuples<T, const N: usize> {
    cpu: Cpu,
    tuples: AtomTuples<N>,
    minimum_image: bool,
    of: PhantomData<T>,
}

impl<T: TupleNumber<N>, const N: usize> Tuples<T, N> {
    /// Reads the argument with the tuples, atom indices (n, N); the nearest images are used unless `minimum_image` is
    /// false.
    /// Errors: `InvalidArgument` or `OutOfRange` for wrong arguments.
    pub(super) fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let (tuples, minimum_image) = (arguments.atom_tuples(T::TUPLES)?, arguments.flag("minimum_image", true)?);
        Ok(Self { cpu: arguments.cpu(), tuples, minimum_image, of: PhantomData })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.tuples.len
    }

    /// Positions, and cells where images count.
    pub(super) fn needs(&self) -> Needs {
        let fields = if self.minimum_image { Fields::POSITIONS | Fields::CELL } else { Fields::POSITIONS };
        Needs { fields, atom_sets: vec![self.tuples.atoms.clone()] }
    }

    /// The number of each tuple in a frame.
    /// Errors: `Corrupt` for a position or cell that is not finite.
    pub(super) fn numbers(&self, frame: &Frame<'_>, values: &mut [f64]) -> Result<()> {
        let row = frame.positions(0);
        let mut atoms = [Points::row(&[])?; N];
        for (points, column) in atoms.iter_mut().zip(&self.tuples.columns) {
            *points = Points::picked(row, column)?;
        }
        let lattice = frame.lattice_if(self.minimum_image)?;
        let finite = T::numbers(self.cpu, atoms, &lattice, Results::Double(values))?;
        // atoms at one place or in a line do not have an angle; this is not an error
        if !finite && row.iter().any(|value| !value.is_finite()) {
            return Err(frame.not_finite(Fields::POSITIONS, 0));
        }
        if T::FACTOR != 1.0 {
            for value in values {
                *value *= T::FACTOR;
            }
        }
        Ok(())
    }
}

impl<T: TupleNumber<N>, const N: usize> PerFrame for Tuples<T, N> {
    const ID: &'static str = T::ID;
    type Value = f64;
    type Scratch = ();

    fn needs(&self) -> Needs {
        self.needs()
    }

    fn width(&self) -> usize {
        self.len()
    }

    fn row(&self, frame: &Frame<'_>, (): &mut (), values: &mut [f64]) -> Result<()> {
        self.numbers(frame, values)
    }
}
