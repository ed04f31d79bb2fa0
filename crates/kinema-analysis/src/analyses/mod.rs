//! Analysis kernels, one file a quantity, in folders by topic; `registry.rs` lists them.
//!
//! The files beside the folders are generic kernels, which a quantity completes.

pub mod density;
pub mod geometry;
pub mod lists_per_frame;
pub mod motion;
mod of_members;
pub mod pairs;
pub mod per_frame;
pub mod structure;
pub mod sum_per_frame;
mod tuples;
