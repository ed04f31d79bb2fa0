//! Times of distances, angles and dihedrals on synthetic positions, beside a plain loop in `f64` and a bound: the least
//! elapsed time of several runs on one thread.
//!
//! It asserts nothing: run it with `cargo run --release --example geometry_speed`.

use std::hint::black_box;
use std::time::Instant;

use kinema_analysis::Cpu;
use kinema_analysis::geometry::{Column, Lattice, Points, Results, angles, dihedrals, distances};
use kinema_core::Result;

type Vector = [f64; 3];

const ATOMS: usize = 3341;

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

/// The least time of one call, in nanoseconds.
fn best(mut run: impl FnMut()) -> f64 {
    let calls = 100;
    let mut least = f64::INFINITY;
    for _ in 0..30 {
        let start = Instant::now();
        for _ in 0..calls {
            run();
        }
        least = least.min(start.elapsed().as_secs_f64());
    }
    least * 1e9 / f64::from(calls)
}

fn at(positions: &[f32], atom: u32) -> Vector {
    let start = atom as usize * 3;
    [0, 1, 2].map(|c| f64::from(positions[start + c]))
}

fn minus(u: Vector, v: Vector) -> Vector {
    [u[0] - v[0], u[1] - v[1], u[2] - v[2]]
}

fn dot(u: Vector, v: Vector) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

