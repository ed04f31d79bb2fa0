//! Kernels and the reduction of their partials: the kernel interface and the fixed merge tree.

mod kernel;
mod leaf_partial;
mod merge_tree;

pub use self::kernel::{AnyKernel, AnyPartial, AtomMap, Buffers, Kernel, Needs, ResultArray, Transform};
pub(crate) use self::leaf_partial::LeafPartial;
pub use self::merge_tree::{MergeTree, Node, Partials};
