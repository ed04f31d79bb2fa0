//! Distances, angles, dihedrals, centres and shapes: golden values of MDAnalysis, MDTraj and NumPy (`tests/data/PROVENANCE.md`),
//! and cases whose results are known.

use std::f64::consts::{FRAC_PI_2, PI};

use kinema_analysis::Cpu;
use kinema_analysis::geometry::{Center, Column, Gyration, Lattice, Points, Results, angles, dihedrals, distances};

struct Table(&'static str);

impl Table {
    fn column(&self, name: &str) -> Vec<f64> {
        let mut lines = self.0.lines();
        let at = lines.next().unwrap().split(',').position(|column| column == name).unwrap();
        lines.map(|line| line.split(',').nth(at).unwrap().parse().unwrap()).collect()
    }
}

const CELLS: Table = Table(include_str!("data/golden/geometry_cells.csv"));
const SHAPES: Table = Table(include_str!("data/golden/geometry_shapes.csv"));
const MASSES: Table = Table(include_str!("data/golden/geometry_masses.csv"));
const ITEMS: [Table; 3] = [
    Table(include_str!("data/golden/geometry_pairs.csv")),
    Table(include_str!("data/golden/geometry_triples.csv")),
    Table(include_str!("data/golden/geometry_quadruples.csv")),
];
const COLUMNS: [&str; 4] = ["first", "second", "third", "fourth"];

/// Positions of the two frames of a system.
fn frames(system: usize) -> [Vec<f32>; 2] {
    let bytes: &[u8] = match system {
        0 => include_bytes!("data/golden/geometry_adk.f32"),
        1 => include_bytes!("data/golden/geometry_orthorhombic.f32"),
        _ => include_bytes!("data/golden/geometry_triclinic.f32"),
    };
    let (first, second) = bytes.split_at(bytes.len() / 2);
    [first, second].map(|bytes| bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

fn lattice(system: usize, frame: usize) -> Lattice {
    let names = ["ax", "ay", "az", "bx", "by", "bz", "cx", "cy", "cz"];
    let values = names.map(|name| CELLS.column(name)[2 * system + frame]);
    let [a, b, c] = values.as_chunks::<3>().0 else { unreachable!() };
    Lattice::from_cell(&[*a, *b, *c]).unwrap()
}

/// Distances, angles or dihedrals of columns of two, three or four atoms.
fn compute(cpu: Cpu, columns: &[Points<'_>], lattice: &Lattice, results: Results<'_>) {
    match *columns {
        [a, b] => distances(cpu, [a, b], lattice, results),
        [a, b, c] => angles(cpu, [a, b, c], lattice, results),
        [a, b, c, d] => dihedrals(cpu, [a, b, c, d], lattice, results),
        _ => unreachable!(),
    }
    .unwrap();
}

/// The same by picking and from gathered rows, by both builds: one result.
fn of_items(positions: &[f32], columns: &[Vec<u32>], lattice: &Lattice) -> Vec<f64> {
    let picks: Vec<Column> = columns.iter().map(|atoms| Column::new(atoms.clone())).collect();
    let picked: Vec<Points<'_>> = picks.iter().map(|column| Points::picked(positions, column).unwrap()).collect();
    let xyz = |atom: u32| &positions[atom as usize * 3..][..3];
    let gathered: Vec<Vec<f32>> =
        columns.iter().map(|atoms| atoms.iter().flat_map(|&atom| xyz(atom)).copied().collect()).collect();
    let rows: Vec<Points<'_>> = gathered.iter().map(|row| Points::row(row).unwrap()).collect();
    let mut values = vec![0.0; columns[0].len()];
    compute(Cpu::detect(), &picked, lattice, Results::Double(&mut values));
    for (cpu, points) in [(Cpu::detect(), &rows), (Cpu::baseline(), &rows), (Cpu::baseline(), &picked)] {
        let mut others = vec![0.0; values.len()];
        compute(cpu, points, lattice, Results::Double(&mut others));
        assert!(values.iter().zip(&others).all(|(a, b)| a.to_bits() == b.to_bits()), "{cpu:?}");
        let mut single = vec![0.0_f32; values.len()];
        compute(cpu, points, lattice, Results::Single(&mut single));
        assert!(values.iter().zip(&single).all(|(a, b)| (*a as f32).to_bits() == b.to_bits()), "{cpu:?}");
    }
    values
}

/// The difference of two numbers, or of two angles across the end of the circle.
fn apart(a: f64, b: f64, circle: bool) -> f64 {
    let difference = (a - b).abs();
    if circle { difference.min(2.0 * PI - difference) } else { difference }
}

#[test]
fn distances_angles_and_dihedrals_are_those_of_mdanalysis_mdtraj_and_numpy() {
    for (length, table) in (2..).zip(&ITEMS) {
        let (systems, numbers) = (table.column("system"), table.column("frame"));
        let all: Vec<Vec<f64>> = COLUMNS[..length].iter().map(|name| table.column(name)).collect();
        // tolerances due to the single-precision cells and positions of the other programs
        let golden = [("numpy", 1e-10), ("mda", 2e-5), ("mdtraj", 2e-5)];
        let golden = golden.map(|(name, most)| (name, table.column(name), most));
        for (system, frame) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
            let rows: Vec<usize> =
                (0..systems.len()).filter(|&i| (systems[i], numbers[i]) == (system as f64, frame as f64)).collect();
            let columns: Vec<Vec<u32>> = all.iter().map(|c| rows.iter().map(|&i| c[i] as u32).collect()).collect();
            let values = of_items(&frames(system)[frame], &columns, &lattice(system, frame));
            assert!(values.len() >= 100);
            for (name, golden, most) in &golden {
                let differences = values.iter().zip(&rows).map(|(value, &i)| apart(*value, golden[i], length == 4));
                let other_image = differences.clone().filter(|difference| difference > most).count();
                // one dihedral of MDAnalysis in the triclinic cell: see PROVENANCE.md
                let known = usize::from((*name, system, frame, length) == KNOWN);
                assert_eq!(other_image, known, "{name}, {length} atoms, system {system}, frame {frame}");
            }
        }
    }
}

/// A case in which MDAnalysis does not take the nearest image.
const KNOWN: (&str, usize, usize, usize) = ("mda", 2, 1, 4);

/// Rows of one atom each.
fn of_points<const N: usize>(points: [[f32; 3]; N], lattice: &Lattice) -> f64 {
    let positions: Vec<f32> = points.into_iter().flatten().collect();
    let columns: Vec<Vec<u32>> = (0..N as u32).map(|i| vec![i]).collect();
    of_items(&positions, &columns, lattice)[0]
}

#[test]
fn signs_and_ends_of_the_range_are_iupacs() {
    let open = Lattice::open();
    let (a, b, c) = ([1.0, 0.0, 0.0], [0.0; 3], [0.0, 0.0, 1.0]);
    // seen from b to c, along +z: clockwise is from +x to +y
    for (d, expected) in [([0.0, 1.0, 1.0], FRAC_PI_2), ([0.0, -1.0, 1.0], -FRAC_PI_2), ([-1.0, 0.0, 1.0], PI)] {
        assert_eq!(of_points([a, b, c, d], &open), expected);
    }
    assert_eq!(of_points([a, b, c, [1.0, 0.0, 1.0]], &open), 0.0);
    assert_eq!(of_points([a, b, [-2.0, 0.0, 0.0]], &open), PI);
    assert_eq!(of_points([a, b, [2.0, 0.0, 0.0]], &open), 0.0);
    assert_eq!(of_points([a, b, c], &open), FRAC_PI_2);
}

#[test]
fn small_angles_keep_their_digits() {
    let open = Lattice::open();
    for small in [1e-3_f32, 1e-6, 1e-10] {
        let expected = f64::from(small).atan();
        let found = of_points([[1.0, 0.0, 0.0], [0.0; 3], [1.0, small, 0.0]], &open);
        assert!((found - expected).abs() <= 1e-15 * expected, "{found} {expected}");
        let found = of_points([[1.0, 0.0, 0.0], [0.0; 3], [-1.0, small, 0.0]], &open);
        assert!((found - (PI - expected)).abs() <= 5e-16, "{found} {expected}");
        let found = of_points([[1.0, 0.0, 0.0], [0.0; 3], [0.0, 0.0, 1.0], [1.0, small, 1.0]], &open);
        assert!((found - expected).abs() <= 1e-15 * expected, "{found} {expected}");
    }
}

#[test]
fn what_has_no_angle_is_not_a_number() {
    let open = Lattice::open();
    let line = [[0.1, 0.2, 0.3], [0.2, 0.4, 0.6], [0.4, 0.8, 1.2], [5.0, 1.0, 1.0]];
    assert!(of_points(line, &open).is_nan());
    assert!(of_points([line[3], line[0], line[1], line[2]], &open).is_nan());
    assert!(of_points([line[0], line[0], line[3]], &open).is_nan());
    assert_eq!(of_points([line[0], line[0]], &open), 0.0);
    assert!(of_points([[f32::NAN, 0.0, 0.0], [1.0; 3]], &open).is_nan());
}

#[test]
fn columns_of_other_lengths_and_rows_that_are_too_short_are_errors() {
    let positions = [0.0_f32; 12];
    let (two, three) = (Column::new(vec![0, 1]), Column::new(vec![3, 2, 1]));
    let [two, three] = [&two, &three].map(|column| Points::picked(&positions, column).unwrap());
    let mut values = [0.0; 2];
    let error = distances(Cpu::detect(), [two, three], &Lattice::open(), Results::Double(&mut values)).unwrap_err();
    assert!(error.to_string().contains("expected 2, found 3"), "{error}");
    let error = Points::picked(&positions, &Column::new(vec![4])).unwrap_err().to_string();
    assert!(error.contains("expected 5, found 4"), "{error}");
    assert!(Points::row(&positions[1..]).unwrap_err().to_string().contains("11 values"));
    distances(Cpu::detect(), [Points::row(&[]).unwrap(); 2], &Lattice::open(), Results::Single(&mut [])).unwrap();
}

fn compare(what: &str, found: &[f64], expected: &[f64], most: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= most, "{what}: {found} {expected}");
    }
}

#[test]
fn centres_and_shapes_are_those_of_mdanalysis_and_mdtraj() {
    let masses = MASSES.column("mass");
    for (frame, row) in frames(0).iter().enumerate() {
        let golden = |names: &[&str]| names.iter().map(|name| SHAPES.column(name)[frame]).collect::<Vec<_>>();
        let both = [Cpu::detect(), Cpu::baseline()].map(|cpu| {
            let mass_weighted = Center::mass_weighted(cpu, &masses).unwrap().compute(row).unwrap();
            let of_geometry = Center::unweighted(cpu, masses.len()).unwrap().compute(row).unwrap();
            let weighted = Gyration::new(cpu, &masses).unwrap().shape(row).unwrap();
            (mass_weighted, of_geometry, weighted, Gyration::unweighted(cpu, masses.len()).unwrap().shape(row).unwrap())
        });
        assert_eq!(both[0], both[1], "the same bits");
        let (mass_weighted, of_geometry, weighted, plain) = both[0];
        compare("mass", &mass_weighted, &golden(&["mass_x", "mass_y", "mass_z"]), 1e-12);
        // MDAnalysis sums up in single precision here
        compare("geometry", &of_geometry, &golden(&["mean_x", "mean_y", "mean_z"]), 1e-5);
        compare("moments", &weighted.moments, &golden(&["moment_1", "moment_2", "moment_3"]), 1e-10);
        compare("MDAnalysis' asphericity", &[weighted.anisotropy], &golden(&["mda_asphericity"]), 1e-12);
        let [[xx, xy, xz], [_, yy, yz], [_, _, zz]] = plain.tensor;
        // MDTraj's positions are single-precision nanometres
        compare("tensor", &[xx, xy, xz, yy, yz, zz], &golden(&["xx", "xy", "xz", "yy", "yz", "zz"]), 1e-4);
        compare("plain moments", &plain.moments, &golden(&["plain_1", "plain_2", "plain_3"]), 1e-4);
        let shape = [plain.asphericity, plain.acylindricity];
        compare("shape", &shape, &golden(&["asphericity", "acylindricity"]), 1e-4);
        compare("anisotropy", &[plain.anisotropy], &golden(&["anisotropy"]), 1e-6);
    }
}

#[test]
fn shapes_of_known_bodies() {
    let shape = |row: &[f32]| Gyration::unweighted(Cpu::detect(), row.len() / 3).unwrap().shape(row).unwrap();
    // far from the origin, where squares of positions would lose all digits
    let line = shape(&[1e6, 0.0, 5.0, 1e6, 2.0, 5.0, 1e6, 4.0, 5.0]);
    assert_eq!((line.moments[0], line.moments[1], line.anisotropy), (0.0, 0.0, 1.0));
    compare("line", &[line.radius_of_gyration, line.asphericity], &[(8.0_f64 / 3.0).sqrt(), 8.0 / 3.0], 1e-15);
    let octahedron: Vec<f32> =
        (0..6).flat_map(|i| [0, 1, 2].map(|c| if c == i / 2 { [3.0, -3.0][i % 2] } else { 0.0 })).collect();
    let octahedron = shape(&octahedron);
    compare("octahedron", &octahedron.moments, &[3.0; 3], 1e-14);
    assert!(octahedron.anisotropy < 1e-30);
    let square = shape(&[1.0, 1.0, 7.0, -1.0, 1.0, 7.0, -1.0, -1.0, 7.0, 1.0, -1.0, 7.0]);
    assert_eq!((square.moments, square.acylindricity, square.asphericity), ([0.0, 1.0, 1.0], 1.0, 0.5));
    assert!(shape(&[1.0, 2.0, 3.0]).anisotropy.is_nan());
    assert!(shape(&[f32::NAN, 2.0, 3.0, 4.0, 5.0, 6.0]).moments[0].is_nan());
    let center = Center::mass_weighted(Cpu::detect(), &[1.0, 3.0]).unwrap();
    assert_eq!(center.compute(&[0.0, 0.0, 1.0, 4.0, 8.0, 1.0]).unwrap(), [3.0, 6.0, 1.0]);
    assert!(center.compute(&[0.0; 9]).unwrap_err().to_string().contains("expected 6, found 9"));
    assert!(Gyration::new(Cpu::detect(), &[]).is_err());
}
