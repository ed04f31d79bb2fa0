//! The nearest image, against a comparison of 125 images of a compact cell of the same lattice.

use crate::common::{Cell, Numbers, Vector, plus};
use kinema_analysis::Cpu;
use kinema_analysis::geometry::{Lattice, Points, Results, distances};

fn dot(u: Vector, v: Vector) -> f64 {
    u[0] * v[0] + u[1] * v[1] + u[2] * v[2]
}

fn combined(counts: [i64; 3], cell: &Cell) -> Vector {
    [0, 1, 2].map(|x| (0..3).map(|i| counts[i] as f64 * cell[i][x]).sum())
}

/// Reduced coordinates by Cramer's rule.
fn coordinates(vector: Vector, cell: &Cell) -> Vector {
    let det = |a: Vector, b: Vector, c: Vector| {
        a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) + a[2] * (b[0] * c[1] - b[1] * c[0])
    };
    let [a, b, c] = *cell;
    let volume = det(a, b, c);
    [det(vector, b, c) / volume, det(a, vector, c) / volume, det(a, b, vector) / volume]
}

/// The squared length of the shortest of 125 images around the rounded one.
fn shortest_of_125(displacement: Vector, compact: &Cell, periodic: [bool; 3]) -> f64 {
    let at = coordinates(displacement, compact).map(|s| -s.round() as i64);
    let range = |i: usize| if periodic[i] { at[i] - 2..=at[i] + 2 } else { 0..=0 };
    let mut best = f64::INFINITY;
    for a in range(0) {
        for b in range(1) {
            for c in range(2) {
                let image = plus(displacement, combined([a, b, c], compact));
                best = best.min(dot(image, image));
            }
        }
    }
    best
}

struct Kind {
    name: &'static str,
    /// Edges short and near right angles, so that 125 images are enough.
    compact: Cell,
    /// Another basis of the same lattice, by whole numbers of the compact edges.
    of_compact: [[i64; 3]; 3],
    periodic: [bool; 3],
}

const SAME: [[i64; 3]; 3] = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];

fn kinds() -> Vec<Kind> {
    let kind = |name, compact, of_compact, periodic| Kind { name, compact, of_compact, periodic };
    let (s2, s3) = (2_f64.sqrt(), 3_f64.sqrt());
    // a rotation about no axis of the frame
    let (a, b) = (0.7_f64, 1.1_f64);
    let rotation: Cell = [
        [a.cos(), a.sin() * b.cos(), a.sin() * b.sin()],
        [-a.sin(), a.cos() * b.cos(), a.cos() * b.sin()],
        [0.0, -b.sin(), b.cos()],
    ];
    let rotated = |cell: Cell| {
        cell.map(|v| plus(combined([0; 3], &cell), [0, 1, 2].map(|x| (0..3).map(|i| v[i] * rotation[i][x]).sum())))
    };
    let triclinic = [[40.0, 0.0, 0.0], [20.0, 35.0, 0.0], [-20.0, 17.5, 30.0]];
    vec![
        kind("cubic", [[30.0, 0.0, 0.0], [0.0, 30.0, 0.0], [0.0, 0.0, 30.0]], SAME, [true; 3]),
        kind("orthorhombic", [[12.0, 0.0, 0.0], [0.0, 95.0, 0.0], [0.0, 0.0, 400.0]], SAME, [true; 3]),
        kind("hexagonal", [[50.0, 0.0, 0.0], [-25.0, 25.0 * s3, 0.0], [0.0, 0.0, 80.0]], SAME, [true; 3]),
        kind(
            "truncated octahedron",
            [[60.0, 0.0, 0.0], [20.0, 40.0 * s2, 0.0], [-20.0, 20.0 * s2, 20.0 * s2 * s3]],
            SAME,
            [true; 3],
        ),
        kind("rhombic dodecahedron", [[60.0, 0.0, 0.0], [0.0, 60.0, 0.0], [30.0, 30.0, 30.0 * s2]], SAME, [true; 3]),
        kind("triclinic at GROMACS' limit", triclinic, SAME, [true; 3]),
        kind("unreduced, rotated", rotated(triclinic), [[3, -2, 1], [1, -1, 0], [-7, 4, -2]], [true; 3]),
        kind("left-handed, unreduced", triclinic, [[0, 1, 5], [1, 0, 0], [9, 0, 1]], [true; 3]),
        kind(
            "slab",
            [[40.0, 0.0, 0.0], [19.0, 31.0, 0.0], [0.0, 0.0, 70.0]],
            [[1, 0, 0], [4, 1, 0], [0, 0, 1]],
            [true, true, false],
        ),
        kind(
            "needle",
            [[3.0, 0.0, 0.0], [1.0, 3.2, 0.0], [0.5, -1.2, 900.0]],
            [[2, 1, 0], [1, 1, 0], [5, -7, 1]],
            [true; 3],
        ),
        kind("pancake", [[300.0, 0.0, 0.0], [140.0, 280.0, 0.0], [0.004, -0.003, 2.0]], SAME, [true; 3]),
        kind("wire", [[9.0, 0.0, 0.0], [0.0, 50.0, 0.0], [0.0, 0.0, 50.0]], SAME, [true, false, false]),
    ]
}

