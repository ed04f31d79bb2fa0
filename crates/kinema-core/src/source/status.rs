//! Status of a file, which the file system gives without reading the content: inode, size, times of change.

use std::cmp::Ordering;
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
/// Words of [`FileStatus::to_words`].
const WORDS: usize = 9;

/// Attributes of a file besides content and times; a change of them sets the time of change as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Kind and permissions.
    pub mode: u32,
    /// Number of the user that it belongs to.
    pub user: u32,
    /// Number of the group that it belongs to.
    pub group: u32,
    /// Number of its names (hard links).
    pub links: u64,
}

/// The change of a file between two looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Nothing, or its permissions, owner or number of names alone.
    None,
    /// It is longer.
    Grown,
    /// It is another file, shorter, or may have other content; the evidence, in words.
    Changed(String),
}

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
    /// Permissions, owner and names; `None` of a status that was stored.
    pub attributes: Option<Attributes>,
}

impl FileStatus {
    /// Bytes of [`FileStatus::to_bytes`].
    pub const LEN: usize = LEN;
    /// Words of [`FileStatus::to_words`].
    pub const WORDS: usize = WORDS;

    /// The status in what the operating system has just returned.
    pub fn from_metadata(found: &Metadata) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        let changed = nanoseconds(found.ctime(), found.ctime_nsec());
        Self {
            inode: found.ino(),
            size: found.len(),
            modified: nanoseconds(found.mtime(), found.mtime_nsec()),
            changed,
            settled: age(changed).is_some_and(|age| age > tick(changed)),
            attributes: Some(Attributes {
                mode: found.mode(),
                user: found.uid(),
                group: found.gid(),
                links: found.nlink(),
            }),
        }
    }

    /// The status of a file that is not opened.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn from_path(path: &Path) -> Result<Self> {
        let found = path.metadata().map_err(|error| Error::io("cannot stat the file", &error).with_path(path))?;
        Ok(Self::from_metadata(&found))
    }

    /// The status of an open source. If the source was changed within the last tick, waits for the tick, 20 ms at most.
    /// Call it before reading what is to be kept. `None` if the source is not a file.
    ///
    /// # Errors
    /// As [`Source::status`].
    pub fn settled_of(source: &dyn Source) -> Result<Option<Self>> {
        match source.status()? {
            Some(status) if status.waits() => source.status(),
            found => Ok(found),
        }
    }

    /// The same for a file that is not opened.
    ///
    /// # Errors
    /// As [`FileStatus::from_path`].
    pub fn settled_of_path(path: &Path) -> Result<Self> {
        match Self::from_path(path)? {
            status if status.waits() => Self::from_path(path),
            found => Ok(found),
        }
    }

    /// Waits for the end of the tick of the last change, if that makes a status settled; returns whether it waited.
    fn waits(&self) -> bool {
        let waits = !self.settled && tick(self.changed) == TICK;
        if waits {
            std::thread::sleep(age(self.changed).map_or(TICK, |age| TICK.saturating_sub(age)));
            std::thread::sleep(Duration::from_millis(1));
        }
        waits
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
    pub fn is_equal(&self, now: &Self) -> bool {
        (self.inode, self.size, self.modified, self.changed) == (now.inode, now.size, now.modified, now.changed)
    }

    /// The change of the file from this status to `now`, as far as the statuses tell.
    ///
    /// A new time of modification counts as new content. So does a new time of change alone (content may have been
    /// written and the other time restored), unless something explains it: other permissions, owner or number of names,
    /// or a new name (`moved`).
    pub fn change_to(&self, now: &Self, moved: bool) -> Change {
        if self.is_equal(now) {
            return Change::None;
        }
        if self.inode != now.inode {
            let (expected, found) = (self.inode, now.inode);
            return Change::Changed(format!("another file has its name, expected inode {expected}, found {found}"));
        }
        match now.size.cmp(&self.size) {
            Ordering::Less => {
                let (expected, found) = (self.size, now.size);
                return Change::Changed(format!("it is shorter, expected {expected} bytes, found {found}"));
            }
            Ordering::Greater => return Change::Grown,
            Ordering::Equal => {}
        }
        let in_place = |what: &str, then: i64, now: i64| {
            let (then, now) = (seconds(then), seconds(now));
            Change::Changed(format!("it was changed in place, {what} (s since 1970), expected {then}, found {now}"))
        };
        if self.modified != now.modified {
            return in_place("time of modification", self.modified, now.modified);
        }
        match (self.attributes, now.attributes) {
            (Some(then), Some(now)) if then != now => Change::None,
            _ if moved => Change::None,
            _ => in_place("time of change", self.changed, now.changed),
        }
    }

    /// All of it, for another process.
    pub fn to_words(&self) -> [u64; WORDS] {
        let Attributes { mode, user, group, links } =
            self.attributes.unwrap_or(Attributes { mode: 0, user: 0, group: 0, links: 0 });
        let (modified, changed) = (self.modified as u64, self.changed as u64);
        let owner = u64::from(user) | u64::from(group) << 32;
        let known = u64::from(self.attributes.is_some());
        [self.inode, self.size, modified, changed, u64::from(self.settled), known, u64::from(mode), owner, links]
    }

    /// Back from [`FileStatus::to_words`].
    pub fn from_words(words: [u64; WORDS]) -> Self {
        let [inode, size, modified, changed, settled, known, mode, owner, links] = words;
        let attributes = Attributes { mode: mode as u32, user: owner as u32, group: (owner >> 32) as u32, links };
        let attributes = (known == 1).then_some(attributes);
        Self { inode, size, modified: modified as i64, changed: changed as i64, settled: settled == 1, attributes }
    }

    /// 40 bytes, little-endian; of its attributes nothing.
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
        let (modified, changed) = (modified as i64, changed as i64);
        Some(Self { inode, size, modified, changed, settled: settled == 1, attributes: None })
    }
}

