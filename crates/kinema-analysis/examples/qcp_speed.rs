//! Times of the superposition and of each kernel on synthetic coordinates, thread time, best of several runs.
//!
//! It asserts nothing: run it with `cargo run --release --example qcp_speed`.

use std::hint::black_box;
use std::time::Instant;

use kinema_analysis::Cpu;
use kinema_analysis::qcp::Reference;

/// A wandering chain with a step of 3.8 angstrom, and small differences from frame to frame.
fn chain(n_atoms: usize, frames: usize) -> Vec<f32> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32) / (1 << 24) as f32 - 0.5
    };
    let mut base = vec![30.0_f32; 3];
    for i in 3..n_atoms * 3 {
        let before = base[i - 3];
        base.push(before * 0.97 + 1.0 + 6.0 * next());
    }
    let mut all = Vec::with_capacity(frames * base.len());
    for _ in 0..frames {
        all.extend(base.iter().map(|x| x + 2.0 * next()));
    }
    all
}

/// The least time of one call, in nanoseconds.
fn best(calls: usize, mut run: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..25 {
        let start = Instant::now();
        run();
        least = least.min(start.elapsed().as_secs_f64());
    }
    least * 1e9 / calls as f64
}

fn superpositions() -> kinema_core::Result<()> {
    for n_atoms in [1_usize, 4, 214, 3000] {
        let frames = (400_000 / n_atoms).clamp(64, 2000);
        let rows = chain(n_atoms, frames);
        let width = n_atoms * 3;
        let reference: Vec<f64> = rows[..width].iter().map(|x| f64::from(*x)).collect();
        let masses: Vec<f64> = (0..n_atoms).map(|i| 12.0 + (i % 5) as f64).collect();
        for (name, cpu, weights) in [
            ("wide", Cpu::detect(), None),
            ("wide, weighted", Cpu::detect(), Some(&masses[..])),
            ("baseline", Cpu::baseline(), None),
        ] {
            let reference = Reference::for_cpu(cpu, &reference, weights)?;
            // One frame that stays in the first cache, as a decoder leaves it, and many from memory.
            let hot = best(frames, || {
                for _ in 0..frames {
                    black_box(reference.rmsd(black_box(&rows[width..2 * width]))).ok();
                }
            });
            let all = best(frames, || {
                for row in rows.chunks_exact(width) {
                    black_box(reference.rmsd(black_box(row))).ok();
                }
            });
            let motion = best(frames, || {
                for row in rows.chunks_exact(width) {
                    black_box(reference.superpose(black_box(row))).ok();
                }
            });
            println!("{n_atoms:5} atoms, {name:15} rmsd {hot:9.1} ns hot {all:9.1} ns; with motion {motion:9.1} ns");
        }
    }
    Ok(())
}

fn main() -> kinema_core::Result<()> {
    superpositions()
}
