//! Orders in which processes of the node read: by them the blocks that are needed last are removed first.

use std::collections::HashMap;

use super::key::BlockKey;
use super::root::Root;
use super::space::Stored;
use crate::error::Result;

/// When blocks are read again, for those of which that is known: bytes that are read before.
pub(super) fn next_uses(_root: &Root, _block: u64, _blocks: &[Stored]) -> Result<HashMap<BlockKey, u64>> {
    Ok(HashMap::new())
}
