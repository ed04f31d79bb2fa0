//! Search for frame headers: where the scan of a byte range begins, and where frames continue after a damaged one.

use std::ops::Range;

use super::{File, FrameHeaders, Frames, HeaderFault, Report, WINDOW, Window};
use crate::error::{Error, ErrorKind, Result};
use crate::source::Extent;

/// Headers that must follow one another for the first of a byte range to be believed.
const CHAIN: usize = 3;

impl<H: FrameHeaders> File<'_, H> {
    /// The first place in `range` that looks like a header and is followed by others.
    pub(super) fn find_header(&self, range: &Range<u64>, report: &Report<'_>) -> Result<Option<u64>> {
        let mut probe = Window::default();
        self.find(range, report, |candidate| {
            // a chain of frames of text would have all their lines counted
            if H::LINES { self.parses(&mut probe, candidate) } else { self.is_chain(&mut probe, candidate) }
        })
    }

    /// The first place in `range` where a frame lies whole that is believed by itself; see [`File::is_frame`].
    pub(super) fn find_frame(&self, range: &Range<u64>, report: &Report<'_>) -> Result<Option<u64>> {
        let mut probe = Window::default();
        self.find(range, report, |candidate| self.is_frame(&mut probe, candidate))
    }

    /// The first place in `range` that looks like a header and is `accepted`.
    fn find(
        &self,
        range: &Range<u64>,
        report: &Report<'_>,
        mut accepted: impl FnMut(u64) -> Result<bool>,
    ) -> Result<Option<u64>> {
        if H::LINES {
            return self.find_line(range, report, accepted);
        }
        let mut window = Window::default();
        // headers lie at multiples of four bytes, as all items of XDR do
        let mut offset = range.start.next_multiple_of(4);
        while offset < range.end {
            // no frames are counted, but a search can be cancelled
            report.add(0)?;
            let bytes = window.read_at(self, offset, H::RECOGNISED, WINDOW)?;
            if bytes.len() < H::RECOGNISED {
                return Ok(None);
            }
            let candidates = (bytes.len() - H::RECOGNISED) / 4 + 1;
            for i in 0..candidates {
                let candidate = offset + 4 * i as u64;
                if candidate >= range.end {
                    return Ok(None);
                }
                if self.headers.resembles(bytes, 4 * i) && accepted(candidate)? {
                    return Ok(Some(candidate));
                }
            }
            let zeros = bytes.iter().all(|&byte| byte == 0);
            offset += 4 * candidates as u64;
            if zeros {
                offset = self.skip_hole(offset, H::RECOGNISED).next_multiple_of(4);
            }
        }
        Ok(None)
    }

    /// Where to continue the search after zeros that end at `offset`: a file with holes may claim terabytes. No header
    /// begins with as many zeros as the number of bytes it is `recognised` by, and no line ends within them.
    fn skip_hole(&self, offset: u64, recognised: usize) -> u64 {
        let data = self.source.end_of_hole(offset);
        data.saturating_sub(recognised as u64).max(offset)
    }

    /// As [`File::find`], for text: finds beginnings of lines.
    fn find_line(
        &self,
        range: &Range<u64>,
        report: &Report<'_>,
        mut accepted: impl FnMut(u64) -> Result<bool>,
    ) -> Result<Option<u64>> {
        let mut window = Window::default();
        // the end of the line before
        let mut offset = range.start.saturating_sub(1);
        while offset < range.end {
            report.add(0)?;
            let bytes = window.read_at(self, offset, H::RECOGNISED + 1, WINDOW)?;
            let last = offset + bytes.len() as u64 == self.len;
            let mut next = bytes.len() as u64;
            for end in memchr::memchr_iter(b'\n', bytes) {
                if !last && end + 1 + H::RECOGNISED > bytes.len() {
                    // the next window begins with it
                    next = end as u64;
                    break;
                }
                let candidate = offset + end as u64 + 1;
                if candidate >= range.end {
                    return Ok(None);
                }
                if self.headers.resembles(bytes, end + 1) && accepted(candidate)? {
                    return Ok(Some(candidate));
                }
            }
            if next == 0 {
                return Ok(None);
            }
            let zeros = bytes.iter().all(|&byte| byte == 0);
            offset += next;
            if zeros {
                offset = self.skip_hole(offset, H::RECOGNISED);
            }
        }
        Ok(None)
    }

    /// Whether [`CHAIN`] headers follow each other from `offset`, or as many as fit exactly into the file.
    fn is_chain(&self, probe: &mut Window, mut offset: u64) -> Result<bool> {
        for _ in 0..=CHAIN {
            if offset == self.len {
                return Ok(true);
            }
            let Some((_, end)) = self.whole_frame(probe, offset)? else { return Ok(false) };
            offset = end;
        }
        Ok(true)
    }

    /// Whether a whole frame starts at `offset`: the end of the file or another header follows it, or its header is
    /// unmistakable, or its coordinates take as many bytes as it says (the next frame may be damaged as well).
    fn is_frame(&self, probe: &mut Window, offset: u64) -> Result<bool> {
        let Some((header, end)) = self.whole_frame(probe, offset)? else { return Ok(false) };
        // a head of another number of atoms may be a damaged one
        let unmistakable = H::UNMISTAKABLE && self.headers.refused(&header, offset).is_none();
        Ok(self.goes_on(probe, end)? || unmistakable || self.is_sound(offset, &header)?)
    }

    /// Whether a whole frame starts at `offset` that is followed by another header or by the end of the file.
    pub(super) fn is_followed(&self, probe: &mut Window, offset: u64) -> Result<bool> {
        let Some((_, end)) = self.whole_frame(probe, offset)? else { return Ok(false) };
        self.goes_on(probe, end)
    }

    /// Whether the file continues at `end` with a header or with the beginning of an incomplete last frame, or ends
    /// there.
    fn goes_on(&self, probe: &mut Window, end: u64) -> Result<bool> {
        let behind = probe.read_at(self, end, H::LONGEST, H::LONGEST as u64)?;
        Ok(!matches!(self.headers.parse(behind, end), Err(HeaderFault::Wrong(_))))
    }

    /// Whether there is a header at `offset`.
    fn parses(&self, probe: &mut Window, offset: u64) -> Result<bool> {
        let bytes = probe.read_at(self, offset, H::LONGEST, H::LONGEST as u64)?;
        Ok(self.headers.parse(bytes, offset).is_ok())
    }

    /// The header of a frame that ends within the file, and where it ends.
    fn whole_frame(&self, probe: &mut Window, offset: u64) -> Result<Option<(H::Header, u64)>> {
        let bytes = probe.read_at(self, offset, H::LONGEST, H::LONGEST as u64)?;
        let Ok(header) = self.headers.parse(bytes, offset) else { return Ok(None) };
        let len = self.frame_len(probe, offset, &self.headers.head(&header))?;
        let end = len.ok().map(|len| offset.saturating_add(len)).filter(|&end| end <= self.len);
        Ok(end.map(|end| (header, end)))
    }

    /// Whether the body can be decoded and takes the bytes that the header says.
    fn is_sound(&self, offset: u64, header: &H::Header) -> Result<bool> {
        let Some(stated) = self.headers.stated_body(header) else { return Ok(false) };
        Ok(self.found_body(offset, header, stated)? == Some(stated))
    }

    /// Bytes that the body of a frame takes of the `n_bytes` after its header, if it can be decoded.
    fn found_body(&self, offset: u64, header: &H::Header, n_bytes: u64) -> Result<Option<u64>> {
        let Ok(len) = usize::try_from(n_bytes) else { return Ok(None) };
        let mut body = Vec::new();
        let room = body.try_reserve_exact(len);
        room.map_err(|_| Error::new(ErrorKind::MemoryLimit, format!("the system has no memory for {len} bytes")))?;
        body.resize(len, 0);
        self.source.read_exact_at(offset + self.headers.head(header).len as u64, &mut body)?;
        Ok(self.headers.found_body(offset, header, &body))
    }

    /// Steps over damage at the end of `frames`, if no frame can be found there: the bytes up to the next readable
    /// frame, or to the end of the file, become one frame. No reader takes it for sound, because its header does not
    /// fit.
    ///
    /// If the length of the last frame is damaged, that frame is the damaged one. Returns false if too few bytes are
    /// left.
    ///
    /// # Errors
    /// Errors of the source; `Unsupported` for 16 GiB and more without a frame.
    pub(super) fn step_over(&self, frames: &mut Frames, report: &Report<'_>) -> Result<bool> {
        let fault = frames.builder.end();
        // frames have whole words of four bytes, or any bytes of text
        let unit = if H::LINES { 1 } else { 4 };
        let last = match frames.builder.last() {
            Some(extent) => self.doubtful(extent)?.map(|header| (extent, header)),
            None => None,
        };
        let from = match &last {
            Some((extent, header)) => extent.offset + self.headers.head(header).len as u64,
            None => fault + unit,
        };
        let next = self.find_frame(&(from..self.len), report)?;
        // less than a word at the end is not a frame
        let end = next.unwrap_or(fault + (self.len - fault) / unit * unit);
        if let Some((extent, header)) = &last
            && (end < fault || !H::LINES && self.reaches(extent.offset, header, end)?)
        {
            frames.builder.pop();
        }
        let start = frames.builder.end();
        if end <= start {
            return Ok(false);
        }
        let step = frames.builder.last_step().unwrap_or(0);
        frames.builder.push(end - start, step, f64::NAN).map_err(|error| self.place(error, start))?;
        frames.damaged.push(start);
        Ok(true)
    }

    /// The header of a frame whose stated length is not what its body takes; of text, which may lack lines, always.
    fn doubtful(&self, extent: Extent) -> Result<Option<H::Header>> {
        let mut probe = Window::default();
        match self.whole_frame(&mut probe, extent.offset)? {
            Some((header, _))
                if H::LINES
                    || self.headers.stated_body(&header).is_some() && !self.is_sound(extent.offset, &header)? =>
            {
                Ok(Some(header))
            }
            _ => Ok(None),
        }
    }

    /// Whether the body of the frame at `offset` goes on to the frame at `next`, whatever length is stated.
    fn reaches(&self, offset: u64, header: &H::Header, next: u64) -> Result<bool> {
        let body = next - offset - self.headers.head(header).len as u64;
        let used = self.found_body(offset, header, body)?;
        Ok(used.is_some_and(|used| used.next_multiple_of(4) == body))
    }
}
