//! Stacks of transforms over real files: a transform that looks back gives the same bits wherever reading begins.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::common::dcd_builder::Builder;
use crate::common::folder;
use crate::pipeline::Double;
use kinema_core::frame::{BlockMut, Fields, RowsMut, Stamp, Units, VectorsMut};
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::arrays::{self, ArrayRequest};
use kinema_core::pipeline::kernels;
use kinema_core::plan::{Job, Plan};
use kinema_core::reduce::{AtomMap, FrameMut, Frames, Kernel, Needs, ResultArray, RunUp, Stack, Stage, Transform};
use kinema_core::selection::{AtomSelection, FrameSelection};
use kinema_core::trajectory::{OpenOptions, Overlap, Trajectory};
use kinema_core::{Error, ErrorKind, Result};

/// Frames from station to station.
const STATION: u64 = 16;
const ATOMS: usize = 5;

/// Adds to all positions the sum, in whole numbers, of the positions of atom 0 in all frames up to this one. The sums
/// before every 16th frame are known; between them it must see all frames.
struct Cumulative {
    before_stations: HashMap<u64, i64>,
    /// Frames that were applied.
    applied: Arc<Mutex<Vec<u64>>>,
}

impl Transform for Cumulative {
    /// The sum, and the place of atom 0.
    type State = (i64, usize);

    fn id(&self) -> &'static str {
        "cumulative/1"
    }
    fn needs(&self) -> Needs {
        let first = AtomSelection::from_sorted(vec![0], ATOMS as u32).unwrap();
        Needs { fields: Fields::POSITIONS, atom_sets: vec![first] }
    }
    fn state(&self, _: &AtomSelection, sets: &[AtomMap]) -> Result<Self::State> {
        Ok((0, sets[0].places().map_or(0, |places| places[0] as usize)))
    }
    fn looks_back(&self) -> bool {
        true
    }
    fn run_up(&self, frame: u64, seen: Option<u64>) -> RunUp {
        RunUp::new(frame - frame % STATION, frame, seen)
    }
    fn begin(&self, state: &mut Self::State, frame: u64) -> Result<()> {
        let known = self.before_stations.get(&frame);
        state.0 = *known.ok_or_else(|| Error::new(ErrorKind::Internal, format!("{frame} is not a station")))?;
        Ok(())
    }
    fn apply(&self, frame: &mut FrameMut<'_>, state: &mut Self::State) -> Result<()> {
        self.applied.lock().unwrap().push(frame.number);
        state.0 += frame.positions[3 * state.1].round() as i64;
        frame.positions.iter_mut().for_each(|value| *value += state.0 as f32);
        Ok(())
    }
}

fn stage(transform: impl Transform, arguments: &[u8]) -> Stage {
    Stage { transform: Arc::new(transform), label: "a test".into(), arguments: arguments.into() }
}

/// Two files of frames, and the same with doubled, then cumulative positions.
fn trajectories(name: &str) -> (Trajectory, Trajectory, Arc<Mutex<Vec<u64>>>, PathBuf) {
    let folder = folder(name);
    let part = |(i, frames): (usize, usize)| {
        let path = folder.join(format!("part{i}.dcd"));
        std::fs::write(&path, Builder::new(ATOMS, frames).build()).unwrap();
        path
    };
    let paths = [53, 44].into_iter().enumerate().map(part).collect();
    let options = OpenOptions { overlap: Overlap::All, ..OpenOptions::default() };
    let plain = Trajectory::open(paths, options).unwrap();
    plain.scan(1, &|_| Ok(())).unwrap();
    let stored = read(&plain, all(&plain), &AtomSelection::all(ATOMS as u32), 1).unwrap();
    let (mut sum, mut before_stations) = (0, HashMap::new());
    for (frame, row) in stored.chunks_exact(3 * ATOMS).enumerate() {
        if (frame as u64).is_multiple_of(STATION) {
            before_stations.insert(frame as u64, sum);
        }
        sum += (2.0 * row[0]).round() as i64;
    }
    let applied = Arc::default();
    let cumulative = Cumulative { before_stations, applied: Arc::clone(&applied) };
    let changed = plain.with_stack(Stack::new(vec![stage(Double, &[]), stage(cumulative, &[])]).unwrap());
    (plain, changed, applied, folder)
}

