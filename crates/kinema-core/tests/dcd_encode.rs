//! DCD to DCD: planes that are copied, and the bytes of the path that decodes and encodes them.

use std::path::Path;
use std::sync::Arc;

use crate::common::dcd_builder::Builder;
use kinema_core::format::{Encoder, Making, find_by_name};
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::encode::resume::Commits;
use kinema_core::pipeline::encode::{EncodeRequest, encode, making};
use kinema_core::selection::{AtomSelection, FrameSelection};
use kinema_core::sink::MemorySink;
use kinema_core::source::{MemorySource, OpenSource, Source};
use kinema_core::trajectory::{OpenOptions, Trajectory};
use kinema_core::{ErrorKind, Result};

/// Opens files that are in memory, by their numbers.
#[derive(Debug)]
struct InMemory(Vec<Vec<u8>>);

impl OpenSource for InMemory {
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        let name = path.to_string_lossy();
        let number: usize = name.parse().unwrap();
        Ok(Arc::new(MemorySource::new(&name, self.0[number].clone())))
    }
}

fn opened(files: Vec<Vec<u8>>) -> Trajectory {
    let paths = (0..files.len()).map(|number| number.to_string().into()).collect();
    let overlap = kinema_core::trajectory::Overlap::All;
    let options = OpenOptions { sources: Arc::new(InMemory(files)), overlap, ..OpenOptions::default() };
    let trajectory = Trajectory::open(paths, options).unwrap();
    trajectory.scan(1, &|_| Ok(())).unwrap();
    trajectory
}

/// The file that is made of some frames, and whether planes were copied; copying may be forbidden.
fn made(trajectory: &Trajectory, atoms: Option<Vec<u32>>, may_copy: bool) -> (Result<Vec<u8>>, bool) {
    let format = find_by_name("DCD").unwrap();
    let n_atoms = trajectory.n_atoms();
    let atoms = atoms.map_or(AtomSelection::all(n_atoms), |atoms| AtomSelection::new(atoms, n_atoms).unwrap());
    let frames = FrameSelection::List((0..trajectory.scanned().unwrap().concatenation.n_frames).rev().collect());
    let known = making(trajectory, &frames, &atoms, format).unwrap();
    let recoded_version = known.recoded_version.filter(|_| may_copy);
    let scanned = trajectory.scanned().unwrap();
    let stamps = (0..frames.len()).map(|position| {
        let span = scanned.concatenation.span_of(frames.get(position));
        let frame = span.kept.start + (frames.get(position) - span.first_frame);
        let step = scanned.parts[span.part].index.step(frame).unwrap();
        (step, scanned.time(span.part, frame).unwrap_or(f64::NAN))
    });
    let (steps, times) = stamps.unzip();
    let encoder: Box<dyn Encoder> = format.encoder(&Making { recoded_version, steps, times, ..known }).unwrap();
    let request = EncodeRequest { frames, atoms, workers: 2, memory: 0, resumed: None };
    let sink = MemorySink::new("made");
    let done = encode(trajectory, &request, format, &*encoder, &sink, &Commits::default(), &Progress::default());
    (done.map(|_| sink.bytes()), encoder.recodes())
}

const DEGREES: [f64; 6] = [50.0, 80.0, 60.0, 85.0, 75.0, 70.0];
const MATRIX: [f64; 6] = [50.0, 0.5, 60.0, 0.25, 0.125, 70.0];

#[test]
fn planes_are_copied_to_the_same_bytes_where_files_have_the_layout_that_is_written() {
    let plain = Builder::new(7, 5);
    let with = |cell, version| Builder { cell, version, ..plain.clone() };
    let cases = [
        (true, vec![plain.clone()]),
        (true, vec![with(Some(DEGREES), 24)]),
        (true, vec![with(Some(MATRIX), 36)]),
        (true, vec![with(Some([0.0; 6]), 24)]),
        (true, vec![Builder { version: 0, ..plain.clone() }]),
        (true, vec![Builder { magic: b"VELD", ..plain.clone() }]),
        // frames with and without a cell
        (true, vec![with(None, 24), with(Some(DEGREES), 24)]),
        (false, vec![with(Some(DEGREES), 24), with(Some(MATRIX), 36)]),
        (false, vec![Builder { big_endian: true, ..with(Some(DEGREES), 24) }]),
        (false, vec![plain.clone(), Builder { big_endian: true, ..plain.clone() }]),
        (false, vec![Builder { wide: true, ..plain.clone() }]),
        (false, vec![Builder { free: Some(vec![1, 4]), ..plain.clone() }]),
        (false, vec![Builder { four_dimensional: true, ..plain.clone() }]),
    ];
    for (number, (copied, builders)) in cases.into_iter().enumerate() {
        let trajectory = opened(builders.into_iter().map(Builder::build).collect());
        let (bytes, was_copied) = made(&trajectory, None, true);
        let (expected, encoded) = made(&trajectory, None, false);
        assert_eq!((was_copied, encoded), (copied, false), "case {number}");
        match (bytes, expected) {
            (Ok(bytes), Ok(expected)) => assert!(bytes == expected, "case {number}"),
            // a cell of a kind that the file does not have
            (Err(error), Err(expected)) => assert_eq!(error.what(), expected.what(), "case {number}"),
            (found, expected) => panic!("case {number}: {found:?} {expected:?}"),
        }
    }
    let trajectory = opened(vec![plain.build()]);
    assert!(!made(&trajectory, Some(vec![0, 1, 2, 3, 4, 5]), true).1);
    assert!(!made(&trajectory, Some(vec![6, 5, 4, 3, 2, 1, 0]), true).1);
}

#[test]
fn damage_in_what_is_copied_has_the_place_that_decoding_gives() {
    let sound = Builder { cell: Some(DEGREES), ..Builder::new(7, 5) }.build();
    let record = 56 + 3 * (8 + 28);
    let frame = sound.len() - 2 * record;
    let lengths = [0, 52, 56, 56 + 32, 92, 92 + 32, 128, 128 + 32];
    for at in lengths {
        let mut bytes = sound.clone();
        bytes[frame + at + 1] ^= 1;
        let trajectory = opened(vec![bytes]);
        let (found, expected) = (made(&trajectory, None, true), made(&trajectory, None, false));
        assert!(found.1 && !expected.1);
        let (found, expected) = (found.0.unwrap_err(), expected.0.unwrap_err());
        assert_eq!(found.kind(), ErrorKind::Corrupt);
        assert_eq!(found.to_string(), expected.to_string());
        assert_eq!((found.frame(), found.offset()), (Some(3), Some((frame + at) as u64)), "{found}");
    }
    // numbers that do not make a cell do not make one in the copy either
    let mut bytes = sound;
    bytes[frame + 4..frame + 12].copy_from_slice(&f64::NAN.to_le_bytes());
    let trajectory = opened(vec![bytes]);
    let (found, expected) = (made(&trajectory, None, true).0, made(&trajectory, None, false).0);
    let (found, expected) = (found.unwrap(), expected.unwrap());
    assert!(found == expected);
    // written in reverse, the last frame but one is the second
    assert_eq!(found[found.len() - 4 * record + 4..][..48], [0; 48]);
}
