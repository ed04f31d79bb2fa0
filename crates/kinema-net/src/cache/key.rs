//! Keys: which file in which state a block is of.

use kinema_core::Result;
use kinema_core::source::{CONTENT_PLACES, FileStatus, Source, sampled_content};
use xxhash_rust::xxh3::xxh3_128;

/// A file in one state, cut into blocks of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileKey(pub u128);

/// A block of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct BlockKey {
    pub file: FileKey,
    /// From 0, in the file.
    pub number: u64,
}

impl FileKey {
    /// Key of an open file, whose content is read directly: never through a cache. `status` is the status before this
    /// reading.
    ///
    /// A file that has grown has a different size, and therefore a different key.
    pub(super) fn from_source(source: &dyn Source, status: &FileStatus, block: u64) -> Result<Self> {
        let [head, tail, pieces] = sampled_content(source, status.size, CONTENT_PLACES)?;
        let words =
            [1, status.inode, status.size, status.modified as u64, status.changed as u64, head, tail, pieces, block];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Ok(Self(xxh3_128(&bytes)))
    }

    pub(super) fn text(self) -> String {
        format!("{:032x}", self.0)
    }

    /// Back from its text.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let digits = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        u128::from_str_radix(text, 16).ok().filter(|_| digits).map(Self)
    }
}

impl BlockKey {
    /// A number that differs between blocks, evenly.
    pub(super) fn spread(self) -> u64 {
        (self.file.0 as u64).wrapping_add(self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 32
    }
}
