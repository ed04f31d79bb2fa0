//! Records made of some of the atoms at a time are those of `Encoder::encode`, whatever process has which atoms.

use std::sync::Arc;

use crate::common::Random;
use kinema_core::format::{AtomLabels, AtomNumbers, Making, find_by_name};
use kinema_core::frame::{Cell, Fields, NO_CELL, Stamp};
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::encode::atom_records::AtomRecords;
use kinema_core::pipeline::encode::record_file::{Given, RecordFile, Values};
use kinema_core::sink::{MemorySink, Sink};
use kinema_core::{ErrorKind, Result};

const N_ATOMS: u32 = 5003;

/// Values of a frame, in either precision.
struct Frame {
    singles: [Vec<f32>; 3],
    doubles: [Vec<f64>; 3],
    stamp: Stamp,
}

fn frame(random: &mut Random, number: usize, cell: Cell) -> Frame {
    let mut values = || -> Vec<f64> {
        let spread = (random.next() % 7) as i32 - 3;
        (0..3 * N_ATOMS).map(|_| (random.next() as f64 / 2_f64.powi(63) - 1.0) * 10_f64.powi(spread)).collect()
    };
    let doubles = [values(), values(), values()];
    let singles = doubles.each_ref().map(|values| values.iter().map(|&value| value as f32).collect());
    let stamp = Stamp { cell, step: 10 + 5 * number as i64, time: 0.25 * number as f64, ..Stamp::default() };
    Frame { singles, doubles, stamp }
}

impl Frame {
    fn given(&self, fields: Fields, double: bool) -> [Option<Values<'_>>; 3] {
        let mut vectors = [None; 3];
        for (i, _) in Fields::VECTORS.into_iter().enumerate().filter(|(_, field)| fields.contains(*field)) {
            let (singles, doubles) = (Values::F32(&self.singles[i]), Values::F64(&self.doubles[i]));
            vectors[i] = Some(if double { doubles } else { singles });
        }
        vectors
    }
}

/// As `Encoder::encode` makes it.
fn whole(name: &str, making: &Making, frames: &[Frame], double: bool) -> Result<Vec<u8>> {
    let sink = Arc::new(MemorySink::new("made"));
    let format = find_by_name(name).unwrap();
    let mut file = RecordFile::new(format, making, Arc::clone(&sink) as Arc<dyn Sink>, 1);
    let fields = making.fields.unwrap();
    for frame in frames {
        let given = Given { vectors: frame.given(fields, double), stamps: vec![frame.stamp] };
        file.add(&given, &Progress::default())?;
        file.flush(&Progress::default())?;
    }
    Ok(sink.bytes())
}

/// Numbers of all atoms in parts of random atoms; one part has none.
fn parts(random: &mut Random) -> Vec<Vec<u32>> {
    let mut parts = vec![Vec::new(); 4];
    let mut all: Vec<u32> = (0..N_ATOMS).collect();
    for i in (1..all.len()).rev() {
        all.swap(i, random.below(i as u64 + 1) as usize);
    }
    all.into_iter().for_each(|atom| parts[random.below(3) as usize].push(atom));
    parts
}

/// The values of some atoms.
fn taken<T: Copy>(values: &[T], atoms: &[u32]) -> Vec<T> {
    atoms.iter().flat_map(|&atom| values[3 * atom as usize..][..3].to_vec()).collect()
}

