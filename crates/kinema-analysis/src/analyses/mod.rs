//! Analysis kernels, one file a quantity, in folders by topic; `registry.rs` lists them.
//!
//! The files beside the folders are kernels of any topic, which a quantity fills in.

pub mod geometry;
pub mod lists_per_frame;
pub mod motion;
mod of_tuples;
pub mod pairs;
pub mod per_frame;
pub mod structure;
