//! Least distances against all pairs of atoms, in several cells.

use super::*;

fn row(n_atoms: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    // residues of up to nine atoms within some 4 angstrom, some of them far outside of the cell
    let mut row = vec![];
    for atom in 0..n_atoms {
        let center = if atom % 7 == 0 || row.len() < 3 {
            [60.0 * next(), 60.0 * next(), 60.0 * next()]
        } else {
            [row[3 * atom - 3], row[3 * atom - 2], row[3 * atom - 1]]
        };
        row.extend(center.map(|x| x + 2.0 * next() - 1.0));
    }
    row
}

#[test]
fn near_groups_are_those_of_all_pairs_of_atoms() {
    let cells = [
        [[0.0; 3]; 3],
        [[31.0, 0.0, 0.0], [0.0, 27.0, 0.0], [0.0, 0.0, 36.0]],
        [[30.0, 0.0, 0.0], [10.0, 28.0, 0.0], [-10.0, 14.0, 24.0]],
        [[30.0, 0.0, 0.0], [70.0, 28.0, 0.0], [0.0; 3]],
        [[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]],
    ];
    let ends: Vec<u32> = [1, 3, 7, 12, 13, 21, 30].iter().flat_map(|end| [0, 30, 60, 90].map(|x| x + end)).collect();
    let ends = {
        let mut ends = ends;
        ends.sort_unstable();
        ends
    };
    let groups = AtomGroups::new(&(0..120).collect::<Vec<_>>(), &ends);
    let separation = Separation {
        chains: (0..groups.len() as u32).map(|i| i / 10).collect(),
        places: (0..groups.len() as u32).map(|i| i % 10).collect(),
        separation: 3,
    };
    for (number, cell) in cells.iter().enumerate() {
        let (row, lattice) = (row(120, number as u64), Lattice::from_cell(cell).unwrap());
        let positions = row.as_chunks::<3>().0;
        let mut expected = vec![];
        for second in 0..groups.len() {
            for first in (0..second).filter(|first| separation.allows(*first, second)) {
                let atoms = |group: usize| (if group == 0 { 0 } else { ends[group - 1] })..ends[group];
                let mut least = f64::INFINITY;
                for i in atoms(first) {
                    for j in atoms(second) {
                        let apart = [0, 1, 2]
                            .map(|c| f64::from(positions[j as usize][c]) - f64::from(positions[i as usize][c]));
                        let v = lattice.nearest(apart);
                        least = least.min((v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt());
                    }
                }
                expected.push(([first as u32, second as u32], least));
            }
        }
        expected.sort_by_key(|(pair, _)| *pair);
        for cpu in [Cpu::detect(), Cpu::baseline()] {
            let mut scratch = LeastScratch::default();
            let pairs: Vec<_> = expected.iter().map(|(pair, _)| *pair).collect();
            let mut values = vec![0.0; pairs.len()];
            assert!(least_distances(cpu, (&groups, &row), &pairs, &lattice, &mut scratch, &mut values).unwrap());
            for (value, (_, least)) in values.iter().zip(&expected) {
                assert!((value - least).abs() < 1e-12, "{value} {least}");
            }
            for cutoff in [0.5, 4.5, 12.0] {
                let mut found = vec![];
                near_groups(cpu, (&groups, &row), (&separation, cutoff), &lattice, &mut scratch, &mut found).unwrap();
                let near: Vec<f64> = values.iter().copied().filter(|value| *value <= cutoff).collect();
                assert_eq!(found.iter().map(|one| one.distance).collect::<Vec<_>>(), near);
                for Nearest { atoms: [i, j], distance } in found {
                    let [p, q] = [i, j].map(|atom| positions[atom as usize].map(f64::from));
                    let v = lattice.nearest([q[0] - p[0], q[1] - p[1], q[2] - p[2]]);
                    assert!(((v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt() - distance).abs() < 1e-12);
                }
            }
        }
    }
}

#[test]
fn positions_that_are_not_finite_are_reported() {
    let groups = AtomGroups::new(&[0, 1], &[1, 2]);
    let (mut values, mut scratch) = ([0.0], LeastScratch::default());
    let mut least = |row: &[f32]| {
        let lattice = Lattice::open();
        least_distances(Cpu::detect(), (&groups, row), &[[0, 1]], &lattice, &mut scratch, &mut values)
    };
    assert!(!least(&[0.0, 0.0, 0.0, 1.0, f32::INFINITY, 1.0]).unwrap());
    assert!(least(&[0.0; 3]).is_err());
}

#[test]
fn many_groups_are_found_in_cells() {
    let cells = [
        [[0.0; 3]; 3],
        [[30.0, 0.0, 0.0], [10.0, 28.0, 0.0], [-10.0, 14.0, 24.0]],
        [[30.0, 0.0, 0.0], [70.0, 28.0, 0.0], [0.0; 3]],
    ];
    let n = FEW_GROUPS as u32 + 20;
    let ends: Vec<u32> = (1..=n).map(|group| 2 * group - group % 2).collect();
    let n_atoms = *ends.last().unwrap();
    let groups = AtomGroups::new(&(0..n_atoms).collect::<Vec<_>>(), &ends);
    let separation = Separation { chains: vec![0; n as usize], places: (0..n).collect(), separation: 2 };
    for (number, cell) in cells.iter().enumerate() {
        let (row, lattice) = (row(n_atoms as usize, number as u64), Lattice::from_cell(cell).unwrap());
        let pairs: Vec<_> = (0..n).flat_map(|first| (first + 2..n).map(move |second| [first, second])).collect();
        let mut scratch = LeastScratch::default();
        let mut values = vec![0.0; pairs.len()];
        let cpu = Cpu::detect();
        assert!(least_distances(cpu, (&groups, &row), &pairs, &lattice, &mut scratch, &mut values).unwrap());
        for (cutoff, cpu) in [(0.5, cpu), (4.5, cpu), (0.5, Cpu::baseline())] {
            let near: Vec<f64> = values.iter().copied().filter(|value| *value <= cutoff).collect();
            let mut found = vec![];
            near_groups(cpu, (&groups, &row), (&separation, cutoff), &lattice, &mut scratch, &mut found).unwrap();
            assert_eq!(found.iter().map(|one| one.distance).collect::<Vec<_>>(), near);
        }
    }
}
