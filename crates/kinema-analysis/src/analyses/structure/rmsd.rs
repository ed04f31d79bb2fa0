//! Root mean square deviation from a reference, after superposition; of further groups too, after the same motion.
//!
//! It does not align the frames: [`crate::transforms::superpose`] does. The formula, with weights relative to their
//! mean, is `sqrt(sum_i w_i |R (x_i - c) + c_ref - y_i|^2 / n)`, angstrom, as in MDAnalysis.analysis.rms.RMSD.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs};

use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::{Argument, Arguments};
use crate::registry::KernelInfo;
use crate::superposition::AtomsAndReference;
use crate::superposition::qcp::Motion;

/// Columns, angstrom: the RMSD of `atoms` from `reference`, with `weights`; and of each of `groups`, (atoms, reference, weights),
/// after the same motion.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Rmsd::ID,
    make: |arguments| {
        let fit =
            arguments.choice("fit", &[("superpose", Fit::Superpose), ("center", Fit::Center), ("none", Fit::None)])?;
        let groups = arguments.tuples("groups", &["atoms", "reference", "weights"])?;
        let groups = groups.iter().map(AtomsAndReference::from_arguments).collect::<Result<_>>()?;
        Ok(Arc::new(Rows(Rmsd { fitted: AtomsAndReference::from_arguments(arguments)?, groups, fit })))
    },
    examples,
};

/// How each frame is moved before its deviation is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// Not at all.
    None,
    /// The centre of the set is put on the centre of its reference.
    Center,
    /// The best superposition: centre and rotation.
    Superpose,
}

fn examples(n_atoms: u32, structure: &[[f64; 3]]) -> Vec<Arguments> {
    let all: Vec<u32> = (0..n_atoms).collect();
    let half: Vec<u32> = (0..n_atoms).step_by(2).collect();
    let of_half: Vec<[f64; 3]> = structure.iter().step_by(2).copied().collect();
    let weights: Vec<f64> = half.iter().map(|atom| 1.0 + f64::from(*atom)).collect();
    let plain = Arguments::new(n_atoms).with("atoms", all.clone()).with("reference", structure.to_vec());
    let mut examples = vec![plain.clone()];
    for fit in ["superpose", "center", "none"] {
        let weighted = vec![half.clone().into(), of_half.clone().into(), weights.clone().into()];
        let groups = vec![
            Argument::List(weighted),
            Argument::List(vec![all.clone().into(), structure.to_vec().into(), Argument::None]),
        ];
        let some = Arguments::new(n_atoms).with("atoms", half.clone()).with("reference", of_half.clone());
        examples.push(some.with("weights", weights.clone()).with("fit", fit).with("groups", groups));
        examples.push(plain.clone().with("fit", fit));
    }
    examples
}

struct Rmsd {
    fitted: AtomsAndReference,
    groups: Vec<AtomsAndReference>,
    fit: Fit,
}

impl Rmsd {
    /// The first set's RMSD, and the motion for the groups; `None` if a position is not finite.
    #[inline]
    fn deviation(&self, row: &[f32]) -> Option<(f64, Motion)> {
        let reference = &self.fitted.reference();
        match self.fit {
            Fit::Superpose if self.groups.is_empty() => Some((reference.least_rmsd(row)?, Motion::NONE)),
            Fit::Superpose => reference.least_motion(row),
            Fit::Center => {
                let motion = reference.centring(row)?;
                Some((reference.moved_rmsd(&motion, row)?, motion))
            }
            Fit::None => Some((reference.moved_rmsd(&Motion::NONE, row)?, Motion::NONE)),
        }
    }
}

impl PerFrame for Rmsd {
    const ID: &'static str = "rmsd/1";
    type Value = f64;
    type Scratch = ();

    fn needs(&self) -> Needs {
        let sets = std::iter::once(&self.fitted).chain(&self.groups).map(|set| set.atoms().clone());
        Needs { fields: Fields::POSITIONS, atom_sets: sets.collect() }
    }

    fn width(&self) -> usize {
        1 + self.groups.len()
    }

    fn row(&self, frame: &Frame<'_>, (): &mut (), values: &mut [f64]) -> Result<()> {
        let not_finite = |set| frame.not_finite(Fields::POSITIONS, set);
        let (rmsd, motion) = self.deviation(frame.positions(0)).ok_or_else(|| not_finite(0))?;
        values[0] = rmsd;
        for (set, (group, value)) in (1..).zip(self.groups.iter().zip(&mut values[1..])) {
            let rmsd = group.reference().moved_rmsd(&motion, frame.positions(set));
            *value = rmsd.ok_or_else(|| not_finite(set))?;
        }
        Ok(())
    }
}
