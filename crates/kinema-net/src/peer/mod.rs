//! Bytes between nodes: files published on one node, read from another by anyone who proves the user's key.
//!
//! It serves unchanging data: published files by their names, and blocks of a node's cache by their keys. Nothing here
//! knows frames, and nothing listens unless it was asked to. Both sides prove the key before any byte of a file is
//! sent, and each message is sealed: encrypted, with a code that only these two can make.

mod blocks;
mod channel;
mod checksum;
mod client;
mod key;
mod places;
mod published;
mod served;
mod server;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::source::Source;

pub use blocks::{BlockNodes, Node};
pub use channel::Message;
pub use checksum::checksum;
pub use client::{Client, fetch_file};
pub use key::Key;
pub use published::PublishedFiles;
pub use served::NodeContent;
pub use server::{Limits, Server, ServerCounts};
pub use wire::Patience;

/// Bytes of a file or block that one message carries at most.
pub const PIECE: usize = 1 << 20;

/// Longest name of a request.
pub const LONGEST_NAME: usize = 4096 + 64;

/// Something whose content does not change, by names.
pub trait Serve: Send + Sync {
    /// Opens the source with this name; `None` if there is none. Called by several threads at once.
    ///
    /// # Errors
    /// Errors of opening it.
    fn open(&self, name: &[u8]) -> Result<Option<Arc<dyn Source>>>;
}
