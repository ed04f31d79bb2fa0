//! What the file system says of a file without its content being read: inode, size, times of change.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Source;
use crate::error::{Error, Result};

/// Longer than a tick of any kernel's clock of file times: two changes within a tick have one time.
const TICK: Duration = Duration::from_millis(20);
/// As `TICK`, on file systems that keep whole seconds (Lustre, ext3; FAT every second one).
const WHOLE_SECONDS: Duration = Duration::from_millis(2020);
/// Bytes of [`FileStatus::to_bytes`].
const LEN: usize = 40;

/// A file at a moment: which one it is, and when it was last changed.
///
/// The device is none of it: its number differs between nodes that mount the same file system, and after a boot. That two
/// files of one inode number, size and both times are of other content takes a copy of a whole file system.
#[derive(Debug, Clone, Copy)]
pub struct FileStatus {
    /// Number of the inode.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of the content, ns since 1970: programs can set it to what they like.
    pub modified: i64,
    /// Time of the last change of content, name, links or mode, ns since 1970: the kernel alone sets it.
    pub changed: i64,
    /// Whether any later change has a later time, as the last one lay more than a tick of the clock back.
    pub settled: bool,
}

impl FileStatus {
    /// Bytes of [`FileStatus::to_bytes`].
    pub const LEN: usize = LEN;

    /// Of what the operating system has said just now.
    pub fn of(found: &Metadata) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        let changed = nanoseconds(found.ctime(), found.ctime_nsec());
        Self {
            inode: found.ino(),
            size: found.len(),
            modified: nanoseconds(found.mtime(), found.mtime_nsec()),
            changed,
            settled: age(changed).is_some_and(|age| age > tick(changed)),
        }
    }

    /// Of a file that is not opened.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn of_path(path: &Path) -> Result<Self> {
        let found = path.metadata().map_err(|error| Error::io("cannot stat the file", &error).at_path(path))?;
        Ok(Self::of(&found))
    }

    /// Of an open source; where it was changed within the last tick, the tick is waited for, 20 ms at most. To be asked
    /// for before what is to be kept is read. `None` for what is no file.
    ///
    /// # Errors
    /// Those of [`Source::status`].
    pub fn settled_of(source: &dyn Source) -> Result<Option<Self>> {
        let found = source.status()?;
        match found {
            Some(status) if !status.settled && tick(status.changed) == TICK => {
                std::thread::sleep(age(status.changed).map_or(TICK, |age| TICK.saturating_sub(age)));
                std::thread::sleep(Duration::from_millis(1));
                source.status()
            }
            found => Ok(found),
        }
    }

    /// Whether nothing was changed between the two moments, for certain.
    pub fn is_unchanged(&self, now: &Self) -> bool {
        self.settled && self.is_equal(now)
    }

    /// Whether the same inode was changed, and its size is what it was.
    pub fn is_changed_in_place(&self, now: &Self) -> bool {
        (self.inode, self.size) == (now.inode, now.size) && !self.is_equal(now)
    }

    /// Whether nothing was changed, as far as times say it: of changes within a tick of the clock they do not.
    pub(super) fn is_equal(&self, now: &Self) -> bool {
        (self.inode, self.size, self.modified, self.changed) == (now.inode, now.size, now.modified, now.changed)
    }

    /// 40 bytes, little-endian.
    pub fn to_bytes(&self) -> [u8; LEN] {
        let words = [self.inode, self.size, self.modified as u64, self.changed as u64, u64::from(self.settled)];
        let mut bytes = [0; LEN];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Back from [`FileStatus::to_bytes`]; `None` for other bytes.
    pub fn from_bytes(bytes: [u8; LEN]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let &[inode, size, modified, changed, settled @ 0..=1] = &words[..] else { return None };
        Some(Self { inode, size, modified: modified as i64, changed: changed as i64, settled: settled == 1 })
    }
}

/// How long ago a time was by this machine's clock; `None` for one to come.
fn age(time: i64) -> Option<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    match u64::try_from(time) {
        Ok(time) => now.checked_sub(Duration::from_nanos(time)),
        Err(_) => Some(now),
    }
}

fn tick(time: i64) -> Duration {
    if time % 1_000_000_000 == 0 { WHOLE_SECONDS } else { TICK }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(changed: i64, settled: bool) -> FileStatus {
        FileStatus { inode: 7, size: 100, modified: -5, changed, settled }
    }

    #[test]
    fn equal_times_say_something_once_the_tick_is_over() {
        assert!(status(1, true).is_unchanged(&status(1, false)));
        assert!(!status(1, false).is_unchanged(&status(1, true)));
        assert!(!status(1, false).is_changed_in_place(&status(1, true)));
        assert!(status(1, false).is_changed_in_place(&status(2, true)));
        // another file, and one that has grown, may be what they were
        assert!(!status(1, true).is_changed_in_place(&FileStatus { inode: 8, ..status(2, true) }));
        assert!(!status(1, true).is_changed_in_place(&FileStatus { size: 101, ..status(2, true) }));
    }

    #[test]
    fn a_file_that_was_just_written_settles() {
        let path = std::env::temp_dir().join(format!("kinema-status-{}", std::process::id()));
        std::fs::write(&path, b"x").unwrap();
        let source = super::super::FileSource::open(&path).unwrap();
        let found = FileStatus::settled_of(&source).unwrap().unwrap();
        // whole seconds are not waited for
        assert!(found.settled || found.changed % 1_000_000_000 == 0, "{found:?}");
        assert_eq!(found.size, 1);
        assert_eq!(found.inode, FileStatus::of_path(&path).unwrap().inode);
        std::fs::remove_file(&path).unwrap();
        assert!(FileStatus::of_path(&path).is_err());
    }

    #[test]
    fn it_survives_its_bytes() {
        let one = status(1, true);
        let back = FileStatus::from_bytes(one.to_bytes()).unwrap();
        assert!(one.is_equal(&back) && back.settled);
        let mut wrong = one.to_bytes();
        wrong[32] = 2;
        assert!(FileStatus::from_bytes(wrong).is_none());
        assert!(status(i64::MAX, false).is_equal(&FileStatus::from_bytes(status(i64::MAX, false).to_bytes()).unwrap()));
    }

    #[test]
    fn a_time_to_come_is_not_settled() {
        assert_eq!(age(i64::MAX), None);
        assert!(age(-1).is_some());
        assert_eq!(tick(3_000_000_000), WHOLE_SECONDS);
    }
}
