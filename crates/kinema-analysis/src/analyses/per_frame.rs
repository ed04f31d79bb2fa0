//! The kernel of all quantities that are a row of numbers for each frame.
//!
//! It knows no quantity: [`PerFrame`] says how many columns there are and computes one row.

use std::ops::Range;

use kinema_core::Result;
use kinema_core::reduce::{AnyRowBuffer, Frame, Frames, Kernel, Needs, Number, ResultArray, RowBuffer};

use crate::partials::series::Series;

/// A row of numbers for each frame.
pub trait PerFrame: Send + Sync + 'static {
    /// Name and version of the partial's bytes.
    const ID: &'static str;
    /// The type of the numbers.
    type Value: Number;
    /// Buffers that each worker keeps for it.
    type Scratch: Default + Send + 'static;
    /// Fields and atom sets.
    fn needs(&self) -> Needs;
    /// Number of columns.
    fn width(&self) -> usize;
    /// Computes the row of a frame; `values` are zero before.
    ///
    /// # Errors
    /// `Corrupt` for values that it cannot use: [`Frame::not_finite`].
    fn row(&self, frame: &Frame<'_>, scratch: &mut Self::Scratch, values: &mut [Self::Value]) -> Result<()>;
    /// Computes the rows of several frames, by default one after the other.
    ///
    /// # Errors
    /// As [`PerFrame::row`], with the frame.
    fn rows(&self, frames: &Frames<'_>, scratch: &mut Self::Scratch, values: &mut [Self::Value]) -> Result<()> {
        for (frame, row) in frames.iter().zip(values.chunks_exact_mut(self.width().max(1))) {
            self.row(&frame, scratch, row).map_err(|error| error.with_frame(frame.number))?;
        }
        Ok(())
    }
    /// As [`Kernel::kept_bytes`], for results whose rows take much room.
    fn kept_bytes(&self) -> u64 {
        0
    }
}

/// The kernel of a quantity. Results: "time" (n), ps; "values" (n, width).
#[derive(Debug, Clone)]
pub struct Rows<P>(pub P);

impl<P: PerFrame> Kernel for Rows<P> {
    type Partial = Series<P::Value>;
    type Scratch = P::Scratch;

    fn id(&self) -> &'static str {
        P::ID
    }

    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn empty(&self) -> Series<P::Value> {
        Series::default()
    }

    fn kept_bytes(&self) -> u64 {
        self.0.kept_bytes()
    }

    fn row_buffer(&self, n_frames: usize) -> Option<AnyRowBuffer> {
        RowBuffer::<P::Value>::new(n_frames, self.0.width()).map(|buffer| buffer as AnyRowBuffer)
    }

    fn empty_in(&self, buffer: &AnyRowBuffer, frames: Range<usize>) -> Series<P::Value> {
        buffer.clone().downcast().map_or_else(|_| Series::default(), |buffer| Series::in_buffer(&buffer, frames))
    }

    fn accumulate(&self, partial: &mut Series<P::Value>, frames: &Frames<'_>, scratch: &mut P::Scratch) -> Result<()> {
        let values = partial.extend(frames.stamps(), self.0.width());
        self.0.rows(frames, scratch, values)
    }

    fn merge(&self, left: &mut Series<P::Value>, right: Series<P::Value>) -> Result<()> {
        left.append(right);
        Ok(())
    }

    fn finish(&self, partial: Series<P::Value>) -> Result<Vec<ResultArray>> {
        partial.results(P::ID, self.0.width())
    }

    fn to_bytes(&self, partial: &Series<P::Value>) -> Result<Vec<u8>> {
        Ok(partial.to_bytes(P::ID, self.0.width()))
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Series<P::Value>> {
        Series::from_bytes(P::ID, self.0.width(), bytes)
    }
}