fn put(records: &AtomRecords, frame: &Frame, (number, double): (u64, bool), random: &mut Random) -> Result<Vec<u8>> {
    let layout = records.frame_layout(&frame.stamp, number)?;
    let mut record = vec![b'?'; layout.bytes as usize];
    let mut n_put = 0;
    for (offset, piece) in &layout.pieces {
        record[*offset as usize..][..piece.len()].copy_from_slice(piece);
        n_put += piece.len();
    }
    for atoms in parts(random) {
        let singles = frame.singles.each_ref().map(|values| taken(values, &atoms));
        let doubles = frame.doubles.each_ref().map(|values| taken(values, &atoms));
        let mine = Frame { singles, doubles, stamp: frame.stamp };
        let mut start = 0;
        while start < atoms.len() {
            let end = (start + 1 + random.below(3000) as usize).min(atoms.len());
            let mut out: Vec<Vec<u8>> = records.widths().iter().map(|width| vec![0; (end - start) * width]).collect();
            let mut slices: Vec<&mut [u8]> = out.iter_mut().map(Vec::as_mut_slice).collect();
            let vectors = mine.given(records.fields(), double);
            records.encode(vectors, start..end, AtomNumbers::Listed(&atoms), &mut slices)?;
            for (plane, bytes) in layout.planes.iter().zip(&out) {
                let width = plane.width as usize;
                for (atom, bytes) in atoms[start..end].iter().zip(bytes.chunks_exact(width)) {
                    record[plane.offset as usize + *atom as usize * width..][..width].copy_from_slice(bytes);
                    n_put += width;
                }
            }
            start = end;
        }
    }
    assert_eq!(n_put, record.len(), "pieces and planes are the record");
    Ok(record)
}

fn assembled(name: &str, making: &Making, frames: &[Frame], double: bool) -> Result<Vec<u8>> {
    let mut random = Random(11);
    let mut records = AtomRecords::new(find_by_name(name).unwrap(), making)?;
    let (steps, times): (Vec<i64>, Vec<f64>) = frames.iter().map(|frame| (frame.stamp.step, frame.stamp.time)).unzip();
    records.time_by(&steps[..1], &times[..1]);
    let mut file = records.head();
    assert_eq!(records.kept().bytes, file.len() as u64);
    for (number, frame) in (0..).zip(frames) {
        let again = if number == 1 { records.time_by(&steps[..2], &times[..2]) } else { None };
        file.extend(put(&records, frame, (number, double), &mut random)?);
        for marker in again.into_iter().chain(records.marker(number + 1)) {
            file[marker.offset as usize..][..marker.bytes.len()].copy_from_slice(&marker.bytes);
        }
    }
    Ok(file)
}

fn labels(kinds: bool) -> AtomLabels {
    let codes: Vec<u32> = (0..N_ATOMS).map(|atom| atom * atom % 3).collect();
    let (names, masses, charges) = (["Gd", "a long name", "O"], [157.25, 91.224, 15.9994], [3.0, 4.0, -2.0]);
    let rows: Vec<u32> = if kinds { vec![0, 1, 2] } else { codes.clone() };
    AtomLabels {
        names: Some(rows.iter().map(|&kind| names[kind as usize].to_owned()).collect()),
        masses: Some(rows.iter().map(|&kind| masses[kind as usize]).collect()),
        charges: Some(rows.iter().map(|&kind| charges[kind as usize]).collect()),
        codes: kinds.then_some(codes),
        of_source: false,
    }
}

#[test]
fn random_parts_of_the_atoms_make_the_record() {
    let [x, v, f] = Fields::VECTORS;
    let text: &[Fields] = &[x, x | v, x | v | f];
    let binary: &[Fields] = &[x, x | v, x | f, x | v | f, v];
    let cases = [
        ("DL_POLY CONFIG", text, 1, &[None][..]),
        ("DL_POLY HISTORY", text, 3, &[None]),
        ("DCD", &[x, v], 3, &[None]),
        ("NetCDF", binary, 3, &[None]),
        ("TRR", binary, 3, &[Some(false), Some(true)]),
    ];
    let lower = [[60.0, 0.0, 0.0], [1.5, 50.0, 0.0], [2.0, -3.0, 40.0]];
    let known = kinema_core::format::FORMATS.iter().map(|format| format.info()).filter(|info| info.places_atoms);
    assert!(known.map(|info| info.name).all(|name| cases.iter().any(|case| case.0 == name)), "a format without a test");
    for (name, choices, n_frames, precisions) in cases {
        for (&fields, &precision) in choices.iter().flat_map(|one| precisions.iter().map(move |other| (one, other))) {
            for (cell, double) in [(NO_CELL, false), (lower, true), (lower, false), (NO_CELL, true)] {
                let mut random = Random(u64::from(N_ATOMS));
                let frames: Vec<Frame> = (0..n_frames).map(|number| frame(&mut random, number, cell)).collect();
                let known = Making { n_atoms: N_ATOMS, source_atoms: N_ATOMS, ..Making::default() };
                let making = Making { fields: Some(fields), double: precision, title: Some("made".into()), ..known };
                let of_atoms = Making { labels: Some(Arc::new(labels(false))), ..making.clone() };
                let of_kinds = Making { labels: Some(Arc::new(labels(true))), cells: vec![cell], ..making };
                let expected = whole(name, &of_atoms, &frames, double).unwrap();
                let found = assembled(name, &of_kinds, &frames, double).unwrap();
                assert!(found == expected, "{name} {fields:?} {precision:?} {cell:?} {double}");
            }
        }
    }
}

