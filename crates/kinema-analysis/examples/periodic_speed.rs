//! Times of periodic transforms on a solvated chain in a dodecahedron, ns an atom and frame: the least of several runs on one
//! thread. Frames are as a simulation writes them: atoms wrapped one by one.
//!
//! It asserts nothing: run it with `cargo run --release --example periodic_speed`.

use std::hint::black_box;
use std::time::Instant;

use kinema_analysis::Cpu;
use kinema_analysis::transforms::cluster::ClusterRow;
use kinema_analysis::transforms::nojump::Tracks;
use kinema_analysis::transforms::whole::{WholeRow, WholeScratch};
use kinema_analysis::transforms::wrap::{UnitCell, WrapRow};
use kinema_analysis::transforms::{Fault, Groups, Molecules, PeriodicCell};

const CHAIN: u32 = 3341;
const WATERS: u32 = 14_780;
const CELL: [[f64; 3]; 3] = [[80.017_006, 0.0, 0.0], [0.0, 80.017_006, 0.0], [40.008_503, 40.008_503, 56.580_566]];

struct Numbers(u64);

impl Numbers {
    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The least time of one call on a fresh copy of a row, ns an atom.
fn best(row: &[f32], mut run: impl FnMut(&mut [f32])) -> f64 {
    let mut copy = row.to_vec();
    let mut least = f64::INFINITY;
    let began = Instant::now();
    for number in 0..200 {
        if number > 3 && began.elapsed().as_secs() > 1 {
            break;
        }
        copy.copy_from_slice(row);
        let start = Instant::now();
        run(black_box(&mut copy));
        least = least.min(start.elapsed().as_secs_f64());
    }
    least * 1e9 / (row.len() / 3) as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut row, mut bonds, mut residues) = (Vec::<f32>::new(), Vec::new(), Vec::new());
    let mut at = [40.0, 40.0, 20.0];
    for atom in 0..CHAIN {
        at = at.map(|x| x + (numbers.next() - 0.5) * 1.7);
        row.extend(at.map(|x| x as f32));
        residues.push(atom / 16);
        if atom > 0 {
            bonds.push([atom - 1, atom]);
        }
    }
    for water in 0..WATERS {
        let first = row.len() as u32 / 3;
        let share = [numbers.next(), numbers.next(), numbers.next()];
        let oxygen: [f64; 3] = [0, 1, 2].map(|x| (0..3).map(|i| share[i] * CELL[i][x]).sum());
        for _ in 0..3 {
            row.extend(oxygen.map(|x| (x + (numbers.next() - 0.5)) as f32));
            residues.push(CHAIN / 16 + 1 + water);
        }
        bonds.extend([[first, first + 1], [first, first + 2]]);
    }
    let n_atoms = row.len() / 3;
    let cell = PeriodicCell::new(&CELL, [true; 3])?;
    let molecules = Molecules::new(n_atoms, &bonds)?;
    let fault = |fault: Fault| fault.into_error(u64::from);
    let alone: Vec<u32> = (0..n_atoms as u32).collect();
    println!("{n_atoms} atoms, {} bonds, ns an atom and frame", molecules.n_bonds());
    for cpu in [Cpu::detect(), Cpu::baseline()] {
        let whole = WholeRow::new(cpu, molecules.clone());
        let mut wrapped = row.clone();
        let mut outside = Vec::new();
        let of =
            |labels: &[u32], shape| Ok::<_, kinema_core::Error>(WrapRow::new(cpu, Groups::new(labels, None)?, shape));
        of(&alone, UnitCell::Compact)?.apply(&mut wrapped, &cell, &mut outside).map_err(fault)?;
        let mut scratch = WholeScratch::default();
        let mut failed = None;
        let took = best(&wrapped, |row| failed = whole.apply(row, &cell, &mut scratch).err());
        let mut mended = wrapped.clone();
        let broken = whole.apply(&mut mended, &cell, &mut scratch).map_err(fault)?;
        println!("wide {}: whole {took:.2} ({broken} molecules broken)", cpu.is_wide());
        let took = best(&mended, |row| failed = whole.apply(row, &cell, &mut scratch).err());
        println!("  whole of whole {took:.2}");
        let first_atoms = molecules.first_atoms();
        for (name, labels) in [("atoms", &alone), ("residues", &residues), ("molecules", &first_atoms)] {
            for shape in [UnitCell::Rect, UnitCell::Tric, UnitCell::Compact] {
                let wrap = of(labels, shape)?;
                let took = best(&mended, |row| failed = wrap.apply(row, &cell, &mut outside).err());
                let mut inside = mended.clone();
                wrap.apply(&mut inside, &cell, &mut outside).map_err(fault)?;
                let again = best(&inside, |row| failed = wrap.apply(row, &cell, &mut outside).err());
                println!("  wrap {name} {shape:?} {took:.2}, again {again:.2}");
            }
        }
        let mut tracks = Tracks::new(cpu, &alone, n_atoms);
        tracks.follow(&mut mended.clone(), &cell, true).map_err(fault)?;
        // few of them have jumped
        let took = best(&wrapped, |row| failed = tracks.follow(row, &cell, false).err());
        tracks.begin(|atom| [1, -1, 2].map(|count| count * (atom as i32 % 5 - 2)));
        let moved = best(&wrapped, |row| failed = tracks.follow(row, &cell, false).err());
        println!("  nojump {took:.2}, where most have jumped {moved:.2}");
        if cpu.is_wide() {
            // the chain and as many molecules as there are ions, and all
            let few = |atom: usize| if atom < CHAIN as usize + 3 * 12 { first_atoms[atom] } else { Groups::NONE };
            for labels in [(0..n_atoms).map(few).collect(), first_atoms.clone()] {
                let groups = Groups::new(&labels, None)?;
                let n_moved = labels.iter().filter(|label| **label != Groups::NONE).count();
                let (n_groups, mut cluster) = (groups.len(), ClusterRow::new(groups, 0));
                let took = best(&mended, |row| failed = cluster.apply(row, &cell).err());
                let of_moved = took * n_atoms as f64 / n_moved as f64;
                println!("  cluster {took:.2}, {n_groups} molecules; an atom of these {of_moved:.2}");
            }
        }
        if let Some(fault) = failed {
            return Err(fault.into_error(u64::from).into());
        }
    }
    Ok(())
}
