//! Sources: positional reads of bytes, which every reader of a trajectory is built on.
//!
//! There is no cursor, so one handle serves all threads. Frames are unknown here.

mod ahead;
mod content;
mod file;
mod memory;
mod multi;
mod open;
mod pool;
mod recording;
mod shared_number;
mod status;
mod throttled;
mod unchanged;

pub use ahead::ReadList;
pub(crate) use content::PIECE_BYTES;
pub use content::{CONTENT_PLACES, sampled_bytes, sampled_content};
pub use file::{FileSource, open_regular, read_regular};
pub use memory::MemorySource;
pub use multi::MultiFileSource;
pub use open::{Files, OpenSource};
pub use pool::{FilePool, locked};
pub use recording::ReadLog;
pub use shared_number::SharedNumber;
pub use status::{Attributes, Change, FileStatus};
pub use throttled::{Throttle, Throttled};
pub use unchanged::{Unchanged, UnchangedFiles, changed};

use std::io::IoSliceMut;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};

/// A run of bytes in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Extent {
    /// The byte after the last.
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

impl Extent {
    /// Both extents as one, if `next` begins in this one or shortly after it: one call reads them.
    fn joined(self, next: Self) -> Option<Self> {
        let near = next.offset >= self.offset && next.offset <= self.end().saturating_add(MAX_GAP);
        near.then(|| Self { len: self.len.max(next.end() - self.offset), ..self })
    }
}

/// Bytes that are read for these extents, gaps included, as [`Gather::read`] does it.
pub(crate) fn bytes_to_read(extents: impl IntoIterator<Item = Extent>) -> u64 {
    gathered(extents).0
}

/// The same, and the calls to the source.
pub(crate) fn gathered(extents: impl IntoIterator<Item = Extent>) -> (u64, u64) {
    let (mut bytes, mut reads, mut run) = (0, 0, Extent::default());
    for extent in extents.into_iter().filter(|extent| extent.len > 0) {
        match run.joined(extent).filter(|_| run.len > 0) {
            Some(joined) => run = joined,
            None => {
                bytes += run.len;
                reads += 1;
                run = extent;
            }
        }
    }
    (bytes + run.len, reads)
}

/// Something that holds bytes: a file, memory, later a mapped file or an object store.
pub trait Source: Send + Sync {
    /// The path for messages.
    fn path(&self) -> &Path;

    /// Current length in bytes.
    ///
    /// # Errors
    /// The operating system's error.
    fn len(&self) -> Result<u64>;

    /// Inode, size and times now; `None` if the source is not a file.
    ///
    /// # Errors
    /// The operating system's error.
    fn status(&self) -> Result<Option<FileStatus>> {
        Ok(None)
    }

    /// Whether it is open now, so that its status can be had without opening it.
    fn is_open(&self) -> bool {
        true
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// `Truncated` if the source ends before the buffer is full; else the operating system's error.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Fills the buffers, one after the other, from `offset`: with one call to the system if the source can do that.
    ///
    /// # Errors
    /// As [`Source::read_exact_at`].
    fn read_scattered_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        let mut at = offset;
        for buffer in buffers {
            self.read_exact_at(at, buffer)?;
            at += buffer.len() as u64;
        }
        Ok(())
    }

    /// Whether reading does next to nothing between its last call to the system and its return, so that both end together.
    fn reads_end_with_a_call(&self) -> bool {
        false
    }

    /// Asks the system to begin reading an extent that will be read, if it can: only the time of the later read
    /// changes.
    fn will_need(&self, _extent: Extent) {}

    /// Says that the system need not keep an extent in memory, because there is a copy of it: later reads give the same
    /// bytes.
    fn not_needed(&self, _extent: Extent) {}

    /// The end of the hole that begins at `offset`, as far as the system says: all bytes before it are zeros. `offset`
    /// itself if there is no hole, or none is known.
    fn end_of_hole(&self, offset: u64) -> u64 {
        offset
    }

    /// Checks that all bytes of an extent are there, before much memory is taken for them.
    ///
    /// # Errors
    /// `Truncated` if bytes are missing; as [`Source::len`].
    fn check(&self, extent: Extent) -> Result<()> {
        match self.len()? {
            len if extent.end() <= len => Ok(()),
            len => Err(ends_early(self.path(), extent.offset, extent.len, len)),
        }
    }

    /// Whether there are no bytes.
    ///
    /// # Errors
    /// As [`Source::len`].
    fn is_empty(&self) -> Result<bool> {
        self.len().map(|len| len == 0)
    }
}

/// The error of a read beyond the end, the same for every source.
pub(crate) fn ends_early(path: &Path, offset: u64, wanted: u64, len: u64) -> Error {
    Error::new(
        ErrorKind::Truncated,
        format!("the file ends early, expected {wanted} more bytes, found {}", len.saturating_sub(offset)),
    )
    .with_byte(offset)
    .with_path(path)
}

/// Neighbouring extents with no more than this between them are read at once: one call costs about
/// as much as copying this many bytes from the page cache.
pub const MAX_GAP: u64 = 16 * 1024;

/// Longer reads are checked against the length of the file before memory is taken for them.
const UNCHECKED_BYTES: u64 = 4 << 20;

/// The bytes of several extents, read with few calls into one reused buffer.
#[derive(Debug, Default)]
pub struct Gather {
    buffer: Vec<u8>,
    /// Per extent: where it starts in `buffer`, and its length.
    places: Vec<(usize, usize)>,
    /// Bytes asked of the source by the last call, gaps included.
    pub bytes_read: u64,
    /// Calls made to the source by the last call.
    pub reads: u64,
}

impl Gather {
    /// Reads `extents`, which should ascend (others are correct, but not merged).
    ///
    /// # Errors
    /// As [`Source::read_exact_at`].
    pub fn read(&mut self, source: &dyn Source, extents: impl IntoIterator<Item = Extent>) -> Result<()> {
        self.places.clear();
        self.bytes_read = 0;
        self.reads = 0;
        let mut filled = 0_usize;
        let mut run: Option<Extent> = None;
        for extent in extents {
            if extent.len == 0 {
                self.places.push((0, 0));
                continue;
            }
            match run.and_then(|current| current.joined(extent)) {
                Some(joined) => run = Some(joined),
                None => {
                    if let Some(done) = run.replace(extent) {
                        filled = self.fill(source, done, filled)?;
                    }
                }
            }
            let start = run.map_or(0, |current| (extent.offset - current.offset) as usize);
            self.places.push((filled + start, extent.len as usize));
        }
        if let Some(last) = run {
            self.fill(source, last, filled)?;
        }
        Ok(())
    }

    /// Bytes that it holds on to.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity() + self.places.capacity() * size_of::<(usize, usize)>()
    }

    /// The bytes of extent number `i` of the last call of [`Gather::read`].
    pub fn bytes(&self, i: usize) -> &[u8] {
        let (start, len) = self.places[i];
        &self.buffer[start..start + len]
    }

    fn fill(&mut self, source: &dyn Source, run: Extent, filled: usize) -> Result<usize> {
        if run.len > UNCHECKED_BYTES {
            source.check(run)?;
        }
        let end = filled + run.len as usize;
        if self.buffer.len() < end {
            self.buffer.resize(end, 0);
        }
        source.read_exact_at(run.offset, &mut self.buffer[filled..end])?;
        self.bytes_read += run.len;
        self.reads += 1;
        Ok(end)
    }
}