#[test]
fn the_nearest_image_is_the_shortest_of_125() {
    let mut numbers = Numbers(1);
    for kind in kinds() {
        let cell = kind.of_compact.map(|counts| combined(counts, &kind.compact));
        let lattice = Lattice::new(&cell, kind.periodic).unwrap();
        let mut beyond_rounding = 0;
        for _ in 0..100_000 {
            // up to three cells apart
            let at = [0; 3].map(|_: i32| 6.0 * numbers.next() - 3.0);
            let displacement = [0, 1, 2].map(|x| (0..3).map(|i| at[i] * kind.compact[i][x]).sum());
            let (nearest, counts) = lattice.nearest_image(displacement);
            let (found, expected) =
                (dot(nearest, nearest), shortest_of_125(displacement, &kind.compact, kind.periodic));
            assert!(
                (found - expected).abs() <= 1e-9 * (1.0 + expected),
                "{}: {displacement:?}: {found} {expected}",
                kind.name
            );
            assert_eq!(nearest, lattice.nearest(displacement), "{}", kind.name);
            // it is an image
            let image = plus(displacement, combined(counts, &cell));
            let off = plus(image, nearest.map(|x| -x));
            assert!(dot(off, off) < 1e-16, "{}: {image:?} {nearest:?}", kind.name);
            assert!((0..3).all(|i| kind.periodic[i] || counts[i] == 0), "{}", kind.name);
            let rounded = lattice.reduced(displacement).map(|s| -s.round() as i64);
            let naive = plus(displacement, combined(rounded, &cell));
            beyond_rounding += usize::from(dot(naive, naive) > found * (1.0 + 1e-9));
        }
        // if the cell is not right-angled, rounding alone is wrong for some of them: the test can fail
        assert_eq!(beyond_rounding > 0, !lattice.is_right_angled(), "{}: {beyond_rounding}", kind.name);
    }
}

/// Single-precision positions of pairs, up to `cells` cells from the origin.
fn positions(kind: &Kind, cells: f64, numbers: &mut Numbers) -> [Vec<f32>; 2] {
    [0, 1].map(|_| {
        let pairs = (0..1001).map(|_| [0; 3].map(|_: i32| cells * (2.0 * numbers.next() - 1.0)));
        let cartesian = pairs.map(|at| [0, 1, 2].map(|x| (0..3).map(|i| at[i] * kind.compact[i][x]).sum::<f64>()));
        cartesian.flatten().map(|x| x as f32).collect()
    })
}

#[test]
fn pairs_together_are_as_each_alone() {
    let mut numbers = Numbers(3);
    for kind in kinds() {
        let cell = kind.of_compact.map(|counts| combined(counts, &kind.compact));
        let lattice = Lattice::new(&cell, kind.periodic).unwrap();
        // 10^6 cells away a single-precision position is still a position
        for (cells, most) in [(1.5, 1e-10), (1e6, 1e-5)] {
            let [first, second] = positions(&kind, cells, &mut numbers);
            let displacements = first.as_chunks::<3>().0.iter().zip(second.as_chunks::<3>().0);
            let displacements = displacements.map(|(a, b)| [0, 1, 2].map(|x| f64::from(b[x]) - f64::from(a[x])));
            let expected: Vec<f64> =
                displacements.clone().map(|d| lattice.nearest(d)).map(|d| dot(d, d).sqrt()).collect();
            let both = [Cpu::detect(), Cpu::baseline()].map(|cpu| {
                let mut found = vec![0.0; expected.len()];
                let pairs = [Points::row(&first).unwrap(), Points::row(&second).unwrap()];
                distances(cpu, [pairs[0]; 2], &lattice, Results::Double(&mut found)).unwrap();
                assert!(found.iter().all(|d| d.to_bits() == 0), "{}: a distance from itself", kind.name);
                distances(cpu, pairs, &lattice, Results::Double(&mut found)).unwrap();
                found
            });
            let bits = both.each_ref().map(|found| found.iter().map(|d| d.to_bits()).collect::<Vec<_>>());
            assert_eq!(bits[0], bits[1], "{}", kind.name);
            for (found, expected) in both[0].iter().zip(&expected) {
                assert!((found - expected).abs() <= most * (1.0 + expected), "{}: {found} {expected}", kind.name);
            }
            for (displacement, distance) in displacements.zip(&expected) {
                let shortest = shortest_of_125(displacement, &kind.compact, kind.periodic);
                let open = if kind.periodic == [true; 3] { 0.0 } else { cells };
                let off = (distance * distance - shortest).abs();
                assert!(off <= most * (1.0 + shortest) * (1.0 + open), "{}: {displacement:?} {off}", kind.name);
            }
        }
    }
}

