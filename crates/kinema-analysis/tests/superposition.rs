//! Superposition beyond ordinary structures: degenerate, mirrored, far away, not finite; and both builds of the loops.

use kinema_analysis::superposition::qcp::{Motion, Reference};
use kinema_analysis::{Cpu, Matrix3};
use kinema_core::ErrorKind;

/// Numbers between -0.5 and 0.5, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
    }

    fn cloud(&mut self, n_atoms: usize) -> Vec<f32> {
        (0..n_atoms * 3).map(|_| (self.next() * 40.0) as f32).collect()
    }

    fn rotation(&mut self) -> Matrix3 {
        let q: [f64; 4] = std::array::from_fn(|_| self.next());
        let f = 2.0 / q.iter().map(|v| v * v).sum::<f64>();
        let [w, x, y, z] = q;
        [
            [1.0 - f * (y * y + z * z), f * (x * y - w * z), f * (x * z + w * y)],
            [f * (x * y + w * z), 1.0 - f * (x * x + z * z), f * (y * z - w * x)],
            [f * (x * z - w * y), f * (y * z + w * x), 1.0 - f * (x * x + y * y)],
        ]
    }
}

fn wide(row: &[f32]) -> Vec<f64> {
    row.iter().map(|x| f64::from(*x)).collect()
}

fn moved(motion: &Motion, row: &[f32]) -> Vec<f64> {
    row.chunks_exact(3).flat_map(|x| motion.apply([x[0], x[1], x[2]].map(f64::from))).collect()
}

/// RMSD by its definition.
fn plain_rmsd(a: &[f64], b: &[f64], weights: &[f64]) -> f64 {
    let sum: f64 = a.iter().zip(b).enumerate().map(|(i, (a, b))| weights[i / 3] * (a - b).powi(2)).sum();
    (sum / weights.iter().sum::<f64>()).sqrt()
}

fn determinant(m: &Matrix3) -> f64 {
    let [a, b, c] = m;
    a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) + a[2] * (b[0] * c[1] - b[1] * c[0])
}

/// The RMSD is what the motion gives by definition, the motion is proper, and no small rotation is better.
fn check_optimal(reference: &[f64], row: &[f32], weights: Option<&[f64]>) -> f64 {
    let prepared = Reference::new(reference, weights).unwrap();
    let (rmsd, motion) = prepared.superpose(row).unwrap();
    let size = prepared.rmsd_after(&Motion { rotation: [[0.0; 3]; 3], ..motion }, row).unwrap() + 1e-30;
    let ones = vec![1.0; row.len() / 3];
    let weights = weights.unwrap_or(&ones);
    assert!(rmsd.is_finite() && rmsd >= 0.0);
    assert!((determinant(&motion.rotation) - 1.0).abs() < 1e-12, "{motion:?}");
    assert!((prepared.rmsd(row).unwrap() - rmsd).abs() < 1e-9 * size);
    assert!((plain_rmsd(&moved(&motion, row), reference, weights) - rmsd).abs() < 1e-8 * size);
    assert!((prepared.rmsd_after(&motion, row).unwrap() - rmsd).abs() < 1e-8 * size);
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        for angle in [-1e-3_f64, 1e-3, 3.0] {
            let mut turned = motion;
            for c in 0..3 {
                turned.rotation[a][c] = angle.cos() * motion.rotation[a][c] - angle.sin() * motion.rotation[b][c];
                turned.rotation[b][c] = angle.sin() * motion.rotation[a][c] + angle.cos() * motion.rotation[b][c];
            }
            assert!(plain_rmsd(&moved(&turned, row), reference, weights) >= rmsd - 1e-9 * size);
        }
    }
    rmsd
}

#[test]
fn superposition_of_clouds_is_optimal() {
    let mut random = Random(7);
    for n_atoms in [1, 2, 3, 4, 5, 7, 8, 33, 214] {
        let (reference, row) = (wide(&random.cloud(n_atoms)), random.cloud(n_atoms));
        let weights: Vec<f64> = (0..n_atoms).map(|_| random.next() + 0.6).collect();
        check_optimal(&reference, &row, None);
        check_optimal(&reference, &row, Some(&weights));
    }
}

#[test]
fn a_moved_structure_has_no_deviation() {
    let mut random = Random(11);
    for n_atoms in [1, 2, 3, 4, 100] {
        let row = random.cloud(n_atoms);
        assert!(check_optimal(&wide(&row), &row, None) < 1e-12);
        let motion = Motion { rotation: random.rotation(), from: [1.0, 2.0, 3.0], to: [-30.0, 20.0, 5.0] };
        assert!(check_optimal(&moved(&motion, &row), &row, None) < 1e-12);
    }
}

