//! Transforms: what is done to a frame before a kernel sees it.

pub mod superpose;
