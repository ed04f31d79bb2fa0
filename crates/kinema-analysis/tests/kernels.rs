//! The laws of every kernel, and the errors of kernels for arguments and blocks that do not fit.

use std::sync::Arc;

use kinema_analysis::superposition::AtomsAndReference;
use kinema_analysis::{Argument, Arguments, Cpu, KERNELS, Superpose, Superposition, laws, registry};
use kinema_core::frame::{Block, Fields, Stamp};
use kinema_core::reduce::{AnyKernel, AtomMap, BoundKernel, FrameMut, Transform, Workspace};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

const N_ATOMS: u32 = 40;
/// Number of atoms of a block: every second atom of the trajectory from 10 on, and those before 10.
const ATOMS: usize = 23;

fn block(rows: usize, n_atoms: usize) -> Block {
    let mut block = Block::default();
    block.reset((0..rows as u64).map(|i| 100 + 3 * i), n_atoms, Fields::POSITIONS);
    let mut state = 99_u64;
    for x in &mut block.positions {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *x = (state >> 40) as f32 / 4e5 + 50.0;
    }
    for (i, stamp) in block.stamps.iter_mut().enumerate() {
        let edge = 20.0 + 0.1 * i as f64;
        *stamp = Stamp { time: i as f64 * 0.1, cell: [[edge, 0.0, 0.0], [3.0, edge, 0.0], [0.0, 0.0, edge]], ..*stamp };
    }
    block
}

/// Every second atom from 10.
fn all() -> Vec<u32> {
    (0..ATOMS as u32).map(|i| 10 + 2 * i).collect()
}

fn some() -> Vec<u32> {
    vec![12, 16, 18, 30, 52]
}

fn kernel(name: &str, arguments: &Arguments) -> Result<Arc<dyn AnyKernel>> {
    registry::named(name)?.kernel(arguments)
}

fn of(atoms: Vec<u32>) -> Arguments {
    Arguments::new(1000).with("atoms", atoms)
}

fn reference(n_atoms: usize) -> Vec<[f64; 3]> {
    (0..n_atoms).map(|i| [0, 1, 2].map(|c| ((3 * i + c) * 7 % 11) as f64 * 1.3)).collect()
}

fn with_reference(atoms: Vec<u32>, weighted: bool) -> Arguments {
    let n_atoms = atoms.len();
    let weights: Vec<f64> = (0..n_atoms).map(|i| 1.0 + i as f64).collect();
    of(atoms).with("reference", reference(n_atoms)).with("weights", weighted.then_some(weights))
}

#[test]
fn every_kernel_keeps_the_laws() {
    // all atoms, and others in between and around
    for (n_atoms, more) in [(1, 0), (7, 0), (N_ATOMS, 0), (N_ATOMS, 5)] {
        let of_block = AtomSelection::all(n_atoms + more);
        let structure = reference(n_atoms as usize);
        for info in KERNELS {
            for arguments in (info.examples)(n_atoms, &structure) {
                let given = arguments
                    .iter()
                    .fold(Arguments::new(n_atoms + more), |given, (name, argument)| given.with(name, argument.clone()));
                let kernels =
                    [Cpu::detect(), Cpu::baseline()].map(|cpu| info.kernel(&given.clone().with_cpu(cpu)).unwrap());
                for rows in [2, 6, 19] {
                    let block = block(rows, of_block.len());
                    laws::check(&*kernels[0], &block.view(), &of_block).unwrap();
                    let bytes = kernels.each_ref().map(|kernel| {
                        let mut partial = kernel.empty();
                        let mut bound = BoundKernel::new(&**kernel, &of_block).unwrap();
                        bound.accumulate(&mut partial, &block.view(), &Workspace::default()).unwrap();
                        kernel.to_bytes(&partial).unwrap()
                    });
                    assert!(bytes[0] == bytes[1], "{}: another build gives other bits", info.id);
                }
            }
        }
    }
}

#[test]
fn every_kernel_has_a_name_of_its_own_and_its_own_id() {
    let names: std::collections::BTreeSet<_> = KERNELS.iter().map(|info| info.name()).collect();
    assert_eq!(names.len(), KERNELS.len());
    for info in KERNELS {
        assert!(info.version().parse::<u32>().is_ok(), "{}", info.id);
        let examples = (info.examples)(12, &reference(12));
        assert!(!examples.is_empty(), "{}", info.id);
        for arguments in examples {
            assert_eq!(info.kernel(&arguments).unwrap().id(), info.id);
        }
    }
}

fn run(kernel: &dyn AnyKernel, block: &Block) -> Result<Vec<f64>> {
    let atoms = AtomSelection::from_sorted(all(), 1000)?;
    let mut partial = kernel.empty();
    BoundKernel::new(kernel, &atoms)?.accumulate(&mut partial, &block.view(), &Workspace::default())?;
    Ok(kernel.finish(partial)?.pop().and_then(|array| array.values.of().map(<[f64]>::to_vec)).unwrap_or_default())
}

