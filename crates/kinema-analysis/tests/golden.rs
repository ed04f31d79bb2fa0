//! Kernels against golden values of MDAnalysis and of an independent fit (`tests/data/PROVENANCE.md`).

use kinema_analysis::{AtomsAndReference, Average, Fit, Rgyr, Rmsd, Rmsf, Superpose, Superposition};
use kinema_core::frame::{Block, Fields};
use kinema_core::reduce::{AtomMap, Buffers, FrameMut, Kernel, ResultArray, Transform};
use kinema_core::selection::AtomSelection;

const ATOMS: usize = 214;
const FRAMES: usize = 49;

/// The columns of a table by name.
struct Table(&'static str);

impl Table {
    fn column(&self, name: &str) -> Vec<f64> {
        let mut lines = self.0.lines();
        let at = lines.next().unwrap().split(',').position(|column| column == name).unwrap();
        lines.map(|line| line.split(',').nth(at).unwrap().parse().unwrap()).collect()
    }
}

const OF_ATOMS: Table = Table(include_str!("data/golden/adk_atoms.csv"));
const OF_FRAMES: Table = Table(include_str!("data/golden/adk_frames.csv"));
const FLUCTUATIONS: Table = Table(include_str!("data/golden/adk_fluctuations.csv"));

fn trajectory() -> Block {
    let bytes = include_bytes!("data/golden/adk_ca.f32");
    let mut block = Block::default();
    block.reset((0..FRAMES as u64).map(|i| 2 * i), ATOMS, Fields::POSITIONS);
    for (x, bytes) in block.positions.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *x = f32::from_le_bytes(*bytes);
    }
    for (stamp, time) in block.stamps.iter_mut().zip(OF_FRAMES.column("time")) {
        stamp.time = time;
    }
    block
}

fn members(name: &str) -> AtomSelection {
    let list = (0_u32..).zip(OF_ATOMS.column(name)).filter(|(_, member)| *member == 1.0).map(|(i, _)| i);
    AtomSelection::from_sorted(list.collect(), ATOMS as u32).unwrap()
}

fn all() -> AtomSelection {
    AtomSelection::all(ATOMS as u32)
}

/// A set with the first frame as reference.
fn on_first(set: AtomSelection, weighted: bool) -> AtomsAndReference {
    let block = trajectory();
    let xyz = |atom: u32| (0..3).map(move |c| atom as usize * 3 + c);
    let reference: Vec<f64> = set.iter().flat_map(xyz).map(|i| f64::from(block.positions[i])).collect();
    let weights = OF_ATOMS.column("weight");
    let weights: Vec<f64> = set.iter().map(|atom| weights[atom as usize]).collect();
    AtomsAndReference::new(set, &reference, weighted.then_some(&weights[..])).unwrap()
}

fn run<K: Kernel>(kernel: &K, block: &Block) -> Vec<ResultArray> {
    let maps: Vec<_> = kernel.needs().atom_sets.iter().map(|set| AtomMap::new(set, &all()).unwrap()).collect();
    let mut partial = kernel.empty();
    kernel.accumulate(&mut partial, &block.view(), &maps, &mut Buffers::default()).unwrap();
    kernel.finish(partial).unwrap()
}

/// The greatest difference between a column of values and the golden ones, which must stay below `most`.
fn compare(what: &str, found: &[f64], expected: &[f64], most: f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    assert!(found.iter().chain(expected).all(|value| value.is_finite()), "{what}");
    let greatest = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    println!("{what}: greatest difference {greatest:.2e}");
    assert!(greatest < most, "{what}: {greatest:e}");
}

fn nth_column(array: &ResultArray, at: usize) -> Vec<f64> {
    array.values.iter().skip(at).step_by(array.shape[1]).copied().collect()
}

