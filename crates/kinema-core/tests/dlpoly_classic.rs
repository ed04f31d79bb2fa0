//! HISTORY files with records of any width: mutated, the laws of the fuzz targets hold; selections read few bytes.

use crate::files;
use std::path::Path;

use crate::common::{Random, read};
use kinema_core::format::dlpoly::History;
use kinema_core::format::{Format, Request, ScanOptions, Wanted};
use kinema_core::frame::{Fields, Scales};
use kinema_core::selection::AtomSelection;
use kinema_core::source::MemorySource;

/// The seeds of the fuzz targets: real and made files.
fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/scan_history");
    let mut paths: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 9);
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn mutated_files_break_no_law() {
    let mut random = Random(11);
    let seeds = seeds();
    for round in 0..6000 {
        let mut bytes = seeds[round % seeds.len()].clone();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(6) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at] = b"\n \r-9*tE."[random.below(9) as usize],
                2 => drop(bytes.drain(at..(at + random.below(80) as usize).min(bytes.len()))),
                3 => bytes.truncate(at.max(1)),
                // a stretch twice
                4 => {
                    let part = bytes[at..(at + 200).min(bytes.len())].to_vec();
                    bytes.splice(at..at, part);
                }
                _ => drop(bytes.splice(at..at, *b"timestep")),
            }
            bytes.push(b'\n');
        }
        files::scan(&History, &bytes);
        files::decode(&History, &bytes);
    }
}

/// A frame of `n` atoms with lines of differing widths.
fn made(n: usize, end: &str) -> Vec<u8> {
    let mut text = format!("title{end}         1         0{n:10}{end}");
    for frame in 0..3 {
        text += &format!("timestep{frame:10}{n:10}         1         0    0.001000{end}");
        for atom in 0..n {
            text += &format!("C{atom:<7}{:10}   12.000000    0.500000{end}", atom + 1);
            text += &format!(" {}.5 {} {:.3}{end} 0 {atom} -1{end}", atom, frame, atom as f64 / 7.0);
        }
    }
    text.into_bytes()
}

#[test]
fn few_atoms_are_read_from_the_front_of_a_frame() {
    for end in ["\n", "\r\n"] {
        let source = MemorySource::new("HISTORY", made(2000, end));
        let decoder = History.open(&source).unwrap();
        let options = ScanOptions { previous: None, workers: 2, progress: &|_| Ok(()), skip_damaged: false };
        let index = decoder.scan(&source, &options).unwrap().index;
        let all = read(&History, &source, None, None).unwrap().block.velocities;
        for atoms in [vec![0], vec![3, 50, 51], vec![999], vec![1999]] {
            let fields = Fields::VELOCITIES;
            let selection = AtomSelection::from_sorted(atoms.clone(), 2000).unwrap();
            let request = Request { fields, atoms: selection, scales: Scales::NATIVE };
            let mut segments = Vec::new();
            decoder.segments(&index, &[Wanted { frame: 1, row: 0 }], &request, &mut segments).unwrap();
            let share = (f64::from(atoms[atoms.len() - 1]) + 100.0) / 2000.0;
            assert!(segments[0].extent.len as f64 <= share * index.extent(1).len as f64 || share > 0.9);
            let some = read(&History, &source, None, Some(atoms.clone())).unwrap().block.velocities;
            for (frame, row) in some.chunks_exact(3 * atoms.len()).enumerate() {
                for (place, &atom) in atoms.iter().enumerate() {
                    let at = 3 * (frame * 2000 + atom as usize);
                    assert_eq!(row[3 * place..3 * place + 3], all[at..at + 3]);
                }
            }
            assert_eq!(all[3 * 1999 + 1], 1999.0);
        }
    }
}
