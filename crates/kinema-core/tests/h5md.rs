//! Chunks of any shape into frames: random layouts against a plain array, which bytes are read, and damage.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::common::{Random, folder};
use kinema_core::container::hdf5::array::{Array, ArrayDescription, NOT_STORED};
use kinema_core::container::hdf5::filters::{FilterScratch, Pipeline, StoredFilter};
use kinema_core::container::hdf5::number::Number;
use kinema_core::format::h5md::{Field, H5mdDecoder, H5mdDescription, Rows};
use kinema_core::format::{Decoder, ReadStructure};
use kinema_core::frame::{BlockMut, Fields, RowsMut, Stamp, Units, VectorsMut};
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::arrays::{self, ArrayRequest};
use kinema_core::pipeline::kernels;
use kinema_core::plan::{Access, Job, Plan};
use kinema_core::reduce::{Frames, Kernel, Needs, ResultArray, Stack};
use kinema_core::selection::{AtomSelection, FrameSelection};
use kinema_core::source::{Extent, Files, Gather, MAX_GAP, MemorySource, OpenSource, ReadLog};
use kinema_core::trajectory::{OpenOptions, Trajectory};
use kinema_core::{Error, ErrorKind, Result};

/// A data set of frames x units x components, and how it is to lie in the file.
#[derive(Debug, Clone)]
struct Layout {
    shape: [u64; 3],
    /// `None`: contiguous.
    chunk: Option<[u64; 3]>,
    number: &'static str,
    /// Shuffle and deflate.
    filtered: bool,
    partial_unfiltered: bool,
    /// One chunk in this many is not stored.
    holes: Option<u64>,
    /// Chunks lie in the order of their numbers.
    in_order: bool,
}

const FILL: f64 = 7.0;

fn bytes_of(number: &str, value: f64) -> Vec<u8> {
    let mut bytes = match &number[1..] {
        "f4" => (value as f32).to_le_bytes().to_vec(),
        "f8" => value.to_le_bytes().to_vec(),
        "i2" => (value as i16).to_le_bytes().to_vec(),
        "u4" => (value as u32).to_le_bytes().to_vec(),
        other => unreachable!("{other}"),
    };
    if number.starts_with('>') {
        bytes.reverse();
    }
    bytes
}

/// Every value differs, and float32 and 16-bit integers hold it.
fn value(frame: u64, unit: u64, component: u64) -> f64 {
    (frame * 211 % 1000 + unit * 13 + component) as f64
}

impl Layout {
    /// Values of float32 in one piece.
    fn plain(shape: [u64; 3]) -> Self {
        let (chunk, number, holes) = (None, "<f4", None);
        Self { shape, chunk, number, filtered: false, partial_unfiltered: false, holes, in_order: false }
    }

    fn filters(&self) -> Vec<StoredFilter> {
        let size = Number::from_name(self.number).unwrap().size() as u32;
        let shuffle = StoredFilter { id: 2, values: vec![size] };
        let deflate = StoredFilter { id: 1, values: vec![6] };
        if self.filtered { vec![shuffle, deflate] } else { Vec::new() }
    }

