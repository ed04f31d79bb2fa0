//! Partials that kernels share, and their bytes.

mod bytes;
pub mod counts;
pub mod lists;
pub mod moments;
pub mod series;
