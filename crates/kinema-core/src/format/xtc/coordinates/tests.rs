//! Tests of `coordinates`: instruction sets, batches and groups one by one give the same bits.

use super::*;
use crate::format::xtc::batch::MOST_RUN;
use crate::format::xtc::header::FrameHeader;

/// The safe twin of the AVX2 path, and its results, on frames of every kind.
#[test]
fn all_instruction_sets_give_the_same_bits() {
    let files: [&[u8]; 5] = [
        include_bytes!("../../../../tests/data/xtc/mixed.xtc"),
        include_bytes!("../../../../tests/data/xtc/precisions.xtc"),
        include_bytes!("../../../../tests/data/xtc/wide.xtc"),
        include_bytes!("../../../../tests/data/xtc/separate.xtc"),
        include_bytes!("../../../../tests/data/xtc/wide_small.xtc"),
    ];
    for mut bytes in files {
        while !bytes.is_empty() {
            let header = FrameHeader::parse(bytes, 0, None).expect("sound");
            let packing = header.packing.expect("packed");
            let sizes = [0, 1, 2].map(|i| (i64::from(packing.max[i]) - i64::from(packing.min[i]) + 1) as u64);
            let n_atoms = header.n_atoms as usize;
            let every_seventh: Vec<u32> = (0..header.n_atoms).step_by(7).collect();
            for selected in [None, Some(&every_seventh[..])] {
                for cut in [packing.n_bytes as usize, 40] {
                    let job = Job {
                        packing,
                        full: FullCoordinate::new(sizes).expect("sound"),
                        n_atoms,
                        data: &bytes[header.len()..][..cut],
                        start: UnpackState::first(&packing),
                        selected,
                        length: 10.0,
                    };
                    let n_places = selected.map_or(n_atoms, <[u32]>::len);
                    let mut places = [vec![[0.0; 3]; n_places], vec![[0.0; 3]; n_places]];
                    let [plain, fast] = &mut places;
                    let expected = unpack(&job, plain, Cpu::Baseline);
                    assert_eq!(unpack(&job, fast, Cpu::detect()), expected);
                    assert_eq!(expected.0, if cut == 40 { Stop::Short } else { Stop::Done });
                    let [plain, fast] =
                        places.map(|p| p.into_flattened().into_iter().map(f32::to_bits).collect::<Vec<_>>());
                    assert_eq!(plain, fast);
                }
            }
            bytes = &bytes[header.frame_len() as usize..];
        }
    }
}

/// A full coordinate that is not taken apart in batches.
#[derive(Clone, Copy)]
struct OneByOne<F>(F);

impl<F: Full> Full for OneByOne<F> {
    fn bits(&self) -> u64 {
        self.0.bits()
    }
    fn read(&self, data: &[u8], at: u64) -> Option<[i32; 3]> {
        self.0.read(data, at)
    }
}

fn one_by_one(job: &Job<'_>, out: &mut [[f32; 3]]) -> (Stop, UnpackState) {
    let mut seen = Seen::new();
    let found = match job.full {
        FullCoordinate::Narrow(full) => unpack_with(job, OneByOne(full), out, &mut seen),
        FullCoordinate::Wide(full) => unpack_with(job, OneByOne(full), out, &mut seen),
        FullCoordinate::Separate(full) => unpack_with(job, OneByOne(full), out, &mut seen),
    };
    if seen.is_within(&job.packing) { found } else { first_fault(job, &found.1) }
}

fn bits(places: &[[f32; 3]]) -> Vec<u32> {
    places.as_flattened().iter().map(|value| value.to_bits()).collect()
}

