//! Stored index of a part: loaded, and compared with the frames of the file, because whoever wrote it may have been
//! wrong or malicious.
//!
//! An index lies beside the file, where anyone may put one; its own checksum and identity do not prove who made it.
//! Frames that it leaves out would never be read, so it is compared before it is used: frames must fill the file from
//! its header to its end, and some of them must match their headers. These include frames of unusual length, as two
//! frames taken for one have. Each frame is compared again when it is read ([`check_stamp`]), and so are the frames on
//! both sides of the ends of a window of time.

use std::collections::BTreeSet;
use std::path::Path;

use super::{IndexOrigin, Part, TrajectoryFiles, not_scanned};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Arrangement, Decoder, ScanOptions};
use crate::frame::Stamp;
use crate::index::store::{self, LoadOutcome};
use crate::index::{Index, TableIndex};
use crate::source::Source;

/// Frames at equal distances that are compared, the first among them.
const SPREAD: u64 = 16;
/// How many of the longest and of the shortest frames are compared.
const EXTREMES: usize = 4;

/// Loads the stored index of a file, if it fits.
/// Errors of the source.
pub(super) fn load(path: &Path, source: &dyn Source, decoder: &dyn Decoder, format: &str) -> Result<LoadOutcome> {
    let fault = |table: &TableIndex| fault(source, decoder, table);
    store::load(&store::places(path), source, format, decoder.header().n_atoms, &fault)
}

