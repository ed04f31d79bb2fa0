//! The pipeline: frames are read, decoded and given to kernels or put into arrays, on the threads of the trajectory.

pub mod arrays;
pub mod kernels;
mod pool;
pub mod reader;

pub use self::pool::Progress;
