//! Times of the superposition and of each kernel on synthetic coordinates: the least elapsed time of several runs on one thread.
//!
//! It asserts nothing: run it with `cargo run --release --example qcp_speed`.

use std::hint::black_box;
use std::time::Instant;

use kinema_analysis::superposition::qcp::Reference;
use kinema_analysis::{Argument, Arguments, AtomsAndReference, Cpu, Superpose, Superposition, registry};
use kinema_core::Result;
use kinema_core::frame::Stamp;
use kinema_core::frame::{Block, Fields};
use kinema_core::reduce::{AtomMap, BoundKernel, FrameMut, Transform, Workspace};
use kinema_core::selection::AtomSelection;

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

fn superpositions() -> Result<()> {
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
            let reference = Reference::with_build(cpu, &reference, weights)?;
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

/// Time of a frame in one kernel, blocks of 32 rows that hold `held`.
fn kernel_time(name: &str, arguments: &Arguments, held: &AtomSelection) -> Result<()> {
    let kernel = registry::named(name)?.kernel(arguments)?;
    let rows = 32;
    let mut block = Block::default();
    block.reset(0..rows as u64, held.len(), Fields::POSITIONS);
    block.positions = chain(held.len(), rows);
    let (mut bound, workspace) = (BoundKernel::new(&*kernel, held)?, Workspace::default());
    let blocks = 50;
    let mut failure = None;
    let time = best(rows * blocks, || {
        let mut partial = kernel.empty();
        for _ in 0..blocks {
            let done = bound.accumulate(&mut partial, black_box(&block.view()), &workspace);
            failure = failure.take().or(done.err());
        }
        black_box(partial);
    });
    let sets = kernel.needs().atom_sets;
    let n_atoms = sets.first().map_or(0, AtomSelection::len);
    println!("{name:7} of {} sets, {n_atoms:5} of {:5} atoms: {time:9.1} ns/frame", sets.len(), held.len());
    failure.map_or(Ok(()), Err)
}

fn kernels() -> Result<()> {
    let whole = AtomSelection::all(3341);
    let scattered = AtomSelection::from_sorted((0..214).map(|i| 4 + i * 15 + i % 5).collect(), 3341)?;
    let most = AtomSelection::from_sorted((0..3341).filter(|i| i % 10 != 0).collect(), 3341)?;
    for (set, held) in [(&scattered, &scattered), (&scattered, &whole), (&most, &most), (&most, &whole)] {
        let chain_as = |x: &f32| f64::from(*x + x.sin());
        let reference: Vec<f64> = chain(set.len(), 1).iter().map(chain_as).collect();
        let reference = reference.as_chunks::<3>().0.to_vec();
        let atoms: Vec<u32> = set.iter().collect();
        let of = || Arguments::new(3341).with("atoms", atoms.clone());
        let fitted = of().with("reference", reference.clone());
        let group = Argument::List(vec![atoms.clone().into(), reference.into(), Argument::None]);
        kernel_time("rmsd", &fitted, held)?;
        kernel_time("rmsd", &fitted.clone().with("groups", vec![group]), held)?;
        kernel_time("rgyr", &of().with("masses", vec![12.0; set.len()]).with("axes", true), held)?;
        kernel_time("rmsf", &of(), held)?;
        kernel_time("average", &of(), held)?;
        let fitted = AtomsAndReference::from_arguments(&fitted)?;
        let (transform, sets) =
            (Superpose::new(fitted, Superposition::RotationAndTranslation), [AtomMap::new(set, held)?]);
        let (mut row, mut state, mut stamp) = (chain(held.len(), 1), transform.state(held, &sets)?, Stamp::default());
        let mut failure = None;
        let time = best(1000, || {
            for _ in 0..1000 {
                let (positions, velocities, forces) = (black_box(&mut row[..]), &mut [][..], &mut [][..]);
                let mut frame = FrameMut {
                    number: 0,
                    positions,
                    velocities,
                    forces,
                    stamp: &mut stamp,
                    sets: &sets,
                    shift: None,
                    next_takes_shift: false,
                };
                let done = transform.apply(&mut frame, &mut state);
                failure = failure.take().or(done.err());
            }
        });
        println!("{:20} {:5} of {:5} atoms: {time:9.1} ns/frame", "superpose", set.len(), held.len());
        failure.map_or(Ok(()), Err)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    superpositions()?;
    kernels()
}
