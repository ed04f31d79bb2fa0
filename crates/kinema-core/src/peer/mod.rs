//! Bytes between nodes: what is published on one node, read from another by whoever proves the user's key.
//!
//! It serves what does not change: published files by their names, and blocks of a node's cache by their keys. Nothing
//! here knows frames, and nothing listens that was not asked for.

mod checksum;

pub use checksum::checksum;
