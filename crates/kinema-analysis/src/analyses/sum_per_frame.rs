//! The kernel of all quantities that add to exact sums in each frame, and have a row of numbers for it.
//!
//! A radial distribution function counts pairs in bins, which is exact in any order, and needs the volume of each frame.
//! The sums are one a piece of work, beside the merge tree; the rows are in it, in the order of frames. It knows no
//! quantity: [`SumPerFrame`] has the sums and computes one row.

use std::ops::Range;

use kinema_core::Result;
use kinema_core::reduce::{AnyRowBuffer, Frame, Frames, Kernel, Needs, ResultArray, RowBuffer};

use crate::partials::bytes::{Reader, Writer};
use crate::partials::series::Series;

/// Exact sums over frames, and a row of numbers for each frame.
pub trait SumPerFrame: Send + Sync + 'static {
    /// Name and version of the partial's bytes.
    const ID: &'static str;
    /// Sums of whole numbers: the same in any order of frames.
    type Sum: Send + 'static;
    /// Buffers that each worker keeps for it.
    type Scratch: Default + Send + 'static;
    /// Fields and atom sets.
    fn needs(&self) -> Needs;
    /// Sums of no frames.
    fn empty(&self) -> Self::Sum;
    /// The most bytes that sums take.
    fn sum_bytes(&self) -> u64;
    /// The most bytes that the sums of a number of frames take.
    fn leaf_bytes(&self, _n_frames: u64) -> u64 {
        self.sum_bytes()
    }
    /// Number of columns of a row.
    fn width(&self) -> usize;
    /// Adds a frame to the sums and computes its row; `row` is zero before.
    ///
    /// # Errors
    /// `Corrupt` for values that it cannot use: [`Frame::not_finite`].
    fn add(&self, frame: &Frame<'_>, scratch: &mut Self::Scratch, sum: &mut Self::Sum, row: &mut [f64]) -> Result<()>;
    /// Adds frames, and computes a row of each; rows are zero before. By default one after the other.
    ///
    /// # Errors
    /// As [`SumPerFrame::add`], with the frame.
    fn add_all(
        &self,
        frames: &Frames<'_>,
        scratch: &mut Self::Scratch,
        sum: &mut Self::Sum,
        rows: &mut [f64],
    ) -> Result<()> {
        for (frame, row) in frames.iter().zip(rows.chunks_mut(self.width())) {
            self.add(&frame, scratch, sum, row).map_err(|error| error.with_frame(frame.number))?;
        }
        Ok(())
    }
    /// Adds the sums of other frames.
    fn merge(&self, left: &mut Self::Sum, right: Self::Sum);
    /// Results of the sums, beside "time" and "values" of the rows.
    fn results(&self, sum: Self::Sum) -> Vec<ResultArray>;
    /// The sums as bytes, which depend on the sums alone.
    fn to_bytes(&self, sum: &Self::Sum) -> Vec<u8>;
    /// Restores sums.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are not such sums.
    #[expect(clippy::wrong_self_convention, reason = "the quantity knows how its sums are written")]
    fn from_bytes(&self, bytes: &[u8]) -> Result<Self::Sum>;
}

/// The kernel of a quantity. Its results are the results of its sums; "time" (n), ps; "values" (n, width).
#[derive(Debug, Clone)]
pub struct Sums<Q>(pub Q);

/// Sums of frames, and their rows.
#[derive(Debug)]
pub struct SumsAndRows<S> {
    sum: S,
    rows: Series<f64>,
}

impl<Q: SumPerFrame> Kernel for Sums<Q> {
    type Partial = SumsAndRows<Q::Sum>;
    type Scratch = Q::Scratch;

    fn id(&self) -> &'static str {
        Q::ID
    }

    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn empty(&self) -> Self::Partial {
        SumsAndRows { sum: self.0.empty(), rows: Series::default() }
    }

    fn row_buffer(&self, n_frames: usize) -> Option<AnyRowBuffer> {
        RowBuffer::<f64>::new(n_frames, self.0.width()).map(|buffer| buffer as AnyRowBuffer)
    }

    fn empty_in(&self, buffer: &AnyRowBuffer, frames: Range<usize>) -> Self::Partial {
        let rows = buffer.clone().downcast().map(|buffer| Series::in_buffer(&buffer, frames));
        SumsAndRows { sum: self.0.empty(), rows: rows.unwrap_or_default() }
    }

    fn partial_bytes(&self) -> u64 {
        self.0.sum_bytes()
    }

    fn leaf_bytes(&self, n_frames: u64) -> u64 {
        self.0.leaf_bytes(n_frames)
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn take_sum(&self, partial: &mut Self::Partial) -> Self::Partial {
        SumsAndRows { sum: std::mem::replace(&mut partial.sum, self.0.empty()), rows: Series::default() }
    }

    fn accumulate(&self, partial: &mut Self::Partial, frames: &Frames<'_>, scratch: &mut Q::Scratch) -> Result<()> {
        let values = partial.rows.extend(frames.stamps(), self.0.width());
        self.0.add_all(frames, scratch, &mut partial.sum, values)
    }

    fn merge(&self, left: &mut Self::Partial, right: Self::Partial) -> Result<()> {
        self.0.merge(&mut left.sum, right.sum);
        left.rows.append(right.rows);
        Ok(())
    }

    fn finish(&self, partial: Self::Partial) -> Result<Vec<ResultArray>> {
        let rows = partial.rows.results(Q::ID, self.0.width())?;
        Ok(self.0.results(partial.sum).into_iter().chain(rows).collect())
    }

    fn to_bytes(&self, partial: &Self::Partial) -> Result<Vec<u8>> {
        let mut writer = Writer::new(Q::ID);
        writer.part(&self.0.to_bytes(&partial.sum));
        writer.part(&partial.rows.to_bytes(Q::ID, self.0.width()));
        Ok(writer.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Self::Partial> {
        let mut reader = Reader::new(Q::ID, bytes)?;
        let sum = self.0.from_bytes(reader.part("sums")?)?;
        let rows = Series::from_bytes(Q::ID, self.0.width(), reader.part("rows")?)?;
        reader.finish()?;
        Ok(SumsAndRows { sum, rows })
    }
}