#[test]
fn rmsd_is_that_of_mdanalysis() {
    for (weighted, name) in [(false, "plain"), (true, "weighted")] {
        let results = run(&Rmsd::new(on_first(all(), weighted), vec![], Fit::Superpose), &trajectory());
        assert_eq!(results[0].values, OF_FRAMES.column("time"));
        compare(&format!("svd {name}"), &results[1].values, &OF_FRAMES.column(&format!("svd_{name}")), 1e-11);
        let golden = OF_FRAMES.column(&format!("mda_{name}"));
        compare(&format!("mda {name}"), &results[1].values, &golden, 5e-7);
        compare(&format!("mda {name}, later frames"), &results[1].values[1..], &golden[1..], 1e-11);
    }
}

#[test]
fn groups_follow_the_motion_of_the_fitted_set() {
    let groups = ["lid", "nmp"].map(|name| on_first(members(name), true)).into();
    let results = run(&Rmsd::new(on_first(members("core"), true), groups, Fit::Superpose), &trajectory());
    assert_eq!(results[1].shape, [FRAMES, 3]);
    for (at, name) in ["core", "lid", "nmp"].into_iter().enumerate() {
        let values = nth_column(&results[1], at);
        compare(&format!("svd {name}"), &values, &OF_FRAMES.column(&format!("svd_{name}")), 1e-11);
        compare(&format!("mda {name}"), &values, &OF_FRAMES.column(&format!("mda_{name}")), 2e-6);
    }
}

#[test]
fn rmsd_without_rotation_is_that_of_mdanalysis() {
    for (fit, name) in [(Fit::Centre, "centred"), (Fit::None, "as_is")] {
        let results = run(&Rmsd::new(on_first(all(), true), vec![on_first(all(), true)], fit), &trajectory());
        for column in [0, 1] {
            compare(name, &nth_column(&results[1], column), &OF_FRAMES.column(name), 1e-11);
        }
    }
}

#[test]
fn radius_of_gyration_is_that_of_mdanalysis() {
    let weights = OF_ATOMS.column("weight");
    let results = run(&Rgyr::new(all(), Some(&weights), true).unwrap(), &trajectory());
    let total = nth_column(&results[1], 0);
    compare("rgyr", &total, &OF_FRAMES.column("mda_rgyr"), 1e-11);
    // Each square is counted in two of the three axes.
    let axes: Vec<f64> = results[1]
        .values
        .chunks_exact(4)
        .map(|row| (row[1..].iter().map(|value| value * value).sum::<f64>() / 2.0).sqrt())
        .collect();
    compare("rgyr from axes", &axes, &total, 1e-12);
}

#[test]
fn fluctuations_are_those_of_mdanalysis() {
    let results = run(&Rmsf::new(all()).unwrap(), &trajectory());
    compare("rmsf", &results[0].values, &FLUCTUATIONS.column("mda_rmsf"), 1e-11);
    let average = run(&Average::new(all()).unwrap(), &trajectory());
    assert_eq!(average[0], results[1], "both kernels sum alike");
    for (at, name) in ["x", "y", "z"].into_iter().enumerate() {
        compare(name, &nth_column(&average[0], at), &FLUCTUATIONS.column(name), 1e-11);
    }
}

#[test]
fn two_rounds_give_fluctuations_about_the_aligned_average() {
    let average = run(&Average::new(all()).unwrap(), &trajectory());
    let fitted = AtomsAndReference::new(all(), &average[0].values, Some(&OF_ATOMS.column("weight"))).unwrap();
    let transform = Superpose::new(fitted, Superposition::RotationAndTranslation);
    let maps = [AtomMap::new(&all(), &all()).unwrap()];
    let mut block = trajectory();
    let mut state = transform.state(&all(), &maps).unwrap();
    for (positions, stamp) in block.positions.chunks_exact_mut(ATOMS * 3).zip(&mut block.stamps) {
        let (velocities, forces) = (&mut [][..], &mut [][..]);
        let mut frame = FrameMut { number: 0, positions, velocities, forces, stamp, sets: &maps };
        transform.apply(&mut frame, &mut state).unwrap();
    }
    let results = run(&Rmsf::new(all()).unwrap(), &block);
    // Aligned positions are rounded to f32.
    compare("aligned rmsf", &results[0].values, &FLUCTUATIONS.column("aligned_rmsf"), 1e-6);
}
