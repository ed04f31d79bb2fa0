//! WholeRow molecules, wrapping and centring in cells of all kinds.

use crate::common::{Cell, Numbers, Vector, combined, plus, row};
use kinema_analysis::Cpu;
use kinema_analysis::transforms::center::Center;
use kinema_analysis::transforms::cluster::Cluster;
use kinema_analysis::transforms::nojump::Tracks;
use kinema_analysis::transforms::whole::{WholeRow, WholeScratch};
use kinema_analysis::transforms::wrap::{UnitCell, WrapRow};
use kinema_analysis::transforms::{Fault, Groups, Labels, Molecules, PeriodicCell};
use kinema_core::frame::Stamp;
use kinema_core::reduce::{AtomMap, FrameMut, Transform};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind};

const CELLS: [Cell; 5] = [
    [[30.0, 0.0, 0.0], [0.0, 40.0, 0.0], [0.0, 0.0, 50.0]],
    [[80.017_006, 0.0, 0.0], [0.0, 80.017_006, 0.0], [40.008_503, 40.008_503, 56.580_566]],
    [[40.0, 0.0, 0.0], [20.0, 35.0, 0.0], [-20.0, 17.5, 30.0]],
    // rotated and unreduced
    [[31.0, 2.0, 1.0], [73.0, 33.0, 5.0], [-7.0, 5.0, 23.0]],
    // left-handed
    [[0.0, 30.0, 0.0], [35.0, 3.0, 0.0], [0.0, 4.0, 40.0]],
];

fn whole(n_atoms: usize, bonds: &[[u32; 2]], cpu: Cpu) -> WholeRow {
    WholeRow::new(cpu, Molecules::new(n_atoms, bonds).unwrap())
}

fn periodic(cell: &Cell) -> PeriodicCell {
    PeriodicCell::new(cell, [true; 3]).unwrap()
}

/// A chain three times as long as the cell, then 200 triples, then a ring of 12; and their bonds.
fn molecules(numbers: &mut Numbers) -> (Vec<Vector>, Vec<[u32; 2]>) {
    let (mut positions, mut bonds) = (Vec::new(), Vec::new());
    for i in 0..101 {
        positions.push([f64::from(i) * 1.4, f64::from(i % 2), f64::from(i) * 0.3]);
        if i > 0 {
            bonds.push([i, i - 1]);
        }
    }
    for _ in 0..200 {
        let (first, at) = (numbers.vector(90.0), positions.len() as u32);
        positions.extend([first, plus(first, numbers.vector(1.8)), plus(first, numbers.vector(1.8))]);
        bonds.extend([[at, at + 1], [at, at + 2]]);
    }
    let at = positions.len() as u32;
    for i in 0..12 {
        let angle = f64::from(i) / 12.0 * std::f64::consts::TAU;
        positions.push([2.5 * angle.cos() + 14.0, 2.5 * angle.sin(), 0.1]);
        bonds.push([at + i, at + (i + 1) % 12]);
    }
    (positions, bonds)
}

#[test]
fn molecules_that_were_broken_anyhow_are_whole_again() {
    let mut numbers = Numbers(7);
    let (positions, bonds) = molecules(&mut numbers);
    for cell in &CELLS {
        let broken: Vec<Vector> = positions.iter().map(|&at| plus(at, combined(numbers.counts(4.0), cell))).collect();
        let given = row(&broken);
        let mut found = given.clone();
        let mut scratch = WholeScratch::default();
        let made = whole(positions.len(), &bonds, Cpu::detect());
        let moved = made.apply(&mut found, &periodic(cell), &mut scratch).unwrap();
        assert!(moved > 190, "{moved}");
        for (bond, [a, b]) in bonds.iter().enumerate() {
            for x in 0..3 {
                let [from, to] = [a, b].map(|&atom| f64::from(found[atom as usize * 3 + x]));
                let expected = positions[*b as usize][x] - positions[*a as usize][x];
                assert!((to - from - expected).abs() < 2e-4, "{cell:?} bond {bond}: {}", to - from - expected);
            }
        }
        // the first atom of each molecule stays
        assert_eq!(found[..3], given[..3]);
        // a whole molecule keeps its bits
        let mut again = found.clone();
        assert_eq!(made.apply(&mut again, &periodic(cell), &mut scratch).unwrap(), 0);
        assert!(again == found);
        assert_eq!(made.count_broken(&found, &periodic(cell), &mut scratch).unwrap(), 0);
        assert_eq!(made.count_broken(&given, &periodic(cell), &mut scratch).unwrap(), moved);
        // every processor gives the same
        let mut plain = given.clone();
        whole(positions.len(), &bonds, Cpu::baseline()).apply(&mut plain, &periodic(cell), &mut scratch).unwrap();
        assert!(plain == found);
    }
}