/// Sound frames, and frames of which bits are changed or the end is cut: the same atoms, end, place and error.
#[test]
fn batches_are_groups_one_by_one_whatever_the_bits() {
    let files: [&[u8]; 5] = [
        include_bytes!("../../../../tests/data/xtc/mixed.xtc"),
        include_bytes!("../../../../tests/data/xtc/water.xtc"),
        include_bytes!("../../../../tests/data/xtc/gas.xtc"),
        include_bytes!("../../../../tests/data/xtc/wide_small.xtc"),
        include_bytes!("../../../../tests/data/xtc/huge_chain.xtc"),
    ];
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let mut stops = [0; 6];
    for bytes in files {
        let header = FrameHeader::parse(bytes, 0, None).expect("sound");
        let packing = header.packing.expect("packed");
        let sizes = [0, 1, 2].map(|i| (i64::from(packing.max[i]) - i64::from(packing.min[i]) + 1) as u64);
        let n_atoms = header.n_atoms as usize;
        for round in 0..1000 {
            let mut data = bytes[header.len()..][..packing.n_bytes as usize].to_vec();
            for _ in 0..round % 4 {
                let at = random(data.len());
                data[at] ^= 1 << random(8);
            }
            if round % 5 == 4 {
                data.truncate(random(data.len()));
            }
            // any width of the full coordinates, with the bits of another
            let width = random(24);
            let other = [0; 3].map(|_: u64| 1 + random(2 << width) as u64);
            let sizes = if round % 7 == 6 { other } else { sizes };
            let max = [0, 1, 2].map(|i| packing.min[i].wrapping_add(sizes[i] as i32 - 1));
            let packing = Packing { max, ..packing };
            // a frame that ends within a group, and a width that is not there: damage alone makes these late
            let n_atoms = if round % 13 == 12 { 1 + random(n_atoms) } else { n_atoms };
            let small = if round % 11 == 10 { 73 } else { packing.small };
            let chosen: Vec<u32> = (0..n_atoms as u32).filter(|_| random(2) == 0).collect();
            for selected in [None, Some(&chosen[..])] {
                let full = FullCoordinate::new(sizes).expect("sound");
                let start = UnpackState { small, ..UnpackState::first(&packing) };
                let job = Job { packing, full, n_atoms, data: &data, start, selected, length: 10.0 };
                let n_places = selected.map_or(n_atoms, <[u32]>::len);
                let (mut plain, mut fast) = (vec![[0.0; 3]; n_places], vec![[0.0; 3]; n_places]);
                let expected = one_by_one(&job, &mut plain);
                let found = unpack(&job, &mut fast, Cpu::detect());
                if selected.is_some() && found != expected {
                    // batches compare all digits, including those in groups without a wanted atom
                    let first = one_by_one(&Job { selected: None, ..job }, &mut vec![[0.0; 3]; n_atoms]);
                    assert_eq!((found.0, found.1.bit), (first.0, first.1.bit), "round {round}");
                    assert!(matches!(found.0, Stop::DigitTooLarge { .. } | Stop::Outside { .. }), "round {round}");
                    continue;
                }
                let is_fault = matches!(found.0, Stop::DigitTooLarge { .. } | Stop::Outside { .. });
                // how many were written before it is of no use
                let expected = if is_fault { (expected.0, UnpackState { written: 0, ..expected.1 }) } else { expected };
                assert_eq!(if is_fault { (found.0, UnpackState { written: 0, ..found.1 }) } else { found }, expected);
                // values written after an error are of no use
                let written = expected.1.written.min(n_places);
                assert_eq!(bits(&plain[..written]), bits(&fast[..written]), "round {round}");
                stops[match expected.0 {
                    Stop::Done => 0,
                    Stop::Short => 1,
                    Stop::RunTooLong(_) => 2,
                    Stop::NoSuchSmall(_) => 3,
                    Stop::DigitTooLarge { .. } => 4,
                    Stop::Outside { .. } => 5,
                }] += 1;
            }
        }
    }
    assert!(stops.iter().all(|&n| n > 20), "{stops:?}");
}

/// Groups of three atoms, all at the least integers, whose differences have the radix 10 and take 10 bits.
struct Groups {
    bits: Vec<bool>,
    n_groups: usize,
}

const PACKING: Packing = Packing { precision: 1.0, min: [-7; 3], max: [992; 3], small: 10, n_bytes: 0 };
const ATOMS_OF_GROUP: usize = 3;
const BITS_OF_GROUP: usize = 30 + 6 + 2 * 10;

impl Groups {
    /// `unsound` is the number of a difference that has all its bits.
    fn new(n_groups: usize, unsound: Option<usize>) -> Self {
        let mut groups = Self { bits: Vec::new(), n_groups };
        for group in 0..n_groups {
            groups.push(0, 30);
            // flagged: two differences, and the same width for the next group
            groups.push(0b10_0111, 6);
            for difference in [2 * group, 2 * group + 1] {
                // three digits of half a radix, 555, lowest byte first
                groups.push(if unsound == Some(difference) { 1023 } else { 43 << 2 | 2 }, 10);
            }
        }
        groups
    }

