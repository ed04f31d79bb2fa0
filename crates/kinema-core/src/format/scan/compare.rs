//! Comparison of a frame of an index with the header that the file has for it.

use super::{File, FrameHeaders, HeaderFault, Window, ends_early};
use crate::error::{Error, Result};
use crate::index::TableIndex;
use crate::source::Source;

/// Compares length, step and time of a frame in an index with its header. In text, where no header states the length,
/// the lines are counted if `whole`.
/// Errors: `Corrupt` or `Truncated`, with frame and byte, if they differ or if there is no header; errors of the
/// source.
pub(in crate::format) fn compare_frame<H: FrameHeaders>(
    source: &dyn Source,
    headers: &H,
    table: &TableIndex,
    frame: u64,
    whole: bool,
) -> Result<()> {
    let extent = table.extent(frame);
    let place = |error: Error| error.with_frame(frame).with_format(H::NAME).with_path(source.path());
    let file = File { source, headers, len: source.len()?, skip_damaged: false };
    let mut window = Window::default();
    let bytes = window.read_at(&file, extent.offset, H::LONGEST, H::LONGEST as u64).map_err(place)?;
    let header = headers.parse(bytes, extent.offset).map_err(|fault| match fault {
        HeaderFault::Wrong(error) => place(error),
        HeaderFault::Short(needs) => place(ends_early(extent.offset, needs as u64, file.len)),
    })?;
    if let Some(error) = headers.refused(&header, extent.offset) {
        return Err(place(error));
    }
    let head = headers.head(&header);
    let differs = |what: &str, expected: String, found: String| {
        let expected = format!("{expected} as the file says");
        Err(place(Error::corrupt(what, expected, found).with_byte(extent.offset)))
    };
    if !H::LINES || whole {
        let len = file.frame_len(&mut window, extent.offset, &head).map_err(place)?;
        let len = len.map_err(place)?;
        if len != extent.len {
            return differs("bytes of the frame in the index", len.to_string(), extent.len.to_string());
        }
    }
    if head.step != table.step(frame) {
        return differs("step of the frame in the index", head.step.to_string(), table.step(frame).to_string());
    }
    let time = table.time(frame);
    if head.time.to_bits() != time.to_bits() && !(head.time.is_nan() && time.is_nan()) {
        return differs("time of the frame in the index", head.time.to_string(), time.to_string());
    }
    Ok(())
}