#[test]
fn a_molecule_that_goes_on_in_its_image_is_an_error() {
    let cell = CELLS[0];
    // five atoms across 30 angstrom, the last bonded to the image of the first
    let positions: Vec<Vector> = (0..5).map(|i| [f64::from(i) * 6.0 + 1.0, 0.0, 0.0]).collect();
    let bonds = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]];
    let fault = whole(5, &bonds, Cpu::detect())
        .apply(&mut row(&positions), &periodic(&cell), &mut WholeScratch::default())
        .unwrap_err();
    assert!(matches!(fault, Fault::OwnImage(0, _)), "{fault:?}");
    let message = fault.into_error(|column| u64::from(column) + 10).to_string();
    assert!(message.contains("atom 11 is bonded to its own image"), "{message}");
}

#[test]
fn what_has_no_place_is_named() {
    let cell = periodic(&CELLS[2]);
    let made = whole(6, &[[0, 1], [2, 3], [4, 5]], Cpu::detect());
    let apply = |atom: usize, value: f32| {
        let mut positions = vec![1.0; 18];
        positions[atom * 3 + 1] = value;
        made.apply(&mut positions, &cell, &mut WholeScratch::default()).unwrap_err()
    };
    assert_eq!(apply(3, f32::NAN), Fault::NotFinite(3));
    assert_eq!(apply(2, f32::INFINITY), Fault::NotFinite(2));
    assert_eq!(apply(5, 1e12), Fault::TooFar(5));
    assert!(PeriodicCell::new(&[[0.0; 3]; 3], [true; 3]).is_err());
    assert!(PeriodicCell::new(&CELLS[0], [false; 3]).is_err());
    assert!(PeriodicCell::new(&[[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 1.0]], [true; 3]).is_err());
    for shape in [UnitCell::Compact, UnitCell::Rect, UnitCell::Tric] {
        let wrap = WrapRow::new(Cpu::detect(), Groups::new(&[0, 0, 0, 1, 2, 3], None).unwrap(), shape);
        for (atom, value, fault) in [(2, f32::NAN, Fault::NotFinite(2)), (4, 1e12, Fault::TooFar(4))] {
            let mut positions = vec![1.0; 18];
            positions[atom * 3 + 2] = value;
            assert_eq!(wrap.apply(&mut positions, &cell, &mut Vec::new()).unwrap_err(), fault);
        }
    }
}

/// Reduced coordinates by Cramer's rule.
fn coordinates(vector: Vector, [a, b, c]: &Cell) -> Vector {
    let det = |a: &Vector, b: &Vector, c: &Vector| {
        a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) + a[2] * (b[0] * c[1] - b[1] * c[0])
    };
    let volume = det(a, b, c);
    [det(&vector, b, c) / volume, det(a, &vector, c) / volume, det(a, b, &vector) / volume]
}

fn at(row: &[f32], atom: usize) -> Vector {
    [0, 1, 2].map(|x| f64::from(row[atom * 3 + x]))
}