/// A time in seconds, with all its digits.
fn seconds(time: i64) -> String {
    let (sign, time) = (if time < 0 { "-" } else { "" }, time.unsigned_abs());
    format!("{sign}{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
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
        let attributes = Some(Attributes { mode: 0o100_644, user: 1, group: 2, links: 1 });
        FileStatus { inode: 7, size: 100, modified: -5, changed, settled, attributes }
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
        assert_eq!(found.inode, FileStatus::from_path(&path).unwrap().inode);
        std::fs::remove_file(&path).unwrap();
        assert!(FileStatus::from_path(&path).is_err());
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
    fn what_has_become_of_a_file() {
        let then = status(1, true);
        let attributes = then.attributes.map(|before| Attributes { links: 2, ..before });
        let said = |now: FileStatus| match then.change_to(&now, false) {
            Change::Changed(how) => how,
            other => format!("{other:?}"),
        };
        assert_eq!(said(status(1, false)), "None");
        assert_eq!(said(FileStatus { attributes, ..status(2, true) }), "None");
        assert_eq!(said(FileStatus { size: 101, ..status(2, true) }), "Grown");
        assert!(said(FileStatus { size: 99, ..status(2, true) }).contains("shorter, expected 100 bytes, found 99"));
        assert!(said(FileStatus { inode: 8, ..status(2, true) }).contains("expected inode 7, found 8"));
        let in_place = said(FileStatus { modified: 5, attributes, ..status(2, true) });
        assert!(in_place.contains("expected -0.000000005, found 0.000000005"), "{in_place}");
        // a time of modification that was restored, and nothing that explains the time of change
        assert!(said(status(2, true)).contains("time of change (s since 1970), expected 0.000000001"));
        assert!(said(FileStatus { attributes: None, ..status(2, true) }).contains("time of change"));
        assert_eq!(then.change_to(&status(2, true), true), Change::None);
        for one in [then, FileStatus { attributes: None, ..then }] {
            let back = FileStatus::from_words(one.to_words());
            assert!(back.is_equal(&one) && back.settled && back.attributes == one.attributes);
        }
    }

    #[test]
    fn a_time_to_come_is_not_settled() {
        assert_eq!(age(i64::MAX), None);
        assert!(age(-1).is_some());
        assert_eq!(tick(3_000_000_000), WHOLE_SECONDS);
    }
}
