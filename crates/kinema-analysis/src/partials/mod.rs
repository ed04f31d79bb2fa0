//! Partials that kernels share, and their bytes.

pub(crate) mod bytes;
pub mod counts;
pub(crate) mod covariance;
pub(crate) mod fixed_point;
pub mod lists;
pub mod moments;
pub mod series;