#[test]
fn atoms_come_home_by_whole_edges_and_stay() {
    let mut numbers = Numbers(11);
    for cell in &CELLS {
        let positions: Vec<Vector> = (0..1001)
            .map(|_| combined(numbers.vector(9.0), cell))
            .chain([[0.0; 3], combined([1.0; 3], cell)])
            .collect();
        let labels: Vec<u32> = (0..positions.len() as u32).collect();
        for shape in [UnitCell::Compact, UnitCell::Rect, UnitCell::Tric] {
            let mut found = row(&positions);
            let groups = Groups::new(&labels, None).unwrap();
            let wrap = WrapRow::new(Cpu::detect(), groups.clone(), shape);
            wrap.apply(&mut found, &periodic(cell), &mut Vec::new()).unwrap();
            let half = combined([0.5; 3], cell);
            for (atom, &from) in positions.iter().enumerate() {
                let to = at(&found, atom);
                let counts = coordinates(plus(to, from.map(|x| -x)), cell);
                assert!(counts.iter().all(|n| (n - n.round()).abs() < 1e-5), "{shape:?} {counts:?}");
                let inside = coordinates(to, cell);
                match shape {
                    UnitCell::Tric => assert!(inside.iter().all(|t| (-1e-6..1.0 + 1e-6).contains(t)), "{inside:?}"),
                    UnitCell::Rect if cell[0][1..] == [0.0; 2] && cell[1][2] == 0.0 => {
                        let room = if cell == &CELLS[0] { 0.0 } else { 1e-4 };
                        assert!((0..3).all(|x| to[x] >= -room && to[x] < cell[x][x] + room), "{to:?}");
                    }
                    UnitCell::Rect => {}
                    UnitCell::Compact => {
                        let near = plus(to, half.map(|x| -x));
                        let nearest = periodic(cell).lattice().nearest(near);
                        let squared = |v: Vector| v.iter().map(|x| x * x).sum::<f64>();
                        assert!(squared(near) <= squared(nearest) * (1.0 + 2e-5) + 1e-4);
                    }
                }
            }
            let mut again = found.clone();
            wrap.apply(&mut again, &periodic(cell), &mut Vec::new()).unwrap();
            assert!(again == found, "{shape:?} {cell:?}");
            let mut plain = row(&positions);
            WrapRow::new(Cpu::baseline(), groups, shape).apply(&mut plain, &periodic(cell), &mut Vec::new()).unwrap();
            assert!(plain == found);
        }
    }
}

#[test]
fn tracked_atoms_go_on_with_the_same_bits_wherever_they_are_in_a_row() {
    let mut numbers = Numbers(23);
    let n_atoms = 43;
    // all; the first ones, and some of the others; none of the first ones, in a different order
    let columns: [Vec<u32>; 3] = [
        (0..n_atoms).collect(),
        (0..n_atoms).filter(|i| *i < 13 || i % 3 == 0).collect(),
        (7..n_atoms - 2).rev().collect(),
    ];
    for cell in &CELLS {
        let mut walk: Vec<Vector> = (0..n_atoms).map(|_| combined(numbers.vector(1.0), cell)).collect();
        let begun = |columns: &Vec<u32>, cpu| {
            let mut tracks = Tracks::new(cpu, columns, n_atoms as usize);
            tracks.begin(|_| [0; 3]);
            tracks
        };
        let mut tracked =
            columns.clone().map(|columns| [Cpu::detect(), Cpu::baseline()].map(|cpu| begun(&columns, cpu)));
        let mut jumped = 0;
        for frame in 0..30 {
            // it breathes
            let cell = cell.map(|edge| edge.map(|x| x * (1.0 + 1e-3 * f64::from(frame % 7))));
            let wrapped: Vec<Vector> = walk
                .iter()
                .map(|&from| {
                    let inside = coordinates(from, &cell).map(|t| if frame == 0 { 0.0 } else { -t.round() });
                    jumped += usize::from(inside != [0.0; 3]);
                    plus(from, combined(inside, &cell))
                })
                .collect();
            for (columns, both) in columns.iter().zip(&mut tracked) {
                let mut rows = [row(&wrapped), row(&wrapped)];
                for (row, tracks) in rows.iter_mut().zip(both) {
                    tracks.follow(row, &periodic(&cell), frame == 0).unwrap();
                }
                assert!(rows[0] == rows[1], "{cell:?} frame {frame}");
                for atom in 0..n_atoms {
                    let is_tracked = columns.contains(&atom);
                    let expected = if is_tracked { walk[atom as usize] } else { wrapped[atom as usize] };
                    let off = plus(at(&rows[0], atom as usize), expected.map(|x| -x));
                    assert!(off.iter().all(|x| x.abs() < 1e-4), "{cell:?} frame {frame} atom {atom} {off:?}");
                }
            }
            walk.iter_mut().for_each(|at| *at = plus(*at, combined(numbers.vector(0.6), &cell)));
        }
        assert!(jumped > 300, "{jumped}");
    }
}