#[test]
fn atoms_in_any_order_give_the_same_bits_in_that_order() {
    let block = block(6, ATOMS);
    let order = [3, 0, 4, 1, 2];
    let mixed: Vec<u32> = order.map(|i| some()[i]).to_vec();
    let rows = |values: &[f64], width: usize| -> Vec<f64> {
        order.iter().flat_map(|&i| values[i * width..][..width].to_vec()).collect()
    };
    let result = |name: &str, arguments: &Arguments| run(&*kernel(name, arguments).unwrap(), &block).unwrap();
    assert_eq!(result("average", &of(mixed.clone())), rows(&result("average", &of(some())), 3));
    let masses = [1.0, 12.0, 14.0, 16.0, 32.0];
    let rgyr =
        |atoms: &[u32], masses: &[f64]| result("rgyr", &of(atoms.to_vec()).with("masses", masses).with("axes", true));
    assert_eq!(rgyr(&mixed, &rows(&masses, 1)), rgyr(&some(), &masses));
    let rmsd = |atoms: &[u32], reference: &[f64], weights: &[f64]| {
        let reference = reference.as_chunks::<3>().0.to_vec();
        result("rmsd", &of(atoms.to_vec()).with("reference", reference).with("weights", weights))
    };
    let flat = reference(5).as_flattened().to_vec();
    assert_eq!(rmsd(&mixed, &rows(&flat, 3), &rows(&masses, 1)), rmsd(&some(), &flat, &masses));
    // a repeated atom: a repeated row of results, but no atom that counts twice
    let twice = vec![30, 12, 30];
    assert_eq!(result("average", &of(twice.clone())).len(), 9);
    for error in [kernel("rgyr", &of(twice.clone())).err(), kernel("rmsd", &with_reference(twice, false)).err()] {
        assert_eq!(error.unwrap().to_string(), "atom index 30 is selected twice, expected each atom once");
    }
}

#[test]
fn a_position_that_is_not_finite_is_named_with_its_frame() {
    let mut bad = block(5, ATOMS);
    // The fifth atom of the block is atom 18 of the trajectory.
    bad.positions[3 * ATOMS * 3 + 4 * 3 + 1] = f32::NAN;
    let expect = |name: &str, arguments: &Arguments| {
        let error: Error = run(&*kernel(name, arguments).unwrap(), &bad).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert_eq!(error.to_string(), "frame 109: position of atom 19 (counted from 1) is not finite");
    };
    for atoms in [all(), some()] {
        expect("rmsf", &of(atoms.clone()));
        expect("average", &of(atoms.clone()));
        expect("rgyr", &of(atoms.clone()).with("axes", true));
        for fit in ["superpose", "center", "none"] {
            expect("rmsd", &with_reference(atoms.clone(), true).with("fit", fit));
        }
    }
    let others = with_reference(vec![10, 12, 50], false);
    run(&*kernel("rmsd", &others).unwrap(), &bad).unwrap();
    let group = vec![some().into(), reference(5).into(), Argument::None];
    expect("rmsd", &others.with("groups", vec![Argument::List(group)]));
}

