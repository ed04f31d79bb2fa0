//! Notes for users of a cache although each read gave the right bytes: damaged blocks, blocks that are not stored.
//!
//! The next call takes them; of similar notes it gets the number and the first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use kinema_core::source::locked;

/// Kinds of trouble, in the order in which they are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// A damaged block was removed, and its bytes were fetched again.
    Damaged,
    /// A block could not be stored.
    NotStored,
    /// Blocks would have been removed before they are used.
    TooSmall,
}

impl Trouble {
    fn describe(self, root: &Path, n: u64, first: &str) -> String {
        let root = root.display();
        match self {
            Self::Damaged if n == 1 => {
                format!(
                    "{root}: a damaged block of the node cache was removed; its bytes are read from the file: {first}"
                )
            }
            Self::Damaged => format!(
                "{root}: {n} damaged blocks of the node cache were removed; their bytes are read from the files, the \
                 first: {first}"
            ),
            Self::NotStored => {
                format!("{root}: blocks are not stored, and are read from the files themselves: {first}")
            }
            Self::TooSmall => format!("{root}: {first}"),
        }
    }
}

/// Troubles of this process by folder and kind: the number not reported yet, the first of these, and whether some were
/// reported before.
static TROUBLES: Mutex<BTreeMap<(PathBuf, Trouble), Known>> = Mutex::new(BTreeMap::new());

#[derive(Debug, Default)]
struct Known {
    n: u64,
    first: String,
    is_told: bool,
}

/// Damaged blocks are reported each time, other troubles once in a process.
pub(super) fn add(root: &Path, trouble: Trouble, what: impl FnOnce() -> String) {
    let mut troubles = locked(&TROUBLES);
    let known = troubles.entry((root.to_path_buf(), trouble)).or_default();
    if trouble != Trouble::Damaged && known.is_told {
        return;
    }
    if known.n == 0 {
        known.first = what();
    }
    known.n += 1;
}

/// Notes of this process about all caches since the last call, in words.
pub fn take_troubles() -> Vec<String> {
    let mut troubles = locked(&TROUBLES);
    let news = troubles.iter_mut().filter(|(_, known)| known.n > 0);
    let reported = news.map(|((root, trouble), known)| {
        known.is_told = true;
        trouble.describe(root, std::mem::take(&mut known.n), &known.first)
    });
    reported.collect()
}
