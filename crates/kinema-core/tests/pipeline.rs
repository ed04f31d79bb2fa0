//! The pipeline over real files: the same bits whatever the workers, limits that hold, errors with their place.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::common::dcd_builder::Builder;
use crate::common::folder;
use kinema_core::frame::{BlockMut, Fields, RowsMut, Stamp, Units, VectorsMut};
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::arrays::{self, ArrayRequest};
use kinema_core::pipeline::kernels::{self, Deliver, Outcome};
use kinema_core::plan::{Access, Job, Plan};
use kinema_core::reduce::{AnyKernel, AtomMap, FrameMut, Frames, Kernel, Needs, ResultArray, Stack, Stage, Transform};
use kinema_core::reduce::{MergeTree, Node};
use kinema_core::selection::{AtomSelection, FrameSelection};
use kinema_core::trajectory::Overlap;
use kinema_core::trajectory::{OpenOptions, Trajectory};
use kinema_core::{Error, ErrorKind, Result};

/// Sums in an order-sensitive way: the bits show in which order frames were added and partials merged.
struct OrderSensitive {
    atoms: AtomSelection,
    fail_at: Option<u64>,
    panic_at: Option<u64>,
}

impl Kernel for OrderSensitive {
    type Partial = (f64, Vec<u64>);
    type Scratch = ();
    fn id(&self) -> &'static str {
        "order/1"
    }
    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.atoms.clone()] }
    }
    fn empty(&self) -> Self::Partial {
        (0.0, Vec::new())
    }
    fn accumulate(&self, partial: &mut Self::Partial, frames: &Frames<'_>, (): &mut ()) -> Result<()> {
        for frame in frames.iter() {
            if self.fail_at == Some(frame.number) {
                return Err(Error::new(ErrorKind::Corrupt, "no good").with_frame(frame.number));
            }
            assert_ne!(self.panic_at, Some(frame.number), "on purpose");
            for &value in frame.positions(0) {
                partial.0 = partial.0 * 1.000_000_1 + f64::from(value).sqrt();
            }
            partial.1.push(frame.number);
        }
        Ok(())
    }
    fn merge(&self, left: &mut Self::Partial, right: Self::Partial) -> Result<()> {
        left.0 = left.0 * 1.000_001 + right.0;
        left.1.extend(right.1);
        Ok(())
    }
    fn finish(&self, partial: Self::Partial) -> Result<Vec<ResultArray>> {
        Ok(vec![ResultArray::new("sum", vec![1], vec![partial.0])])
    }
    fn to_bytes(&self, partial: &Self::Partial) -> Result<Vec<u8>> {
        Ok(partial.0.to_le_bytes().to_vec())
    }
    fn from_bytes(&self, bytes: &[u8]) -> Result<Self::Partial> {
        let bytes = bytes.try_into().map_err(|_| Error::new(ErrorKind::Corrupt, "eight bytes"))?;
        Ok((f64::from_le_bytes(bytes), Vec::new()))
    }
}

/// Doubles all coordinates.
pub struct Double;

impl Transform for Double {
    type State = ();

    fn id(&self) -> &'static str {
        "double/1"
    }
    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: Vec::new() }
    }
    fn state(&self, _: &AtomSelection, _: &[AtomMap]) -> Result<()> {
        Ok(())
    }
    fn apply(&self, frame: &mut FrameMut<'_>, (): &mut ()) -> Result<()> {
        frame.positions.iter_mut().for_each(|value| *value *= 2.0);
        Ok(())
    }
}

fn doubled() -> Stack {
    let stage = Stage { transform: Arc::new(Double), label: "double".into(), arguments: Arc::new([]) };
    Stack::new(vec![stage]).unwrap()
}

fn kernel(atoms: &[u32], n_atoms: u32) -> OrderSensitive {
    let atoms = AtomSelection::from_sorted(atoms.to_vec(), n_atoms).unwrap();
    OrderSensitive { atoms, fail_at: None, panic_at: None }
}

