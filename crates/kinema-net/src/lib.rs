//! Bytes from elsewhere: a cache of slow files on this node, and peers that serve their own files.
//!
//! Both implement `Source` and `OpenSource` of the core, which knows neither. Nothing here knows frames.

pub mod cache;
pub mod peer;
