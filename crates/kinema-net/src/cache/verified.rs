//! Pieces of blocks that this process has compared with their checksums: each piece once for `Verify::First`.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use kinema_core::source::locked;

use super::key::BlockKey;

const BITS: usize = u64::BITS as usize;

/// One bit a piece of a block.
#[derive(Debug)]
pub(super) struct Pieces(Box<[AtomicU64]>);

impl Pieces {
    pub(super) fn new(n: usize) -> Self {
        Self((0..n.div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn has(&self, piece: usize) -> bool {
        self.0.get(piece / BITS).is_some_and(|word| word.load(Ordering::Acquire) & 1 << (piece % BITS) != 0)
    }

    pub(super) fn add(&self, piece: usize) {
        if let Some(word) = self.0.get(piece / BITS) {
            word.fetch_or(1 << (piece % BITS), Ordering::AcqRel);
        }
    }
}

/// The file of a block: a block that was fetched again is another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Which {
    inode: u64,
    made: Option<SystemTime>,
}

/// The blocks of which this process has compared pieces, open or not.
#[derive(Debug, Default)]
pub(super) struct Verified(Mutex<HashMap<BlockKey, (Which, Arc<Pieces>)>>);

impl Verified {
    /// Pieces of the file of a block of `n` pieces.
    pub(super) fn pieces(&self, key: BlockKey, file: &Metadata, n: usize) -> Arc<Pieces> {
        let which = Which { inode: file.ino(), made: file.created().ok() };
        let mut blocks = locked(&self.0);
        match blocks.get(&key) {
            Some((known, pieces)) if *known == which => pieces.clone(),
            _ => {
                let pieces = Arc::new(Pieces::new(n));
                blocks.insert(key, (which, pieces.clone()));
                pieces
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::key::FileKey;

    #[test]
    fn pieces_of_a_file_are_known_and_those_of_another_are_not() {
        let path = std::env::temp_dir().join(format!("kinema-verified-{}", std::process::id()));
        let other = path.with_extension("other");
        std::fs::write(&path, b"x").unwrap();
        std::fs::write(&other, b"x").unwrap();
        let (file, other_file) = (path.metadata().unwrap(), other.metadata().unwrap());
        let (verified, key) = (Verified::default(), BlockKey { file: FileKey(1), number: 2 });
        let pieces = verified.pieces(key, &file, 130);
        [0, 63, 64, 129].into_iter().for_each(|piece| pieces.add(piece));
        let again = verified.pieces(key, &file, 130);
        assert_eq!((0..400).filter(|&piece| again.has(piece)).collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert!(!verified.pieces(key, &other_file, 130).has(0));
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&other).unwrap();
    }
}
