//! Size and shape of molecules, and how they change.

pub mod average;
pub mod covariance;
pub mod dssp;
pub mod frame_rmsds;
pub mod gyration;
pub mod member_rmsds;
pub mod moment_kernel;
pub mod near_frames;
pub mod positions;
pub mod projections;
pub mod rgyr;
pub mod rmsd;
pub mod rmsf;
pub mod sasa;
