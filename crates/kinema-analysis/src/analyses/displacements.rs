//! Edges of cells that unwrapping by displacements adds to positions; what [`crate::transforms::displacement`] begins with.
//!
//! A partial has the positions of its first and of its last frame; where two neighbours are merged the step between them is
//! made. Sums are exact: they are the same wherever leaves begin.

use std::sync::Arc;

use kinema_core::frame::{Cell, Fields};
use kinema_core::reduce::{Frames, Kernel, Needs, ResultArray};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, Result};

use super::stations::{LongestStep, Stations};
use crate::arguments::Arguments;
use crate::partials::bytes::{Reader, Writer};
use crate::partials::series::nothing_gathered;
use crate::registry::KernelInfo;
use crate::transforms::displacement::{Edges, MOST, Walk};
use crate::transforms::images::{CellOfFrame, Fault};

/// `atoms` (all where they are left out), `stations`: the numbers of the frames, ascending, up to which edges are summed up.
/// Results: "stations" (stations, atoms, 3), angstrom; "longest", "longest_frame" (1,): the longest step of a reduced
/// coordinate without its jump, and the frame behind it.
pub const KERNEL: KernelInfo = KernelInfo {
    id: "displacements/1",
    make: |arguments| {
        let atoms = arguments.unique_atoms_or_all("atoms")?;
        let stations = Stations::from_arguments(arguments)?;
        Ok(Arc::new(Displacements { atoms, stations }))
    },
    examples: |n_atoms, _| {
        let some = (0..n_atoms).step_by(2).collect::<Vec<_>>();
        let arguments = Arguments::new(n_atoms).with("stations", Stations::example());
        vec![arguments.clone(), arguments.with("atoms", some)]
    },
};

struct Displacements {
    atoms: AtomSelection,
    stations: Stations,
}

/// What some frames have.
#[derive(Debug, Default)]
pub struct Moved {
    n_frames: u64,
    first_frame: u64,
    first: Vec<f32>,
    first_edges: Edges,
    /// The last frame, and what is added since the last station.
    walk: Walk,
    /// For each station what is added since the one before, or since the first frame: atoms x 3.
    stations: Vec<f64>,
    longest: LongestStep,
}

impl Displacements {
    fn walk(&self) -> Walk {
        Walk::new((0..self.atoms.len() as u32).collect(), self.atoms.len())
    }

    fn placed(&self, fault: Fault) -> Error {
        fault.of_atoms(&self.atoms)
    }
}

impl Kernel for Displacements {
    type Partial = Moved;
    type Scratch = CellOfFrame;

