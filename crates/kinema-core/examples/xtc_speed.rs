//! Measures the reading of one XTC file on one thread: CPU time of decoding per atom, and of the index per frame.
//!
//! `cargo run --release --example xtc_speed -- FILE [REPEATS [CASE]]`; the best of the repeats is printed, the file being in
//! the page cache. CPU time is that of the thread, so that a busy machine disturbs little.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use kinema_core::Result;
use kinema_core::format::xtc::Xtc;
use kinema_core::format::{Decoded, Decoder, Format, Request, ScanOptions, Scratch, Segment, SegmentBytes, Wanted};
use kinema_core::frame::{Block, Fields};
use kinema_core::index::atom_checkpoints::ATOMS_PER_CHECKPOINT;
use kinema_core::index::{AtomCheckpoints, Index};
use kinema_core::selection::AtomSelection;
use kinema_core::source::{FileSource, Source};

/// Frames that are decoded, the first of the file.
const FRAMES: u64 = 100;

/// CPU time of this thread, seconds.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the struct that it is given a valid pointer to, and keeps nothing.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "no clock for threads");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn best_of(repeats: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..repeats {
        let start = cpu_seconds();
        work()?;
        best = best.min(cpu_seconds() - start);
    }
    Ok(best)
}

/// The bytes of some segments, in memory.
struct Loaded {
    segments: Vec<Segment>,
    bytes: Vec<Vec<u8>>,
    wanted: Vec<Wanted>,
}

/// The index of a file, with atom checkpoints of its first frames.
fn with_checkpoints(decoder: &dyn Decoder, source: &dyn Source, n_frames: u64) -> Result<Index> {
    let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
    let mut index = decoder.scan(source, &options)?.index;
    let (mut words, mut tags) = (Vec::new(), Vec::new());
    let n_atoms = decoder.header().n_atoms;
    for frame in 0..index.n_frames().min(n_frames) {
        let extent = index.extent(frame);
        let mut bytes = vec![0; extent.len as usize];
        source.read_exact_at(extent.offset, &mut bytes)?;
        let mut found = vec![0; AtomCheckpoints::count_per_frame(n_atoms, ATOMS_PER_CHECKPOINT)];
        tags.push(decoder.atom_checkpoints(&bytes, ATOMS_PER_CHECKPOINT, &mut found).unwrap_or_default());
        words.extend(found);
    }
    if let Index::Table(table) = &mut index {
        table.atom_checkpoints = Some(Arc::new(AtomCheckpoints::new(n_atoms, ATOMS_PER_CHECKPOINT, words, tags)?));
    }
    Ok(index)
}

fn load(decoder: &dyn Decoder, source: &dyn Source, index: &Index, request: &Request, n_frames: u64) -> Result<Loaded> {
    let frames = 0..index.n_frames().min(n_frames);
    let wanted: Vec<Wanted> = frames.map(|frame| Wanted { frame, row: 0 }).collect();
    let mut segments = Vec::new();
    decoder.segments(index, &wanted, request, &mut segments)?;
    let mut bytes = Vec::new();
    for segment in &segments {
        let mut one = vec![0; segment.extent.len as usize];
        source.read_exact_at(segment.extent.offset, &mut one)?;
        bytes.push(one);
    }
    Ok(Loaded { segments, bytes, wanted })
}

fn decode_all(decoder: &dyn Decoder, loaded: &Loaded, request: &Request, block: &mut Block) -> Result<usize> {
    let mut short = 0;
    let mut scratch = Scratch::default();
    for (segment, bytes) in loaded.segments.iter().zip(&loaded.bytes) {
        let decoded = decoder.decode(
            SegmentBytes { segment, bytes, wanted: &loaded.wanted, request },
            &mut block.as_mut(),
            &mut scratch,
        )?;
        short += usize::from(decoded != Decoded::Done);
        black_box(&block.positions);
    }
    Ok(short)
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        println!("usage: xtc_speed FILE [REPEATS [CASE]]");
        return Ok(());
    };
    let repeats = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(50);
    let only = arguments.next().unwrap_or_default();
    let source = FileSource::open(Path::new(&path))?;
    let decoder = Xtc.open(&source)?;
    let n_atoms = decoder.header().n_atoms;
    let spread = |n: u32, of: u32| (0..n).map(|i| (u64::from(i) * u64::from(of) / u64::from(n)) as u32).collect();
    let part = |atoms: Vec<u32>| AtomSelection::from_sorted(atoms, n_atoms);
    let mut cases = vec![
        ("all atoms", AtomSelection::all(n_atoms)),
        ("every 3rd atom", part((0..n_atoms).step_by(3).collect())?),
        ("half of the atoms", part((n_atoms / 4..n_atoms / 4 + n_atoms / 2).collect())?),
        ("every 10th atom", part((0..n_atoms).step_by(10).collect())?),
        ("last atom", part((n_atoms - 1..n_atoms).collect())?),
        ("last 214 atoms", part((n_atoms.saturating_sub(214)..n_atoms).collect())?),
    ];
    if n_atoms >= 3341 {
        cases.push(("214 in the first 3341", part(spread(214, 3341))?));
        cases.push(("214 spread over all", part(spread(214, n_atoms))?));
    }
    cases.retain(|(name, _)| name.starts_with(&only));
    println!("{n_atoms} atoms");
    let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
    let indices = [decoder.scan(&source, &options)?.index, with_checkpoints(&*decoder, &source, FRAMES)?];
    for ((name, atoms), (index, known)) in
        cases.iter().flat_map(|case| [(case, (&indices[0], "")), (case, (&indices[1], "checkpoints"))])
    {
        let scales = Xtc.info().scales;
        let request = Request { fields: Fields::POSITIONS, atoms: atoms.clone(), scales };
        let loaded = load(&*decoder, &source, index, &request, FRAMES)?;
        let frames = loaded.wanted.len() as f64;
        let mut block = Block::default();
        block.reset([0], request.atoms.len(), request.fields);
        let mut short = 0;
        let seconds = best_of(repeats, || {
            short = decode_all(&*decoder, &loaded, &request, &mut block)?;
            Ok(())
        })?;
        let a_frame = seconds / frames;
        println!(
            "{name:22} {known:11} {:8.2} us/frame {:7.2} ns/atom selected; {short} of {} prefixes too short",
            a_frame * 1e6,
            a_frame * 1e9 / request.atoms.len() as f64,
            loaded.segments.len(),
        );
    }
    let mut n_frames = 0;
    let seconds = best_of(repeats.min(10), || {
        n_frames = decoder.scan(&source, &options)?.index.n_frames();
        Ok(())
    })?;
    println!("index                  {:8.2} us/frame, {n_frames} frames", seconds * 1e6 / n_frames as f64);
    Ok(())
}
