//! Record files that are extended after any of their frames, over a recording sink: their contents after every call,
//! and after calls that fail.

use std::sync::Arc;

use crate::common::opened;
use kinema_core::format::dcd::DcdHeader;
use kinema_core::format::{Making, find_by_name};
use kinema_core::frame::{Fields, Stamp};
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::encode::append::Existing;
use kinema_core::pipeline::encode::record_file::{Given, RecordFile, Values};
use kinema_core::sink::{Fault, RecordingSink, Sink, Written};
use kinema_core::source::MemorySource;

const N_ATOMS: u32 = 9;
const N_FRAMES: u64 = 6;
const FORMATS: [&str; 5] = ["XTC", "TRR", "DCD", "NetCDF", "DL_POLY HISTORY"];

fn making() -> Making {
    Making { n_atoms: N_ATOMS, source_atoms: N_ATOMS, ..Making::default() }
}

fn add(file: &mut RecordFile, frames: std::ops::Range<u64>) {
    for frame in frames {
        let values: Vec<f32> = (0..3 * N_ATOMS).map(|i| (i * 5 % 17) as f32 + frame as f32).collect();
        let stamp = Stamp {
            cell: [[30.0, 0.0, 0.0], [0.0, 40.0, 0.0], [0.0, 0.0, 50.0]],
            step: 100 * frame as i64,
            time: 0.5 * frame as f64,
            ..Stamp::default()
        };
        let given = Given { vectors: [Some(Values::F32(&values)), None, None], stamps: vec![stamp] };
        file.add(&given, &Progress::default()).unwrap();
    }
    file.flush(&Progress::default()).unwrap();
}

fn whole(name: &str, n_frames: u64) -> Vec<u8> {
    let sink = Arc::new(RecordingSink::new("made"));
    let mut file = RecordFile::new(find_by_name(name).unwrap(), &making(), Arc::clone(&sink) as Arc<dyn Sink>, 1);
    add(&mut file, 0..n_frames);
    RecordingSink::replayed(&sink.log(), None, 0).unwrap()
}

/// Frames that readers find, which must be the first of `whole`.
fn n_frames(bytes: &[u8], whole: &[u8]) -> u64 {
    let found = opened(bytes.to_vec()).unwrap();
    let index = &found.scanned().unwrap().parts[0].index;
    let (first, end) = (index.extent(0).offset as usize, index.end().unwrap() as usize);
    assert!(bytes[first..end] == whole[first..end], "frames have changed");
    index.n_frames()
}

/// Whole files, and with the torn front of another frame, with the frames that they have.
fn files(name: &str) -> Vec<(Vec<u8>, u64)> {
    let bytes = whole(name, N_FRAMES);
    let longer = whole(name, N_FRAMES + 1);
    let torn = [&bytes[..], &longer[bytes.len()..bytes.len() + 9]].concat();
    vec![(bytes, N_FRAMES), (torn, N_FRAMES)]
}

#[test]
fn after_each_call_of_a_cut_the_frames_that_stay_are_read() {
    for (name, (bytes, n_there)) in
        FORMATS.into_iter().flat_map(|name| files(name).into_iter().map(move |one| (name, one)))
    {
        let expected = whole(name, N_FRAMES);
        for n_kept in (1..=n_there).map(Some).chain([None]) {
            let kept = n_kept.unwrap_or(n_there);
            let (existing, encoder) =
                Existing::from_trajectory(&opened(bytes.clone()).unwrap(), &making(), n_kept).unwrap().unwrap();
            assert_eq!((existing.kept.frames, existing.first.len() as u64), (kept, kept.min(2)));
            let sink = RecordingSink::new("made");
            existing.cut(&*encoder, &sink).unwrap();
            let log = sink.log();
            let before = Written::Bytes(0, bytes.clone());
            for done in 0..=log.len() {
                let state = RecordingSink::replayed(std::iter::once(&before).chain(&log[..done]), None, 0).unwrap();
                let found = n_frames(&state, &expected);
                assert!(found >= kept, "{name}: {found} of {kept} frames after {done} calls");
                if done == log.len() {
                    assert_eq!((found, state.len() as u64), (kept, existing.kept.bytes), "{name}");
                }
                if name == "DCD" {
                    let claimed = DcdHeader::read(&MemorySource::new("made", state)).unwrap().claimed_frames;
                    assert!(claimed as u64 <= found, "{claimed} of {found} frames are counted");
                }
            }
            // the new count is on the storage before the frames that it no longer counts are gone
            let cut = log.iter().position(|call| matches!(call, Written::Len(_)));
            assert_eq!(cut.is_some(), bytes.len() as u64 > existing.kept.bytes);
            assert!(cut.is_none_or(|cut| log[cut - 1] == Written::Sync) && log.last() == Some(&Written::Sync));
        }
    }
}

