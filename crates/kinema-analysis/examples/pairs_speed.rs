//! Times of searches for pairs in a box of 11,000 waters with a dense ball of 3,300 atoms, ms: the least of several runs
//! on one thread.
//!
//! It asserts nothing: run it with `cargo run --release --example pairs_speed`.

use std::hint::black_box;
use std::time::Instant;

use kinema_analysis::geometry::{CellList, PairImages};
use kinema_core::Result;
use kinema_core::frame::Lattice;

const CELL: [[f64; 3]; 3] = [[80.0, 0.0, 0.0], [0.0, 80.0, 0.0], [40.0, 40.0, 56.57]];
const N_WATERS: usize = 11_000;
const N_SOLUTE: usize = 3_300;

struct Numbers(u64);

impl Numbers {
    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A point of the cell.
    fn point(&mut self) -> [f64; 3] {
        let share = [self.next(), self.next(), self.next()];
        [0, 1, 2].map(|axis: usize| (0..3).map(|edge| share[edge] * CELL[edge][axis]).sum())
    }
}

fn show(name: &str, mut run: impl FnMut(&mut CellList) -> Result<usize>) -> Result<()> {
    let mut cells = CellList::default();
    let (mut least, mut found) = (f64::INFINITY, 0);
    for _ in 0..20 {
        let start = Instant::now();
        found = black_box(run(&mut cells)?);
        least = least.min(start.elapsed().as_secs_f64());
    }
    let examined = cells.examined() as f64 / (20.0 * found.max(1) as f64);
    println!("{name:34} {:8.3} ms, {found} found, {examined:.1} estimated for each", 1e3 * least);
    Ok(())
}

fn main() -> Result<()> {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let lattice = Lattice::from_cell(&CELL)?;
    let (mut oxygens, mut waters, mut solute) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..N_WATERS {
        let oxygen = numbers.point();
        oxygens.extend(oxygen.map(|x| x as f32));
        for _ in 0..3 {
            waters.extend(oxygen.map(|x| (x + numbers.next() - 0.5) as f32));
        }
    }
    while solute.len() < 3 * N_SOLUTE {
        let at = [0, 1, 2].map(|_| 40.0 * numbers.next() - 20.0);
        if at.iter().map(|x| x * x).sum::<f64>() < 400.0 {
            solute.extend(at.map(|x| (x + 40.0) as f32));
        }
    }
    show("oxygens within 10 A, in order", |cells| {
        let mut n = 0;
        cells.neighbors_within(&lattice, &oxygens, 10.0, |_, near, _| n += near.len())?;
        Ok(n)
    })?;
    show("oxygens within 10 A, in any order", |cells| {
        let mut n = 0;
        cells.visit_within(&lattice, &oxygens, 10.0, |_| n += 1)?;
        Ok(n)
    })?;
    let mut found = Vec::new();
    show("oxygens within 10 A, list with images", |cells| {
        cells.within(&lattice, &oxygens, 10.0, PairImages::All, &mut found)?;
        Ok(found.len())
    })?;
    show("oxygens within 3 A of each other", |cells| {
        let mut n = 0;
        cells.neighbors_between(&lattice, &oxygens, &oxygens, 3.0, |_, near, _| n += near.len())?;
        Ok(n)
    })?;
    show("solute - oxygens within 3.5 A", |cells| {
        let mut n = 0;
        cells.neighbors_between(&lattice, &solute, &oxygens, 3.5, |_, near, _| n += near.len())?;
        Ok(n)
    })?;
    show("least distance of solute and waters", |cells| {
        Ok(cells.least(&lattice, &solute, &waters, 4.5)?.map_or(0, |least| least.n_pairs as usize))
    })?;
    let mut near = vec![false; waters.len() / 3];
    show("atoms of waters around the solute", |cells| {
        cells.any_within(&lattice, &solute, &waters, 3.5, &mut near)?;
        Ok(near.iter().filter(|near| **near).count())
    })
}
