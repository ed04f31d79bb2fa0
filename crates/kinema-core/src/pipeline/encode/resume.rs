//! Committed frames of a file while it is written, and how a later call continues from there.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Format, ScanOptions};
use crate::index::{Index, TableBuilder};
use crate::sink::Sink;
use crate::source::Source;

/// Frames at the front of a file whose records are all in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Committed {
    /// How many.
    pub frames: u64,
    /// Offset of the end of the last of them.
    pub bytes: u64,
}

/// Committed frames of a file whose records are written in any order; any thread may query them meanwhile.
///
/// They are on the storage only after a sync that begins after the query.
#[derive(Debug, Default)]
pub struct Commits(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    committed: Committed,
    /// Bytes before the first frame.
    head: u64,
    /// Frames and bytes of runs that were written before earlier runs, by their first frame.
    ahead: BTreeMap<u64, Committed>,
}

impl Commits {
    /// Frames and bytes that are in the file now.
    pub fn committed(&self) -> Committed {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).committed
    }

    /// Bytes before the first frame: of all committed bytes, only these are written again, with the number of frames.
    pub fn head(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).head
    }

    /// Begins after these frames; the first of them follows a head of this length.
    pub fn begin(&self, committed: Committed, head: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = State { committed, head, ahead: BTreeMap::new() };
    }

    /// Notes that the records of `frames` frames from `first` on were written.
    pub fn add(&self, first: u64, frames: u64, bytes: u64) {
        let State { committed, ahead, .. } = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.insert(first, Committed { frames, bytes });
        while let Some(run) = ahead.remove(&committed.frames) {
            committed.frames += run.frames;
            committed.bytes += run.bytes;
        }
    }
}

/// Frames left by an earlier call, and found in the file again.
#[derive(Debug, Clone)]
pub struct Resumed {
    /// Frames that are not written again.
    pub committed: Committed,
    /// Their index, for files that need one.
    pub(super) index: TableBuilder,
}

/// Cuts a file at the end of the committed frames, and finds these frames in it; `None` if there are none. `source`
/// reads the file that `sink` writes.
///
/// # Errors
/// `Truncated` or `Corrupt` if the file does not match what was committed; errors of the sink, of the source and of
/// scanning.
pub fn resume(
    format: &dyn Format,
    sink: &dyn Sink,
    source: &dyn Source,
    committed: Committed,
) -> Result<Option<Resumed>> {
    let name = format.info().name;
    let place = |error: Error| error.with_format(name).with_path(sink.path());
    let found = source.len()?;
    if found < committed.bytes {
        let what = format!(
            "the file is shorter than what was written of it, expected at least {} bytes, found {found}",
            committed.bytes
        );
        return Err(place(Error::new(ErrorKind::Truncated, what)));
    }
    if committed.frames == 0 {
        sink.set_len(0)?;
        return Ok(None);
    }
    sink.set_len(committed.bytes)?;
    let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
    let index = format.open(source).and_then(|decoder| decoder.scan(source, &options)).map_err(place)?.index;
    let fits = match &index {
        // whatever the count in the header says by now
        Index::Uniform(uniform) => uniform.first.offset + committed.frames * uniform.stride == committed.bytes,
        Index::Table(_) | Index::Chunked(_) => {
            (index.n_frames(), index.end()) == (committed.frames, Some(committed.bytes))
        }
    };
    if !fits {
        let expected = format!("{} frames up to byte {}", committed.frames, committed.bytes);
        let found = format!("{} up to byte {}", index.n_frames(), index.end().unwrap_or(0));
        return Err(place(Error::corrupt("the file is not what was written", expected, found)));
    }
    let index = match index {
        Index::Table(table) => TableBuilder::extend(table),
        Index::Uniform(_) | Index::Chunked(_) => TableBuilder::new(committed.bytes),
    };
    Ok(Some(Resumed { committed, index }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_count_once_all_before_them_are_there() {
        let commits = Commits::default();
        commits.begin(Committed { frames: 4, bytes: 100 }, 20);
        assert_eq!(commits.head(), 20);
        let after = |first, frames, bytes| {
            commits.add(first, frames, bytes);
            let Committed { frames, bytes } = commits.committed();
            (frames, bytes)
        };
        assert_eq!(after(9, 1, 7), (4, 100));
        assert_eq!(after(6, 3, 30), (4, 100));
        assert_eq!(after(4, 2, 20), (10, 157));
        assert_eq!(after(10, 5, 50), (15, 207));
    }
}
