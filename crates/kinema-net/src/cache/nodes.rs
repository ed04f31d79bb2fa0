//! Caches of other nodes, which are asked for a block before the source: its home, or the first node that has read it.
//!
//! A home asks only the source, and its locks differ from the locks of blocks that other nodes are asked for: two nodes
//! never wait for each other.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use kinema_core::source::{Extent, Files, Source};
use kinema_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::block::{Block, PIECE};
use super::counts::Count;
use super::fetch::{Place, SourceFile};
use super::key::BlockKey;
use super::space::{For, Room};
use super::{NodeCache, Shared, Verify};

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

impl WantedBlock {
    /// XXH3-128 of the file's state and the block in it; the file's name does not count.
    pub fn hash(&self) -> u128 {
        let parts = [&self.file.to_le_bytes()[..], &self.number.to_le_bytes(), &self.block.to_le_bytes()];
        xxh3_128(&parts.concat())
    }
}

/// Outcome of a request for a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// All of it was given. The value is the expected checksum, as in `StoredBlock`, if it is known.
    Given(Option<u64>),
    /// No node has it: this one reads the source, and reports the result by `Nodes::stored`.
    Claimed,
}

/// A block that is in this node's cache now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredBlock<'a> {
    /// A file that begins with its bytes.
    pub path: &'a Path,
    /// How many they are.
    pub len: u64,
    /// XXH3-64 of the checksums of its pieces.
    pub checksum: u64,
}

/// The nodes of a job.
pub trait Nodes: Send + Sync {
    /// Whether another node is the home of this block of a file.
    fn is_away(&self, file: u128, number: u64) -> bool;

    /// Has another node pass the block to `take`, in order, in pieces whose lengths are multiples of 64 KiB except for
    /// the last.
    ///
    /// # Errors
    /// If the node does not have the block, fails, or is too slow; errors of `take`.
    fn fetch(&self, wanted: &WantedBlock, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Answer>;

    /// Reports a block that was `Claimed`; `None` if it could not be read or stored.
    fn stored(&self, _wanted: &WantedBlock, _block: Option<StoredBlock<'_>>) {}
}

/// A block that this node reads for all; given up when it is dropped.
pub(super) struct Claim<'a> {
    nodes: &'a dyn Nodes,
    wanted: WantedBlock,
    is_stored: bool,
}

impl Claim<'_> {
    /// Says that the block is in this file.
    pub(super) fn stored(mut self, path: &Path, len: u64, sums: &[u64]) {
        self.is_stored = true;
        self.nodes.stored(&self.wanted, Some(StoredBlock { path, len, checksum: sum_of(sums) }));
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.is_stored {
            self.nodes.stored(&self.wanted, None);
        }
    }
}

/// Origin of the bytes of a block.
pub(super) enum Origin<'a> {
    /// Another node has given them: checksums of the pieces, which are written.
    Given(Vec<u64>),
    /// The source, from which this node may have to read them for all.
    Source(Option<Claim<'a>>),
}

fn sum_of(sums: &[u64]) -> u64 {
    xxh3_64(&sums.iter().flat_map(|sum| sum.to_le_bytes()).collect::<Vec<_>>())
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
        self.0.read(offset, buffer, Verify::Always)
    }
}

impl NodeCache {
    /// From now on, asks the homes of blocks among these nodes; `None`: asks nobody.
    pub fn set_nodes(&self, nodes: Option<Arc<dyn Nodes>>) {
        *self.0.nodes.write().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    /// A block for another node: from the cache, or else fetched from the source. `None` if the file's state differs
    /// from the wanted one, or if the block cannot be stored: the other node then reads the source itself.
    ///
    /// # Errors
    /// Errors of the source.
    pub fn block_for_others(&self, wanted: &WantedBlock) -> Result<Option<Arc<dyn Source>>> {
        let Some(file) = self.wrap(Arc::new(Files)).file(&wanted.path)? else { return Ok(None) };
        let is_within = wanted.number.checked_mul(wanted.block).is_some_and(|offset| offset < file.status.size);
        if file.key.0 != wanted.file || wanted.block != self.0.options.block || !is_within {
            return Ok(None);
        }
        match self.0.get_from(None, &file, wanted.number, For::Staging, &|| Ok(()))? {
            Place::Block(block, _) => Ok(Some(Arc::new(BlockSource(block, file.path.clone())))),
            Place::Source => Ok(None),
        }
    }
}

impl Shared {
    pub(super) fn nodes(&self) -> Option<Arc<dyn Nodes>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gets the bytes of a block from another node, and writes them. Failures are counted, and lead to the source.
    pub(super) fn store_from<'a>(
        &self,
        nodes: &'a dyn Nodes,
        file: &SourceFile,
        key: BlockKey,
        extent: Extent,
        room: &Room<'_>,
    ) -> Origin<'a> {
        let wanted =
            WantedBlock { path: file.path.clone(), file: key.file.0, number: key.number, block: self.options.block };
        let (mut sums, mut done) = (Vec::with_capacity(extent.len.div_ceil(PIECE as u64) as usize), 0);
        let fetched = nodes.fetch(&wanted, &mut |bytes| {
            if done % PIECE as u64 != 0 || done + bytes.len() as u64 > extent.len {
                return Err(Error::new(ErrorKind::Corrupt, "a node gives other bytes of a block than those of it"));
            }
            let stored = room.new_file().write_pieces(bytes, done);
            sums.extend(stored.map_err(|error| Error::io("a block could not be stored", &error))?);
            done += bytes.len() as u64;
            Ok(())
        });
        let why = match fetched {
            Ok(Answer::Claimed) => return Origin::Source(Some(Claim { nodes, wanted, is_stored: false })),
            Ok(Answer::Given(_)) if done != extent.len => {
                format!("a node gives {done} bytes of a block, expected {}", extent.len)
            }
            Ok(Answer::Given(Some(expected))) if expected != sum_of(&sums) => {
                format!(
                    "a node gives other bytes of a block: checksum, expected {expected:016x}, found {:016x}",
                    sum_of(&sums)
                )
            }
            Ok(Answer::Given(_)) => {
                self.counts.add(Count::BytesPeers, done);
                return Origin::Given(sums);
            }
            Err(error) => error.to_string(),
        };
        self.counts.add(Count::PeerFailures, 1);
        self.note(why);
        Origin::Source(None)
    }
}
