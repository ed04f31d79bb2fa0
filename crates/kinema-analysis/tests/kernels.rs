//! The laws of every kernel, and what kernels answer to arguments and blocks that do not fit.

use kinema_analysis::{AtomsAndReference, Average, Fit, Rgyr, Rmsd, Rmsf, Superpose, Superposition, laws};
use kinema_core::frame::{Block, Fields, Stamp};
use kinema_core::reduce::{AtomMap, Buffers, FrameMut, Kernel, Transform};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

const ATOMS: usize = 23;

fn block(rows: usize) -> Block {
    let mut block = Block::default();
    block.reset((0..rows as u64).map(|i| 100 + 3 * i), ATOMS, Fields::POSITIONS);
    let mut state = 99_u64;
    for x in &mut block.positions {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *x = (state >> 40) as f32 / 4e5 + 50.0;
    }
    for (i, time) in block.stamps.iter_mut().map(|stamp| &mut stamp.time).enumerate() {
        *time = i as f64 * 0.1;
    }
    block
}

/// The block's atoms are every second of the trajectory's, from 10.
fn all() -> AtomSelection {
    AtomSelection::from_sorted((0..ATOMS as u32).map(|i| 10 + 2 * i).collect(), 1000).unwrap()
}

fn some() -> AtomSelection {
    AtomSelection::from_sorted(vec![12, 16, 18, 30, 52], 1000).unwrap()
}

fn with_reference(atoms: AtomSelection, weighted: bool) -> AtomsAndReference {
    let reference: Vec<f64> = (0..atoms.len() * 3).map(|i| ((i * 7) % 11) as f64 * 1.3).collect();
    let weights: Vec<f64> = (0..atoms.len()).map(|i| 1.0 + i as f64).collect();
    AtomsAndReference::new(atoms, &reference, weighted.then_some(&weights[..])).unwrap()
}

fn check<K: Kernel>(kernel: &K) {
    for rows in [2, 6, 19] {
        laws::check(kernel, &block(rows).view(), &all()).unwrap();
    }
}

#[test]
fn every_kernel_keeps_the_laws() {
    for atoms in [all(), some()] {
        check(&Rmsf::new(atoms.clone()).unwrap());
        check(&Average::new(atoms.clone()).unwrap());
        check(&Rgyr::new(atoms.clone(), None, false).unwrap());
        check(&Rgyr::new(atoms.clone(), Some(&vec![2.0; atoms.len()]), true).unwrap());
        for fit in [Fit::None, Fit::Centre, Fit::Superpose] {
            check(&Rmsd::new(with_reference(atoms.clone(), true), vec![], fit));
            check(&Rmsd::new(
                with_reference(some(), false),
                vec![with_reference(atoms.clone(), true), with_reference(some(), false)],
                fit,
            ));
        }
    }
}

fn run<K: Kernel>(kernel: &K, block: &Block) -> Result<Vec<f64>> {
    let maps = kernel.needs().atom_sets.iter().map(|set| AtomMap::new(set, &all())).collect::<Result<Vec<_>>>()?;
    let mut partial = kernel.empty();
    kernel.accumulate(&mut partial, &block.view(), &maps, &mut Buffers::default())?;
    Ok(kernel.finish(partial)?.pop().map(|array| array.values).unwrap_or_default())
}

