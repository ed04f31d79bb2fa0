//! Bytes at the same place in each of many frames of one size: read one by one, or together where frames are small.

use crate::error::Result;
use crate::source::Source;

/// Frames of which all bytes are read.
const SMALL_FRAME: u64 = 4 << 10;
/// Bytes that are read at once then.
const WINDOW: u64 = 1 << 20;
/// Frames between two reports of progress.
const REPORT_EVERY: u64 = 4096;

/// The same bytes of each frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strided {
    /// Where those of the first frame begin.
    pub first: u64,
    /// Bytes from frame to frame.
    pub stride: u64,
    /// Bytes of each.
    pub width: u64,
    /// Frames.
    pub n: u64,
    /// How many of them are not read, as they are known.
    pub known: u64,
}

/// Gives the bytes of each frame that is not known, with its number and where they are.
///
/// # Errors
/// Those of the source, of `progress` and of `take`.
pub(super) fn read_strided(
    source: &dyn Source,
    Strided { first, stride, width, n, known }: Strided,
    progress: &(dyn Fn(u64) -> Result<()> + Sync),
    mut take: impl FnMut(u64, u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let at_once = if stride <= SMALL_FRAME { (WINDOW / stride.max(1)).max(1) } else { 1 };
    let mut bytes = Vec::new();
    let (mut frame, mut reported) = (known, known);
    while frame < n {
        let some = at_once.min(n - frame);
        let offset = first.saturating_add(frame.saturating_mul(stride));
        bytes.resize(((some - 1) * stride + width) as usize, 0);
        source.read_exact_at(offset, &mut bytes)?;
        for i in 0..some {
            let start = (i * stride) as usize;
            take(frame + i, offset + i * stride, &bytes[start..start + width as usize])?;
        }
        frame += some;
        if frame - reported >= REPORT_EVERY {
            reported = frame;
            progress(offset)?;
        }
    }
    Ok(())
}