    /// Appends the chunks to `file` in an order that is not theirs; what libhdf5 would say, and the values.
    fn write(&self, random: &mut Random, file: &mut Vec<u8>) -> (ArrayDescription, Vec<f64>) {
        let size = Number::from_name(self.number).unwrap().size();
        let chunk = self.chunk.unwrap_or(self.shape);
        let grid = [0, 1, 2].map(|axis| self.shape[axis].div_ceil(chunk[axis]));
        let n = grid.iter().product::<u64>() as usize;
        let pipeline = Pipeline::new(&self.filters(), size, chunk.iter().product::<u64>() as usize * size).unwrap();
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev().filter(|_| !self.in_order) {
            order.swap(i, random.below(i as u64 + 1) as usize);
        }
        let (mut addresses, mut sizes) = (vec![NOT_STORED; n], vec![0; n]);
        let mut values = vec![0.0; self.shape.iter().product::<u64>() as usize];
        for number in order {
            let k = number as u64;
            let at = [k / (grid[1] * grid[2]), k / grid[2] % grid[1], k % grid[2]];
            let hole = self.holes.is_some_and(|holes| random.below(holes) == 0);
            let mut raw = Vec::new();
            let mut sticks_out = false;
            for f in 0..chunk[0] {
                for u in 0..chunk[1] {
                    for c in 0..chunk[2] {
                        let place = [at[0] * chunk[0] + f, at[1] * chunk[1] + u, at[2] * chunk[2] + c];
                        let inside = (0..3).all(|axis| place[axis] < self.shape[axis]);
                        sticks_out |= !inside;
                        let v = if inside { value(place[0], place[1], place[2]) } else { 0.0 };
                        raw.extend(bytes_of(self.number, v));
                        if inside {
                            let i = (place[0] * self.shape[1] + place[1]) * self.shape[2] + place[2];
                            values[i as usize] = if hole { FILL } else { v };
                        }
                    }
                }
            }
            if hole {
                continue;
            }
            let mut stored = Vec::new();
            if self.filtered && !(sticks_out && self.partial_unfiltered) {
                pipeline.encode(&raw, &mut stored, &mut FilterScratch::default()).unwrap();
            } else {
                stored = raw;
            }
            file.extend(std::iter::repeat_n(0xee, random.below(40) as usize));
            addresses[number] = file.len() as u64;
            sizes[number] = stored.len() as u64;
            file.extend(stored);
        }
        let description = ArrayDescription {
            name: "value".into(),
            file: 0,
            shape: self.shape,
            number: Number::from_name(self.number).unwrap(),
            chunks: self.chunk,
            addresses,
            sizes,
            masks: vec![0; n],
            filters: self.filters(),
            partial_chunks_unfiltered: self.partial_unfiltered,
            fill: bytes_of(self.number, FILL),
            inline: None,
        };
        (description, values)
    }
}

fn field(description: ArrayDescription, flat: bool, row_of: Option<Vec<i64>>, scale: f64) -> Field {
    let rows = Rows::Stored(vec![(0, Array::new(description).unwrap())]);
    Field { name: "positions", rows, row_of: row_of.map(Into::into), fixed: false, scale, flat, fills: Vec::new() }
}