#[test]
fn useless_arguments_are_refused_in_words() {
    let weights = |weights: &[f64]| of(some()).with("masses", weights);
    let refused = [
        kernel("rmsf", &of(vec![])).err(),
        kernel("average", &of(vec![])).err(),
        kernel("rgyr", &of(vec![])).err(),
        kernel("rgyr", &weights(&[1.0; 4])).err(),
        kernel("rgyr", &weights(&[0.0; 5])).err(),
        kernel("rmsd", &with_reference(vec![], false)).err(),
        kernel("rmsd", &of(some()).with("reference", reference(4))).err(),
        kernel("rmsd", &of(some()).with("reference", vec![[f64::NAN; 3]; 5])).err(),
        kernel("rmsd", &with_reference(some(), false).with("weights", vec![1.0, 1.0, -1.0, 1.0, 1.0])).err(),
        kernel("no_such_kernel", &of(some())).err(),
    ];
    for (i, error) in refused.into_iter().enumerate() {
        assert_eq!(error.unwrap_or_else(|| panic!("case {i}")).kind(), ErrorKind::InvalidArgument, "case {i}");
    }
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    let kernel = kernel("rmsf", &of(some())).unwrap();
    let atoms = AtomSelection::from_sorted(all(), 1000).unwrap();
    let mut partial = kernel.empty();
    let mut bound = BoundKernel::new(&*kernel, &atoms).unwrap();
    let mut without = block(3, ATOMS);
    without.reset([0, 1], ATOMS, Fields::NONE);
    for block in [block(3, ATOMS - 1), without] {
        let error = bound.accumulate(&mut partial, &block.view(), &Workspace::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
    }
    let fewer = AtomSelection::from_sorted(vec![12, 16], 1000).unwrap();
    assert_eq!(BoundKernel::new(&*kernel, &fewer).err().unwrap().kind(), ErrorKind::InvalidArgument);
}

fn superpose(mode: Superposition) -> Superpose {
    Superpose::new(AtomsAndReference::from_arguments(&with_reference(some(), true)).unwrap(), mode)
}

/// Applies it to all rows, which are of all atoms.
fn superposed(transform: &Superpose, block: &mut Block) -> Result<()> {
    let [atoms, set] = [all(), some()].map(|atoms| AtomSelection::from_sorted(atoms, 1000).unwrap());
    let sets = [AtomMap::new(&set, &atoms)?];
    let mut state = transform.state(&atoms, &sets)?;
    let width = 3 * ATOMS;
    for row in 0..block.rows() {
        let vectors = [&mut block.positions, &mut block.velocities, &mut block.forces];
        let vectors = vectors.map(|values| values.get_mut(row * width..(row + 1) * width).unwrap_or_default());
        let ([positions, velocities, forces], stamp) = (vectors, &mut block.stamps[row]);
        transform.apply(
            &mut FrameMut {
                number: 0,
                positions,
                velocities,
                forces,
                stamp,
                sets: &sets,
                shift: None,
                next_takes_shift: false,
            },
            &mut state,
        )?;
    }
    Ok(())
}

#[test]
fn superposed_rows_need_no_further_superposition() {
    let transform = superpose(Superposition::RotationAndTranslation);
    let mut moved = block(4, ATOMS);
    let rmsd = |fit: &str, block: &Block| {
        let group = vec![all().into(), reference(ATOMS).into(), Argument::None];
        let arguments = with_reference(some(), true).with("groups", vec![Argument::List(group)]).with("fit", fit);
        run(&*kernel("rmsd", &arguments).unwrap(), block).unwrap()
    };
    let before = rmsd("superpose", &moved);
    superposed(&transform, &mut moved).unwrap();
    for (before, after) in before.iter().zip(&rmsd("none", &moved)) {
        assert!((before - after).abs() < 1e-5, "{before} {after}");
    }
}

#[test]
fn a_transform_refuses_positions_of_its_set_that_are_not_finite() {
    let mut bad = block(1, ATOMS);
    bad.positions[4 * 3] = f32::INFINITY;
    let error = superposed(&superpose(Superposition::RotationAndTranslation), &mut bad).unwrap_err();
    assert_eq!(error.what(), "position of atom 19 (counted from 1) is not finite");
}

#[test]
fn a_rotation_turns_velocities_forces_and_cell_and_a_translation_none_of_them() {
    let lengths = [10.0, 20.0, 30.0];
    let moved = |mode| {
        let mut one = block(1, ATOMS);
        // a quarter turn about z
        for atom in one.positions.as_chunks_mut::<3>().0 {
            *atom = [-atom[1], atom[0], atom[2]];
        }
        (one.velocities, one.forces) = (one.positions.clone(), one.positions.clone());
        one.stamps[0].cell = [[lengths[0], 0.0, 0.0], [0.0, lengths[1], 0.0], [0.0, 0.0, lengths[2]]];
        one.stamps[0].present = Fields::ALL;
        let before = one.clone();
        superposed(&superpose(mode), &mut one).unwrap();
        (before, one)
    };
    let difference = |of: &[f32]| [0, 1, 2].map(|axis| f64::from(of[3 + axis]) - f64::from(of[axis]));
    let (before, after) = moved(Superposition::RotationAndTranslation);
    let cell = after.stamps[0].cell;
    // rows of the cell are the columns of the rotation, times their lengths
    let turned = |of: [f64; 3]| [0, 1, 2].map(|axis| (0..3).map(|i| cell[i][axis] / lengths[i] * of[i]).sum::<f64>());
    for (values, earlier) in [
        (&after.positions, &before.positions),
        (&after.velocities, &before.velocities),
        (&after.forces, &before.forces),
    ] {
        for (value, expected) in difference(values).into_iter().zip(turned(difference(earlier))) {
            assert!((value - expected).abs() < 1e-4, "{value} {expected}");
        }
    }
    assert!(cell[0][0] < 9.0, "{cell:?}");
    assert_ne!(after.velocities, after.positions, "vectors have no place");
    let (before, after) = moved(Superposition::Translation);
    assert_ne!(after.positions, before.positions);
    assert_eq!((&after.velocities, &after.forces, &after.stamps), (&before.velocities, &before.forces, &before.stamps));
}
