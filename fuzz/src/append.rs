//! Bytes as a file that is extended: the frames of the file stay, and one more frame is read after them.

use std::sync::Arc;

use kinema_core::ErrorKind;
use kinema_core::format::{Format, Making, dcd, dlpoly, netcdf, trr, xtc};
use kinema_core::frame::Stamp;
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::encode::record_file::{Given, RecordFile, Values};
use kinema_core::sink::{MemorySink, Sink};

use super::files::expand;
use super::records::opened;

/// Formats whose files can be extended, chosen by the first byte of an input.
const FORMATS: [&dyn Format; 5] = [&xtc::Xtc, &trr::Trr, &dcd::Dcd, &netcdf::Netcdf, &dlpoly::History];
/// More are not read back, for the time that it takes.
const MOST_ATOMS: u32 = 2000;

/// The format of an input.
pub fn format_of(data: &[u8]) -> &'static dyn Format {
    FORMATS[usize::from(data.first().copied().unwrap_or(0)) % FORMATS.len()]
}

/// Extends the file after all of its frames, and after the first.
pub fn go_on(data: &[u8]) {
    let Some((_, file)) = data.split_first() else { return };
    let (format, file) = (format_of(data), expand(file));
    for n_frames in [None, Some(1)] {
        behind(format, &file, n_frames);
    }
}

fn behind(format: &'static dyn Format, file: &[u8], n_frames: Option<u64>) {
    let Ok(before) = opened(file.to_vec(), format) else { return };
    if before.n_atoms() > MOST_ATOMS {
        return;
    }
    let there = before.scanned().map_or(0, |scanned| scanned.concatenation.n_frames);
    let sink = Arc::new(MemorySink::new("grown"));
    sink.write_at(0, file).expect("memory");
    let resumed = RecordFile::resume(&before, &Making::default(), n_frames, Arc::clone(&sink) as Arc<dyn Sink>, 1);
    let mut grown = match resumed {
        Ok(grown) => grown,
        Err(error) => {
            assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
            assert!(sink.bytes() == file, "a file that cannot be extended has changed: {error}");
            return;
        }
    };
    let kept = grown.n_frames();
    assert!(kept == if there == 0 { 0 } else { n_frames.unwrap_or(there) });
    let zeros = vec![0.0_f32; 3 * before.n_atoms() as usize];
    let stamp = Stamp { cell: [[9.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 9.0]], ..Stamp::default() };
    let given = Given { vectors: [Some(Values::F32(&zeros)); 3], stamps: vec![stamp] };
    let progress = Progress::default();
    let added = grown.add(&given, &progress).and_then(|()| grown.flush(&progress));
    if let Err(error) = &added {
        assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
    }
    if kept == 0 && added.is_err() {
        return;
    }
    let after = opened(sink.bytes(), format).expect("what is left is read");
    let found = after.scanned().map_or(0, |scanned| scanned.concatenation.n_frames);
    assert_eq!(found, kept + u64::from(added.is_ok()), "frames of {there}, extended after {n_frames:?}: {added:?}");
}