fn all(trajectory: &Trajectory) -> FrameSelection {
    FrameSelection::Stride { start: 0, step: 1, count: trajectory.scanned().unwrap().concatenation.n_frames }
}

fn read(trajectory: &Trajectory, frames: FrameSelection, atoms: &AtomSelection, workers: usize) -> Result<Vec<f32>> {
    let rows = frames.len() as usize;
    let mut values = vec![0.0; rows * 3 * atoms.n_requested()];
    let mut stamps = vec![Stamp::default(); rows];
    let request =
        ArrayRequest { frames, atoms: atoms.clone(), units: Units::Public, mark_absent: false, workers, memory: 0 };
    let vectors = [VectorsMut::from_f32(&mut values, 3 * atoms.n_requested()), VectorsMut::Absent, VectorsMut::Absent];
    let out = BlockMut { n_selected: atoms.len(), vectors, stamps: RowsMut::Adjacent(&mut stamps, 1) };
    arrays::read(trajectory, &request, out, &Progress::default())?;
    Ok(values)
}

/// Expected positions of all frames, from the contents of the files.
fn expected(plain: &Trajectory) -> Vec<f32> {
    let mut values = read(plain, all(plain), &AtomSelection::all(ATOMS as u32), 1).unwrap();
    let mut sum = 0;
    for row in values.chunks_exact_mut(3 * ATOMS) {
        row.iter_mut().for_each(|value| *value *= 2.0);
        sum += row[0].round() as i64;
        row.iter_mut().for_each(|value| *value += sum as f32);
    }
    values
}

#[test]
fn frames_in_any_order_by_any_number_of_workers_are_those_of_all_frames_in_order() {
    let (plain, changed, applied, folder) = trajectories("look-back");
    let (whole, atoms) = (expected(&plain), AtomSelection::all(ATOMS as u32));
    let row = |frame: u64| &whole[frame as usize * 3 * ATOMS..][..3 * ATOMS];
    assert_ne!(row(90)[0], 2.0 * read(&plain, FrameSelection::from_list(vec![90]), &atoms, 1).unwrap()[0]);
    for workers in [1, 2, 3, 7] {
        assert_eq!(read(&changed, all(&changed), &atoms, workers).unwrap(), whole, "{workers} workers");
    }
    let lists = [
        vec![40],
        vec![96, 3, 3, 95, 0],
        (0..97).step_by(10).collect(),
        (0..97).rev().collect(),
        (5..97).step_by(33).collect(),
    ];
    for list in lists {
        let rows: Vec<f32> = list.iter().flat_map(|&frame| row(frame)).copied().collect();
        for workers in [1, 3] {
            let found = read(&changed, FrameSelection::from_list(list.clone()), &atoms, workers).unwrap();
            assert_eq!(found, rows, "{list:?}");
        }
    }
    // atom 0 is read for atom 3; others are not
    let some = AtomSelection::new(vec![3, 1, 3], ATOMS as u32).unwrap();
    let found = read(&changed, FrameSelection::from_list(vec![70, 20]), &some, 1).unwrap();
    let chosen = [70, 20].map(|frame| [3, 1, 3].map(|atom| &row(frame)[3 * atom..][..3]));
    assert_eq!(found, chosen.as_flattened().concat());
    // no more is seen than must be: from the station on, and each frame once
    applied.lock().unwrap().clear();
    read(&changed, FrameSelection::from_list(vec![35, 37, 90]), &atoms, 1).unwrap();
    let seen: Vec<u64> = (32..=37).chain(80..=90).collect();
    assert_eq!(*applied.lock().unwrap(), seen);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The bits of all positions that it sees, with their frames.
struct Bits(AtomSelection);

impl Kernel for Bits {
    type Partial = Vec<(u64, Vec<u32>)>;
    type Scratch = ();
    fn id(&self) -> &'static str {
        "bits/1"
    }
    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.0.clone()] }
    }
    fn empty(&self) -> Self::Partial {
        Vec::new()
    }
    fn accumulate(&self, partial: &mut Self::Partial, frames: &Frames<'_>, (): &mut ()) -> Result<()> {
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
        partial.extend(frames.iter().map(|frame| (frame.number, bits(frame.positions(0)))));
        Ok(())
    }
    fn merge(&self, left: &mut Self::Partial, right: Self::Partial) -> Result<()> {
        left.extend(right);
        Ok(())
    }
    fn finish(&self, _: Self::Partial) -> Result<Vec<ResultArray>> {
        Ok(Vec::new())
    }
    fn to_bytes(&self, _: &Self::Partial) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
    fn from_bytes(&self, _: &[u8]) -> Result<Self::Partial> {
        Ok(Vec::new())
    }
}

