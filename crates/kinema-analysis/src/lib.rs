//! Analysis kernels of Kinema: one file a quantity, no input or output.
//!
//! Each kernel states its formula, units and source; none knows a path, a thread or a Python object.

mod accessible_surface;
pub mod analyses;
pub mod arguments;
mod bins;
pub mod changing;
pub mod clustering;
pub mod cpu;
pub mod geometry;
mod lanes;
#[doc(hidden)]
pub mod laws;
mod partials;
pub mod registry;
mod run_parts;
mod secondary_structure;
pub mod superposition;
mod symmetric_matrix;
pub mod transforms;
mod weights;

pub use analyses::lists_per_frame::{ListPerFrame, ListRows};
pub use analyses::per_frame::{PerFrame, Rows};
pub use arguments::{Argument, Arguments};
pub use cpu::Cpu;
pub use partials::lists::{ListChunk, ListColumn};
pub use partials::moments::{Moments, Order};
pub use partials::series::Series;
pub use registry::{KERNELS, KernelInfo};
pub use superposition::{AtomsAndReference, Matrix3};
pub use transforms::superpose::{Superpose, Superposition};