/// Describes the first difference between a stored index and the frames of the file; `None` if there is none.
///
/// # Errors
/// Errors of the source.
pub fn fault(source: &dyn Source, decoder: &dyn Decoder, table: &TableIndex) -> Result<Option<String>> {
    let Arrangement::Headers(headers) = decoder.arrangement() else { return Ok(None) };
    let first = headers.first_frame();
    if table.first() != first {
        return Ok(Some(format!("its first frame is at byte {}, expected {first}", table.first())));
    }
    let extremes = table.extremes(EXTREMES);
    // lines are counted in two frames alone: all of their bytes are read for it
    let whole = [Some(0), extremes.first().copied()];
    for frame in sampled(table.n_frames()).chain(extremes).collect::<BTreeSet<u64>>() {
        match headers.compare_frame(source, table, frame, whole.contains(&Some(frame))) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Truncated) => {
                return Ok(Some(format!("frame {frame}: {}", error.what())));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// As [`fault`], for a file in which nobody looks for further frames: the index must list all frames that a file of
/// `size` bytes has.
/// Errors of the source, and of scanning the bytes after the last frame.
pub(super) fn fault_of_whole(
    source: &dyn Source,
    decoder: &dyn Decoder,
    table: &TableIndex,
    size: u64,
) -> Result<Option<String>> {
    let fault = fault(source, decoder, table)?;
    // a file that has grown since has more frames
    if fault.is_some() || table.end() == size || source.len()? != size {
        return Ok(fault);
    }
    let previous = Some(Index::Table(table.clone()));
    let options = ScanOptions { previous, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
    let found = decoder.scan(source, &options)?.index.n_frames();
    let left_out = || format!("it leaves out the last frames, expected {found}, found {}", table.n_frames());
    Ok((found > table.n_frames()).then(left_out))
}

/// The first and last of `n` frames, and some between.
fn sampled(n: u64) -> impl Iterator<Item = u64> {
    let spread = n.min(SPREAD);
    (0..spread).map(move |i| (u128::from(i) * u128::from(n) / u128::from(spread)) as u64).chain(n.checked_sub(1))
}

/// Checks that step and time of a frame that was read equal those in the index, by which the frame was chosen.
/// Errors: `Corrupt` with frame and byte.
pub(crate) fn check_stamp(part: &Part, frame: u64, stamp: &Stamp, time_scale: f64) -> Result<()> {
    let Index::Table(table) = &part.index else { return Ok(()) };
    let (step, time) = (table.step(frame), table.time(frame) * time_scale);
    if stamp.step == step && (stamp.time.to_bits() == time.to_bits() || stamp.time.is_nan() && time.is_nan()) {
        return Ok(());
    }
    let differs = if stamp.step == step {
        Error::corrupt("time of the frame in the index", format!("{} as the file says", stamp.time), time)
    } else {
        Error::corrupt("step of the frame in the index", format!("{} as the file says", stamp.step), step)
    };
    Err(advised(part, differs.with_frame(frame).with_byte(table.extent(frame).offset)))
}

impl TrajectoryFiles {
    /// Compares frames of the trajectory with their headers if their index was stored; other indices are right already.
    ///
    /// # Errors
    /// `Corrupt` if they differ; `Internal` before the scan; errors of the source.
    pub fn compare_frames(&self, frames: &[u64]) -> Result<()> {
        let scanned = self.scanned().ok_or_else(not_scanned)?;
        for &frame in frames {
            let span = scanned.concatenation.span_of(frame);
            let part = &scanned.parts[span.part];
            let (Index::Table(table), Arrangement::Headers(headers)) = (&part.index, part.decoder.arrangement()) else {
                continue;
            };
            if !matches!(part.origin, IndexOrigin::Stored | IndexOrigin::Extended) {
                continue;
            }
            let frame = span.kept.start + (frame - span.first_frame);
            let compared = headers.compare_frame(&*self.source(span.part)?, table, frame, false);
            compared.map_err(|error| advised(part, error))?;
        }
        Ok(())
    }
}

/// Adds advice to the error if the index was stored.
fn advised(part: &Part, error: Error) -> Error {
    let error = error.with_format(part.format.info().name).with_path(&part.path);
    if error.kind() != ErrorKind::Corrupt || !matches!(part.origin, IndexOrigin::Stored | IndexOrigin::Extended) {
        return error;
    }
    error.with_advice("the stored index is wrong: rebuild it with kinema index --rebuild")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::format::xtc::Xtc;
    use crate::index::TableBuilder;
    use crate::source::{MemorySource, ReadLog};

    const MIXED: &[u8] = include_bytes!("../../tests/data/xtc/mixed.xtc");

    /// Length, step and time of each frame.
    type Frames = Vec<(u64, i64, f64)>;

    fn table(first: u64, frames: &Frames) -> TableIndex {
        let mut builder = TableBuilder::new(first);
        frames.iter().for_each(|&(len, step, time)| builder.push(len, step, time).expect("it has bytes"));
        builder.finish()
    }

    fn honest(source: &dyn Source, decoder: &dyn Decoder) -> Frames {
        let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
        let Index::Table(found) = decoder.scan(source, &options).expect("sound").index else { panic!("a table") };
        (0..found.n_frames()).map(|i| (found.extent(i).len, found.step(i), found.time(i))).collect()
    }

    #[test]
    fn an_index_that_differs_from_the_frames_is_not_used() {
        let source = MemorySource::new("md.xtc", MIXED.repeat(50));
        let decoder = Xtc.open(&source).expect("it is XTC");
        let frames = honest(&source, &*decoder);
        assert_eq!(frames.len(), 200);
        let found = |first: u64, frames: &Frames| fault(&source, &*decoder, &table(first, frames)).expect("readable");
        assert_eq!(found(0, &frames), None);
        let left_out = found(frames[0].0, &frames[1..].to_vec()).expect("the first frame is left out");
        assert!(left_out.contains("its first frame is at byte"), "{left_out}");
        let changed = |change: &dyn Fn(&mut Frames)| {
            let mut forged = frames.clone();
            change(&mut forged);
            assert!(found(0, &forged).is_some());
        };
        // frames left out wherever they are, by taking two or more for one
        for at in 0..frames.len() - 1 {
            changed(&|forged| {
                let removed = forged.remove(at + 1);
                forged[at].0 += removed.0;
            });
        }
        // one taken for two
        for at in 0..frames.len() {
            changed(&|forged| {
                forged[at].0 -= 60;
                forged.insert(at, (60, 0, 0.0));
            });
        }
        changed(&|forged| forged[0].1 += 1);
        changed(&|forged| forged[199].2 += 1.0);
        changed(&|forged| forged.iter_mut().for_each(|frame| frame.2 += 1e-3));
        changed(&|forged| (forged[0].0, forged[1].0) = (forged[0].0 - 4, forged[1].0 + 4));
    }

    #[test]
    fn an_index_that_is_not_extended_has_the_last_frames() {
        let bytes = MIXED.repeat(5);
        for cut in [0, 9] {
            let source = MemorySource::new("md.xtc", &bytes[..bytes.len() - cut]);
            let size = source.len().expect("in memory");
            let decoder = Xtc.open(&source).expect("it is XTC");
            let frames = honest(&source, &*decoder);
            assert_eq!(frames.len(), if cut > 0 { 19 } else { 20 });
            let found = |frames: &Frames, size: u64| {
                fault_of_whole(&source, &*decoder, &table(0, frames), size).expect("readable")
            };
            // the incomplete last frame does not count
            assert_eq!(found(&frames, size), None);
            let left_out = found(&frames[..16].to_vec(), size).expect("frames are left out");
            assert!(left_out.contains("leaves out the last frames"), "{left_out}");
            assert_eq!(found(&frames[..16].to_vec(), size - 100), None, "the file has grown");
        }
    }

    #[test]
    fn few_frames_are_read_however_many_there_are() {
        let log = ReadLog::default();
        let source = MemorySource::new("md.xtc", MIXED.repeat(500)).recorded(&log);
        let decoder = Xtc.open(&source).expect("it is XTC");
        let table = table(0, &honest(&source, &*decoder));
        log.take_extents();
        assert_eq!(fault(&source, &*decoder, &table).expect("readable"), None);
        let reads = log.take_extents();
        assert!((1..=25).contains(&reads.len()), "{}", reads.len());
        assert!(reads.iter().all(|read| read.len <= 128));
    }
}