    fn push(&mut self, value: u32, n_bits: u32) {
        self.bits.extend((0..n_bits).rev().map(|bit| value >> bit & 1 == 1));
    }

    fn unpacked(&self, packing: Packing, selected: Option<&[u32]>) -> (Stop, UnpackState) {
        let byte = |bits: &[bool]| bits.iter().enumerate().fold(0, |byte, (i, &bit)| byte | u8::from(bit) << (7 - i));
        let data: Vec<u8> = self.bits.chunks(8).map(byte).collect();
        let full = FullCoordinate::new([1000; 3]).expect("sound");
        let n_atoms = ATOMS_OF_GROUP * self.n_groups;
        let start = UnpackState::first(&packing);
        let job = Job { packing, full, n_atoms, data: &data, start, selected, length: 1.0 };
        unpack(&job, &mut vec![[0.0; 3]; selected.map_or(n_atoms, <[u32]>::len)], Cpu::detect())
    }
}

#[test]
fn a_digit_is_below_its_radix_wherever_it_is() {
    const N: usize = 300;
    let all: Vec<u32> = (0..3 * N as u32).collect();
    assert_eq!(Groups::new(N, None).unpacked(PACKING, None).0, Stop::Done);
    for unsound in (0..80).chain(2 * N - 60..2 * N) {
        let (groups, group) = (Groups::new(N, Some(unsound)), unsound / 2);
        // the first difference is that of atom 0, the second of atom 2
        let of_atom = [(ATOMS_OF_GROUP * group + 2 * (unsound % 2)) as u32];
        for selected in [None, Some(&all[..]), Some(&of_atom[..])] {
            let (stop, at) = groups.unpacked(PACKING, selected);
            assert_eq!(stop, Stop::DigitTooLarge { digit: 10, radix: 10 }, "{unsound}, {selected:?}");
            assert_eq!((at.bit as usize, at.atom), (BITS_OF_GROUP * group, ATOMS_OF_GROUP * group));
        }
        // one of another group is none of it
        let other = [3 * ((group as u32 + 1) % N as u32)];
        assert_eq!(groups.unpacked(PACKING, Some(&other)).0, Stop::Done);
    }
}

#[test]
fn an_integer_is_not_outside_of_what_the_frame_states() {
    let bytes = include_bytes!("../../../../tests/data/xtc/water.xtc");
    let header = FrameHeader::parse(bytes, 0, None).expect("sound");
    let packing = header.packing.expect("packed");
    let sizes = [0, 1, 2].map(|i| (i64::from(packing.max[i]) - i64::from(packing.min[i]) + 1) as u64);
    let n_atoms = header.n_atoms as usize;
    let data = &bytes[header.len()..][..packing.n_bytes as usize];
    let all: Vec<u32> = (0..header.n_atoms).collect();
    let unpacked = |packing, selected: Option<&[u32]>| {
        let full = FullCoordinate::new(sizes).expect("sound");
        let job = Job { packing, full, n_atoms, data, start: UnpackState::first(&packing), selected, length: 1.0 };
        unpack(&job, &mut vec![[0.0; 3]; selected.map_or(n_atoms, <[u32]>::len)], Cpu::detect())
    };
    for axis in 0..3 {
        let (mut less, mut more) = (packing, packing);
        less.max[axis] -= 1;
        let (stop, at) = unpacked(less, None);
        let Stop::Outside { atom, .. } = stop else { panic!("{stop:?}") };
        assert_eq!(stop, Stop::Outside { atom, axis, integer: packing.max[axis] });
        assert!(at.atom <= atom && atom <= at.atom + MOST_RUN);
        for selected in [&all[..], &[atom as u32]] {
            let (of_selection, at_selection) = unpacked(less, Some(selected));
            assert_eq!((of_selection, at_selection.bit), (stop, at.bit));
        }
        // the first atom that it concerns: those before it are as stated
        let before: Vec<u32> = (0..at.atom as u32).step_by(9).collect();
        assert_eq!(unpacked(less, Some(&before)).0, Stop::Done);
        // full coordinates count from the least integer: if it changes, they change
        more.min[axis] += 1;
        assert!(matches!(unpacked(more, None).0, Stop::Outside { .. }));
    }
}