fn job(kernel: OrderSensitive) -> Job {
    Job { kernel: Arc::new(kernel), stack: Stack::default() }
}

/// Writes parts of `frames` frames each and opens them as one trajectory, one after the other.
fn trajectory(name: &str, n_atoms: usize, parts: &[usize], max_open_files: usize) -> (Trajectory, PathBuf) {
    let folder = folder(name);
    let paths = parts
        .iter()
        .enumerate()
        .map(|(i, &frames)| {
            let path = folder.join(format!("part{i}.dcd"));
            std::fs::write(&path, Builder::new(n_atoms, frames).build()).unwrap();
            path
        })
        .collect();
    let options = OpenOptions { overlap: Overlap::All, max_open_files, ..OpenOptions::default() };
    let trajectory = Trajectory::open(paths, options).unwrap();
    trajectory.scan(2, &|_| Ok(())).unwrap();
    (trajectory, folder)
}

fn all(trajectory: &Trajectory) -> FrameSelection {
    FrameSelection::Stride { start: 0, step: 1, count: trajectory.scanned().unwrap().concatenation.n_frames }
}

fn root(outcome: Outcome, which: usize) -> (u64, Vec<u64>) {
    let [mut root] = <[_; 1]>::try_from(outcome.nodes).ok().unwrap();
    let (sum, frames) = *root.partials.remove(which).downcast::<(f64, Vec<u64>)>().unwrap();
    (sum.to_bits(), frames)
}

