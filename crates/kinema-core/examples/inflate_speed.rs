//! Measures the inflating of HDF5 chunks on one thread: one at a time by libdeflate, and several at once.
//!
//! `cargo run --release --example inflate_speed -- FILE [CHUNK BYTES [SHUFFLE]]`: the bytes of FILE are cut into chunks
//! (40,092 bytes) and deflated at levels 1 and 9 of zlib's scale, after the shuffle filter where an element size is given.
//! A file that begins with "chunks" holds chunks as they are stored, each behind its stored and its decoded size (32 bits,
//! little-endian). The best of nine is printed, CPU time of the thread, decoded megabytes a second.

use std::hint::black_box;

use kinema_core::Result;
use kinema_core::container::hdf5::filters::{
    FilterScratch, Pipeline, StoredChunk, StoredFilter, TOGETHER, decode_together,
};

/// CPU time of this thread, seconds.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the struct that it is given a valid pointer to, and keeps nothing.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "no clock for threads");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn best_of_nine(mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..9 {
        let start = cpu_seconds();
        work()?;
        best = best.min(cpu_seconds() - start);
    }
    Ok(best)
}

fn measure(what: &str, pipeline: &Pipeline, stored: &[Vec<u8>]) -> Result<()> {
    let mut scratch = FilterScratch::default();
    let mut alone = Vec::new();
    let one_by_one = best_of_nine(|| {
        for chunk in stored {
            pipeline.decode(chunk, 0, &mut alone, &mut scratch)?;
            black_box(&alone);
        }
        Ok(())
    })?;
    let megabytes = (stored.len() * pipeline.chunk_bytes()) as f64 * 1e-6;
    let part = stored.iter().map(Vec::len).sum::<usize>() as f64 * 1e-6 / megabytes;
    print!("{what}: {} chunks, {part:.2} of their size, {:.0} MB/s alone", stored.len(), megabytes / one_by_one);
    let mut out = vec![Vec::new(); TOGETHER];
    let mut left = 0;
    let together = best_of_nine(|| {
        left = 0;
        for group in stored.chunks(TOGETHER) {
            let chunks = group.iter().map(|bytes| StoredChunk { pipeline, bytes, mask: 0 });
            let chunks: Vec<StoredChunk<'_>> = chunks.collect();
            let done = decode_together(&chunks, &mut out, &mut scratch);
            for (bytes, out) in group.iter().zip(&mut out).zip(done).filter(|(_, done)| !done).map(|(chunk, _)| chunk) {
                left += 1;
                pipeline.decode(bytes, 0, out, &mut scratch)?;
            }
            black_box(&out);
        }
        Ok(())
    })?;
    println!(", {:.0} MB/s {TOGETHER} at once, of which {left} were left to libdeflate", megabytes / together);
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = arguments.first() else {
        eprintln!("usage: inflate_speed FILE [CHUNK BYTES [SHUFFLE]]");
        std::process::exit(2);
    };
    let number = |i: usize| arguments.get(i).and_then(|text| text.parse::<usize>().ok());
    let bytes = std::fs::read(path).map_err(|error| kinema_core::Error::io("reading", &error))?;
    let deflate = |level| StoredFilter { id: 1, values: vec![level] };
    if let Some(mut rest) = bytes.strip_prefix(b"chunks".as_slice()) {
        let mut stored = Vec::new();
        let mut decoded = 0;
        while let Some(([a, b, c, d, e, f, g, h], behind)) = rest.split_first_chunk::<8>() {
            decoded = u32::from_le_bytes([*e, *f, *g, *h]) as usize;
            let (chunk, behind) = behind.split_at(u32::from_le_bytes([*a, *b, *c, *d]) as usize);
            stored.push(chunk.to_vec());
            rest = behind;
        }
        return measure(path, &Pipeline::new(&[deflate(0)], 4, decoded)?, &stored);
    }
    let chunk_bytes = number(1).unwrap_or(40_092);
    for level in [1, 9] {
        let mut filters = vec![deflate(level)];
        if let Some(element) = number(2) {
            filters.insert(0, StoredFilter { id: 2, values: vec![element as u32] });
        }
        let pipeline = Pipeline::new(&filters, 4, chunk_bytes)?;
        let mut scratch = FilterScratch::default();
        let mut stored = Vec::new();
        for raw in bytes.chunks_exact(chunk_bytes).take(240) {
            let mut encoded = Vec::new();
            pipeline.encode(raw, &mut encoded, &mut scratch)?;
            stored.push(encoded);
        }
        measure(&format!("level {level}"), &pipeline, &stored)?;
    }
    Ok(())
}
