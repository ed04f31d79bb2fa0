//! Bytes that come from elsewhere: a cache of slow files on this node, and peers that serve files of theirs.
//!
//! Both sit on `Source` and `OpenSource` of the core, which knows neither. Nothing here knows frames.

pub mod cache;
pub mod peer;