#[test]
fn kernels_see_the_same_frames_at_every_boundary_of_leaves_and_under_a_stride() {
    let (plain, changed, _, folder) = trajectories("look-back-kernels");
    let whole = expected(&plain);
    let atoms = AtomSelection::from_sorted(vec![1, 4], ATOMS as u32).unwrap();
    let doubled = Stack::new(vec![stage(Double, &[1])]).unwrap();
    for (start, step) in [(0, 1), (3, 1), (0, 10), (1, 7)] {
        let count = (97_u64 - start).div_ceil(step as u64);
        let frames = FrameSelection::Stride { start, step, count };
        for workers in [1, 2, 3, 7] {
            let job = |stack: &Stack| Job { kernel: Arc::new(Bits(atoms.clone())), stack: stack.clone() };
            // alone, together, and with transforms of their own
            let jobs = [job(&Stack::default()), job(&doubled), job(&doubled)];
            for jobs in [&jobs[..1], &jobs[1..], &jobs[..]] {
                let plan = Plan::new(&changed, frames.clone(), jobs, workers, 0).unwrap();
                let run = kernels::run(&changed, &plan, jobs, 0..plan.n_leaves(), &Progress::default()).unwrap();
                let [mut root] = <[_; 1]>::try_from(run.nodes).ok().unwrap();
                for job in jobs {
                    let seen = *root.partials.remove(0).downcast::<Vec<(u64, Vec<u32>)>>().unwrap();
                    let factor = if job.stack.is_empty() { 1.0 } else { 2.0 };
                    assert!(seen.iter().map(|(frame, _)| *frame).eq((0..count).map(|i| frames.get(i))));
                    for (frame, bits) in seen {
                        let row = &whole[frame as usize * 3 * ATOMS..];
                        let chosen = row[3..6].iter().chain(&row[12..15]);
                        let chosen: Vec<u32> = chosen.map(|value| (factor * value).to_bits()).collect();
                        assert_eq!(bits, chosen, "frame {frame}, {workers} workers, {} jobs", jobs.len());
                    }
                }
            }
        }
    }
    // buffers of the reader, a frame of three atoms, and a MiB of frames that must be seen first
    let jobs = [Job { kernel: Arc::new(Bits(atoms.clone())), stack: Stack::default() }];
    let error = Plan::new(&changed, all(&changed), &jobs, 1, 1).err().unwrap();
    let expected = format!("at least {} bytes", (2 << 20) + 96 + (1 << 20) / 96 * 96);
    assert!(error.to_string().contains(&expected), "{error}");
    let cumulative = Cumulative { before_stations: HashMap::new(), applied: Arc::default() };
    let own = Job { kernel: Arc::new(Bits(atoms)), stack: Stack::new(vec![stage(cumulative, &[])]).unwrap() };
    let error = Plan::new(&plain, all(&plain), &[own], 1, 0).err().unwrap();
    assert!(error.to_string().contains("it is a transform of the trajectory"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn stacks_are_the_same_by_their_arguments() {
    let stack = |arguments: &[u8]| Stack::new(vec![stage(Double, arguments)]).unwrap();
    assert!(stack(&[1]) == stack(&[1]) && stack(&[1]) != stack(&[2]) && stack(&[1]) != Stack::default());
    let many = (0..=Stack::MOST).map(|_| stage(Double, &[])).collect();
    assert_eq!(Stack::new(many).err().unwrap().kind(), ErrorKind::InvalidArgument);
}