    fn id(&self) -> &'static str {
        KERNEL.id
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets: vec![self.atoms.clone()] }
    }

    fn empty(&self) -> Moved {
        Moved::default()
    }

    fn partial_bytes(&self) -> u64 {
        // two rows and a sum
        48 * self.atoms.len() as u64
    }

    fn kept_bytes(&self) -> u64 {
        24 * self.atoms.len() as u64 * self.stations.len() as u64
    }

    fn accumulate(&self, moved: &mut Moved, frames: &Frames<'_>, cell: &mut CellOfFrame) -> Result<()> {
        for (frame, stamp) in frames.iter().zip(frames.stamps()) {
            let row = frame.positions(0);
            let is_first = moved.n_frames == 0;
            if is_first {
                moved.walk = self.walk();
            }
            let step = cell.of(stamp).and_then(|cell| {
                let edges = Edges::of(cell);
                if is_first {
                    (moved.first, moved.first_edges, moved.first_frame) = (row.to_vec(), edges, frame.number);
                }
                moved.walk.see(row, &edges, is_first).map_err(|fault| self.placed(fault))
            });
            let step = step.map_err(|error| error.at_frame(frame.number))?;
            moved.longest.see(step, frame.number);
            moved.n_frames += 1;
            if self.stations.contains(frame.number) {
                moved.stations.extend_from_slice(moved.walk.shifts.as_flattened());
                moved.walk.shifts.fill([0.0; 3]);
            }
        }
        Ok(())
    }

    fn merge(&self, left: &mut Moved, mut right: Moved) -> Result<()> {
        if right.n_frames == 0 {
            return Ok(());
        }
        if left.n_frames == 0 {
            *left = right;
            return Ok(());
        }
        let step = left.walk.see(&right.first, &right.first_edges, false);
        let step = step.map_err(|fault| self.placed(fault).at_frame(right.first_frame))?;
        left.longest.see(step, right.first_frame);
        left.longest.merge(right.longest);
        let until = match right.stations.as_chunks_mut::<3>().0 {
            [] => &mut right.walk.shifts[..],
            stations => stations,
        };
        for (sum, before) in until.iter_mut().zip(&left.walk.shifts) {
            for (sum, before) in sum.iter_mut().zip(before) {
                *sum += before;
            }
        }
        left.n_frames += right.n_frames;
        left.stations.append(&mut right.stations);
        left.walk = right.walk;
        Ok(())
    }

    fn finish(&self, moved: Moved) -> Result<Vec<ResultArray>> {
        if moved.n_frames == 0 {
            return Err(nothing_gathered(KERNEL.id));
        }
        let width = 3 * self.atoms.len();
        let mut sums = moved.stations;
        for at in width..sums.len() {
            sums[at] += sums[at - width];
        }
        if let Some(at) = sums.iter().position(|sum| sum.abs() > MOST) {
            return Err(self.placed(Fault::TooFar((at % width / 3) as u32)));
        }
        let stations = ResultArray::new("stations", vec![sums.len() / width, self.atoms.len(), 3], sums);
        Ok([stations].into_iter().chain(moved.longest.results()).collect())
    }

    fn to_bytes(&self, moved: &Moved) -> Result<Vec<u8>> {
        let mut writer = Writer::new(KERNEL.id);
        let width = 3 * self.atoms.len();
        for number in [width as u64, moved.n_frames, (moved.stations.len() / width) as u64] {
            writer.u64(number);
        }
        if moved.n_frames > 0 {
            writer.u64(moved.first_frame);
            moved.longest.write(&mut writer);
            for cell in [&moved.first_edges.edges, &moved.first_edges.dual] {
                writer.numbers(cell.as_flattened());
            }
            writer.numbers(&moved.first);
            writer.numbers(moved.walk.before.as_flattened());
            writer.numbers(moved.walk.shifts.as_flattened());
            writer.numbers(&moved.stations);
        }
        Ok(writer.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Moved> {
        let mut reader = Reader::new(KERNEL.id, bytes)?;
        let width = 3 * self.atoms.len() as u64;
        reader.same(width, "number of coordinates")?;
        let mut moved = Moved { n_frames: reader.u64("number of frames")?, ..Moved::default() };
        let n_stations = self.stations.read_number(&mut reader, moved.n_frames)?;
        if moved.n_frames > 0 {
            moved.first_frame = reader.u64("first frame")?;
            moved.longest = LongestStep::read(&mut reader)?;
            moved.first_edges = Edges { edges: cell(&mut reader)?, dual: cell(&mut reader)? };
            moved.first = reader.numbers(width, "first positions")?;
            moved.walk = self.walk();
            moved.walk.before = reader.numbers::<f32>(width, "last positions")?.as_chunks::<3>().0.to_vec();
            moved.walk.shifts = reader.numbers::<f64>(width, "sums")?.as_chunks::<3>().0.to_vec();
            moved.stations = reader.numbers(n_stations.saturating_mul(width), "sums at stations")?;
        }
        reader.finish()?;
        Ok(moved)
    }
}

fn cell(reader: &mut Reader<'_>) -> Result<Cell> {
    let numbers: Vec<f64> = reader.numbers(9, "cell")?;
    Ok(std::array::from_fn(|edge| std::array::from_fn(|x| numbers[3 * edge + x])))
}