fn described(n_atoms: u64, n_frames: u64, positions: Field) -> H5mdDescription {
    H5mdDescription {
        reads_forward: false,
        cut_at: None,
        format: None,
        n_atoms: n_atoms as u32,
        n_frames,
        steps: Some((0..n_frames as i64).map(|frame| frame * 10).collect()),
        times: Some((0..n_frames).map(|frame| frame as f64).collect()),
        time_scale: 2.0,
        vectors: [Some(positions), None, None],
        cell: None,
        periodic: [true; 3],
        other_files: Vec::new(),
        variant: String::new(),
        remarks: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Gives a decoder of a prepared description.
struct Prepared(Mutex<Option<H5mdDescription>>);

impl ReadStructure for Prepared {
    fn open(&self, _: &Path) -> Result<Arc<dyn Decoder>> {
        let described = self.0.lock().unwrap().take().ok_or_else(|| Error::new(ErrorKind::Internal, "opened twice"))?;
        Ok(Arc::new(H5mdDecoder::new(described)?))
    }
}

fn open(path: PathBuf, file: &[u8], described: H5mdDescription, log: Option<ReadLog>) -> Result<Trajectory> {
    std::fs::write(&path, file).unwrap();
    let structure: Option<Arc<dyn ReadStructure>> = Some(Arc::new(Prepared(Mutex::new(Some(described)))));
    let sources: Arc<dyn OpenSource> = match log {
        Some(log) => Arc::new(log),
        None => Arc::new(Files),
    };
    let trajectory = Trajectory::open(vec![path], OpenOptions { structure, sources, ..OpenOptions::default() })?;
    trajectory.scan(1, &|_| Ok(()))?;
    Ok(trajectory)
}

const SIGNATURE: &[u8] = b"\x89HDF\r\n\x1a\n";

struct Found {
    narrow: Vec<f32>,
    wide: Vec<f64>,
    stamps: Vec<Stamp>,
}

/// Reads frames of some atoms, as float32 and as float64.
fn read(trajectory: &Trajectory, frames: &[u64], atoms: &[u32], columns: Option<Vec<u32>>) -> Result<Found> {
    let rows = frames.len();
    let requested = columns.map_or(atoms.to_vec(), |columns| columns.iter().map(|&i| atoms[i as usize]).collect());
    let width = 3 * requested.len();
    let request = ArrayRequest {
        frames: FrameSelection::List(frames.into()),
        atoms: AtomSelection::new(requested, trajectory.n_atoms())?,
        units: Units::Public,
        mark_absent: false,
        workers: 2,
        memory: 0,
    };
    let mut found =
        Found { narrow: vec![0.0; rows * width], wide: vec![0.0; rows * width], stamps: vec![Stamp::default(); rows] };
    for wide in [false, true] {
        let vectors = match wide {
            true => VectorsMut::F64(RowsMut::Adjacent(&mut found.wide, width)),
            false => VectorsMut::F32(RowsMut::Adjacent(&mut found.narrow, width)),
        };
        let arrays = BlockMut {
            n_selected: atoms.len(),
            vectors: [vectors, VectorsMut::Absent, VectorsMut::Absent],
            stamps: RowsMut::Adjacent(&mut found.stamps, 1),
        };
        arrays::read(trajectory, &request, arrays, &Progress::default())?;
    }
    Ok(found)
}

fn random_layout(random: &mut Random) -> (Layout, bool) {
    let flat = random.below(4) == 0;
    let (frames, atoms) = (1 + random.below(40), 1 + random.below(60));
    let shape = if flat { [frames, 3 * atoms, 1] } else { [frames, atoms, 3] };
    let chunk = (random.below(5) != 0).then(|| {
        // a chunk may be larger than the data set
        let side = |n: u64, random: &mut Random| 1 + random.below(n + 2);
        [side(frames, random), side(shape[1], random), if flat { 1 } else { 1 + random.below(4) }]
    });
    let number = ["<f4", ">f4", "<f8", ">f8", "<i2", ">u4"][random.below(6) as usize];
    let filtered = chunk.is_some() && random.below(2) == 0;
    let layout = Layout {
        chunk,
        number,
        filtered,
        partial_unfiltered: random.below(2) == 0,
        holes: (chunk.is_some() && random.below(3) == 0).then_some(4),
        ..Layout::plain(shape)
    };
    (layout, flat)
}

#[test]
fn any_layout_gives_the_frames_and_atoms_that_are_asked_for() {
    let folder = folder("layouts");
    let mut random = Random(2021);
    for round in 0..300 {
        let (layout, flat) = random_layout(&mut random);
        let [n_frames, units, _] = layout.shape;
        let n_atoms = if flat { units / 3 } else { units };
        let mut file = SIGNATURE.to_vec();
        let (description, values) = layout.write(&mut random, &mut file);
        // some rounds: a field that was written less often, with frames that have none of it
        let row_of = (random.below(3) == 0).then(|| {
            let mut row = -1;
            (0..n_frames as i64)
                .map(|frame| {
                    if random.below(2) == 0 {
                        row = frame;
                    }
                    row
                })
                .collect::<Vec<i64>>()
        });
        let scale = [1.0, 10.0, 0.1][random.below(3) as usize];
        let field = field(description, flat, row_of.clone(), scale);
        let trajectory = open(folder.join("a.h5md"), &file, described(n_atoms, n_frames, field), None)
            .unwrap_or_else(|e| panic!("{e}"));
        let frames: Vec<u64> = (0..1 + random.below(2 * n_frames)).map(|_| random.below(n_frames)).collect();
        let mut atoms: Vec<u32> = (0..n_atoms as u32).filter(|_| random.below(3) != 0).collect();
        if atoms.is_empty() || random.below(3) == 0 {
            atoms = (0..n_atoms as u32).collect();
        }
        let columns = (random.below(3) == 0).then(|| (0..atoms.len() as u32).rev().collect::<Vec<u32>>());
        let found = read(&trajectory, &frames, &atoms, columns.clone()).unwrap_or_else(|error| panic!("{error}"));
        let mut i = 0;
        for (k, &frame) in frames.iter().enumerate() {
            let stamp = found.stamps[k];
            assert_eq!((stamp.step, stamp.time), (frame as i64 * 10, frame as f64 * 2.0));
            let row = row_of.as_ref().map_or(frame as i64, |rows| rows[frame as usize]);
            assert_eq!(stamp.present.contains(Fields::POSITIONS), row >= 0);
            for column in 0..atoms.len() {
                let atom = atoms[columns.as_ref().map_or(column, |columns| columns[column] as usize)];
                for component in 0..3 {
                    let at = (row * n_atoms as i64 + i64::from(atom)) * 3 + component;
                    let expected = if row < 0 { f64::NAN } else { values[at as usize] };
                    let narrow = (expected * scale) as f32;
                    let wide = expected * scale;
                    let same =
                        found.narrow[i].to_bits() == narrow.to_bits() && found.wide[i].to_bits() == wide.to_bits();
                    assert!(
                        same || row < 0 && found.narrow[i].is_nan() && found.wide[i].is_nan(),
                        "round {round}, {layout:?}, frame {frame}, atom {atom}, component {component}: expected \
                         {expected} x {scale}, found {} and {}",
                        found.narrow[i],
                        found.wide[i],
                    );
                    i += 1;
                }
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Sums positions in an order-sensitive way, and counts; it may need other fields as well.
struct Chain(AtomSelection, Fields);

impl Kernel for Chain {
    type Partial = (f64, u64);
    type Scratch = ();
    fn id(&self) -> &'static str {
        "chain/1"
    }
    fn needs(&self) -> Needs {
        Needs { fields: self.1, atom_sets: vec![self.0.clone()] }
    }
    fn empty(&self) -> (f64, u64) {
        (0.0, 0)
    }
    fn accumulate(&self, partial: &mut (f64, u64), frames: &Frames<'_>, (): &mut ()) -> Result<()> {
        for frame in frames.iter() {
            for &value in frame.positions(0) {
                partial.0 = partial.0 * 1.000_000_1 + f64::from(value).sqrt();
            }
            partial.1 += 1;
        }
        Ok(())
    }
    fn merge(&self, left: &mut (f64, u64), right: (f64, u64)) -> Result<()> {
        *left = (left.0 * 1.000_001 + right.0, left.1 + right.1);
        Ok(())
    }
    fn finish(&self, partial: (f64, u64)) -> Result<Vec<ResultArray>> {
        Ok(vec![ResultArray::new("sum", vec![1], vec![partial.0])])
    }
    fn to_bytes(&self, _: &(f64, u64)) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }
    fn from_bytes(&self, _: &[u8]) -> Result<(f64, u64)> {
        Err(Error::new(ErrorKind::Internal, "not needed here"))
    }
}

#[test]
fn blocks_over_several_leaves_give_the_bits_of_frames_that_stand_alone() {
    let folder = folder("bands");
    let mut random = Random(7);
    let shape = [900, 17, 3];
    let mut expected = None;
    for chunk in [[1, 17, 3], [70, 17, 3], [313, 5, 1], [900, 2, 3]] {
        for filtered in [false, true] {
            let layout = Layout { chunk: Some(chunk), filtered, in_order: true, ..Layout::plain(shape) };
            let mut file = SIGNATURE.to_vec();
            let (description, _) = layout.write(&mut random, &mut file);
            let described = described(17, 900, field(description, false, None, 1.0));
            let trajectory = open(folder.join("a.h5md"), &file, described, None).unwrap();
            let jobs = [Job {
                kernel: Arc::new(Chain(AtomSelection::from_sorted(vec![1, 2, 11], 17).unwrap(), Fields::POSITIONS)),
                stack: Stack::default(),
            }];
            for (workers, memory) in [(1, 0), (3, 0), (1, 2_105_000)] {
                for frames in [
                    FrameSelection::Stride { start: 0, step: 1, count: 900 },
                    FrameSelection::Stride { start: 899, step: -1, count: 900 },
                ] {
                    let plan = Plan::new(&trajectory, frames.clone(), &jobs, workers, memory).unwrap();
                    assert_eq!(plan.coupled_frames, if filtered { chunk[0] } else { 1 });
                    // few, so that few chunks are decoded twice
                    let is_coupled = chunk[0] > 1 && (filtered || chunk[1] < 17);
                    let tasks = match (workers, is_coupled) {
                        (1, _) => 1,
                        (_, true) => workers as u64,
                        _ => 48,
                    };
                    assert_eq!(plan.task_leaves, plan.n_leaves().div_ceil(tasks), "{layout:?}, {workers} workers");
                    let told_so = plan.notes.iter().any(|note| note.contains("decoded about"));
                    assert_eq!(told_so, plan.block_frames < plan.coupled_frames, "{}", plan.explain(None));
                    let outcome = kernels::run(&trajectory, &plan, &jobs, 0..plan.n_leaves(), &Progress::default());
                    let mut outcome = outcome.unwrap();
                    assert_eq!(outcome.timings.workers.iter().map(|worker| worker.frames).sum::<u64>(), 900);
                    assert_eq!(outcome.nodes.len(), 1);
                    let root = outcome.nodes[0].partials.remove(0).downcast::<(f64, u64)>().unwrap();
                    assert_eq!(root.1, 900);
                    if matches!(frames, FrameSelection::Stride { step: 1, .. }) {
                        assert_eq!(*expected.get_or_insert(root.0.to_bits()), root.0.to_bits(), "{layout:?}");
                    }
                    if workers == 1 && filtered && memory == 0 && plan.block_frames >= plan.coupled_frames {
                        let read: u64 = outcome.timings.workers.iter().map(|worker| worker.phases.bytes_read).sum();
                        assert!(read <= file.len() as u64 + file.len() as u64 / 2, "a chunk was read again and again");
                    }
                }
            }
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_plan_counts_the_bytes_that_are_read_for_those_that_are_used() {
    let folder = folder("useful");
    let mut file = SIGNATURE.to_vec();
    let mut field_of = |chunk| {
        let layout = Layout { chunk: Some(chunk), in_order: true, ..Layout::plain([40, 8, 3]) };
        // beyond the gap that is read with what lies on both of its sides
        file.resize(file.len() + MAX_GAP as usize + 1, 0);
        field(layout.write(&mut Random(3), &mut file).0, false, None, 1.0)
    };
    let mut described = described(8, 40, field_of([10, 8, 3]));
    described.vectors[1] = Some(Field { name: "velocities", ..field_of([1, 8, 3]) });
    let trajectory = open(folder.join("a.h5md"), &file, described, None).unwrap();
    let frames = FrameSelection::Stride { start: 0, step: 1, count: 40 };
    let both = Fields::POSITIONS | Fields::VELOCITIES;
    for (fields, access, atoms, expected) in [
        (Fields::POSITIONS, Access::Direct, 0..8, 1.0),
        (both, Access::Direct, 0..8, 1.0),
        (Fields::POSITIONS, Access::Frame, 0..2, 4.0),
        (both, Access::Frame, 2..4, 4.0),
        (Fields::CELL, Access::Frame, 0..8, 0.0),
    ] {
        let atoms = AtomSelection::from_sorted(atoms.collect(), 8).unwrap();
        let jobs = [Job { kernel: Arc::new(Chain(atoms, fields)), stack: Stack::default() }];
        let plan = Plan::with_access(&trajectory, frames.clone(), &jobs, 1, 0, access).unwrap();
        assert_eq!(plan.read_per_useful, expected, "{}", plan.explain(None));
        let said = format!("{expected:.2} bytes read for each byte that is used");
        assert_eq!(plan.explain(None).contains(&said), expected > 0.0, "{}", plan.explain(None));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn frames_that_share_a_chunk_say_so() {
    let layout =
        |rows, chunk, filtered| Layout { chunk: Some(chunk), filtered, in_order: true, ..Layout::plain([rows, 4, 3]) };
    let mut file = SIGNATURE.to_vec();
    let mut field_of = |rows, chunk, filtered, row_of| {
        field(layout(rows, chunk, filtered).write(&mut Random(5), &mut file).0, false, row_of, 1.0)
    };
    // positions of each frame, velocities of every tenth and none between
    let every_tenth = (0..100).map(|frame| if frame % 10 == 0 { frame / 10 } else { -1 }).collect();
    let mut described = described(4, 100, field_of(100, [30, 2, 3], true, None));
    described.vectors[1] = Some(Field { name: "velocities", ..field_of(10, [4, 4, 3], true, Some(every_tenth)) });
    described.vectors[2] = Some(Field { name: "forces", ..field_of(100, [30, 4, 3], false, None) });
    let decoder = H5mdDecoder::new(described).unwrap();
    let (positions, both) = (Fields::POSITIONS, Fields::POSITIONS | Fields::VELOCITIES);
    for (before, after, fields, frames) in [
        (28, 29, positions, 30),
        (29, 30, positions, 0),
        (30, 29, positions, 0),
        (5, 3, positions, 30),
        (10, 95, positions, 0),
        // the last chunk is not full
        (95, 96, positions, 10),
        // half of 30 and of 4 frames; chunks of velocities begin with frames 0, 40 and 80
        (10, 20, both, 17),
        (30, 40, both, 15),
        (11, 20, both, 15),
        (20, 30, both, 2),
        (9, 10, Fields::FORCES, 0),
        (9, 10, Fields::NONE, 0),
    ] {
        let chunked = decoder.chunked().expect("HDF5 has chunks");
        assert_eq!(chunked.redecoded_frames(before, after, fields), frames, "{before} and {after}");
    }
}

#[test]
fn ten_atoms_of_one_frame_touch_their_own_bytes_only() {
    let folder = folder("extents");
    let mut random = Random(3);
    let atoms: Vec<u32> = (20_000..20_010).collect();
    let layout = |chunk, filtered| Layout { chunk, filtered, ..Layout::plain([9, 30_000, 3]) };
    for (layout, most) in [
        (layout(None, false), 120),
        (layout(Some([1, 30_000, 3]), false), 120),
        // frames that share chunks are read row by row
        (layout(Some([4, 1000, 1]), false), 3 * 4000),
        (layout(Some([4, 1000, 3]), true), 4 * 1000 * 12),
    ] {
        let mut file = SIGNATURE.to_vec();
        let (description, values) = layout.write(&mut random, &mut file);
        let chunks: Vec<(u64, u64)> =
            description.addresses.iter().copied().zip(description.sizes.iter().copied()).collect();
        let log = ReadLog::default();
        let described = described(30_000, 9, field(description, false, None, 1.0));
        let trajectory = open(folder.join("a.h5md"), &file, described, Some(log.clone())).unwrap();
        log.take();
        let found = read(&trajectory, &[7], &atoms, None).unwrap();
        assert_eq!(f64::from(found.narrow[0]), values[(7 * 30_000 + 20_000) * 3]);
        let reads = log.take();
        let bytes: u64 = reads.iter().map(|(_, extent)| extent.len).sum::<u64>() / 2;
        assert!(bytes > 0 && bytes <= most, "{layout:?}: {bytes} bytes");
        for (_, extent) in reads {
            assert!(
                chunks.iter().any(|&(at, len)| at <= extent.offset && extent.end() <= at + len),
                "{layout:?}: {extent:?} lies in no chunk"
            );
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn descriptions_that_contradict_themselves_are_refused() {
    let layout = Layout { chunk: Some([2, 6, 3]), ..Layout::plain([4, 6, 3]) };
    let (good, _) = layout.write(&mut Random(1), &mut SIGNATURE.to_vec());
    type Spoil = fn(&mut ArrayDescription);
    let spoilt: [(&str, Spoil); 8] = [
        ("list of chunks", |described| described.shape = [40, 6, 3]),
        ("list of chunks", |described| described.sizes.truncate(1)),
        ("stored bytes", |described| described.sizes[1] = 7),
        ("no elements", |described| described.chunks = Some([0, 6, 3])),
        ("larger than any file", |described| described.chunks = Some([1 << 40, 1 << 40, 3])),
        ("beyond any file", |described| described.addresses[0] = u64::MAX - 8),
        ("fill value", |described| described.fill = vec![1, 2]),
        ("no filter 9", |described| described.filters = vec![StoredFilter { id: 9, values: Vec::new() }]),
    ];
    for (expected, spoil) in spoilt {
        let mut described = good.clone();
        spoil(&mut described);
        let error = Array::new(described).err().unwrap_or_else(|| panic!("{expected} was not refused"));
        let known = error.to_string();
        assert!(known.contains("data set value"), "{known}");
        assert!(known.contains(expected) || expected == "no filter 9" && known.contains("filter"), "{known}");
    }
    let short = described(6, 5, field(good.clone(), false, None, 1.0));
    assert!(H5mdDecoder::new(short).err().unwrap().to_string().contains("rows of positions, expected at least 5"));
    let other = described(7, 4, field(good, false, None, 1.0));
    assert!(H5mdDecoder::new(other).err().unwrap().to_string().contains("atoms and components"));
}

#[test]
fn a_frame_without_the_field_is_an_error_that_names_the_choices() {
    let folder = folder("absent");
    let layout = Layout { number: "<f8", ..Layout::plain([4, 2, 3]) };
    let mut file = SIGNATURE.to_vec();
    let (description, _) = layout.write(&mut Random(1), &mut file);
    let again = field(description.clone(), false, Some(vec![0, -2, 2, 3]), 1.0);
    let first = described(2, 4, field(description, false, Some(vec![0, -2, 2, 3]), 1.0));
    let trajectory = open(folder.join("a.h5md"), &file, first, None).unwrap();
    assert!(read(&trajectory, &[0, 3], &[0, 1], None).is_ok());
    let error = read(&trajectory, &[0, 1], &[0, 1], None).err().unwrap();
    assert_eq!((error.kind(), error.frame()), (ErrorKind::InvalidArgument, Some(1)));
    assert!(error.to_string().contains("absent=\"nan\""), "{error}");
    // a file that is cut while it is open, and a chunk beyond the end of one that was cut before
    let cut = &file[..file.len() - 10];
    std::fs::write(folder.join("a.h5md"), cut).unwrap();
    let error = read(&trajectory, &[3], &[0, 1], None).err().unwrap();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("it is shorter"), "{error}");
    let trajectory = open(folder.join("b.h5md"), cut, described(2, 4, again), None).unwrap();
    let error = read(&trajectory, &[3], &[0, 1], None).err().unwrap();
    assert_eq!((error.kind(), error.frame()), (ErrorKind::Truncated, Some(3)));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_damaged_chunk_is_an_error_of_its_frame() {
    let layout = Layout { chunk: Some([1, 150, 3]), filtered: true, ..Layout::plain([45, 150, 3]) };
    let (folder, mut file) = (folder("h5md_damaged"), SIGNATURE.to_vec());
    let (description, _) = layout.write(&mut Random(77), &mut file);
    let (address, size) = (description.addresses[31], description.sizes[31]);
    file[(address + size / 2) as usize] ^= 4;
    let trajectory =
        open(folder.join("file"), &file, described(150, 45, field(description, false, None, 1.0)), None).unwrap();
    let frames: Vec<u64> = (0..45).collect();
    let error = read(&trajectory, &frames, &[0, 7], None).err().unwrap();
    let place = (error.kind(), error.frame(), error.offset());
    assert_eq!(place, (ErrorKind::Corrupt, Some(31), Some(address)), "{error}");
    let sound = read(&trajectory, &frames[..31], &[0, 7], None).unwrap();
    assert_eq!(sound.narrow[6 * 30..][..6], [0, 7].map(|atom| [0, 1, 2].map(|c| value(30, atom, c) as f32)).concat());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_chunk_longer_than_its_file_takes_no_memory() {
    let layout = Layout { chunk: Some([1, 2, 3]), filtered: true, in_order: true, ..Layout::plain([4, 2, 3]) };
    let mut file = SIGNATURE.to_vec();
    let (mut description, _) = layout.write(&mut Random(1), &mut file);
    description.sizes[2] = 1 << 40;
    let error = Array::new(description).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("stored bytes of chunk 2, expected at most"), "{error}");
    // whatever a chunk map says, a read beyond the end takes no memory first
    let source = MemorySource::new("short", file);
    let error = Gather::default().read(&source, [Extent { offset: 8, len: 1 << 40 }]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Truncated);
}

#[test]
fn addresses_of_compact_data_are_not_looked_at() {
    let layout = Layout::plain([2, 2, 3]);
    let (mut description, _) = layout.write(&mut Random(1), &mut Vec::new());
    description.inline = Some(vec![0; 48]);
    description.addresses = vec![u64::MAX - 3];
    description.sizes = vec![u64::MAX];
    let array = Array::new(description).unwrap();
    assert!(array.samples().is_empty());
    assert_eq!(array.inline().map(<[u8]>::len), Some(48));
}

#[test]
fn compact_data_in_chunks_are_refused() {
    let layout = Layout::plain([2, 2, 3]);
    let (mut description, _) = layout.write(&mut Random(1), &mut Vec::new());
    // as many bytes as one of two chunks has
    description.chunks = Some([1, 2, 3]);
    description.inline = Some(vec![0; 24]);
    let error = Array::new(description).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("the compact data have another size than their shape"), "{error}");
}
