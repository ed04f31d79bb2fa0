//! Tests of `coordinates`: instruction sets, batches and groups one by one give the same bits.

use super::*;
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
    match job.full {
        FullCoordinate::Narrow(full) => unpack_with(job, OneByOne(full), out),
        FullCoordinate::Wide(full) => unpack_with(job, OneByOne(full), out),
        FullCoordinate::Separate(full) => unpack_with(job, OneByOne(full), out),
    }
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
    let mut stops = [0; 4];
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
            let chosen: Vec<u32> = (0..header.n_atoms).filter(|_| random(2) == 0).collect();
            for selected in [None, Some(&chosen[..])] {
                let full = FullCoordinate::new(sizes).expect("sound");
                let start = UnpackState::first(&packing);
                let job = Job { packing, full, n_atoms, data: &data, start, selected, length: 10.0 };
                let n_places = selected.map_or(n_atoms, <[u32]>::len);
                let (mut plain, mut fast) = (vec![[0.0; 3]; n_places], vec![[0.0; 3]; n_places]);
                let expected = one_by_one(&job, &mut plain);
                assert_eq!(unpack(&job, &mut fast, Cpu::detect()), expected);
                // what is written beyond an error is of no use
                let written = expected.1.written.min(n_places);
                assert_eq!(bits(&plain[..written]), bits(&fast[..written]), "round {round}");
                stops[match expected.0 {
                    Stop::Done => 0,
                    Stop::Short => 1,
                    Stop::RunTooLong(_) => 2,
                    Stop::NoSuchSmall(_) => 3,
                }] += 1;
            }
        }
    }
    assert!(stops.iter().all(|&n| n > 50), "{stops:?}");
}