#[test]
fn atoms_in_any_order_give_the_same_bits_in_that_order() {
    let block = block(6);
    let order = [3, 0, 4, 1, 2];
    let sorted: Vec<u32> = some().iter().collect();
    let mixed = AtomSelection::new(order.map(|i| sorted[i]).to_vec(), 1000).unwrap();
    let rows = |values: &[f64], width: usize| -> Vec<f64> {
        order.iter().flat_map(|&i| values[i * width..][..width].to_vec()).collect()
    };
    let expected = run(&Average::new(some()).unwrap(), &block).unwrap();
    assert_eq!(run(&Average::new(mixed.clone()).unwrap(), &block).unwrap(), rows(&expected, 3));
    let masses = [1.0, 12.0, 14.0, 16.0, 32.0];
    let expected = run(&Rgyr::new(some(), Some(&masses), true).unwrap(), &block).unwrap();
    assert_eq!(run(&Rgyr::new(mixed.clone(), Some(&rows(&masses, 1)), true).unwrap(), &block).unwrap(), expected);
    let reference: Vec<f64> = (0..15).map(|i| f64::from(i * 7 % 11) * 1.3).collect();
    let rmsd = |atoms: &AtomSelection, reference: &[f64], weights: &[f64]| {
        let fitted = AtomsAndReference::new(atoms.clone(), reference, Some(weights)).unwrap();
        run(&Rmsd::new(fitted, vec![], Fit::Superpose), &block).unwrap()
    };
    assert_eq!(rmsd(&mixed, &rows(&reference, 3), &rows(&masses, 1)), rmsd(&some(), &reference, &masses));
    // a repeated atom: a repeated row of results, but no atom that counts twice
    let twice = AtomSelection::new(vec![30, 12, 30], 1000).unwrap();
    assert_eq!(run(&Average::new(twice.clone()).unwrap(), &block).unwrap().len(), 9);
    for error in [
        Rgyr::new(twice.clone(), None, false).unwrap_err(),
        AtomsAndReference::new(twice, &[0.0; 9], None).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), "atom index 30 is selected twice, expected each atom once");
    }
}

#[test]
fn a_position_that_is_not_finite_is_named_with_its_frame() {
    let mut bad = block(5);
    // The fifth atom of the block is atom 18 of the trajectory.
    bad.positions[3 * ATOMS * 3 + 4 * 3 + 1] = f32::NAN;
    let expect = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.to_string(), "frame 109: position of atom 19 (counted from 1) is not finite");
    };
    for atoms in [all(), some()] {
        expect(run(&Rmsf::new(atoms.clone()).unwrap(), &bad).unwrap_err());
        expect(run(&Average::new(atoms.clone()).unwrap(), &bad).unwrap_err());
        expect(run(&Rgyr::new(atoms.clone(), None, true).unwrap(), &bad).unwrap_err());
        expect(run(&Rmsd::new(with_reference(atoms.clone(), true), vec![], Fit::Superpose), &bad).unwrap_err());
        expect(run(&Rmsd::new(with_reference(atoms, true), vec![], Fit::None), &bad).unwrap_err());
    }
    let others = AtomSelection::from_sorted(vec![10, 12, 50], 1000).unwrap();
    run(&Rmsd::new(with_reference(others.clone(), false), vec![], Fit::Superpose), &bad).unwrap();
    let grouped = Rmsd::new(with_reference(others, false), vec![with_reference(some(), false)], Fit::Superpose);
    expect(run(&grouped, &bad).unwrap_err());
}

