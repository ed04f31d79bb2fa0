//! Partials that kernels share, and their bytes.

mod bytes;
pub mod moments;
pub mod series;