#[test]
fn a_cut_that_fails_leaves_the_frames_that_stay() {
    for name in FORMATS {
        let bytes = whole(name, N_FRAMES);
        let (existing, encoder) =
            Existing::from_trajectory(&opened(bytes.clone()).unwrap(), &making(), Some(2)).unwrap().unwrap();
        let good = RecordingSink::new("made");
        existing.cut(&*encoder, &good).unwrap();
        let mut n_failed = 0;
        for (from, call) in good.log().iter().enumerate() {
            let fault = if *call == Written::Sync { Fault::Sync } else { Fault::NoSpace(0) };
            let sink = RecordingSink::failing("made", from, fault);
            if existing.cut(&*encoder, &sink).is_ok() {
                assert!(matches!(call, Written::Len(_)), "an error was passed over");
                continue;
            }
            n_failed += 1;
            let calls = [vec![Written::Bytes(0, bytes.clone())], sink.log()].concat();
            assert!(n_frames(&RecordingSink::replayed(&calls, None, 0).unwrap(), &bytes) >= 2);
        }
        assert!(n_failed > 1, "{name}");
    }
}

#[test]
fn what_is_added_behind_any_frame_makes_the_same_file() {
    for (name, (bytes, n_there)) in
        FORMATS.into_iter().flat_map(|name| files(name).into_iter().map(move |one| (name, one)))
    {
        let expected = whole(name, N_FRAMES + 2);
        for kept in 1..=n_there {
            let sink = Arc::new(RecordingSink::new("made"));
            let trajectory = opened(bytes.clone()).unwrap();
            let shared = Arc::clone(&sink) as Arc<dyn Sink>;
            let mut file = RecordFile::resume(&trajectory, &making(), Some(kept), shared, 1).unwrap();
            assert_eq!((file.n_frames(), file.n_flushed()), (kept, kept));
            add(&mut file, kept..N_FRAMES + 2);
            let calls = [vec![Written::Bytes(0, bytes.clone())], sink.log()].concat();
            let found = RecordingSink::replayed(&calls, None, 0).unwrap();
            assert!(found == expected, "{name} after {kept} frames");
            let scanned = opened(found).unwrap();
            let index = &scanned.scanned().unwrap().parts[0].index;
            assert!(file.index().is_none_or(|found| kinema_core::index::Index::Table(found) == *index), "{name}");
        }
    }
}

#[test]
fn numbers_of_frames_that_are_not_there_are_refused() {
    for asked in [0, 7] {
        let trajectory = opened(whole("DCD", N_FRAMES)).unwrap();
        let error = Existing::from_trajectory(&trajectory, &making(), Some(asked)).err().unwrap();
        assert_eq!(error.what(), format!("frames of the file that stay, expected 1 to 6, found {asked}"));
    }
    let fields = Some(Fields::VELOCITIES);
    let error = Existing::from_trajectory(&opened(whole("DCD", 2)).unwrap(), &Making { fields, ..making() }, None)
        .err()
        .unwrap();
    assert!(error.what().contains("one field in all frames"), "{error}");
}