#[test]
fn places_are_counted_in_64_bits() {
    // beyond what CDF-2 holds
    let n_atoms = 400_000_000;
    let making = Making { n_atoms, fields: Some(Fields::POSITIONS | Fields::FORCES), ..Making::default() };
    let mut records = AtomRecords::new(find_by_name("NetCDF").unwrap(), &making).unwrap();
    records.time_by(&[0], &[0.5]);
    assert!(records.head().starts_with(b"CDF\x05"));
    let layout = records.frame_layout(&Stamp { time: 0.5, ..Stamp::default() }, 0).unwrap();
    let planes: Vec<(u64, u64)> = layout.planes.iter().map(|plane| (plane.offset, plane.width)).collect();
    assert_eq!(planes, [(4, 12), (4 + 4_800_000_000, 12)]);
    assert_eq!((layout.bytes, layout.pieces), (4 + 9_600_000_000, vec![(0, 0.5_f32.to_be_bytes().to_vec())]));
    assert_eq!(records.marker(3).map(|marker| marker.bytes), Some(3_u64.to_be_bytes().to_vec()));
    let (values, mut first, mut second) = ([1.0_f32, 2.0, 3.0], [0; 12], [0; 12]);
    let vectors = [Some(Values::F32(&values)), None, Some(Values::F32(&values))];
    records.encode(vectors, 0..1, AtomNumbers::From(n_atoms - 1), &mut [&mut first, &mut second]).unwrap();
    assert_eq!(first[8..], 3.0_f32.to_be_bytes());
    let error = records.encode(vectors, 0..1, AtomNumbers::From(n_atoms), &mut [&mut first, &mut second]).unwrap_err();
    assert!(error.to_string().ends_with("expected less than 400000000, found 400000000"), "{error}");
}

#[test]
fn what_a_frame_is_refused_for_is_that_of_encode() {
    let lower = [[60.0, 0.0, 0.0], [1.5, 50.0, 0.0], [2.0, -3.0, 40.0]];
    for name in ["DCD", "NetCDF", "DL_POLY HISTORY"] {
        let making = Making { n_atoms: N_ATOMS, fields: Some(Fields::POSITIONS), ..Making::default() };
        let mut random = Random(3);
        let mut frames = [frame(&mut random, 0, NO_CELL), frame(&mut random, 1, lower)];
        // a step that no columns hold
        frames[1].stamp.step = if name == "DL_POLY HISTORY" { 100_000_000_000 } else { 15 };
        let expected = whole(name, &making, &frames, false).unwrap_err();
        let found = assembled(name, &making, &frames, false).unwrap_err();
        assert_eq!((found.kind(), found.frame(), found.what()), (expected.kind(), Some(1), expected.what()), "{name}");
    }
    let making = Making { n_atoms: N_ATOMS, fields: Some(Fields::POSITIONS), ..Making::default() };
    let error = AtomRecords::new(find_by_name("XTC").unwrap(), &making).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
