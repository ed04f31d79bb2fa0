//! Unformatted HISTORY files: what gfortran has written is read; mutated, the laws of the fuzz targets hold.

use crate::files;
use std::path::{Path, PathBuf};

use crate::common::{Random, read};
use kinema_core::format::dlpoly::History;
use kinema_core::format::{Format, Request, ScanOptions, Segment, Wanted, detect};
use kinema_core::frame::{Fields, Scales};
use kinema_core::selection::AtomSelection;
use kinema_core::source::MemorySource;

/// Files of a folder, `tests/data/dlpoly/PROVENANCE.md` and the seeds of the fuzz targets.
fn files_in(folder: &str, part_of_name: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let paths = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.to_string_lossy().contains(part_of_name)).collect();
    paths.sort();
    paths
}

#[test]
fn what_gfortran_writes_has_its_values() {
    let paths = files_in("tests/data/dlpoly", ".history");
    assert_eq!(paths.len(), 3);
    for path in paths {
        let source = MemorySource::new("HISTORY", std::fs::read(&path).unwrap());
        assert_eq!(detect(&source).unwrap().info().name, "DL_POLY HISTORY");
        let header = History.open(&source).unwrap().header().clone();
        assert_eq!((header.n_atoms, header.remarks), (5, vec!["written by gfortran".to_owned()]));
        let block = read(&History, &source, None, None).unwrap().block;
        for (frame, stamp) in block.stamps.iter().enumerate() {
            let number = frame as f64 + 1.0;
            assert_eq!(stamp.step, 100 * (frame as i64 + 1));
            assert_eq!(stamp.time, stamp.step as f64 * 0.001);
            assert_eq!(stamp.cell, [[20.0 + number, 0.0, 0.0], [0.0, 21.0, 0.0], [0.0, 0.0, 22.5]]);
            for atom in 0..5 {
                let i = f64::from(atom) + 1.0;
                let position = [0.1 * i + number, -0.3 * i, i * i / 7.0];
                let at = 3 * (5 * frame + atom as usize);
                assert_eq!(block.velocities[at..at + 3], position.map(|value| (2.0 * value) as f32));
            }
        }
    }
}

#[test]
fn mutated_files_break_no_law() {
    let seeds = files_in("../../fuzz/corpus/scan_history", "unformatted_");
    assert_eq!(seeds.len(), 9);
    let seeds: Vec<_> = seeds.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let mut random = Random(17);
    for round in 0..4000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => drop(bytes.drain(at..(at + random.below(80) as usize).min(bytes.len()))),
                2 => {
                    let part = bytes[at..(at + 100).min(bytes.len())].to_vec();
                    bytes.splice(at..at, part);
                }
                _ => bytes.truncate(at.max(1)),
            }
            bytes.push(0);
        }
        files::scan(&History, &bytes);
        files::decode(&History, &bytes);
    }
}

/// A file of `n` atoms and one frame with positions and velocities: number `i` of a plane is `i`.
fn made(n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut record = |numbers: &mut dyn Iterator<Item = f64>| {
        let payload: Vec<u8> = numbers.flat_map(f64::to_le_bytes).collect();
        let length = (payload.len() as u32).to_le_bytes();
        bytes.extend([&length[..], &payload, &length].concat());
    };
    record(&mut [1.1; 10].into_iter());
    record(&mut [n as f64].into_iter());
    for _ in 0..3 {
        record(&mut (0..n).map(|_| 1.0));
    }
    record(&mut [7.0, n as f64, 1.0, 0.0, 0.5].into_iter());
    for _ in 0..6 {
        record(&mut (0..n).map(|i| i as f64));
    }
    bytes
}

#[test]
fn few_atoms_are_read_from_their_planes() {
    let n = 50_000;
    let source = MemorySource::new("HISTORY", made(n));
    let decoder = History.open(&source).unwrap();
    let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
    let index = decoder.scan(&source, &options).unwrap().index;
    let read_for = |fields, atoms: &[u32]| -> Vec<Segment> {
        let atoms = AtomSelection::from_sorted(atoms.to_vec(), n as u32).unwrap();
        let request = Request { fields, atoms, scales: Scales::NATIVE };
        let mut segments = Vec::new();
        decoder.segments(&index, &[Wanted { frame: 0, row: 0 }], &request, &mut segments).unwrap();
        segments
    };
    let bytes = |segments: &[Segment]| segments.iter().map(|segment| segment.extent.len).sum::<u64>();
    let plane = 8 * n as u64 + 8;
    // the head of the frame and one number of each plane
    assert_eq!(bytes(&read_for(Fields::POSITIONS, &[40_000])), 48 + 3 * 8);
    assert_eq!(bytes(&read_for(Fields::POSITIONS | Fields::VELOCITIES, &[40_000])), 48 + 6 * 8);
    assert_eq!(bytes(&read_for(Fields::TIME, &[40_000])), 48);
    let all: Vec<u32> = (0..n as u32).collect();
    assert_eq!(bytes(&read_for(Fields::POSITIONS, &all)), 48 + 3 * plane);
    assert_eq!(bytes(&read_for(Fields::VELOCITIES, &all)), 48 + 6 * plane);
    let atoms = vec![0, 3, 4, 25_000, 49_999];
    let block = read(&History, &source, None, Some(atoms.clone())).unwrap().block;
    let expected: Vec<f32> = atoms.iter().flat_map(|&atom| [atom as f32; 3]).collect();
    assert_eq!(block.velocities, expected);
    assert_eq!((block.stamps[0].step, block.stamps[0].time), (7, 3.5));
}
