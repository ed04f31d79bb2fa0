//! The pipeline: frames are read, decoded and given to kernels, put into arrays or encoded, on the threads of the trajectory.

mod absent;
pub mod append;
mod applied;
pub mod arrays;
pub mod atom_exchange;
pub mod atom_records;
mod bound_stack;
mod commit;
pub mod encode;
mod encode_plan;
mod encode_rows;
pub mod extended_xyz;
mod job_stacks;
pub mod kernels;
pub mod moments;
mod pool;
pub mod reader;
pub mod record_file;
pub mod resume;
mod row_moments;
mod row_places;
pub mod rows;

pub use self::bound_stack::{BoundStack, Row, Step};
pub use self::pool::Progress;