#[test]
fn degenerate_structures_are_superposed() {
    let mut random = Random(13);
    let line: Vec<f32> = (0..9).flat_map(|i| [i as f32, 2.0 * i as f32, -i as f32]).collect();
    let plane: Vec<f32> = (0..9).flat_map(|i| [i as f32, (i * i % 5) as f32, 0.0]).collect();
    let point = [4.0_f32, 5.0, 6.0].repeat(9);
    let square: Vec<f32> = vec![1., 0., 0., 0., 1., 0., -1., 0., 0., 0., -1., 0.];
    let cube: Vec<f32> = (0..8).flat_map(|i| [i & 1, i >> 1 & 1, i >> 2].map(|v| v as f32)).collect();
    let cloud = random.cloud(9);
    let mirror =
        |row: &[f32]| -> Vec<f32> { row.iter().enumerate().map(|(i, x)| if i % 3 == 0 { -x } else { *x }).collect() };
    let shapes = [&line, &plane, &point, &cloud];
    for a in shapes {
        for b in shapes {
            check_optimal(&wide(a), b, None);
        }
        check_optimal(&wide(a), &mirror(a), None);
        let motion = Motion { rotation: random.rotation(), ..Motion::NONE };
        check_optimal(&moved(&motion, a), &mirror(a), None);
    }
    for symmetric in [&square, &cube] {
        check_optimal(&wide(symmetric), &mirror(symmetric), None);
        let inverted: Vec<f32> = symmetric.iter().map(|x| -x).collect();
        check_optimal(&wide(symmetric), &inverted, None);
    }
}

#[test]
fn extreme_sizes_stay_finite() {
    let mut random = Random(17);
    let cloud = random.cloud(20);
    for factor in [1e-44_f32, 1e-30, 1e-12, 1e12, 1e36] {
        let row: Vec<f32> = cloud.iter().map(|x| x * factor).collect();
        let prepared = Reference::new(&wide(&row), None).unwrap();
        let (rmsd, motion) =
            prepared.superpose(&random.cloud(20).iter().map(|x| x * factor).collect::<Vec<_>>()).unwrap();
        assert!(rmsd.is_finite() && rmsd >= 0.0, "{factor}");
        assert!((determinant(&motion.rotation) - 1.0).abs() < 1e-12, "{factor}: {motion:?}");
    }
}

#[test]
fn accuracy_does_not_depend_on_the_distance_from_the_origin() {
    let mut random = Random(19);
    // Multiples of 1/64: the shifted f32 are exact.
    let on_grid = |row: Vec<f32>| -> Vec<f32> { row.iter().map(|x| (x * 64.0).round() / 64.0).collect() };
    let (reference, row) = (on_grid(random.cloud(214)), on_grid(random.cloud(214)));
    let prepared = Reference::new(&wide(&reference), None).unwrap();
    let near = prepared.rmsd(&row).unwrap();
    let far: Vec<f32> = row.iter().map(|x| x + 65536.0).collect();
    assert!((prepared.rmsd(&far).unwrap() - near).abs() < 1e-12);
}

#[test]
fn both_builds_give_the_same_bits() {
    let mut random = Random(23);
    for n_atoms in 1..40 {
        let (reference, row) = (wide(&random.cloud(n_atoms)), random.cloud(n_atoms));
        let weights: Vec<f64> = (0..n_atoms).map(|_| random.next() + 0.6).collect();
        for weights in [None, Some(&weights[..])] {
            let [fast, plain] =
                [Cpu::detect(), Cpu::baseline()].map(|cpu| Reference::with_build(cpu, &reference, weights).unwrap());
            assert_eq!(fast.rmsd(&row).unwrap().to_bits(), plain.rmsd(&row).unwrap().to_bits(), "{n_atoms}");
            assert_eq!(fast.superpose(&row).unwrap(), plain.superpose(&row).unwrap(), "{n_atoms}");
        }
    }
}

#[test]
fn positions_that_are_not_finite_are_corrupt() {
    let mut random = Random(29);
    let row = random.cloud(10);
    let weights: Vec<f64> = (0..10).map(|i| f64::from(i % 2)).collect();
    for weights in [None, Some(&weights[..])] {
        let prepared = Reference::new(&wide(&row), weights).unwrap();
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in 0..row.len() {
                let mut bad = row.clone();
                bad[at] = value;
                let error = prepared.rmsd(&bad).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                assert_eq!(
                    error.what(),
                    format!("position of atom {} of the set (counted from 1) is not finite", at / 3 + 1)
                );
                assert!(prepared.superpose(&bad).is_err() && prepared.rmsd_after(&Motion::NONE, &bad).is_err());
            }
        }
    }
    let prepared = Reference::new(&wide(&row), None).unwrap();
    assert_eq!(prepared.rmsd(&row[3..]).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
