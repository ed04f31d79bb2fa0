//! Kernels against golden values of MDAnalysis and of an independent fit (`tests/data/PROVENANCE.md`).

use kinema_analysis::superposition::AtomsAndReference;
use kinema_analysis::{Argument, Arguments, Superpose, Superposition, registry};
use kinema_core::frame::{Block, Fields};
use kinema_core::reduce::{AtomMap, BoundKernel, FrameMut, ResultArray, Transform, Workspace};
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

fn members(name: &str) -> Vec<u32> {
    (0_u32..).zip(OF_ATOMS.column(name)).filter(|(_, member)| *member == 1.0).map(|(i, _)| i).collect()
}

fn all() -> Vec<u32> {
    (0..ATOMS as u32).collect()
}

fn of(atoms: Vec<u32>) -> Arguments {
    Arguments::new(ATOMS as u32).with("atoms", atoms)
}

/// A set's positions in the first frame, and its weights.
fn on_first(set: &[u32], weighted: bool) -> (Vec<[f64; 3]>, Option<Vec<f64>>) {
    let block = trajectory();
    let atoms = block.positions.as_chunks::<3>().0;
    let reference = set.iter().map(|&atom| atoms[atom as usize].map(f64::from)).collect();
    let weights = OF_ATOMS.column("weight");
    (reference, weighted.then(|| set.iter().map(|&atom| weights[atom as usize]).collect()))
}

fn rmsd(set: Vec<u32>, weighted: bool, groups: &[Vec<u32>], fit: &str) -> Vec<ResultArray> {
    let (reference, weights) = on_first(&set, weighted);
    let group = |group: &Vec<u32>| {
        let (reference, weights) = on_first(group, true);
        Argument::List(vec![group.clone().into(), reference.into(), weights.into()])
    };
    let groups: Vec<_> = groups.iter().map(group).collect();
    let arguments =
        of(set).with("reference", reference).with("weights", weights).with("groups", groups).with("fit", fit);
    run("rmsd", &arguments, &trajectory())
}

fn run(name: &str, arguments: &Arguments, block: &Block) -> Vec<ResultArray> {
    let kernel = registry::named(name).unwrap().kernel(arguments).unwrap();
    let mut partial = kernel.empty();
    let mut bound = BoundKernel::new(&*kernel, &AtomSelection::all(ATOMS as u32)).unwrap();
    bound.accumulate(&mut partial, &block.view(), &Workspace::default()).unwrap();
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

fn f64s(array: &ResultArray) -> &[f64] {
    array.values.of().unwrap()
}

fn nth_column(array: &ResultArray, at: usize) -> Vec<f64> {
    f64s(array).iter().skip(at).step_by(array.shape[1]).copied().collect()
}

#[test]
fn rmsd_is_that_of_mdanalysis() {
    for (weighted, name) in [(false, "plain"), (true, "weighted")] {
        let results = rmsd(all(), weighted, &[], "superpose");
        assert_eq!(f64s(&results[0]), OF_FRAMES.column("time"));
        compare(&format!("svd {name}"), f64s(&results[1]), &OF_FRAMES.column(&format!("svd_{name}")), 1e-11);
        let golden = OF_FRAMES.column(&format!("mda_{name}"));
        compare(&format!("mda {name}"), f64s(&results[1]), &golden, 5e-7);
        compare(&format!("mda {name}, later frames"), &f64s(&results[1])[1..], &golden[1..], 1e-11);
    }
}

#[test]
fn groups_follow_the_motion_of_the_fitted_set() {
    let results = rmsd(members("core"), true, &["lid", "nmp"].map(members), "superpose");
    assert_eq!(results[1].shape, [FRAMES, 3]);
    for (at, name) in ["core", "lid", "nmp"].into_iter().enumerate() {
        let values = nth_column(&results[1], at);
        compare(&format!("svd {name}"), &values, &OF_FRAMES.column(&format!("svd_{name}")), 1e-11);
        compare(&format!("mda {name}"), &values, &OF_FRAMES.column(&format!("mda_{name}")), 2e-6);
    }
}

#[test]
fn rmsd_without_rotation_is_that_of_mdanalysis() {
    for (fit, name) in [("center", "centred"), ("none", "as_is")] {
        let results = rmsd(all(), true, &[all()], fit);
        for column in [0, 1] {
            compare(name, &nth_column(&results[1], column), &OF_FRAMES.column(name), 1e-11);
        }
    }
}

#[test]
fn radius_of_gyration_is_that_of_mdanalysis() {
    let weights = OF_ATOMS.column("weight");
    let results = run("rgyr", &of(all()).with("masses", weights).with("axes", true), &trajectory());
    let total = nth_column(&results[1], 0);
    compare("rgyr", &total, &OF_FRAMES.column("mda_rgyr"), 1e-11);
    // Each square is counted in two of the three axes.
    let axes: Vec<f64> = f64s(&results[1])
        .chunks_exact(4)
        .map(|row| (row[1..].iter().map(|value| value * value).sum::<f64>() / 2.0).sqrt())
        .collect();
    compare("rgyr from axes", &axes, &total, 1e-12);
}

#[test]
fn fluctuations_are_those_of_mdanalysis() {
    let results = run("rmsf", &of(all()), &trajectory());
    compare("rmsf", f64s(&results[0]), &FLUCTUATIONS.column("mda_rmsf"), 1e-11);
    let average = run("average", &of(all()), &trajectory());
    assert_eq!(average[0], results[1], "both kernels sum alike");
    for (at, name) in ["x", "y", "z"].into_iter().enumerate() {
        compare(name, &nth_column(&average[0], at), &FLUCTUATIONS.column(name), 1e-11);
    }
}

#[test]
fn two_rounds_give_fluctuations_about_the_aligned_average() {
    let average = run("average", &of(all()), &trajectory());
    let reference = f64s(&average[0]).as_chunks::<3>().0.to_vec();
    let arguments = of(all()).with("reference", reference).with("weights", OF_ATOMS.column("weight"));
    let fitted = AtomsAndReference::from_arguments(&arguments).unwrap();
    let transform = Superpose::new(fitted, Superposition::RotationAndTranslation);
    let atoms = AtomSelection::all(ATOMS as u32);
    let maps = [AtomMap::new(&atoms, &atoms).unwrap()];
    let mut block = trajectory();
    let mut state = transform.state(&atoms, &maps).unwrap();
    for (positions, stamp) in block.positions.chunks_exact_mut(ATOMS * 3).zip(&mut block.stamps) {
        let (velocities, forces) = (&mut [][..], &mut [][..]);
        let mut frame = FrameMut {
            number: 0,
            positions,
            velocities,
            forces,
            stamp,
            sets: &maps,
            shift: None,
            next_takes_shift: false,
        };
        transform.apply(&mut frame, &mut state).unwrap();
    }
    let results = run("rmsf", &of(all()), &block);
    // Aligned positions are rounded to f32.
    compare("aligned rmsf", f64s(&results[0]), &FLUCTUATIONS.column("aligned_rmsf"), 1e-6);
}
