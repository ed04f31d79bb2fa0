//! The kernel interface: what an analysis needs, how it accumulates blocks into a partial, how partials merge and finish.
//!
//! Kernels see blocks, never paths; they live in `kinema-analysis`.

use std::any::Any;
use std::ops::Range;

use super::{AnyRowBuffer, Frames, ResultArray};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::Fields;
use crate::selection::AtomSelection;

/// Fields and atoms that a kernel or transform needs from the reader.
#[derive(Debug, Clone)]
pub struct Needs {
    /// Fields beyond steps and times, which every block has.
    pub fields: Fields,
    /// Atom sets (for RMSD: the set of the superposition, then one set for each RMSD group).
    pub atom_sets: Vec<AtomSelection>,
}

/// One analysis. Laws, tested for each: `empty` is neutral under `merge`; accumulating a leaf in several blocks
/// gives the same bits as in one; `from_bytes(to_bytes(p))` is `p`.
pub trait Kernel: Send + Sync {
    /// Data gathered from frames: self-contained (sums and counts, never means).
    type Partial: Send + 'static;
    /// Working state of one worker, such as buffers, kept from block to block; it holds no results.
    type Scratch: Default + Send + 'static;

    /// Name and version of the partial's bytes: "rmsd/1".
    fn id(&self) -> &'static str;
    /// Fields and atom sets.
    fn needs(&self) -> Needs;
    /// The neutral partial.
    fn empty(&self) -> Self::Partial;
    /// A buffer for the rows of `n_frames` frames, if each frame has a row of one size. `None` if rows differ in size,
    /// or if there is not enough memory. Partials made by [`Kernel::empty_in`] write into it.
    fn row_buffer(&self, _n_frames: usize) -> Option<AnyRowBuffer> {
        None
    }
    /// The neutral partial of frames whose rows have these places in a buffer. It may still gather fewer frames, or
    /// different frames.
    fn empty_in(&self, _buffer: &AnyRowBuffer, _frames: Range<usize>) -> Self::Partial {
        self.empty()
    }
    /// Bytes of a partial, for any number of frames; of an exact kernel, of its sum; 0 if they grow with the frames. Large partials are merged less
    /// often: the length of the kernel's leaves depends on this number, and so do the bits of its results.
    fn partial_bytes(&self) -> u64 {
        0
    }
    /// Bytes of the sum of an exact kernel over a number of frames, if it can be smaller than that of all frames.
    fn leaf_bytes(&self, _n_frames: u64) -> u64 {
        self.partial_bytes()
    }
    /// Bytes of results that grow with the run and that all of its partials hold together; 0 if they are rows of
    /// frames.
    fn kept_bytes(&self) -> u64 {
        0
    }
    /// Bytes of the buffers of a worker beside partials and frames ([`Kernel::Scratch`]), if they are worth counting.
    fn scratch_bytes(&self) -> u64 {
        0
    }
    /// Bytes of a partial's rows, whose number depends on what frames hold, as of lists of pairs; 0 for others.
    fn list_bytes(&self, _partial: &Self::Partial) -> u64 {
        0
    }
    /// Whether partials, or a part of each, are sums of whole numbers, which are exact in any order. If so, one sum is
    /// gathered for all leaves of a piece of work, beside the merge tree.
    fn is_exact(&self) -> bool {
        false
    }
    /// Takes the sum of an exact kernel out of a partial, by default all of it. The rest merges in the order of frames,
    /// and with sums of other leaves.
    fn take_sum(&self, partial: &mut Self::Partial) -> Self::Partial {
        std::mem::replace(partial, self.empty())
    }
    /// Adds frames, in order.
    ///
    /// # Errors
    /// `InvalidArgument` or `Corrupt` for values that it cannot work with (NaN), with the frame.
    fn accumulate(&self, partial: &mut Self::Partial, frames: &Frames<'_>, scratch: &mut Self::Scratch) -> Result<()>;
    /// Adds `right`, which holds later frames than `left`.
    ///
    /// # Errors
    /// Only of kernels that call code which may fail; both partials are lost then.
    fn merge(&self, left: &mut Self::Partial, right: Self::Partial) -> Result<()>;
    /// The results.
    ///
    /// # Errors
    /// `InvalidArgument` when nothing was gathered.
    fn finish(&self, partial: Self::Partial) -> Result<Vec<ResultArray>>;
    /// The partial as bytes, little-endian, for other processes and checkpoints.
    ///
    /// # Errors
    /// Only of kernels that call code which may fail.
    fn to_bytes(&self, partial: &Self::Partial) -> Result<Vec<u8>>;
    /// Restores a partial from bytes.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are not of this kernel and version.
    #[expect(clippy::wrong_self_convention, reason = "the kernel knows how its partials are written")]
    fn from_bytes(&self, bytes: &[u8]) -> Result<Self::Partial>;
}

/// A partial whose type is known to its kernel only.
pub type AnyPartial = Box<dyn Any + Send>;

/// A kernel's working state in a worker, of a type that the kernel knows.
pub type AnyScratch = Box<dyn Any + Send>;

/// [`Kernel`] with its partial's type hidden, so that the pipeline can run several at once.
pub trait AnyKernel: Send + Sync {
    /// As [`Kernel::id`].
    fn id(&self) -> &'static str;
    /// As [`Kernel::needs`].
    fn needs(&self) -> Needs;
    /// As [`Kernel::empty`].
    fn empty(&self) -> AnyPartial;
    /// As [`Kernel::row_buffer`].
    fn row_buffer(&self, n_frames: usize) -> Option<AnyRowBuffer>;
    /// As [`Kernel::empty_in`].
    fn empty_in(&self, buffer: &AnyRowBuffer, frames: Range<usize>) -> AnyPartial;
    /// As [`Kernel::partial_bytes`].
    fn partial_bytes(&self) -> u64;
    /// As [`Kernel::leaf_bytes`].
    fn leaf_bytes(&self, n_frames: u64) -> u64;
    /// As [`Kernel::kept_bytes`].
    fn kept_bytes(&self) -> u64;
    /// As [`Kernel::scratch_bytes`].
    fn scratch_bytes(&self) -> u64;
    /// As [`Kernel::list_bytes`]; 0 for a partial of another kernel.
    fn list_bytes(&self, partial: &AnyPartial) -> u64;
    /// As [`Kernel::is_exact`].
    fn is_exact(&self) -> bool;
    /// As [`Kernel::take_sum`].
    ///
    /// # Errors
    /// `Internal` when the partial is of another kernel.
    fn take_sum(&self, partial: &mut AnyPartial) -> Result<AnyPartial>;
    /// An empty [`Kernel::Scratch`].
    fn scratch(&self) -> AnyScratch;
    /// As [`Kernel::accumulate`].
    ///
    /// # Errors
    /// As there; `Internal` when partial or scratch are of another kernel.
    fn accumulate(&self, partial: &mut AnyPartial, frames: &Frames<'_>, scratch: &mut AnyScratch) -> Result<()>;
    /// As [`Kernel::merge`].
    ///
    /// # Errors
    /// As there; `Internal` when a partial is of another kernel.
    fn merge(&self, left: &mut AnyPartial, right: AnyPartial) -> Result<()>;
    /// As [`Kernel::finish`].
    ///
    /// # Errors
    /// As there.
    fn finish(&self, partial: AnyPartial) -> Result<Vec<ResultArray>>;
    /// As [`Kernel::to_bytes`].
    ///
    /// # Errors
    /// As there; `Internal` when the partial is of another kernel.
    fn to_bytes(&self, partial: &AnyPartial) -> Result<Vec<u8>>;
    /// As [`Kernel::from_bytes`].
    ///
    /// # Errors
    /// As there.
    #[expect(clippy::wrong_self_convention, reason = "the kernel knows how its partials are written")]
    fn from_bytes(&self, bytes: &[u8]) -> Result<AnyPartial>;
}

fn wrong_partial(id: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("a partial of another kernel was given to {id}"))
}

impl<K: Kernel> AnyKernel for K {
    fn id(&self) -> &'static str {
        Kernel::id(self)
    }
    fn needs(&self) -> Needs {
        Kernel::needs(self)
    }
    fn empty(&self) -> AnyPartial {
        Box::new(Kernel::empty(self))
    }
    fn row_buffer(&self, n_frames: usize) -> Option<AnyRowBuffer> {
        Kernel::row_buffer(self, n_frames)
    }
    fn empty_in(&self, buffer: &AnyRowBuffer, frames: Range<usize>) -> AnyPartial {
        Box::new(Kernel::empty_in(self, buffer, frames))
    }
    fn partial_bytes(&self) -> u64 {
        Kernel::partial_bytes(self)
    }
    fn leaf_bytes(&self, n_frames: u64) -> u64 {
        Kernel::leaf_bytes(self, n_frames)
    }
    fn kept_bytes(&self) -> u64 {
        Kernel::kept_bytes(self)
    }
    fn scratch_bytes(&self) -> u64 {
        Kernel::scratch_bytes(self)
    }
    fn list_bytes(&self, partial: &AnyPartial) -> u64 {
        partial.downcast_ref().map_or(0, |partial| Kernel::list_bytes(self, partial))
    }
    fn is_exact(&self) -> bool {
        Kernel::is_exact(self)
    }
    fn take_sum(&self, partial: &mut AnyPartial) -> Result<AnyPartial> {
        let partial = partial.downcast_mut().ok_or_else(|| wrong_partial(Kernel::id(self)))?;
        Ok(Box::new(Kernel::take_sum(self, partial)))
    }
    fn scratch(&self) -> AnyScratch {
        Box::new(K::Scratch::default())
    }
    fn accumulate(&self, partial: &mut AnyPartial, frames: &Frames<'_>, scratch: &mut AnyScratch) -> Result<()> {
        let partial = partial.downcast_mut().ok_or_else(|| wrong_partial(Kernel::id(self)))?;
        let scratch = scratch.downcast_mut().ok_or_else(|| wrong_partial(Kernel::id(self)))?;
        Kernel::accumulate(self, partial, frames, scratch)
    }
    fn merge(&self, left: &mut AnyPartial, right: AnyPartial) -> Result<()> {
        let left = left.downcast_mut().ok_or_else(|| wrong_partial(Kernel::id(self)))?;
        let right = right.downcast().map_err(|_| wrong_partial(Kernel::id(self)))?;
        Kernel::merge(self, left, *right)
    }
    fn finish(&self, partial: AnyPartial) -> Result<Vec<ResultArray>> {
        let partial = partial.downcast().map_err(|_| wrong_partial(Kernel::id(self)))?;
        Kernel::finish(self, *partial)
    }
    fn to_bytes(&self, partial: &AnyPartial) -> Result<Vec<u8>> {
        let partial = partial.downcast_ref().ok_or_else(|| wrong_partial(Kernel::id(self)))?;
        Kernel::to_bytes(self, partial)
    }
    fn from_bytes(&self, bytes: &[u8]) -> Result<AnyPartial> {
        Ok(Box::new(Kernel::from_bytes(self, bytes)?))
    }
}
