//! Caches of other nodes: each block has one of them as its home, which is asked before the source.
//!
//! A home asks nobody but the source, and its locks are others than those of blocks that other nodes are asked for: two
//! nodes never wait for each other.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use super::block::{Block, PIECE};
use super::counts::Count;
use super::fetch::{Place, SourceFile};
use super::key::BlockKey;
use super::space::Room;
use super::{NodeCache, Shared};
use crate::error::{Error, ErrorKind, Result};
use crate::source::{Extent, Files, Source};

/// A block of a file in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedBlock {
    /// The file.
    pub path: PathBuf,
    /// Its state, and the size of its blocks.
    pub file: u128,
    /// From 0.
    pub number: u64,
    /// Bytes of a block, but for the last.
    pub block: u64,
}

/// The nodes of a job.
pub trait Nodes: Send + Sync {
    /// Whether another node is the home of this block of a file.
    fn is_away(&self, file: u128, number: u64) -> bool;

    /// Has the home give the block to `take`, in order, in pieces of multiples of 64 KiB but for the last.
    ///
    /// # Errors
    /// Where it does not have it, or fails, or is too slow; those of `take`.
    fn fetch(&self, wanted: &WantedBlock, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;
}

/// A block that is in the cache, as a source of its own.
struct BlockSource(Arc<Block>, PathBuf);

impl Source for BlockSource {
    fn path(&self) -> &Path {
        &self.1
    }

    fn len(&self) -> Result<u64> {
        Ok(self.0.len())
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read(offset, buffer, true)
    }
}

impl NodeCache {
    /// Asks the homes of blocks among these nodes from now on; `None`: nobody.
    pub fn set_nodes(&self, nodes: Option<Arc<dyn Nodes>>) {
        *self.0.nodes.write().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    /// A block for another node: from the cache, else fetched from the source. `None` where the file is in another state
    /// than is wanted, or the block cannot be stored: then the other node reads the source itself.
    ///
    /// # Errors
    /// Those of the source.
    pub fn block_for_others(&self, wanted: &WantedBlock) -> Result<Option<Arc<dyn Source>>> {
        let Some(file) = self.over(Arc::new(Files)).file(&wanted.path)? else { return Ok(None) };
        let is_within = wanted.number.checked_mul(wanted.block).is_some_and(|offset| offset < file.status.size);
        if file.key.0 != wanted.file || wanted.block != self.0.options.block || !is_within {
            return Ok(None);
        }
        match self.0.get_from(None, &file, wanted.number, &|| Ok(()))? {
            Place::Block(block, _) => Ok(Some(Arc::new(BlockSource(block, file.path.clone())))),
            Place::Source => Ok(None),
        }
    }
}

impl Shared {
    pub(super) fn nodes(&self) -> Option<Arc<dyn Nodes>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has the block's home give its bytes, which are written; checksums of its pieces, or `None` where that failed, which
    /// is counted.
    pub(super) fn store_from(
        &self,
        nodes: &dyn Nodes,
        file: &SourceFile,
        key: BlockKey,
        extent: Extent,
        room: &Room<'_>,
    ) -> Option<Vec<u64>> {
        let wanted =
            WantedBlock { path: file.path.clone(), file: key.file.0, number: key.number, block: self.options.block };
        let (mut sums, mut done) = (Vec::with_capacity(extent.len.div_ceil(PIECE as u64) as usize), 0);
        let fetched = nodes.fetch(&wanted, &mut |bytes| {
            if done % PIECE as u64 != 0 || done + bytes.len() as u64 > extent.len {
                return Err(Error::new(ErrorKind::Corrupt, "the home of a block gives other bytes than those of it"));
            }
            let stored = room.new_file().write_pieces(bytes, done);
            sums.extend(stored.map_err(|error| Error::io("a block could not be stored", &error))?);
            done += bytes.len() as u64;
            Ok(())
        });
        let why = match fetched {
            Ok(()) if done == extent.len => {
                self.counts.add(Count::BytesPeers, done);
                return Some(sums);
            }
            Ok(()) => format!("the home of a block gives {done} bytes of {}", extent.len),
            Err(error) => error.to_string(),
        };
        self.counts.add(Count::PeerFailures, 1);
        self.note(why);
        None
    }
}
