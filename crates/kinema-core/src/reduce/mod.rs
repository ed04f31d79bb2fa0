//! Kernels and the reduction of their partials: the kernel interface and the fixed merge tree.

mod bound_kernel;
mod frames;
mod kernel;
mod leaf_partial;
mod merge_tree;
mod values;

pub use self::bound_kernel::BoundKernel;
pub use self::frames::{AtomSets, Frame, Frames, Lattices};
pub use self::kernel::{AnyKernel, AnyPartial, AnyScratch, AtomMap, Kernel, Needs, Transform};
pub(crate) use self::leaf_partial::LeafPartial;
pub use self::merge_tree::{MergeTree, Node, Partials};
pub use self::values::{Number, ResultArray, Values};
