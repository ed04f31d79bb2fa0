//! The number of atoms, or of residues with at least one of them, in a group that changes with the frame.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::reduce::{Frame, Needs};

use crate::analyses::of_members::example;
use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::Arguments;
use crate::changing::{ChangingGroup, GroupScratch};
use crate::registry::KernelInfo;

/// One column: the number of members of `group` (see [`ChangingGroup`]); with `labels`, one for each atom that can be in
/// it, the number of labels with at least one member.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Count::ID,
    make: |arguments| {
        let group = ChangingGroup::from_arguments(arguments, "group")?;
        let mut labels = None;
        if arguments.has("labels") {
            let given = arguments.index_rows::<1>("labels")?.as_flattened();
            let n_candidates = group.candidates().len();
            if given.len() != n_candidates || given.iter().any(|&label| label >= arguments.n_atoms()) {
                let what = format!("one whole number below the number of atoms for each of {n_candidates} atoms");
                return Err(arguments.wrong("labels", &what));
            }
            labels = Some(group.by_place(given, 0));
        }
        Ok(Arc::new(Rows(Count { group, labels })))
    },
    examples: |n_atoms, _| {
        let all = Arguments::new(n_atoms).with("group", example(n_atoms));
        let labels: Vec<u32> = (0..n_atoms).map(|atom| atom / 3).collect();
        vec![all.clone(), all.with("labels", labels)]
    },
};

struct Count {
    group: ChangingGroup,
    /// One for each atom that the group looks at.
    labels: Option<Vec<u32>>,
}

impl PerFrame for Count {
    const ID: &'static str = "count/1";
    type Value = i64;
    /// Buffers of the group; which labels were seen.
    type Scratch = (GroupScratch, Vec<u32>);

    fn needs(&self) -> Needs {
        self.group.needs()
    }

    fn width(&self) -> usize {
        1
    }

    fn row(&self, frame: &Frame<'_>, (scratch, seen): &mut Self::Scratch, values: &mut [i64]) -> Result<()> {
        let members = self.group.members(frame, 0, scratch)?;
        let count = match &self.labels {
            None => members.len(),
            Some(labels) => {
                seen.clear();
                seen.extend(members.iter().map(|&place| labels[place as usize]));
                seen.sort_unstable();
                seen.dedup();
                seen.len()
            }
        };
        values[0] = count as i64;
        Ok(())
    }
}