fn cross(u: Vector, v: Vector) -> Vector {
    [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
}

/// Columns of one item length, picked from all atoms and gathered.
struct Items<const N: usize> {
    picked: [Vec<u32>; N],
    columns: [Column; N],
    gathered: [Vec<f32>; N],
}

impl<const N: usize> Items<N> {
    fn new(positions: &[f32], picked: [Vec<u32>; N]) -> Self {
        let gathered = picked.each_ref().map(|atoms| {
            let coordinates = atoms.iter().flat_map(|&atom| (0..3).map(move |c| atom as usize * 3 + c));
            coordinates.map(|i| positions[i]).collect()
        });
        Self { columns: picked.each_ref().map(|atoms| Column::new(atoms.clone())), picked, gathered }
    }

    fn len(&self) -> usize {
        self.picked[0].len()
    }

    fn of_row<'a>(&'a self, positions: &'a [f32]) -> Result<[Points<'a>; N]> {
        let mut points = [Points::row(&[])?; N];
        for (points, column) in points.iter_mut().zip(&self.columns) {
            *points = Points::picked(positions, column)?;
        }
        Ok(points)
    }

    fn of_gathered(&self) -> Result<[Points<'_>; N]> {
        let mut points = [Points::row(&[])?; N];
        for (points, gathered) in points.iter_mut().zip(&self.gathered) {
            *points = Points::row(gathered)?;
        }
        Ok(points)
    }

    /// A line of times: gathered, picked, as `f32`, without AVX2, and a plain loop.
    fn time(
        &self,
        name: &str,
        positions: &[f32],
        compute: impl Fn(Cpu, [Points<'_>; N], Results<'_>) -> Result<bool>,
        plain: impl Fn([Vector; N]) -> f64,
    ) -> Result<()> {
        let mut values = vec![0.0; self.len()];
        let mut single = vec![0.0_f32; self.len()];
        let mut failure = None;
        let mut timed = |cpu: Cpu, picked: bool, narrow: bool| {
            best(|| {
                let points = if picked { self.of_row(black_box(positions)) } else { self.of_gathered() };
                let results = if narrow { Results::Single(&mut single) } else { Results::Double(&mut values) };
                let done = points.and_then(|points| compute(cpu, black_box(points), results));
                failure = failure.take().or(done.err());
            })
        };
        let wide = Cpu::detect();
        let gathered = timed(wide, false, false);
        let picked = timed(wide, true, false);
        let narrow = timed(wide, true, true);
        let baseline = timed(Cpu::baseline(), true, false);
        failure.map_or(Ok(()), Err)?;
        let mut expected = vec![0.0; self.len()];
        let looped = best(|| {
            let positions = black_box(positions);
            for (i, value) in expected.iter_mut().enumerate() {
                *value = plain(self.picked.each_ref().map(|atoms| at(positions, atoms[i])));
            }
            black_box(&mut expected);
        });
        let apart = values.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        println!(
            "{name:28} {:5} items, ns a call: gathered {gathered:7.0}, picked {picked:7.0} ({:5.2} ns an item), f32 {narrow:7.0}, \
             baseline {baseline:7.0}; plain loop {looped:7.0}, greatest difference {apart:.1e}",
            self.len(),
            picked / self.len() as f64
        );
        Ok(())
    }
}

/// Reading two columns of picked atoms and writing results, without arithmetic on them: the bound of memory.
fn bound(items: &Items<2>, positions: &[f32]) {
    let mut values = vec![0.0; items.len()];
    let time = best(|| {
        let positions = black_box(positions);
        for ((value, &first), &second) in values.iter_mut().zip(&items.picked[0]).zip(&items.picked[1]) {
            let (first, second) = (first as usize * 3, second as usize * 3);
            *value = f64::from(positions[first] + positions[first + 2] + positions[second] + positions[second + 2]);
        }
        black_box(&mut values);
    });
    println!("{:28} {:5} items, ns a call: {time:7.0}", "bound: two atoms read", items.len());
}

/// Atoms at random in a cell.
fn of_pairs(lattices: &[(&str, Lattice)], numbers: &mut Numbers) -> Result<()> {
    let far: Vec<f32> = (0..3 * ATOMS).map(|_| (75.0 * numbers.next()) as f32).collect();
    let mut pick = |n: usize| (0..n).map(|_| (numbers.next() * ATOMS as f64) as u32).collect::<Vec<_>>();
    let pairs = Items::new(&far, [pick(1000), pick(1000)]);
    bound(&pairs, &far);
    for (name, lattice) in lattices {
        pairs.time(
            &format!("distances, {name}"),
            &far,
            |cpu, points, results| distances(cpu, points, lattice, results),
            |[a, b]| {
                let bond = lattice.nearest(minus(b, a));
                dot(bond, bond).sqrt()
            },
        )?;
    }
    Ok(())
}

/// Atoms of a chain across the cell's faces: short bonds.
fn of_chains(lattices: &[(&str, Lattice)], numbers: &mut Numbers) -> Result<()> {
    // atoms that follow each other are near, and the molecule lies across the cell's faces
    let mut positions = vec![0.0_f32; 3 * ATOMS];
    for i in 0..positions.len() {
        let before = if i >= 3 { f64::from(positions[i - 3]) } else { 20.0 };
        positions[i] = (before * 0.98 + 0.5 + 3.0 * (numbers.next() - 0.5)) as f32;
    }
    let runs = |length: u32| [0, 1, 2, 3].map(|k| (0..426).map(|i| i * 7 + k * length).collect::<Vec<u32>>());
    let [first, second, third, fourth] = runs(2);
    let triples = Items::new(&positions, [first.clone(), second.clone(), third.clone()]);
    let quadruples = Items::new(&positions, [first, second, third, fourth]);
    for (name, lattice) in lattices {
        triples.time(
            &format!("angles, {name}"),
            &positions,
            |cpu, points, results| angles(cpu, points, lattice, results),
            |[a, b, c]| {
                let (u, v) = (lattice.nearest(minus(a, b)), lattice.nearest(minus(c, b)));
                let normal = cross(u, v);
                dot(normal, normal).sqrt().atan2(dot(u, v))
            },
        )?;
        quadruples.time(
            &format!("dihedrals, {name}"),
            &positions,
            |cpu, points, results| dihedrals(cpu, points, lattice, results),
            |[a, b, c, d]| {
                let bond = |from, to| lattice.nearest(minus(to, from));
                let (before, axis, after) = (bond(a, b), bond(b, c), bond(c, d));
                let normal = cross(axis, after);
                (dot(axis, axis).sqrt() * dot(before, normal)).atan2(dot(cross(before, axis), normal))
            },
        )?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let right = [[78.0, 0.0, 0.0], [0.0, 80.0, 0.0], [0.0, 0.0, 77.0]];
    let octahedron = [[80.0, 0.0, 0.0], [26.666_666, 75.424_72, 0.0], [-26.666_666, 37.712_36, 65.319_73]];
    let triclinic = [[80.0, 0.0, 0.0], [30.0, 71.0, 0.0], [-22.0, 27.5, 60.0]];
    let dodecahedron = [[80.017, 0.0, 0.0], [0.0, 80.017, 0.0], [40.008_5, 40.008_5, 56.580_57]];
    let lattices = [
        ("no cell", Lattice::open()),
        ("orthorhombic", Lattice::from_cell(&right)?),
        ("truncated octahedron", Lattice::from_cell(&octahedron)?),
        ("rhombic dodecahedron", Lattice::from_cell(&dodecahedron)?),
        ("triclinic", Lattice::from_cell(&triclinic)?),
    ];
    of_pairs(&lattices, &mut numbers)?;
    of_chains(&lattices, &mut numbers)?;
    for (name, cell) in [("orthorhombic", right), ("truncated octahedron", octahedron), ("triclinic", triclinic)] {
        let time = best(|| {
            black_box(Lattice::from_cell(black_box(&cell))).ok();
        });
        println!("making a lattice, {name:20} {time:7.0} ns");
    }
    Ok(())
}
