//! The kernel of all quantities that have any number of rows for each frame, such as contacts.
//!
//! It knows no quantity: [`ListPerFrame`] names the columns and lists the rows of one frame.

use kinema_core::Result;
use kinema_core::reduce::{Frame, Frames, Kernel, Needs, ResultArray};

use crate::partials::lists::{ListChunk, ListColumn, Lists};

/// Any number of rows for each frame.
pub trait ListPerFrame: Send + Sync + 'static {
    /// Name and version of the partial's bytes.
    const ID: &'static str;
    /// Names and types of the columns.
    const COLUMNS: &'static [ListColumn];
    /// Buffers that each worker keeps for it.
    type Scratch: Default + Send + 'static;
    /// Frames that are prepared together.
    const BATCH: usize = 1;
    /// Fields and atom sets.
    fn needs(&self) -> Needs;
    /// As [`Kernel::kept_bytes`].
    fn kept_bytes(&self) -> u64 {
        0
    }
    /// Computes what several frames can share, before [`ListPerFrame::list`] is called with each of them in order.
    ///
    /// # Errors
    /// As [`ListPerFrame::list`].
    fn prepare(&self, _frames: &[Frame<'_>], _scratch: &mut Self::Scratch) -> Result<()> {
        Ok(())
    }
    /// Adds the rows of a frame to all columns.
    ///
    /// # Errors
    /// `Corrupt` for values that it cannot use: [`Frame::not_finite`].
    fn list(&self, frame: &Frame<'_>, scratch: &mut Self::Scratch, rows: &mut ListChunk) -> Result<()>;
}

/// The kernel of a quantity. Results: "time" (n), ps; "first_row" (n + 1): frame i has the rows
/// `first_row[i]..first_row[i + 1]`; and the columns.
#[derive(Debug, Clone)]
pub struct ListRows<P>(pub P);

impl<P: ListPerFrame> Kernel for ListRows<P> {
    type Partial = Lists;
    type Scratch = P::Scratch;

    fn id(&self) -> &'static str {
        P::ID
    }

    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn empty(&self) -> Lists {
        Lists::default()
    }

    fn kept_bytes(&self) -> u64 {
        self.0.kept_bytes()
    }

    fn list_bytes(&self, partial: &Lists) -> u64 {
        partial.bytes()
    }

    fn accumulate(&self, partial: &mut Lists, frames: &Frames<'_>, scratch: &mut P::Scratch) -> Result<()> {
        let mut frames = frames.iter();
        let mut batch = Vec::with_capacity(P::BATCH);
        loop {
            batch.clear();
            batch.extend(frames.by_ref().take(P::BATCH));
            let Some(first) = batch.first() else { return Ok(()) };
            self.0.prepare(&batch, scratch).map_err(|error| error.with_frame(first.number))?;
            for frame in &batch {
                let add = |rows: &mut ListChunk| self.0.list(frame, scratch, rows);
                partial.add_frame(P::COLUMNS, frame.stamp, add).map_err(|error| error.with_frame(frame.number))?;
            }
        }
    }

    fn merge(&self, left: &mut Lists, right: Lists) -> Result<()> {
        left.append(right);
        Ok(())
    }

    fn finish(&self, partial: Lists) -> Result<Vec<ResultArray>> {
        partial.results(P::ID, P::COLUMNS)
    }

    fn to_bytes(&self, partial: &Lists) -> Result<Vec<u8>> {
        Ok(partial.to_bytes(P::ID, P::COLUMNS))
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Lists> {
        Lists::from_bytes(P::ID, P::COLUMNS, bytes)
    }
}
