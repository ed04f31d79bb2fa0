//! DCD files as other programs read them: golden values, see `data/dcd/PROVENANCE.md`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::common::read;
use kinema_core::format::dcd::Dcd;
use kinema_core::frame::{Block, Cell};
use kinema_core::source::FileSource;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dcd")
}

/// CRC-32 of zlib.
fn crc32(bytes: impl IntoIterator<Item = u8>) -> u32 {
    !bytes.into_iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// Lengths, and angles alpha, beta, gamma in degrees.
fn dimensions(cell: Cell) -> [f64; 6] {
    let [a, b, c] = cell;
    let dot = |u: [f64; 3], v: [f64; 3]| u.iter().zip(v).map(|(x, y)| x * y).sum::<f64>();
    let length = |u| dot(u, u).sqrt();
    if length(a) == 0.0 {
        return [0.0; 6];
    }
    let angle = |u, v| (dot(u, v) / (length(u) * length(v))).acos().to_degrees();
    [length(a), length(b), length(c), angle(b, c), angle(a, c), angle(a, b)]
}

fn check_cell(name: &str, cell: Cell, expected: &[f64]) {
    let (six, vectors) = expected.split_at(6);
    for (found, expected) in dimensions(cell).into_iter().zip(six) {
        // MDAnalysis states "no cell" as lengths of zero
        let expected = if six[0] == 0.0 { 0.0 } else { *expected };
        assert!((found - expected).abs() < 2e-4, "{name}: {cell:?} is not {six:?}");
    }
    // a shape matrix is kept in the frame of the coordinates, where MDAnalysis turns it
    if cell[0][1] == 0.0 && cell[0][2] == 0.0 {
        for (found, expected) in cell.iter().flatten().zip(vectors) {
            assert!((*found - expected).abs() < 2e-5, "{name}: {cell:?} is not {vectors:?}");
        }
    }
}

fn check(name: &str, block: &Block, n_atoms: usize, key: &str, values: &[f64]) {
    let Some((&frame, values)) = values.split_first() else { panic!("{name}: empty line") };
    let row = frame as usize;
    match key {
        "steps" => {
            let expected = (0..block.rows()).map(|i| frame as i64 + values[0] as i64 * i as i64);
            assert!(block.stamps.iter().map(|stamp| stamp.step).eq(expected), "{name}");
        }
        "time" => assert!((block.stamps[row].time - values[0]).abs() <= 1e-12 * values[0].abs(), "{name}"),
        "cell" => check_cell(name, block.stamps[row].cell, values),
        "atoms" => {
            let xyz = &block.positions[row * n_atoms * 3..(row + 1) * n_atoms * 3];
            let found = xyz[..3].iter().chain(&xyz[xyz.len() - 3..]);
            assert!(found.map(|&x| f64::from(x)).eq(values.iter().copied()), "{name} frame {row}");
        }
        other => panic!("unknown line {other}"),
    }
}

/// Checks every file of a table; returns how many there were.
fn check_table(table: &str, folder: &Path) -> usize {
    let text = std::fs::read_to_string(golden().join(table)).unwrap();
    let mut blocks: HashMap<String, (Block, usize)> = HashMap::new();
    let mut name = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (key, rest) = line.split_once(' ').unwrap();
        if key == "file" {
            let words: Vec<&str> = rest.split(' ').collect();
            name = words[0].to_owned();
            let source = FileSource::open(&folder.join(&name)).unwrap();
            let got = read(&Dcd, &source, None, None).unwrap();
            let n_atoms: usize = words[1].parse().unwrap();
            assert_eq!(got.n_frames.to_string(), words[2], "{name}");
            assert_eq!(got.block.positions.len(), n_atoms * got.block.rows() * 3, "{name}");
            let crc = crc32(got.block.positions.iter().flat_map(|x| x.to_le_bytes()));
            assert_eq!(crc.to_string(), words[3], "{name}");
            blocks.insert(name.clone(), (got.block, n_atoms));
        } else {
            let (block, n_atoms) = &blocks[&name];
            let values: Vec<f64> = rest.split(' ').map(|word| word.parse().unwrap()).collect();
            check(&name, block, *n_atoms, key, &values);
        }
    }
    blocks.len()
}

#[test]
fn small_files_of_every_variant_agree_with_other_programs() {
    assert_eq!(check_table("expected.txt", &golden()), 16);
}

#[test]
#[ignore = "needs the data folder of the package MDAnalysisTests in MDANALYSIS_TESTS_DATA"]
fn files_of_real_programs_agree_with_other_readers() {
    let folder = std::env::var_os("MDANALYSIS_TESTS_DATA").expect("MDANALYSIS_TESTS_DATA is set");
    assert_eq!(check_table("mdanalysis_tests.txt", Path::new(&folder)), 8);
}

#[test]
fn a_checksum_is_that_of_zlib() {
    assert_eq!(crc32(*b"123456789"), 0xCBF4_3926);
}
