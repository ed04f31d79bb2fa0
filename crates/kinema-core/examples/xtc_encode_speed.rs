//! Measures the encoding of the frames of one XTC file on one thread: CPU time per atom, of the whole and of its parts.
//!
//! `cargo run --release --example xtc_encode_speed -- FILE [REPEATS]`; the best of the repeats is printed. CPU time is that
//! of the thread, so that a busy machine disturbs little. Frames of which the bytes are not those of the file are counted.

use std::hint::black_box;
use std::path::Path;

use kinema_core::format::xtc::Xtc;
use kinema_core::format::xtc::encode::{
    EncodeScratch, FrameIntegers, FrameToEncode, IntegersToEncode, decode_integers, encode, encode_integers,
};
use kinema_core::format::{Format, ScanOptions};
use kinema_core::selection::AtomSelection;
use kinema_core::source::{FileSource, Source};
use kinema_core::{Error, ErrorKind, Result};

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

/// A frame of the file, as it is and decoded.
struct Loaded {
    bytes: Vec<u8>,
    header: FrameIntegers,
    precision: f32,
    integers: Vec<[i32; 3]>,
    positions: Vec<[f32; 3]>,
}

fn load(source: &dyn Source) -> Result<(Vec<Loaded>, AtomSelection)> {
    let decoder = Xtc.open(source)?;
    let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
    let index = decoder.scan(source, &options)?.index;
    let all = AtomSelection::all(decoder.header().n_atoms);
    let mut frames = Vec::new();
    for frame in 0..index.n_frames().min(100) {
        let extent = index.extent(frame);
        let mut bytes = vec![0; extent.len as usize];
        source.read_exact_at(extent.offset, &mut bytes)?;
        let mut integers = Vec::new();
        let header = decode_integers(&bytes, extent.offset, &all, &mut Vec::new(), &mut integers)?;
        let Some(precision) = header.precision else {
            return Err(Error::new(ErrorKind::InvalidArgument, "frames of up to nine atoms are not packed"));
        };
        let positions = integers.iter().map(|atom| atom.map(|integer| integer as f32 * (1.0 / precision))).collect();
        frames.push(Loaded { bytes, header, precision, integers, positions });
    }
    Ok((frames, all))
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        println!("usage: xtc_encode_speed FILE [REPEATS]");
        return Ok(());
    };
    let repeats = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(50);
    let source = FileSource::open(Path::new(&path))?;
    let (frames, all) = load(&source)?;
    println!("{} frames of {} atoms", frames.len(), all.len());
    let (mut out, mut scratch, mut room, mut integers) = (Vec::new(), EncodeScratch::default(), Vec::new(), Vec::new());
    let report = |name: &str, seconds: f64, same: usize| {
        let a_frame = seconds / frames.len() as f64;
        println!(
            "{name:24} {:8.2} us/frame {:7.2} ns/atom; {same} of {} frames have the bytes of the file",
            a_frame * 1e6,
            a_frame * 1e9 / all.len() as f64,
            frames.len(),
        );
    };
    let mut same = 0;
    let seconds = best_of(repeats, || {
        same = 0;
        for Loaded { bytes, header, precision, positions, .. } in &frames {
            let &FrameIntegers { step, time, cell, long, .. } = header;
            out.clear();
            encode(
                &FrameToEncode { step, time, cell, positions, precision: *precision, long },
                &mut scratch,
                &mut out,
            )?;
            same += usize::from(black_box(&out) == bytes);
        }
        Ok(())
    })?;
    report("positions to bytes", seconds, same);
    let seconds = best_of(repeats, || {
        same = 0;
        for Loaded { bytes, header, precision, integers, .. } in &frames {
            let &FrameIntegers { step, time, cell, long, .. } = header;
            out.clear();
            encode_integers(&IntegersToEncode { step, time, cell, integers, precision: *precision, long }, &mut out)?;
            same += usize::from(black_box(&out) == bytes);
        }
        Ok(())
    })?;
    report("integers to bytes", seconds, same);
    let seconds = best_of(repeats, || {
        same = 0;
        for frame in &frames {
            decode_integers(&frame.bytes, 0, &all, &mut room, &mut integers)?;
            same += usize::from(black_box(&integers) == &frame.integers);
        }
        Ok(())
    })?;
    report("bytes to integers", seconds, same);
    Ok(())
}