#[test]
fn whole_numbers_of_edges_away_is_no_distance() {
    let cell = [[31.0, 0.0, 0.0], [11.0, 29.0, 0.0], [-7.0, 5.0, 23.0]];
    let lattice = Lattice::from_cell(&cell).unwrap();
    for counts in [[0, 0, 0], [1, 0, 0], [-5, 7, 3], [100_000, -100_000, 1], [1, 1, 1], [-1, 2, -2]] {
        let shift = combined(counts, &cell);
        let (nearest, found) = lattice.nearest_image(shift);
        assert!(dot(nearest, nearest) < 1e-16, "{nearest:?}");
        assert_eq!(found, counts.map(|n| -n));
        let reduced = lattice.reduced(shift);
        assert!((0..3).all(|i| (reduced[i] - counts[i] as f64).abs() < 1e-9), "{reduced:?}");
    }
}

#[test]
fn an_open_cell_changes_nothing() {
    let far = [1e7, -3.0, 0.5];
    for lattice in [Lattice::from_cell(&[[0.0; 3]; 3]), Lattice::new(&[[1.0, 0.0, 0.0]; 3], [false; 3])] {
        let lattice = lattice.unwrap();
        assert!(lattice.is_open());
        assert_eq!(lattice.nearest_image(far), (far, [0; 3]));
        assert_eq!(lattice.reduced(far), [0.0; 3]);
    }
    // a plane without a third edge
    let plane = Lattice::from_cell(&[[10.0, 0.0, 0.0], [0.0, 20.0, 0.0], [0.0; 3]]).unwrap();
    assert_eq!(plane.nearest([9.0, 12.0, 500.0]), [-1.0, -8.0, 500.0]);
}

#[test]
fn cells_that_are_none_are_errors() {
    let x = [10.0, 0.0, 0.0];
    let flat = [[x, [20.0, 0.0, 0.0], [0.0, 0.0, 5.0]], [x, [0.0, 10.0, 0.0], [3.0, 4.0, 0.0]], [x, x, x]];
    for cell in flat {
        let error = Lattice::from_cell(&cell).unwrap_err().to_string();
        assert!(error.contains("span no volume"), "{error}");
    }
    for value in [f64::NAN, f64::INFINITY] {
        let error = Lattice::from_cell(&[x, [0.0, value, 0.0], [0.0, 0.0, 9.0]]).unwrap_err().to_string();
        assert!(error.contains("not finite"), "{error}");
    }
}

#[test]
fn a_cell_that_is_hardly_reduced_comes_back() {
    // thousands of steps of one edge along another
    let compact = [[30.0, 0.0, 0.0], [4.0, 33.0, 0.0], [-8.0, 6.0, 37.0]];
    let cell = [[1, 0, 0], [12_345, 1, 0], [-3_021, 777, 1]].map(|counts| combined(counts, &compact));
    let lattice = Lattice::from_cell(&cell).unwrap();
    let mut numbers = Numbers(7);
    for _ in 0..1000 {
        let displacement = [0; 3].map(|_: i32| 200.0 * numbers.next() - 100.0);
        let nearest = lattice.nearest(displacement);
        let expected = shortest_of_125(displacement, &compact, [true; 3]);
        assert!((dot(nearest, nearest) - expected).abs() < 1e-6 * (1.0 + expected), "{nearest:?} {expected}");
    }
}
