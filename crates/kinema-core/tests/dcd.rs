//! DCD in all its variants.

use crate::common::dcd_builder::Builder;
use crate::common::{Random, read, read_damaged};
use kinema_core::ErrorKind;
use kinema_core::format::{Format, Request, ScanOptions, Scratch, Wanted, dcd::Dcd};
use kinema_core::frame::{Block, Fields, Scales};
use kinema_core::selection::AtomSelection;
use kinema_core::source::{MemorySource, ReadLog, Source};

fn variants() -> Vec<(&'static str, Builder)> {
    let plain = Builder::new(7, 4);
    let mut all = vec![("plain", plain.clone())];
    for (big_endian, wide) in [(true, false), (false, true), (true, true)] {
        all.push(("byte order and record lengths", Builder { big_endian, wide, ..plain.clone() }));
    }
    let cell = Some([50.0, 90.0, 60.0, 90.0, 90.0, 70.0]);
    all.push(("cell", Builder { cell, ..plain.clone() }));
    all.push(("big-endian cell", Builder { cell, big_endian: true, ..plain.clone() }));
    all.push(("four-dimensional", Builder { four_dimensional: true, cell, ..plain.clone() }));
    all.push(("X-PLOR", Builder { version: 0, ..plain.clone() }));
    all.push(("velocities", Builder { magic: b"VELD", ..plain.clone() }));
    let free = Some(vec![1, 4, 5]);
    all.push(("fixed atoms", Builder { free: free.clone(), ..plain.clone() }));
    all.push(("fixed atoms, wide, cell", Builder { free, cell, wide: true, big_endian: true, ..plain.clone() }));
    all.push(("wrong frame count", Builder { claimed: 0, ..plain }));
    all
}

#[test]
fn every_variant_gives_the_values_written() {
    for (name, builder) in variants() {
        let source = MemorySource::new(name, builder.clone().build());
        for atoms in [None, Some(vec![0, 2, 4, 6]), Some(vec![5])] {
            for frames in [vec![0, 1, 2, 3], vec![2], vec![1, 3]] {
                let got = read(&Dcd, &source, Some(&frames), atoms.clone()).unwrap().block;
                let list = atoms.clone().unwrap_or_else(|| (0..7).collect());
                let expected: Vec<f32> = frames
                    .iter()
                    .flat_map(|&frame| list.iter().map(move |&atom| (frame as usize, atom as usize)))
                    .flat_map(|(frame, atom)| (0..3).map(move |axis| (frame, atom, axis)))
                    .map(|(frame, atom, axis)| builder.value(frame, atom, axis))
                    .collect();
                let values = if builder.magic == b"VELD" { &got.velocities } else { &got.positions };
                assert_eq!(*values, expected, "{name}");
                for (row, &frame) in frames.iter().enumerate() {
                    assert_eq!(got.stamps[row].step, 100 + 10 * frame as i64);
                    // MDAnalysis: (frame + istart / nsavc) * delta * nsavc * AKMA
                    let time = (frame as f64 + 10.0) * 0.5 * 10.0 * 0.048_888_21;
                    assert!((got.stamps[row].time - time).abs() < 1e-12 * time, "{name}");
                    let edge = if builder.cell.is_some() { 60.0 } else { 0.0 };
                    assert_eq!(got.stamps[row].cell[1], [0.0, edge, 0.0], "{name}");
                }
            }
        }
    }
}

#[test]
fn the_header_is_described() {
    let decoder = Dcd.open(&MemorySource::new("x", Builder { claimed: 0, ..Builder::new(7, 4) }.build())).unwrap();
    let header = decoder.header();
    assert_eq!(header.remarks, ["REMARKS first", "REMARKS second"]);
    assert_eq!(header.warnings, ["the header says 0 frames, the file holds 4"]);
    assert_eq!(header.variant, "CHARMM 24, little-endian");
}