#[test]
fn groups_come_home_together_by_their_centres() {
    let mut numbers = Numbers(13);
    for cell in &CELLS {
        // groups of three, some of seven, and masses
        let sizes: Vec<usize> = (0..300).map(|i| if i % 37 == 5 { 7 } else { 3 }).collect();
        let (mut labels, mut masses, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        for (group, &size) in sizes.iter().enumerate() {
            let centre = combined(numbers.vector(5.0), cell);
            for i in 0..size {
                labels.push(group as u32);
                masses.push(if i == 0 { 16.0 } else { 1.0 });
                positions.push(plus(centre, numbers.vector(2.0)));
            }
        }
        for shape in [UnitCell::Compact, UnitCell::Rect, UnitCell::Tric] {
            let groups = Groups::new(&labels, Some(&masses)).unwrap();
            let wrap = WrapRow::new(Cpu::detect(), groups.clone(), shape);
            let mut found = row(&positions);
            wrap.apply(&mut found, &periodic(cell), &mut Vec::new()).unwrap();
            let rows = found.as_chunks::<3>().0;
            for group in 0..groups.len() {
                if shape == UnitCell::Tric {
                    let inside = coordinates(groups.center(group, rows), cell);
                    assert!(inside.iter().all(|t| (-1e-6..1.0 + 1e-6).contains(t)), "{inside:?}");
                }
                let atoms = groups.atoms(group);
                for &atom in atoms {
                    for x in 0..3 {
                        let of = |row: &[f32], atom: u32| f64::from(row[atom as usize * 3 + x]);
                        let before = positions[atom as usize][x] - positions[atoms[0] as usize][x];
                        assert!((of(&found, atom) - of(&found, atoms[0]) - before).abs() < 1e-4);
                    }
                }
            }
            let mut again = found.clone();
            wrap.apply(&mut again, &periodic(cell), &mut Vec::new()).unwrap();
            assert!(again == found, "{shape:?}");
            let mut plain = row(&positions);
            WrapRow::new(Cpu::baseline(), groups, shape).apply(&mut plain, &periodic(cell), &mut Vec::new()).unwrap();
            assert!(plain == found);
        }
    }
}

#[test]
fn groups_come_home_with_the_same_bits_whichever_others_there_are() {
    let mut numbers = Numbers(19);
    for cell in &CELLS {
        let (mut labels, mut positions): (Vec<u32>, Vec<Vector>) = (Vec::new(), Vec::new());
        for group in 0..90 {
            let centre = combined(numbers.vector(3.0), cell);
            for _ in 0..[1, 3, 3, 4, 1, 9][group as usize % 6] {
                labels.push(group);
                positions.push(plus(centre, numbers.vector(2.0)));
            }
        }
        for shape in [UnitCell::Compact, UnitCell::Rect, UnitCell::Tric] {
            let wrapped = |labels: &[u32]| {
                let wrap = WrapRow::new(Cpu::detect(), Groups::new(labels, None).unwrap(), shape);
                let mut found = row(&positions);
                wrap.apply(&mut found, &periodic(cell), &mut Vec::new()).unwrap();
                found
            };
            let together = wrapped(&labels);
            let mut moved = 0;
            for group in 0..90 {
                let of_group = |label: &u32| if *label == group { group } else { Groups::NONE };
                let alone = wrapped(&labels.iter().map(of_group).collect::<Vec<_>>());
                for atom in (0..labels.len()).filter(|&atom| labels[atom] == group) {
                    assert_eq!(alone[3 * atom..][..3], together[3 * atom..][..3], "{shape:?} {cell:?} group {group}");
                    moved += usize::from(at(&alone, atom) != positions[atom].map(|x| f64::from(x as f32)));
                }
            }
            assert!(moved > 100, "{moved}");
        }
    }
}

#[test]
fn groups_of_one_atom_may_be_in_any_order() {
    let mut numbers = Numbers(23);
    for cell in &CELLS {
        // many atoms on faces, which are examined by themselves
        let positions: Vec<Vector> = (0..203)
            .map(|atom| combined(numbers.vector(3.0).map(|x| if atom % 3 == 0 { x.round() } else { x }), cell))
            .collect();
        for shape in [UnitCell::Compact, UnitCell::Rect, UnitCell::Tric] {
            let [ascending, descending] = [(0..203).collect::<Vec<u32>>(), (0..203).rev().collect()].map(|labels| {
                let wrap = WrapRow::new(Cpu::detect(), Groups::new(&labels, None).unwrap(), shape);
                let mut found = row(&positions);
                wrap.apply(&mut found, &periodic(cell), &mut Vec::new()).unwrap();
                found
            });
            assert!(ascending == descending, "{shape:?} {cell:?}");
        }
    }
}

#[test]
fn open_edges_are_not_crossed() {
    let slab = PeriodicCell::new(&CELLS[2], [true, true, false]).unwrap();
    let far = combined([5.5, -3.5, 3.25], &CELLS[2]);
    for shape in [UnitCell::Compact, UnitCell::Rect, UnitCell::Tric] {
        let mut found = row(&[far; 5]);
        let wrap = WrapRow::new(Cpu::detect(), Groups::new(&[0, 1, 2, 3, 4], None).unwrap(), shape);
        wrap.apply(&mut found, &slab, &mut Vec::new()).unwrap();
        let counts = coordinates(plus(at(&found, 0), far.map(|x| -x)), &CELLS[2]);
        assert!(counts[2].abs() < 1e-5 && counts[0].abs() > 0.5, "{shape:?} {counts:?}");
        assert_eq!(at(&found, 0)[2], f64::from(far[2] as f32));
    }
}

/// A stack of one transform, on all atoms of frames.
fn apply<T: Transform>(transform: &T, positions: &mut [f32], cell: Cell) -> Result<(), Error> {
    let all = AtomSelection::all(positions.len() as u32 / 3);
    let sets: Vec<AtomMap> =
        transform.needs().atom_sets.iter().map(|set| AtomMap::new(set, &all)).collect::<Result<_, _>>()?;
    let mut state = transform.state(&all, &sets)?;
    let mut stamp = Stamp { cell, ..Stamp::default() };
    let (velocities, forces) = (&mut [][..], &mut [][..]);
    let frame = &mut FrameMut {
        number: 0,
        positions,
        velocities,
        forces,
        stamp: &mut stamp,
        sets: &sets,
        shift: None,
        next_takes_shift: false,
    };
    transform.apply(frame, &mut state)
}

#[test]
fn all_atoms_move_with_the_centre_of_some() {
    let mut positions = row(&[[1.0, 2.0, 3.0], [3.0, 2.0, 5.0], [-7.0, 0.0, 1.0]]);
    let pair =
        |masses: Option<&[f64]>, point| Center::new(AtomSelection::new(vec![1, 0], 3).unwrap(), masses, point).unwrap();
    apply(&pair(None, None), &mut positions, CELLS[2]).unwrap();
    assert_eq!(positions, row(&[[19.0, 26.25, 14.0], [21.0, 26.25, 16.0], [11.0, 24.25, 12.0]]));
    apply(&pair(Some(&[1.0, 3.0]), Some([0.0; 3])), &mut positions, [[0.0; 3]; 3]).unwrap();
    assert_eq!(positions[..3], [-0.5, 0.0, -0.5]);
    assert_eq!(apply(&pair(None, None), &mut positions, [[0.0; 3]; 3]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    positions[4] = f32::NAN;
    assert_eq!(apply(&pair(None, None), &mut positions, CELLS[2]).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn molecules_stay_together_around_the_anchor_in_any_cell() {
    let mut numbers = Numbers(17);
    for cell in &CELLS {
        // a chain of molecules that is longer than the cell, each near the one before
        let positions: Vec<Vector> =
            (0..24).map(|i| [2.0 * f64::from(i), f64::from(i % 3), 0.5 * f64::from(i)]).collect();
        let mut found: Vec<f32> = Vec::new();
        for pair in positions.chunks(2) {
            let by = combined(numbers.counts(3.0), cell);
            found.extend(row(&[plus(pair[0], by), plus(pair[1], by)]));
        }
        let labels = Labels::new((0..24).map(|atom| atom / 2 * 2).collect()).unwrap();
        let anchor = found[12..18].to_vec();
        let together = Cluster::new(labels, None, 5).unwrap();
        apply(&together, &mut found, *cell).unwrap();
        assert_eq!(found[12..18], anchor, "the anchor stays");
        for (atom, position) in positions.iter().enumerate() {
            for x in 0..3 {
                let apart = f64::from(found[3 * atom + x]) - f64::from(found[12 + x]);
                assert!((apart - (position[x] - positions[4][x])).abs() < 1e-4, "{cell:?} atom {atom}");
            }
        }
        let again = found.clone();
        apply(&together, &mut found, *cell).unwrap();
        assert!(found == again);
    }
}

#[test]
fn an_anchor_in_no_molecule_is_named_as_people_count() {
    let labels = vec![Groups::NONE, 1, 1, Groups::NONE];
    for (anchor, number) in [(0, "1"), (3, "4"), (u32::MAX, "4294967296")] {
        let error = Cluster::new(Labels::new(labels.clone()).unwrap(), None, anchor).unwrap_err();
        let what = format!("atom {number} (counted from 1) is in none of the molecules that are to stay together");
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::InvalidArgument, what));
    }
}
