//! Sources that a node serves: its published files, and the blocks of its cache.

use std::collections::HashMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use kinema_core::source::Source;
use kinema_core::{Error, ErrorKind, Result};

use super::{PublishedFiles, Serve};
use crate::cache::{CacheOptions, NodeCache, WantedBlock};

/// First byte of the name of a block; that of a published file begins with another.
const BLOCK: u8 = b'#';
/// Handles of caches that differ in the size of their blocks.
const MOST_SIZES: usize = 32;

/// The name by which a block is requested: state of the file, number, size, path.
pub(super) fn name_of(wanted: &WantedBlock) -> Vec<u8> {
    let WantedBlock { path, file, number, block } = wanted;
    [&[BLOCK][..], &file.to_le_bytes(), &number.to_le_bytes(), &block.to_le_bytes(), path.as_os_str().as_bytes()]
        .concat()
}

fn block_of(name: &[u8]) -> Option<WantedBlock> {
    let (file, rest) = name.strip_prefix(&[BLOCK])?.split_first_chunk::<16>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (block, path) = rest.split_first_chunk::<8>()?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()));
    let (file, number, block) = (u128::from_le_bytes(*file), u64::from_le_bytes(*number), u64::from_le_bytes(*block));
    (path.is_absolute() && block > 0).then_some(WantedBlock { path, file, number, block })
}

/// The content of a node.
pub struct NodeContent {
    published: PublishedFiles,
    cache: Option<CacheOptions>,
    /// By the size of their blocks.
    handles: Mutex<HashMap<u64, NodeCache>>,
}

impl NodeContent {
    /// Serves published files, and a cache if there is one.
    pub fn new(published: PublishedFiles, cache: Option<CacheOptions>) -> Self {
        Self { published, cache, handles: Mutex::default() }
    }

    fn handle(&self, block: u64) -> Result<Option<NodeCache>> {
        let Some(options) = &self.cache else { return Ok(None) };
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = handles.get(&block) {
            return Ok(Some(cache.clone()));
        }
        if handles.len() >= MOST_SIZES {
            return Err(Error::new(ErrorKind::InvalidArgument, "blocks of too many sizes are asked for"));
        }
        let cache = NodeCache::open(CacheOptions { block, ..options.clone() })?;
        handles.insert(block, cache.clone());
        Ok(Some(cache))
    }
}

impl Serve for NodeContent {
    fn open(&self, name: &[u8]) -> Result<Option<Arc<dyn Source>>> {
        if name.first() != Some(&BLOCK) {
            return self.published.open(name);
        }
        let wrong = || Error::new(ErrorKind::InvalidArgument, "this is not the name of a block");
        let wanted = block_of(name).ok_or_else(wrong)?;
        match self.handle(wanted.block)? {
            Some(cache) => cache.block_for_others(&wanted),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_blocks_are_read_back() {
        let wanted = WantedBlock { path: "/shared/a.xtc".into(), file: 5 << 100, number: 7, block: 1 << 24 };
        let name = name_of(&wanted);
        assert_eq!(block_of(&name), Some(wanted.clone()));
        assert_eq!(block_of(&name[..33]), None);
        assert_eq!(block_of(&name_of(&WantedBlock { path: "a.xtc".into(), ..wanted.clone() })), None);
        assert_eq!(block_of(&name_of(&WantedBlock { block: 0, ..wanted })), None);
        let content = NodeContent::new(PublishedFiles::new("/none".into()), None);
        assert!(content.open(&name).unwrap().is_none());
        assert!(content.open(b"#").is_err() && content.open(b"").is_err());
    }
}