#[test]
fn useless_arguments_are_refused_in_words() {
    let none = AtomSelection::from_sorted(vec![], 1000).unwrap();
    let refused = [
        Rmsf::new(none.clone()).err(),
        Average::new(none.clone()).err(),
        Rgyr::new(none.clone(), None, false).err(),
        Rgyr::new(some(), Some(&[1.0; 4]), false).err(),
        Rgyr::new(some(), Some(&[0.0; 5]), false).err(),
        AtomsAndReference::new(none, &[], None).err(),
        AtomsAndReference::new(some(), &[0.0; 14], None).err(),
        AtomsAndReference::new(some(), &[f64::NAN; 15], None).err(),
        AtomsAndReference::new(some(), &[0.0; 15], Some(&[1.0, 1.0, -1.0, 1.0, 1.0])).err(),
    ];
    for (i, error) in refused.into_iter().enumerate() {
        assert_eq!(error.unwrap_or_else(|| panic!("case {i}")).kind(), ErrorKind::InvalidArgument, "case {i}");
    }
    let error = AtomsAndReference::new(some(), &[0.0; 14], None).unwrap_err();
    assert_eq!(error.what(), "wrong size of the reference, expected 5 atoms x 3, found 14 values");
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    let kernel = Rmsf::new(some()).unwrap();
    let block = block(3);
    let mut partial = kernel.empty();
    let wrong = AtomMap::new(&all(), &all()).unwrap();
    for maps in [vec![], vec![wrong]] {
        let error = kernel.accumulate(&mut partial, &block.view(), &maps, &mut Buffers::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
    }
    let mut without = block.clone();
    without.reset([0, 1], ATOMS, Fields::NONE);
    let maps = [AtomMap::new(&some(), &all()).unwrap()];
    let error = kernel.accumulate(&mut partial, &without.view(), &maps, &mut Buffers::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
}

/// Applies a transform of the set `some` to all rows, which are of all atoms.
fn superpose(transform: &Superpose, block: &mut Block) -> kinema_core::Result<()> {
    let sets = [AtomMap::new(&some(), &all())?];
    let mut state = transform.state(&all(), &sets)?;
    let rows = block.positions.chunks_exact_mut(ATOMS * 3).zip(&mut block.stamps);
    for (number, (positions, stamp)) in rows.enumerate() {
        let (velocities, forces, number) = (&mut [][..], &mut [][..], number as u64);
        transform.apply(&mut FrameMut { number, positions, velocities, forces, stamp, sets: &sets }, &mut state)?;
    }
    Ok(())
}

#[test]
fn superposed_rows_need_no_further_superposition() {
    let fitted = with_reference(some(), true);
    let transform = Superpose::new(fitted.clone(), Superposition::RotationAndTranslation);
    let mut moved = block(4);
    let before = run(&Rmsd::new(fitted.clone(), vec![with_reference(all(), false)], Fit::Superpose), &moved).unwrap();
    superpose(&transform, &mut moved).unwrap();
    let after = run(&Rmsd::new(fitted, vec![with_reference(all(), false)], Fit::None), &moved).unwrap();
    for (before, after) in before.iter().zip(&after) {
        assert!((before - after).abs() < 1e-5, "{before} {after}");
    }
}

#[test]
fn a_transform_refuses_positions_of_its_set_that_are_not_finite() {
    let transform = Superpose::new(with_reference(some(), true), Superposition::RotationAndTranslation);
    let mut bad = block(1);
    bad.positions[4 * 3] = f32::INFINITY;
    let error = superpose(&transform, &mut bad).unwrap_err();
    assert_eq!(error.what(), "position of atom 19 (counted from 1) is not finite");
}

#[test]
fn a_rotation_turns_velocities_forces_and_cell_and_a_translation_none_of_them() {
    let turned = |mode| {
        let transform = Superpose::new(with_reference(all(), false), mode);
        let sets = [AtomMap::new(&all(), &all()).unwrap()];
        let mut state = transform.state(&all(), &sets).unwrap();
        let (mut positions, mut stamp) = (block(1).positions, Stamp::default());
        // a quarter turn about z
        for atom in positions.as_chunks_mut::<3>().0 {
            *atom = [-atom[1], atom[0], atom[2]];
        }
        (stamp.cell, stamp.present) = ([[10.0, 0.0, 0.0], [0.0, 20.0, 0.0], [0.0, 0.0, 30.0]], Fields::CELL);
        let before = positions.clone();
        let (mut velocities, mut forces) = (positions.clone(), positions.clone());
        let (v, f) = (&mut velocities, &mut forces);
        let mut frame =
            FrameMut { number: 0, positions: &mut positions, velocities: v, forces: f, stamp: &mut stamp, sets: &sets };
        transform.apply(&mut frame, &mut state).unwrap();
        (before, positions, velocities, forces, stamp.cell)
    };
    let (before, positions, velocities, forces, cell) = turned(Superposition::RotationAndTranslation);
    // differences of positions turn as vectors do
    let difference = |of: &[f32], axis: usize| f64::from(of[3 + axis]) - f64::from(of[axis]);
    let rotate = |of: [f64; 3]| {
        let first_row: Vec<f64> = cell.iter().zip([10.0, 20.0, 30.0]).map(|(row, length)| row[0] / length).collect();
        first_row.iter().zip(of).map(|(a, b)| a * b).sum::<f64>()
    };
    let expected = rotate([0, 1, 2].map(|axis| difference(&before, axis)));
    assert!((difference(&positions, 0) - expected).abs() < 1e-4);
    assert!((difference(&velocities, 0) - expected).abs() < 1e-4);
    assert_eq!(velocities, forces);
    assert!(cell[0][0].abs() < 9.0, "{cell:?}");
    let (before, positions, velocities, forces, cell) = turned(Superposition::Translation);
    assert!((difference(&positions, 0) - difference(&before, 0)).abs() < 1e-5);
    assert_eq!((&velocities, &forces), (&before, &before));
    assert_eq!(cell, [[10.0, 0.0, 0.0], [0.0, 20.0, 0.0], [0.0, 0.0, 30.0]]);
}
