//! Projections of frames on vectors, such as principal components: `sum_i v_i (x_i - origin_i)`, one column a vector.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs};
use kinema_core::selection::AtomSelection;

use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::Arguments;
use crate::registry::KernelInfo;

/// Columns: one for each of `vectors`, numbers (k * atoms, 3), all rows of one vector before the next. `origin`
/// (atoms, 3), angstrom. `atoms`: each once, ascending.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Projections::ID,
    make: |arguments| {
        let atoms = arguments.unique_atoms("atoms")?;
        let (origin, vectors) = (arguments.vectors("origin")?, arguments.vectors("vectors")?);
        if atoms.columns().is_some() {
            return Err(arguments.wrong("atoms", "ascending"));
        }
        if origin.len() != atoms.len() {
            return Err(arguments.wrong("origin", "one position an atom"));
        }
        if vectors.is_empty() || vectors.len() % atoms.len() != 0 {
            return Err(arguments.wrong("vectors", "rows of x, y and z for each atom of each vector"));
        }
        let [origin, vectors] = [origin, vectors].map(|rows| rows.as_flattened().to_vec());
        Ok(Arc::new(Rows(Projections { atoms, origin, vectors })))
    },
    examples: |n_atoms, structure| {
        let atoms: Vec<u32> = (0..n_atoms).collect();
        let vectors: Vec<[f64; 3]> = (0..2 * n_atoms).map(|i| [f64::from(i).sin(), f64::from(i).cos(), 0.5]).collect();
        let one = Arguments::new(n_atoms).with("atoms", atoms).with("origin", structure.to_vec());
        vec![one.with("vectors", vectors)]
    },
};

struct Projections {
    atoms: AtomSelection,
    origin: Vec<f64>,
    vectors: Vec<f64>,
}

impl PerFrame for Projections {
    const ID: &'static str = "projections/1";
    type Value = f64;
    /// Differences from the origin.
    type Scratch = Vec<f64>;

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.atoms.clone()] }
    }

    fn width(&self) -> usize {
        self.vectors.len() / self.origin.len()
    }

    fn row(&self, frame: &Frame<'_>, apart: &mut Vec<f64>, values: &mut [f64]) -> Result<()> {
        apart.clear();
        apart.extend(frame.positions(0).iter().zip(&self.origin).map(|(x, origin)| f64::from(*x) - origin));
        for (value, vector) in values.iter_mut().zip(self.vectors.chunks_exact(self.origin.len())) {
            *value = dot(vector, apart);
            if !value.is_finite() {
                return Err(frame.not_finite(Fields::POSITIONS, 0));
            }
        }
        Ok(())
    }
}

/// The product of two vectors, in eight sums that follow each other.
fn dot(u: &[f64], v: &[f64]) -> f64 {
    let ((us, rest_of_u), (vs, rest_of_v)) = (u.as_chunks::<8>(), v.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (u, v) in us.iter().zip(vs) {
        for i in 0..8 {
            sums[i] += u[i] * v[i];
        }
    }
    let rest: f64 = rest_of_u.iter().zip(rest_of_v).map(|(u, v)| u * v).sum();
    sums.iter().sum::<f64>() + rest
}