#[test]
fn the_same_bits_for_any_number_of_workers_and_any_memory() {
    let (trajectory, folder) = trajectory("bits", 50, &[700, 1, 299], 64);
    let frames: Arc<[u64]> = (0..1000).map(|i| i * 7 % 1000).collect();
    for selection in [all(&trajectory), FrameSelection::List(frames.clone())] {
        let jobs = [
            job(kernel(&[1, 5, 40], 50)),
            job(kernel(&[0, 49], 50)),
            Job { kernel: Arc::new(kernel(&[5], 50)), stack: doubled() },
        ];
        let mut expected = None;
        for (workers, memory) in [(1, 0), (2, 0), (3, 8 << 20), (7, 0), (1, 2_100_000)] {
            let plan = Plan::new(&trajectory, selection.clone(), &jobs, workers, memory).unwrap();
            for job in 0..jobs.len() {
                let outcome =
                    kernels::run(&trajectory, &plan, &jobs, 0..plan.n_leaves(), &Progress::default()).unwrap();
                let frames: u64 = outcome.timings.workers.iter().map(|worker| worker.frames).sum();
                assert_eq!(frames, 1000);
                let blocks: u32 = outcome.timings.blocks.iter().map(|block| block.frames).sum();
                assert_eq!(blocks, 1000);
                let got = root(outcome, job);
                assert_eq!(got.1, (0..1000).map(|i| selection.get(i)).collect::<Vec<_>>(), "frames in order");
                let sums = expected.get_or_insert_with(|| vec![None; jobs.len()]);
                assert_eq!(*sums[job].get_or_insert(got.0), got.0, "job {job}, {workers} workers, {memory} bytes");
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_same_bits_for_any_access_and_blocks_as_it_says() {
    let (trajectory, folder) = trajectory("access", 50, &[700, 1, 299], 64);
    let frames: Arc<[u64]> = (0..1000).map(|i| i * 7 % 1000).collect();
    for selection in [all(&trajectory), FrameSelection::List(frames.clone())] {
        let jobs = [job(kernel(&[1, 5, 40], 50)), Job { kernel: Arc::new(kernel(&[5], 50)), stack: doubled() }];
        let mut expected = None;
        let every = [Access::Direct, Access::Frame, Access::Subset];
        let loads = [0, 1, 3, 10, 2000].map(|pieces| Access::InMemory { pieces });
        for access in every.into_iter().chain(loads) {
            for workers in [1, 3] {
                let plan = Plan::with_access(&trajectory, selection.clone(), &jobs, workers, 0, access).unwrap();
                let n_leaves = plan.n_leaves();
                let outcome = kernels::run(&trajectory, &plan, &jobs, 0..n_leaves, &Progress::default()).unwrap();
                let blocks = outcome.timings.blocks.len() as u64;
                match access {
                    Access::Direct => {}
                    Access::Frame | Access::Subset => assert_eq!(blocks, 1000),
                    Access::InMemory { pieces: 0 } => assert_eq!(blocks, workers as u64),
                    Access::InMemory { pieces } => {
                        assert_eq!(blocks, n_leaves.div_ceil(n_leaves.div_ceil(pieces)));
                    }
                }
                let [mut root] = <[_; 1]>::try_from(outcome.nodes).ok().unwrap();
                let found: Vec<_> = (0..jobs.len())
                    .map(|_| *root.partials.remove(0).downcast::<(f64, Vec<u64>)>().unwrap())
                    .map(|(sum, frames)| (sum.to_bits(), frames))
                    .collect();
                assert_eq!(expected.get_or_insert_with(|| found.clone()), &found, "{access:?}, {workers} workers");
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_is_loaded_must_fit_and_one_byte_less_is_refused() {
    let (trajectory, folder) = trajectory("loads", 1000, &[64], 64);
    for (stack, copies, said) in [(doubled(), 2, "\ntransforms of single analyses: double"), (Stack::default(), 1, "")]
    {
        let jobs = [Job { kernel: Arc::new(kernel(&[1], 1000)), stack }];
        let plan = |workers, pieces, memory| {
            let access = Access::InMemory { pieces };
            Plan::with_access(&trajectory, all(&trajectory), &jobs, workers, memory, access)
        };
        // buffers of the reader; a frame of all atoms and its stamps; of one atom, gathered, and transformed if asked for
        let (reading, row, gathered) = (2 << 20, 12_000 + 60, copies * (12 + 60));
        for (workers, pieces, frames) in [(1, 0, 64), (2, 0, 32), (4, 0, 16), (1, 4, 16), (2, 8, 8)] {
            let needed = workers * (reading + frames * row + gathered);
            assert_eq!(plan(workers as usize, pieces, needed).unwrap().block_frames, frames, "{workers}, {pieces}");
            let error = plan(workers as usize, pieces, needed - 1).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::MemoryLimit);
            let holds = format!("holds {frames} frames of 1000 atoms for each of {workers} worker");
            assert!(error.to_string().contains(&holds), "{error}");
            let needs = format!("at least {needed} bytes ({} MiB)", needed.div_ceil(1 << 20));
            assert!(error.to_string().contains(&needs), "{error}");
        }
        // what one worker could load is refused for two: fewer workers than were asked for would load other pieces
        let error = plan(2, 0, reading + 64 * row + gathered).err().unwrap();
        assert!(error.to_string().contains("for each of 2 workers"), "{error}");
        let explained = plan(1, 0, 1 << 30).unwrap().explain(None);
        assert!(explained.contains("access \"in-memory\""));
        assert_eq!(explained.find("\ntransforms").map_or("", |at| &explained[at..]), said);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn alone_and_together_with_others_a_kernel_gives_the_same_bits() {
    let (trajectory, folder) = trajectory("together", 20, &[300], 64);
    let run = |jobs: &[Job], which| {
        let plan = Plan::new(&trajectory, all(&trajectory), jobs, 2, 0).unwrap();
        root(kernels::run(&trajectory, &plan, jobs, 0..plan.n_leaves(), &Progress::default()).unwrap(), which)
    };
    let alone = run(&[job(kernel(&[3, 4], 20))], 0);
    assert_eq!(alone, run(&[job(kernel(&[0, 1, 2, 19], 20)), job(kernel(&[3, 4], 20))], 1));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn errors_name_file_and_frame_and_panics_become_errors() {
    let (trajectory, folder) = trajectory("errors", 20, &[100, 100], 64);
    let run = |kernel: OrderSensitive| {
        let jobs = [job(kernel)];
        let plan = Plan::new(&trajectory, all(&trajectory), &jobs, 2, 0).unwrap();
        kernels::run(&trajectory, &plan, &jobs, 0..plan.n_leaves(), &Progress::default()).err().unwrap()
    };
    let error = run(OrderSensitive { fail_at: Some(123), ..kernel(&[1], 20) });
    assert_eq!((error.kind(), error.frame()), (ErrorKind::Corrupt, Some(23)));
    assert!(error.to_string().ends_with("part1.dcd: DCD frame 23: no good"), "{error}");
    let error = run(OrderSensitive { panic_at: Some(7), ..kernel(&[1], 20) });
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.to_string().contains("on purpose"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn an_error_leaves_whole_leaves_and_the_others_complete_the_tree() {
    let (trajectory, folder) = trajectory("rest", 20, &[300], 64);
    let good = [job(kernel(&[3, 4], 20))];
    let plan = Plan::new(&trajectory, all(&trajectory), &good, 2, 0).unwrap();
    let n = plan.n_leaves();
    let whole = root(kernels::run(&trajectory, &plan, &good, 0..n, &Progress::default()).unwrap(), 0);
    let kernels: [&dyn AnyKernel; 1] = [&*good[0].kernel];
    let tree = MergeTree::new(n);
    let done = Mutex::new(vec![false; n as usize]);
    let deliver = |node: Node| {
        let (_, frames) = node.partials[0].downcast_ref::<(f64, Vec<u64>)>().unwrap();
        assert_eq!(*frames, plan.leaf(node.index).collect::<Vec<_>>(), "all frames of the leaf, and no others");
        let twice = std::mem::replace(&mut done.lock().unwrap()[node.index as usize], true);
        assert!(!twice, "leaf {} was delivered twice", node.index);
        tree.insert(&kernels, node)
    };
    let bad = [job(OrderSensitive { fail_at: Some(200), ..kernel(&[3, 4], 20) })];
    let error = kernels::run_into(
        &trajectory,
        &plan,
        &bad,
        std::slice::from_ref(&(0..n)),
        Deliver { leaf: &deliver, keeps: true },
        &Progress::default(),
    )
    .err()
    .unwrap();
    assert_eq!(error.frame(), Some(200));
    let missing: Vec<_> =
        (0..n).filter(|&leaf| !done.lock().unwrap()[leaf as usize]).map(|leaf| leaf..leaf + 1).collect();
    assert!(!missing.is_empty() && missing.len() < n as usize);
    // an empty range needs no work
    let ranges: Vec<_> = std::iter::once(5..5).chain(missing.iter().cloned()).collect();
    let timings = kernels::run_into(
        &trajectory,
        &plan,
        &good,
        &ranges,
        Deliver { leaf: &deliver, keeps: true },
        &Progress::default(),
    )
    .unwrap();
    let frames: u64 = timings.workers.iter().map(|worker| worker.frames).sum();
    assert_eq!(frames, missing.iter().map(|leaf| plan.leaf(leaf.start).count() as u64).sum::<u64>());
    assert_eq!(root(Outcome { nodes: tree.into_nodes(&kernels).unwrap(), timings }, 0), whole);
    let full = |_: Node| Err(Error::new(ErrorKind::Io, "no space left"));
    let error = kernels::run_into(
        &trajectory,
        &plan,
        &good,
        std::slice::from_ref(&(0..n)),
        Deliver { leaf: &full, keeps: true },
        &Progress::default(),
    )
    .err()
    .unwrap();
    assert_eq!(error.kind(), ErrorKind::Io);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_cancelled_run_ends_with_an_error() {
    let (trajectory, folder) = trajectory("cancel", 20, &[100], 64);
    let jobs = [job(kernel(&[1], 20))];
    let plan = Plan::new(&trajectory, all(&trajectory), &jobs, 2, 0).unwrap();
    let progress = Progress::default();
    progress.cancel.store(true, Ordering::Relaxed);
    let error = kernels::run(&trajectory, &plan, &jobs, 0..plan.n_leaves(), &progress).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_memory_limit_costs_workers_first_and_is_refused_when_one_frame_does_not_fit() {
    let (trajectory, folder) = trajectory("memory", 1000, &[64], 64);
    let jobs = [job(kernel(&[1], 1000))];
    let plan = |memory| Plan::new(&trajectory, all(&trajectory), &jobs, 4, memory);
    assert_eq!(plan(0).unwrap().workers, 4);
    let tight = plan(4_300_000).unwrap();
    assert_eq!(tight.workers, 2);
    assert!(tight.explain(None).contains("2 instead of 4 workers"), "{}", tight.explain(None));
    let error = plan(1000).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::MemoryLimit);
    // buffers of the reader, and a frame of one atom
    let expected = format!("for one frame of this selection, expected at least {} bytes, found 1000", (2 << 20) + 72);
    assert!(error.to_string().contains(&expected), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn many_parts_need_few_open_files_and_frames_are_checked() {
    let (trajectory, folder) = trajectory("parts", 5, &[3; 200], 4);
    let jobs = [job(kernel(&[0, 4], 5))];
    let plan = Plan::new(&trajectory, all(&trajectory), &jobs, 3, 0).unwrap();
    let outcome = kernels::run(&trajectory, &plan, &jobs, 0..plan.n_leaves(), &Progress::default()).unwrap();
    assert_eq!(root(outcome, 0).1.len(), 600);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    assert!(open < 100, "{open} files are open");
    let beyond = FrameSelection::Stride { start: 599, step: 1, count: 2 };
    let error = Plan::new(&trajectory, beyond, &jobs, 1, 0).err().unwrap();
    assert_eq!(error.to_string(), "frame 600 is out of range for a trajectory of 600 frames");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn bulk_reads_give_columns_in_the_callers_order_and_both_precisions() {
    let (trajectory, folder) = trajectory("bulk", 30, &[20, 20], 64);
    let frames: Vec<u64> = vec![39, 0, 25, 25, 3];
    let builder = Builder::new(30, 20);
    let columns = [29_usize, 2, 2, 7];
    for workers in [1, 3] {
        let request = ArrayRequest {
            frames: FrameSelection::List(frames.clone().into()),
            atoms: AtomSelection::new(vec![29, 2, 2, 7], 30).unwrap(),
            units: Units::Public,
            mark_absent: false,
            workers,
            memory: 0,
        };
        let mut wide = vec![0.0_f64; 5 * 4 * 3];
        let mut stamps = vec![Stamp::default(); 5];
        let arrays = BlockMut {
            n_selected: request.atoms.len(),
            vectors: [VectorsMut::F64(RowsMut::Adjacent(&mut wide, 12)), VectorsMut::Absent, VectorsMut::Absent],
            stamps: RowsMut::Adjacent(&mut stamps, 1),
        };
        let timings = arrays::read(&trajectory, &request, arrays, &Progress::default()).unwrap();
        assert_eq!(timings.workers.iter().map(|worker| worker.frames).sum::<u64>(), 5);
        let mut expected = Vec::new();
        for &frame in &frames {
            for atom in columns {
                expected.extend((0..3).map(|axis| f64::from(builder.value(frame as usize % 20, atom, axis))));
            }
        }
        assert_eq!(wide, expected);
        assert!(stamps.iter().map(|stamp| stamp.step).eq([290, 100, 150, 150, 130]));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_grown_file_has_its_frames_counted_anew_by_a_new_trajectory() {
    let folder = folder("grown-dcd");
    let path = folder.join("a.dcd");
    for frames in [3, 5] {
        std::fs::write(&path, Builder::new(5, frames).build()).unwrap();
        let trajectory = Trajectory::open(vec![path.clone()], OpenOptions::default()).unwrap();
        let scanned = trajectory.scan(1, &|_| Ok(())).unwrap();
        assert_eq!(scanned.concatenation.n_frames, frames as u64);
    }
    std::fs::remove_dir_all(folder).unwrap();
}
