//! The pipeline: frames are read, decoded and given to kernels, put into arrays or encoded, on the threads of the
//! trajectory.
//!
//! Each of its three ends has a folder: `kernels`, `arrays` and `encode`. The files beside them are shared.

mod absent;
mod applied;
pub mod arrays;
mod bound_stack;
pub mod encode;
pub mod kernels;
mod pool;
pub mod reader;

pub use self::bound_stack::{BoundStack, Row, Step};
pub use self::pool::Progress;
