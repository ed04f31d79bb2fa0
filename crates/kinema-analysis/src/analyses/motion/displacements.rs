//! Edges of cells that unwrapping by displacements adds to positions; [`crate::transforms::displacement`] begins with
//! them.

use std::sync::Arc;

use super::stations::LongestStep;
use super::step_sums::{Row, Rows, StepSums, Steps, examples};
use crate::registry::KernelInfo;
use crate::transforms::displacement::{MOST, step};
use crate::transforms::images::Fault;

/// Arguments and results of [`StepSums`]; sums are in angstrom.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Displacements::ID,
    make: |arguments| Ok(Arc::new(StepSums::new(Displacements, arguments)?)),
    examples: |n_atoms, _| examples(n_atoms),
};

struct Displacements;

impl Steps for Displacements {
    const ID: &'static str = "displacements/2";
    type Sum = f64;
    type Room = ();

    fn add(
        &self,
        before: &Row,
        rows: &Rows<'_>,
        sums: &mut [f64],
        longest: &mut LongestStep,
        (): &mut (),
    ) -> Result<(), (Fault, u64)> {
        let mut before = &before.positions[..];
        let frames = rows.positions.chunks_exact(before.len()).zip(rows.cells).zip(rows.numbers);
        for ((row, cell), &number) in frames {
            let mut length = 0.0_f64;
            let atoms = before.as_chunks::<3>().0.iter().zip(row.as_chunks::<3>().0);
            for ((column, (from, to)), sum) in atoms.enumerate().zip(sums.as_chunks_mut::<3>().0) {
                let by = step(*from, *to, cell, sum, column as u32).map_err(|fault| (fault, number))?;
                length = length.max(by);
            }
            longest.see(length, number);
            before = row;
        }
        Ok(())
    }

    fn is_within(sum: f64) -> bool {
        sum.abs() <= MOST
    }
}