#[test]
fn ten_atoms_of_frame_seven_touch_only_their_bytes() {
    let n_atoms = 50_000;
    let bytes = Builder { cell: Some([50.0, 0.0, 60.0, 0.0, 0.0, 70.0]), ..Builder::new(n_atoms, 9) }.build();
    let log = ReadLog::default();
    let source = MemorySource::new("large", bytes).recorded(&log);
    let frame_len = (56 + 3 * (4 * n_atoms + 8)) as u64;
    let first = source.len().unwrap() - 9 * frame_len;
    let atoms: Vec<u32> = (30_000..30_010).collect();
    let decoder = Dcd.open(&source).unwrap();
    log.take_extents();
    drop(decoder);
    let got = read(&Dcd, &source, Some(&[7]), Some(atoms)).unwrap().block;
    assert_eq!(got.positions[..3], [37_000.0, 37_000.25, 37_000.5]);
    let frame = first + 7 * frame_len;
    let data: Vec<_> = log.take_extents().into_iter().filter(|extent| extent.offset >= first).collect();
    let plane = (4 * n_atoms + 8) as u64;
    let expected: Vec<(u64, u64)> =
        std::iter::once((frame, 60)).chain((0..3).map(|axis| (frame + 60 + axis * plane + 120_000, 40))).collect();
    assert_eq!(data.iter().map(|extent| (extent.offset, extent.len)).collect::<Vec<_>>(), expected);
}

