//! Wrapping of many atoms, most of which are examined by estimates: each has the same bits as alone.

use crate::common::{Cell, Numbers, Vector, combined, plus, row};
use kinema_analysis::Cpu;
use kinema_analysis::transforms::wrap::{UnitCell, WrapRow};
use kinema_analysis::transforms::{Fault, Groups, PeriodicCell};

const DODECAHEDRON: Cell = [[80.017_006, 0.0, 0.0], [0.0, 80.017_006, 0.0], [40.008_503, 40.008_503, 56.580_566]];

/// Cells of all kinds, some of them skewed or flat.
fn any_cell(numbers: &mut Numbers) -> Cell {
    let sizes = [0; 3].map(|_| 20.0 + 80.0 * numbers.next().powi(3));
    let skew = if numbers.next() < 0.3 { 3.0 } else { 0.6 };
    let mut cell = [0, 1, 2].map(|i| {
        let along = numbers.vector(skew).map(|x| x * sizes[i]);
        [0, 1, 2].map(|x| if x == i { sizes[i] } else { along[x] })
    });
    if numbers.next() < 0.5 {
        // as most programs write them
        [cell[0][1], cell[0][2], cell[1][2]] = [0.0; 3];
    }
    cell.map(|edge| edge.map(|x| f64::from(x as f32)))
}

#[test]
fn many_atoms_come_home_with_the_bits_that_each_has_alone() {
    let (mut numbers, mut moved, mut on_faces) = (Numbers(61), 0, 0);
    for cell in [DODECAHEDRON].into_iter().chain((0..60).map(|seed| any_cell(&mut Numbers(seed)))) {
        let Ok(periodic) = PeriodicCell::new(&cell, [true; 3]) else { continue };
        let middle = periodic.middle();
        let positions: Vec<Vector> = (0..16 * 70 + 7)
            .map(|atom| match atom / 16 % 7 {
                // all inside of it, on faces, beside them, near the lattice point on the far side of a face, and far
                // away
                0 => plus(middle, combined(numbers.vector(0.1), &cell)),
                1 if atom % 16 == 3 => plus(middle, combined(numbers.counts(1.0).map(|x| 0.5 * x), &cell)),
                2 if atom % 16 == 5 => {
                    let near = numbers.counts(2.0).map(|x| 0.5 * x + 1e-5 * (numbers.next() - 0.5));
                    plus(middle, combined(near, &cell))
                }
                3 if atom % 16 == 7 => combined(numbers.vector(40.0), &cell),
                4 if atom % 16 == 9 => combined(numbers.vector(4000.0), &cell),
                5 => [-0.0, 0.0, -0.0],
                _ => combined(numbers.vector(3.0), &cell),
            })
            .collect();
        let positions = row(&positions);
        for shape in [UnitCell::Compact, UnitCell::Rect, UnitCell::Tric] {
            // rows of one atom are examined one by one
            let alone = WrapRow::new(Cpu::detect(), Groups::new(&[0], None).unwrap(), shape);
            let mut expected = positions.clone();
            for atom in expected.chunks_mut(3) {
                alone.apply(atom, &periodic, &mut Vec::new()).unwrap();
            }
            for cpu in [Cpu::detect(), Cpu::baseline()] {
                let labels: Vec<u32> = (0..positions.len() as u32 / 3).collect();
                let wrap = WrapRow::new(cpu, Groups::new(&labels, None).unwrap(), shape);
                let mut found = positions.clone();
                wrap.apply(&mut found, &periodic, &mut Vec::new()).unwrap();
                let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert!(bits(&found) == bits(&expected), "{shape:?} {cell:?} {cpu:?}");
                // what has come home stays, in rows where most are inside
                wrap.apply(&mut found, &periodic, &mut Vec::new()).unwrap();
                assert!(shape != UnitCell::Compact || bits(&found) == bits(&expected), "{cell:?} {cpu:?}");
            }
            moved += expected.iter().zip(&positions).filter(|(one, other)| one != other).count();
            on_faces += usize::from(shape == UnitCell::Compact);
        }
    }
    assert!(moved > 100_000 && on_faces > 50, "{moved} {on_faces}");
}

