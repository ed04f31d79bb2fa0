//! The given pairs of atoms that are near each other in each frame, with their distances.
//!
//! A pair is near if `|r_2 - r_1| <= cutoff`, angstrom, in double precision of single-precision positions. It does not
//! search for pairs: it examines all given pairs.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::reduce::{Frame, Needs, Values};

use crate::analyses::geometry::distances::PairDistances;
use crate::analyses::lists_per_frame::{ListPerFrame, ListRows};
use crate::arguments::Arguments;
use crate::partials::lists::{ListChunk, ListColumn};
use crate::registry::KernelInfo;

/// Columns: "pair", the index of the pair in `pairs`, (n, 2), ascending; "distance". Nearest images unless
/// `minimum_image` is false.
pub const KERNEL: KernelInfo = KernelInfo {
    id: ClosePairs::ID,
    make: |arguments| {
        let (pairs, cutoff) = (PairDistances::from_arguments(arguments)?, arguments.number("cutoff")?);
        if cutoff < 0.0 {
            return Err(arguments.wrong("cutoff", "not negative"));
        }
        Ok(Arc::new(ListRows(ClosePairs { pairs, cutoff })))
    },
    examples: |n_atoms, _| {
        let pairs = |step: u32| (0..n_atoms).map(|atom| [atom, (atom + step) % n_atoms]).collect::<Vec<_>>();
        let of = |step, cutoff: f64| Arguments::new(n_atoms).with("pairs", pairs(step)).with("cutoff", cutoff);
        vec![of(1, 8.0), of(7, 30.0).with("minimum_image", false)]
    },
};

struct ClosePairs {
    pairs: PairDistances,
    cutoff: f64,
}

impl ListPerFrame for ClosePairs {
    const ID: &'static str = "close_pairs/1";
    const COLUMNS: &'static [ListColumn] = &[("pair", Values::U32(Vec::new())), ("distance", Values::F64(Vec::new()))];
    type Scratch = Vec<f64>;

    fn needs(&self) -> Needs {
        self.pairs.needs()
    }

    fn list(&self, frame: &Frame<'_>, scratch: &mut Vec<f64>, rows: &mut ListChunk) -> Result<()> {
        scratch.resize(self.pairs.len(), 0.0);
        self.pairs.numbers(frame, scratch)?;
        let near = || (0..).zip(scratch.iter()).filter(|(_, distance)| **distance <= self.cutoff);
        rows.column::<u32>(0).extend(near().map(|(pair, _)| pair));
        rows.column::<f64>(1).extend(near().map(|(_, distance)| *distance));
        Ok(())
    }
}