#[test]
fn spread_atoms_of_a_large_frame_equal_the_whole() {
    let source = MemorySource::new("large", Builder::new(40_000, 2).build());
    let whole = read(&Dcd, &source, None, None).unwrap().block;
    let mut random = Random(7);
    for most in [3, 50, 3000] {
        let mut atoms: Vec<u32> = (0..most).map(|_| random.below(40_000) as u32).collect();
        atoms.sort_unstable();
        atoms.dedup();
        let part = read(&Dcd, &source, None, Some(atoms.clone())).unwrap().block;
        for row in 0..2 {
            for (column, &atom) in atoms.iter().enumerate() {
                let (a, b) = (row * atoms.len() * 3 + column * 3, row * 120_000 + atom as usize * 3);
                assert_eq!(part.positions[a..a + 3], whole.positions[b..b + 3]);
            }
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error_or_its_complete_frames() {
    for (name, builder) in variants() {
        let whole = builder.build();
        for len in 0..whole.len() {
            match read_damaged(&Dcd, &whole[..len]) {
                Ok(got) => assert!(got.n_frames < 4 && (got.truncated || got.n_frames * 4 < 16), "{name} at {len}"),
                Err(error) => {
                    assert!(
                        matches!(error.kind(), ErrorKind::Truncated | ErrorKind::Corrupt),
                        "{name} at {len}: {error}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_file_cut_within_its_header_is_truncated() {
    for (name, builder) in variants() {
        let whole = builder.build();
        // a DCD file is recognised by the length and the name of its first record; no header is shorter than 276 bytes
        for len in 16..276 {
            let error = read_damaged(&Dcd, &whole[..len]).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Truncated, "{name} at {len}: {error}");
        }
    }
}

#[test]
fn flipped_bits_never_panic() {
    let mut random = Random(2026);
    for (_, builder) in variants() {
        let whole = builder.build();
        for _ in 0..2000 {
            let mut damaged = whole.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.len() as u64) as usize;
                damaged[at] ^= 1 << random.below(8);
            }
            // an error or other values: only a panic or an absurd allocation would fail here
            let _ = read_damaged(&Dcd, &damaged);
        }
    }
}

#[test]
fn absurd_sizes_are_refused_by_name() {
    let whole = Builder::new(7, 4).build();
    let n_atoms_at = 92 + 172 + 4;
    for n in [i32::MAX, -1, 0, i32::MIN] {
        let mut damaged = whole.clone();
        damaged[n_atoms_at..n_atoms_at + 4].copy_from_slice(&n.to_le_bytes());
        let error = read_damaged(&Dcd, &damaged).err().unwrap();
        let expected = if n == i32::MAX { "records beyond 2 GiB" } else { "number of atoms" };
        assert!(error.to_string().contains(expected), "{error}");
    }
    let mut damaged = whole.clone();
    let frame = n_atoms_at + 8;
    damaged[frame..frame + 4].copy_from_slice(&29_i32.to_le_bytes());
    let error = read_damaged(&Dcd, &damaged).err().unwrap();
    assert_eq!(error.to_string(), "frame 0, byte 276: record length of the x plane, expected 28, found 29");
}

#[test]
fn variants_that_are_not_read_are_refused_by_name() {
    let whole = Builder::new(7, 4).build();
    let mut unknown = whole.clone();
    unknown[4..8].copy_from_slice(b"FORC");
    let error = read_damaged(&Dcd, &unknown).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.what(), "unknown kind of DCD file, expected CORD or VELD, found FORC");
    assert!(!Dcd.sniff(&unknown));
    for bytes in [&[164, 0, 0, 0][..], &[0, 0, 0, 164]] {
        let wide_integers = [bytes, &whole[4..]].concat();
        let error = read_damaged(&Dcd, &wide_integers).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.what().contains("8-byte integers"), "{error}");
        assert!(Dcd.sniff(&wide_integers), "so that the error names the variant");
    }
}

#[test]
fn numbers_that_cannot_be_meant_are_told() {
    let whole = Builder::new(7, 4).build();
    let with = |at: usize, word: [u8; 4]| {
        let mut bytes = whole.clone();
        bytes[8 + 4 * at..12 + 4 * at].copy_from_slice(&word);
        MemorySource::new("odd", bytes)
    };
    let source = with(2, 0_i32.to_le_bytes());
    assert_eq!(Dcd.open(&source).unwrap().header().warnings, ["the header says 0 steps between frames, taken as 1"]);
    let block = read(&Dcd, &source, None, None).unwrap().block;
    assert!(block.stamps.iter().map(|stamp| stamp.step).eq(100..104));
    let source = with(9, f32::NAN.to_le_bytes());
    let decoder = Dcd.open(&source).unwrap();
    assert!(
        decoder
            .facts()
            .assumption
            .as_deref()
            .unwrap()
            .starts_with("the header says a time step of NaN, so the frames have no times")
    );
    assert!(!decoder.header().fields.contains(Fields::TIME));
    assert!(read(&Dcd, &source, None, None).unwrap().block.stamps.iter().all(|stamp| stamp.time.is_nan()));
    // CHARMM's flags are "yes" with any number but 0
    let builder = Builder { cell: Some([50.0, 90.0, 60.0, 90.0, 90.0, 70.0]), ..Builder::new(7, 4) };
    let mut bytes = builder.build();
    bytes[48..52].copy_from_slice(&(-1_i32).to_le_bytes());
    assert!(Dcd.open(&MemorySource::new("flag", bytes)).unwrap().header().fields.contains(Fields::CELL));
}

#[test]
fn the_fourth_plane_is_not_read_for_some_atoms() {
    let log = ReadLog::default();
    let source =
        MemorySource::new("4d", Builder { four_dimensional: true, ..Builder::new(30_000, 2) }.build()).recorded(&log);
    let plane = 4 * 30_000 + 8_u64;
    let size = source.len().unwrap();
    let ends = || log.take_extents().iter().map(|extent| extent.end()).max();
    read(&Dcd, &source, Some(&[1]), Some(vec![7])).unwrap();
    assert!(ends() < Some(size - plane));
    // of a whole frame its record lengths are compared
    read(&Dcd, &source, Some(&[1]), None).unwrap();
    assert_eq!(ends(), Some(size));
}

#[test]
fn cells_alone_need_only_the_heads() {
    let n_atoms = 30_000;
    let cell = Some([50.0, 0.0, 60.0, 0.0, 0.0, 70.0]);
    let free = Some((0..20_000).collect());
    for builder in [Builder { cell, ..Builder::new(n_atoms, 3) }, Builder { cell, free, ..Builder::new(n_atoms, 3) }] {
        let source = MemorySource::new("cells", builder.build());
        let decoder = Dcd.open(&source).unwrap();
        let index = decoder
            .scan(&source, &ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false })
            .unwrap()
            .index;
        let request =
            Request { fields: Fields::CELL, atoms: AtomSelection::all(n_atoms as u32), scales: Scales::NATIVE };
        let wanted: Vec<Wanted> = (0..3).map(|i| Wanted { frame: i, row: i as u32 }).collect();
        let mut segments = Vec::new();
        decoder.segments(&index, &wanted, &request, &mut segments).unwrap();
        assert_eq!(segments.iter().map(|segment| segment.extent.len).collect::<Vec<_>>(), [60; 3]);
        let mut block = Block::default();
        block.reset(0..3, n_atoms, request.fields);
        for segment in &segments {
            let mut bytes = vec![0; 60];
            source.read_exact_at(segment.extent.offset, &mut bytes).unwrap();
            let mut scratch = Scratch::default();
            decoder.decode(segment, &bytes, &wanted, &request, &mut block.as_mut(), &mut scratch).unwrap();
        }
        let cell = [[50.0, 0.0, 0.0], [0.0, 60.0, 0.0], [0.0, 0.0, 70.0]];
        assert!(block.stamps.iter().map(|stamp| stamp.cell).eq([cell; 3]));
    }
}

#[test]
fn any_selection_is_a_slice_of_the_whole() {
    let mut random = Random(11);
    let free: Vec<usize> = (0..20_000).filter(|atom| atom % 3 != 1).collect();
    for builder in [
        Builder { big_endian: true, wide: true, ..Builder::new(20_000, 3) },
        Builder { free: Some(free), cell: Some([50.0, 0.0, 60.0, 0.0, 0.0, 70.0]), ..Builder::new(20_000, 3) },
    ] {
        let source = MemorySource::new("large", builder.clone().build());
        for _ in 0..20 {
            let (start, most) = (random.below(15_000), 1 + random.below(4_000));
            let mut atoms: Vec<u32> = (0..most).map(|_| (start + random.below(5_000)) as u32).collect();
            atoms.sort_unstable();
            atoms.dedup();
            let got = read(&Dcd, &source, None, Some(atoms.clone())).unwrap().block;
            let expected: Vec<f32> = (0..3)
                .flat_map(|frame| atoms.iter().map(move |&atom| (frame, atom as usize)))
                .flat_map(|(frame, atom)| (0..3).map(move |axis| (frame, atom, axis)))
                .map(|(frame, atom, axis)| builder.value(frame, atom, axis))
                .collect();
            assert!(got.positions == expected);
        }
    }
}

#[test]
fn a_title_longer_than_its_record_claims_is_read_by_its_lines() {
    for (big_endian, wide) in [(false, false), (true, true)] {
        let builder = Builder { big_endian, wide, ..Builder::new(7, 4) };
        let whole = builder.clone().build();
        let marker = if wide { 8 } else { 4 };
        // the title has two lines; its lengths become those for one line
        let (before, after) = (84 + 2 * marker, 84 + 3 * marker + 164);
        let low = if big_endian { marker - 1 } else { 0 };
        let mut bytes = whole.clone();
        bytes[before + low] = 84;
        bytes[after + low] = 84;
        let source = MemorySource::new("title", bytes.clone());
        let header = Dcd.open(&source).unwrap().header().clone();
        assert_eq!(header.remarks, ["REMARKS first", "REMARKS second"]);
        assert_eq!(header.warnings, ["the title record has 2 lines of 80, but another length"]);
        assert_eq!(read(&Dcd, &source, None, None).unwrap().block.positions[3], 1.0);
        bytes[after + low] = 85;
        assert_eq!(read_damaged(&Dcd, &bytes).err().unwrap().kind(), ErrorKind::Corrupt);
    }
}

/// The header to the byte as a program writes it, with one frame of one atom.
fn written_by(title: &str, delta: f32, first_step: i32, stride: i32) -> Vec<u8> {
    let mut bytes = Builder::new(1, 3).build();
    bytes[100..180].copy_from_slice(format!("{title:80}").as_bytes());
    bytes[12..16].copy_from_slice(&first_step.to_le_bytes());
    bytes[16..20].copy_from_slice(&stride.to_le_bytes());
    bytes[44..48].copy_from_slice(&delta.to_le_bytes());
    bytes
}

#[test]
fn the_program_that_wrote_a_file_decides_the_unit_of_its_time_step() {
    const AKMA: f64 = 0.048_888_21;
    // title, time step, first step, stride, ps between frames, whether something is assumed
    let programs = [
        ("Written by LAMMPS", 2.0, 0, 250, 0.5, true),
        ("REMARKS FILENAME=eq3.dcd CREATED BY NAMD", 0.040_909_66, 10, 10, 0.02, false),
        ("Created by OpenMM", 0.040_909_66, 1000, 1000, 2.0, false),
        ("* A SYSTEM OF CHARMM", 0.020_454_828, 1000, 1000, 1.0, false),
        ("Created by DCD plugin", 1.0, 0, 1, AKMA, true),
        ("Created by DCD plugin", 0.5, 0, 10, 5.0 * AKMA, false),
        ("RMS fit of a file written by LAMMPS", 0.5, 0, 10, 5.0 * AKMA, false),
    ];
    for (title, delta, first_step, stride, between, assumed) in programs {
        let source = MemorySource::new(title, written_by(title, delta, first_step, stride));
        let block = read(&Dcd, &source, None, None).unwrap().block;
        for frame in 0..3 {
            let expected = between * (f64::from(first_step / stride) + frame as f64);
            assert!((block.stamps[frame].time - expected).abs() <= 1e-6 * expected, "{title}: {:?}", block.stamps);
        }
        assert_eq!(Dcd.open(&source).unwrap().facts().assumption.is_some(), assumed, "{title}");
    }
}

#[test]
fn a_time_step_of_zero_is_no_time() {
    let source = MemorySource::new("x", written_by("Created by HOOMD", 0.0, 0, 10));
    let decoder = Dcd.open(&source).unwrap();
    assert!(!decoder.header().fields.names().contains(&"time"));
    assert!(decoder.facts().assumption.as_deref().unwrap().contains("no times"));
}