#[test]
fn what_is_not_finite_among_many_atoms_is_named() {
    let periodic = PeriodicCell::new(&DODECAHEDRON, [true; 3]).unwrap();
    let labels: Vec<u32> = (0..200).collect();
    for shape in [UnitCell::Compact, UnitCell::Rect, UnitCell::Tric] {
        let wrap = WrapRow::new(Cpu::detect(), Groups::new(&labels, None).unwrap(), shape);
        for (value, fault) in [
            (f32::NAN, Fault::NotFinite(77)),
            (f32::INFINITY, Fault::NotFinite(77)),
            (3e38, Fault::TooFar(77)),
            (1.7e8, Fault::TooFar(77)),
        ] {
            for x in 0..3 {
                let mut positions = row(&vec![[100.0, 30.0, 20.0]; 200]);
                positions[3 * 77 + x] = value;
                let found = wrap.apply(&mut positions, &periodic, &mut Vec::new());
                assert_eq!(found, Err(fault.clone()), "{shape:?} {value} {x}");
            }
        }
    }
}

#[test]
fn atoms_on_the_face_of_a_cell_that_is_longer_by_less_than_they_can_say_are_inside_of_it() {
    let length = 62_f64.next_up();
    for (periodic, edges) in [([true; 3], [length; 3]), ([true, false, true], [length, 0.0, -length])] {
        let cell: Cell = [0, 1, 2].map(|i| [0, 1, 2].map(|x| if x == i { edges[i] } else { 0.0 }));
        let cell = PeriodicCell::new(&cell, periodic).unwrap();
        for shape in [UnitCell::Rect, UnitCell::Tric] {
            // 62 times the inverse of the length is 1, and less than that is rounded to 62
            let mut found = [62.0, -1e-9, 31.0, -1e-9, 62.0, 31.0, 124.0, 0.0, -62.0, -0.0, 7.5, 62.0_f32.next_up()];
            let mut unsure = Vec::new();
            let n_atoms = found.len() / 3;
            let groups = Groups::new(&(0..n_atoms as u32).collect::<Vec<_>>(), None).unwrap();
            WrapRow::new(Cpu::detect(), groups, shape).apply(&mut found, &cell, &mut unsure).unwrap();
            for (at, x) in found.into_iter().enumerate().filter(|(at, _)| edges[at % 3] != 0.0) {
                let share = f64::from(x) / edges[at % 3];
                assert!((0.0..1.0).contains(&share), "{shape:?} {edges:?} {at} {x}");
            }
        }
    }
}

#[test]
fn where_atoms_are_along_open_edges_changes_nothing_along_the_others() {
    let slab: Cell = [[5.0, 0.0, 0.0], [2.0, 6.0, 0.0], [0.0, 0.0, 0.0]];
    let wire: Cell = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [5.0, 0.0, 0.0]];
    for cell in [slab, wire] {
        let cell = PeriodicCell::new(&cell, [true; 3]).unwrap();
        let wrapped = |z: f32| {
            let mut row: Vec<f32> = (0..37).flat_map(|i| [0.75 * i as f32 - 13.5, 1.0, z]).collect();
            let groups = Groups::new(&(0..37).collect::<Vec<_>>(), None).unwrap();
            WrapRow::new(Cpu::detect(), groups, UnitCell::Compact).apply(&mut row, &cell, &mut Vec::new()).unwrap();
            row.chunks(3).map(|atom| [atom[0], atom[1]]).collect::<Vec<_>>()
        };
        let near = wrapped(0.0);
        assert!(near.iter().all(|[x, _]| (-5.0..10.0).contains(x)), "{near:?}");
        assert_eq!(wrapped(4000.0), near);
    }
}
