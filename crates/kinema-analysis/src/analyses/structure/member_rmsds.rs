//! The sum of the RMSDs of each frame from the frames of its cluster: the least one is of the cluster's centre.
//!
//! RMSDs are those of [`super::frame_rmsds`]. They are added as they come, so that no matrix is kept.

use std::ops::Range;
use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Frames, Needs};

use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::{Argument, Arguments};
use crate::registry::KernelInfo;
use crate::superposition::many::{BATCH, Columns, Few, Structures};

/// One column, angstrom. `structures`: (n, 3 * atoms) float32, angstrom, one cluster after the other; `numbers`: the frame
/// of each structure; `sizes`: numbers of structures of the clusters; `weights`: one an atom; `superposed`: by default true.
///
/// Frames are not read. A frame that has no structure has 0.
pub const KERNEL: KernelInfo = KernelInfo {
    id: MemberRmsds::ID,
    make: |arguments| Ok(Arc::new(Rows(MemberRmsds::new(arguments)?))),
    examples: |n_atoms, structure| {
        let shift = |at: usize| move |x: &f64| (x * (1.0 + 0.01 * at as f64)) as f32;
        let values = (0..6).flat_map(|at| structure.as_flattened().iter().map(shift(at))).collect();
        let structures = Argument::Singles { shape: vec![6, 3 * n_atoms as usize], values };
        // numbers of the frames that tests have
        let of = Arguments::new(n_atoms)
            .with("structures", structures)
            .with("numbers", vec![3.0, 100.0, 106.0, 112.0, 1.0, 0.0])
            .with("sizes", vec![4.0, 2.0]);
        vec![of.clone(), of.with("superposed", false)]
    },
};

struct MemberRmsds {
    structures: Structures,
    /// The cluster's structures, and the structure, of each frame; frames ascend.
    places: Vec<(u64, usize, Range<usize>)>,
}

/// Buffers of a worker.
#[derive(Debug, Default)]
struct Scratch {
    few: Few,
    rmsds: Vec<f64>,
}

impl MemberRmsds {
    fn new(arguments: &Arguments) -> Result<Self> {
        let (shape, positions) = arguments.singles("structures")?;
        let &[n, width] = shape else { return Err(arguments.wrong("structures", "single numbers (n, 3 * atoms)")) };
        let (numbers, sizes) = (arguments.numbers("numbers")?, arguments.numbers("sizes")?);
        let sizes: Vec<usize> = sizes.iter().map(|size| *size as usize).collect();
        if numbers.len() != n || sizes.iter().sum::<usize>() != n {
            return Err(arguments.wrong("sizes", "as many structures as there are, with a number each"));
        }
        let ends = sizes.iter().scan(0, |end, size| {
            *end += size;
            Some((*end, *size))
        });
        let of_clusters = ends.flat_map(|(end, size)| std::iter::repeat_n(end - size..end, size));
        let mut places: Vec<_> =
            numbers.iter().zip(of_clusters).enumerate().map(|(at, (number, of))| (*number as u64, at, of)).collect();
        places.sort_unstable_by_key(|(number, ..)| *number);
        let (weights, superposed) = (arguments.optional_numbers("weights")?, arguments.flag("superposed", true)?);
        let structures = Structures::new(arguments.cpu(), positions, width / 3, weights, superposed)?;
        Ok(Self { structures, places })
    }

    /// Sets the values of a few frames.
    fn fill(&self, frames: &[Frame<'_>], Scratch { few, rmsds }: &mut Scratch, values: &mut [f64]) {
        few.clear();
        let found = |frame: &Frame<'_>| self.places.binary_search_by_key(&frame.number, |(number, ..)| *number).ok();
        let places: Vec<_> = frames.iter().map(|frame| found(frame).map(|at| &self.places[at])).collect();
        let columns: Vec<Columns> = places
            .iter()
            .map(|place| {
                place.map_or(Columns { first: 0, len: 0 }, |(.., of)| Columns { first: of.start, len: of.len() })
            })
            .collect();
        // a frame without a structure has no columns, and takes any
        places.iter().for_each(|place| self.structures.take(place.map_or(0, |(_, at, _)| *at), few));
        rmsds.clear();
        rmsds.resize(columns.iter().map(|of| of.len).sum(), 0.0);
        let mut rows: Vec<&mut [f64]> = Vec::with_capacity(columns.len());
        let mut rest = &mut rmsds[..];
        for of in &columns {
            let (row, others) = rest.split_at_mut(of.len);
            rows.push(row);
            rest = others;
        }
        self.structures.rmsds(few, &columns, &mut rows);
        for (value, row) in values.iter_mut().zip(&rows) {
            *value = row.iter().sum();
        }
    }
}

impl PerFrame for MemberRmsds {
    const ID: &'static str = "member_rmsds/1";
    type Value = f64;
    type Scratch = Scratch;

    fn needs(&self) -> Needs {
        Needs { fields: Fields::NONE, atom_sets: Vec::new() }
    }

    fn width(&self) -> usize {
        1
    }

    fn kept_bytes(&self) -> u64 {
        self.structures.bytes()
    }

    fn row(&self, frame: &Frame<'_>, scratch: &mut Scratch, values: &mut [f64]) -> Result<()> {
        self.fill(std::slice::from_ref(frame), scratch, values);
        Ok(())
    }

    fn rows(&self, frames: &Frames<'_>, scratch: &mut Scratch, values: &mut [f64]) -> Result<()> {
        let all: Vec<Frame<'_>> = frames.iter().collect();
        for (frames, values) in all.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
            self.fill(frames, scratch, values);
        }
        Ok(())
    }
}
