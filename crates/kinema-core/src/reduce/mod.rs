//! Kernels, transforms of the frames before them, and the reduction of their partials by a fixed merge tree.

mod bound_kernel;
mod frames;
mod grouping;
mod kernel;
mod leaf_partial;
mod merge_tree;
mod row_buffer;
mod transform;
mod values;

pub use self::bound_kernel::BoundKernel;
pub use self::frames::{AtomSets, Frame, Frames, Workspace, all_finite};
pub use self::grouping::{GroupRows, Grouping};
pub use self::kernel::{AnyKernel, AnyPartial, AnyScratch, Kernel, Needs};
pub(crate) use self::leaf_partial::LeafPartial;
pub use self::merge_tree::{MergeTree, Node, Partials};
pub(crate) use self::row_buffer::RunBuffer;
pub use self::row_buffer::{AnyRowBuffer, RowBuffer, RowSlice};
pub use self::transform::{AnyTransform, AtomMap, FrameMut, RunUp, Stack, Stage, Transform, TransformState, shifted};
pub use self::values::{Number, ResultArray, Values};
