//! Search for XTC frame headers: where the scan of a byte range begins, and where frames go on behind a damaged one.

use std::ops::Range;

use super::header::{FrameHeader, HeaderFault, LONGEST_HEADER, PLAIN_HEADER};
use super::scan::{File, Frames, Report, WINDOW, Window};
use super::stream_bytes;
use crate::container::xdr;
use crate::error::Result;
use crate::source::Extent;

/// Headers that must follow one another for the first of a byte range to be believed.
const CHAIN: usize = 3;

impl File<'_> {
    /// The first place in `range` that looks like a header and is followed by others.
    pub(super) fn find_header(&self, range: &Range<u64>, report: &Report<'_>) -> Result<Option<u64>> {
        let mut probe = Window::default();
        self.find(range, report, |candidate| self.is_chain(&mut probe, candidate))
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
        let mut window = Window::default();
        // headers lie at multiples of four bytes, for all items of XDR do
        let mut offset = range.start.next_multiple_of(4);
        while offset < range.end {
            // no frames are counted, but a search can be cancelled
            report.add(0)?;
            let bytes = window.at(self, offset, PLAIN_HEADER, WINDOW)?;
            if bytes.len() < PLAIN_HEADER {
                return Ok(None);
            }
            let candidates = (bytes.len() - PLAIN_HEADER) / 4 + 1;
            for i in 0..candidates {
                let candidate = offset + 4 * i as u64;
                if candidate >= range.end {
                    return Ok(None);
                }
                if self.looks_like_header(bytes, 4 * i) && accepted(candidate)? {
                    return Ok(Some(candidate));
                }
            }
            offset += 4 * candidates as u64;
        }
        Ok(None)
    }

    fn looks_like_header(&self, bytes: &[u8], at: usize) -> bool {
        let n_atoms = Some(self.n_atoms);
        // the atom count first: it differs from noise more often than the first half of the magic number
        xdr::int(bytes, at + 4).map(|n| n as u32) == n_atoms
            && xdr::int(bytes, at + 52).map(|n| n as u32) == n_atoms
            && matches!(xdr::int(bytes, at), Some(super::MAGIC_CLASSIC | super::MAGIC_LONG))
    }

    /// Whether [`CHAIN`] headers follow each other from `offset`, or as many as fit exactly into the file.
    fn is_chain(&self, probe: &mut Window, mut offset: u64) -> Result<bool> {
        for _ in 0..=CHAIN {
            if offset == self.len {
                return Ok(true);
            }
            let Some(header) = self.whole_frame(probe, offset)? else { return Ok(false) };
            offset += header.frame_len();
        }
        Ok(true)
    }

    /// Whether a whole frame starts at `offset` that is followed by another header or by the end of the file, or whose
    /// coordinates take as many bytes as its header says: the frame behind it may be damaged as well.
    fn is_frame(&self, probe: &mut Window, offset: u64) -> Result<bool> {
        let Some(header) = self.whole_frame(probe, offset)? else { return Ok(false) };
        let end = offset + header.frame_len();
        let behind = probe.at(self, end, LONGEST_HEADER, LONGEST_HEADER as u64)?;
        let followed = match FrameHeader::parse(behind, end, Some(self.n_atoms)) {
            Ok(_) => true,
            // the end of the file, or the beginning of an incomplete last frame
            Err(HeaderFault::Short(_)) => true,
            Err(HeaderFault::Wrong(_)) => false,
        };
        Ok(followed || self.is_sound(offset, &header)?)
    }

    /// The header of a frame that ends within the file.
    fn whole_frame(&self, probe: &mut Window, offset: u64) -> Result<Option<FrameHeader>> {
        let bytes = probe.at(self, offset, LONGEST_HEADER, LONGEST_HEADER as u64)?;
        let header = FrameHeader::parse(bytes, offset, Some(self.n_atoms)).ok();
        Ok(header.filter(|header| offset.saturating_add(header.frame_len()) <= self.len))
    }

    /// Whether the compressed coordinates can be decoded and take the bytes that the header says.
    fn is_sound(&self, offset: u64, header: &FrameHeader) -> Result<bool> {
        let Some(packing) = header.packing else { return Ok(false) };
        let used = self.stream_bytes(offset, header, packing.n_bytes)?;
        Ok(used == Some(packing.n_bytes))
    }

    /// Bytes that the coordinates of a frame take of the `n_bytes` behind its header, where they can be decoded.
    fn stream_bytes(&self, offset: u64, header: &FrameHeader, n_bytes: u64) -> Result<Option<u64>> {
        let Ok(len) = usize::try_from(n_bytes) else { return Ok(None) };
        let mut stream = vec![0; len];
        self.source.read_exact_at(offset + header.len() as u64, &mut stream)?;
        Ok(stream_bytes(header, offset, &stream))
    }

    /// Steps over damage at the end of `frames`, where no frame can be found: what lies before the next readable frame,
    /// or before the end of the file, becomes one frame, which no reader takes for sound as its header does not fit.
    ///
    /// Where it is the length of the last frame that is damaged, that frame is the damaged one. Returns false where too
    /// few bytes are left.
    ///
    /// # Errors
    /// Those of the source; `Unsupported` for 16 GiB and more without a frame.
    pub(super) fn step_over(&self, frames: &mut Frames, report: &Report<'_>) -> Result<bool> {
        let fault = frames.builder.end();
        let last = match frames.builder.last() {
            Some(extent) => self.doubtful(extent)?.map(|header| (extent, header)),
            None => None,
        };
        let from = match &last {
            Some((extent, header)) => extent.offset + header.len() as u64,
            None => fault + 4,
        };
        let next = self.find_frame(&(from..self.len), report)?;
        // frames have whole words of four bytes; less than one at the end is no frame
        let end = next.unwrap_or(fault + (self.len - fault) / 4 * 4);
        if let Some((extent, header)) = &last
            && (end < fault || self.reaches(extent.offset, header, end)?)
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

    /// The header of a frame whose stated length is not what its coordinates take.
    fn doubtful(&self, extent: Extent) -> Result<Option<FrameHeader>> {
        let mut probe = Window::default();
        match self.whole_frame(&mut probe, extent.offset)? {
            Some(header) if header.packing.is_some() && !self.is_sound(extent.offset, &header)? => Ok(Some(header)),
            _ => Ok(None),
        }
    }

    /// Whether the coordinates of the frame at `offset` go on to the frame at `next`, whatever length is stated.
    fn reaches(&self, offset: u64, header: &FrameHeader, next: u64) -> Result<bool> {
        let body = next - offset - header.len() as u64;
        let used = self.stream_bytes(offset, header, body)?;
        Ok(used.is_some_and(|used| used.next_multiple_of(4) == body))
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan::{scan, scan_range, scan_with_ranges};
    use crate::error::{ErrorKind, Result};
    use crate::format::{Scan, ScanOptions};
    use crate::index::Index;
    use crate::source::{Extent, MemorySource};

    const MIXED: &[u8] = include_bytes!("../../../tests/data/xtc/mixed.xtc");
    const N_ATOMS: u32 = 540;

    fn scanned(bytes: &[u8], workers: usize, skip_damaged: bool) -> Result<Scan> {
        let source = MemorySource::new("test.xtc", bytes);
        scan(&source, N_ATOMS, &ScanOptions { previous: None, workers, progress: &|_| Ok(()), skip_damaged }, 1)
    }

    fn extents(index: &Index) -> Vec<Extent> {
        (0..index.n_frames()).map(|frame| index.extent(frame)).collect()
    }

    /// The scan that steps over damage: the same on any number of threads, and of ranges of other processes.
    fn stepped(bytes: &[u8]) -> Scan {
        let serial = scanned(bytes, 1, true).expect("it steps over damage");
        let source = MemorySource::new("test.xtc", bytes);
        let options = |previous| ScanOptions { previous, workers: 1, progress: &|_| Ok(()), skip_damaged: true };
        let len = bytes.len() as u64;
        for n in [2, 3, 7, 40] {
            let ranges = (0..n).map(|i| len * i / n..len * (i + 1) / n);
            let found: Vec<_> =
                ranges.map(|range| scan_range(&source, N_ATOMS, range, &|_| Ok(())).expect("readable")).collect();
            for other in [
                scanned(bytes, n as usize, true).expect("as on one thread"),
                scan_with_ranges(&source, N_ATOMS, &options(None), &found).expect("as on one thread"),
            ] {
                assert_eq!((extents(&other.index), &other.damaged), (extents(&serial.index), &serial.damaged));
            }
        }
        serial
    }

    #[test]
    fn a_damaged_header_costs_its_frame_alone() {
        let whole = MIXED.repeat(3);
        let sound = extents(&scanned(&whole, 1, false).expect("sound").index);
        // magic number, number of atoms twice; length: too small, somewhat too large, beyond the file
        let damages: [(u64, &dyn Fn(i32) -> i32); 6] = [
            (0, &|_| 0),
            (4, &|n| n ^ 64),
            (52, &|n| n ^ 1),
            (88, &|n| n / 2),
            (88, &|n| n + 400),
            (88, &|_| i32::MAX),
        ];
        for (number, extent) in sound.iter().enumerate() {
            for (case, (field, change)) in damages.iter().enumerate() {
                if case > 3 && number + 1 == sound.len() {
                    // that is a file whose last frame is incomplete
                    continue;
                }
                let mut bytes = whole.clone();
                // of a header with a length of 8 bytes the lower half
                let long = u64::from(*field == 88 && bytes[extent.offset as usize + 2..][..2] == [0x07, 0xe7]);
                let at = (extent.offset + field + 4 * long) as usize;
                let old = i32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
                bytes[at..at + 4].copy_from_slice(&change(old).to_be_bytes());
                let error = scanned(&bytes, 1, false).expect_err("damaged");
                assert_eq!(error.kind(), ErrorKind::Corrupt, "frame {number}, case {case}: {error}");
                let scan = stepped(&bytes);
                assert_eq!(extents(&scan.index), sound, "frame {number}, case {case}");
                assert_eq!(scan.damaged, [number as u64], "case {case}");
                assert!(scan.truncation.is_none());
                assert!(scan.index.time(number as u64).expect("a table has times").is_nan());
            }
        }
    }

    #[test]
    fn bytes_without_any_header_are_one_frame() {
        let whole = MIXED.repeat(3);
        let sound = extents(&scanned(&whole, 1, false).expect("sound").index);
        let zeroed = |from: u64, to: u64| {
            let mut bytes = whole.clone();
            bytes[from as usize..to as usize].fill(0);
            bytes
        };
        // from the middle of frame 4, whose header is sound, over all of frame 5 into frame 6
        let scan = stepped(&zeroed(sound[4].offset + 200, sound[6].offset + 60));
        assert_eq!(scan.damaged, [5]);
        assert_eq!(extents(&scan.index)[..5], sound[..5]);
        assert_eq!(scan.index.extent(5), Extent { offset: sound[5].offset, len: sound[5].len + sound[6].len });
        assert_eq!(extents(&scan.index)[6..], sound[7..]);
        // up to the end, which is no multiple of four bytes
        let mut bytes = zeroed(sound[10].offset, whole.len() as u64);
        bytes.push(0);
        let scan = stepped(&bytes);
        assert_eq!((scan.damaged, scan.index.n_frames()), (vec![10], 11));
        assert_eq!(scan.index.end(), Some(whole.len() as u64));
        // a readable frame between two that are not, and an incomplete last one
        let mut bytes = zeroed(sound[7].offset, sound[7].offset + 8);
        bytes[sound[9].offset as usize] = 1;
        bytes.truncate(whole.len() - 8);
        let scan = stepped(&bytes);
        assert_eq!((scan.damaged, extents(&scan.index)), (vec![7, 9], sound[..11].to_vec()));
        assert_eq!(scan.truncation.expect("the last frame").kind(), ErrorKind::Truncated);
    }

    #[test]
    fn untouched_frames_are_found_whatever_happens_to_others() {
        let whole = MIXED.repeat(3);
        let sound = extents(&scanned(&whole, 1, false).expect("sound").index);
        // a linear congruential generator: the same numbers on every machine
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..300 {
            let mut bytes = whole.clone();
            let mut touched = Vec::new();
            for _ in 0..1 + random(4) {
                let frame = random(sound.len() as u64) as usize;
                // within the header, where most damage hides frames
                let at = (sound[frame].offset + 4 * random(24)) as usize;
                let word = [0, u32::MAX, 1995, 540, random(5000) as u32, random(1 << 31) as u32][random(6) as usize];
                bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
                touched.push(frame);
            }
            let found = extents(&stepped(&bytes).index);
            for (frame, extent) in sound.iter().enumerate().filter(|(frame, _)| !touched.contains(frame)) {
                assert!(found.contains(extent), "round {round}: frame {frame}, damaged {touched:?}");
            }
        }
    }

    #[test]
    fn a_known_index_is_extended_over_damage() {
        let mut bytes = MIXED.repeat(3);
        let source = |bytes: &[u8]| MemorySource::new("test.xtc", bytes);
        let sound = scanned(&bytes, 1, false).expect("sound").index;
        let previous = scanned(MIXED, 1, false).expect("sound").index;
        bytes[MIXED.len()] = 1;
        for workers in [1, 3] {
            let previous = Some(previous.clone());
            let options = ScanOptions { previous, workers, progress: &|_| Ok(()), skip_damaged: true };
            let scan = scan(&source(&bytes), N_ATOMS, &options, 1).expect("stepped over");
            assert_eq!((extents(&scan.index), scan.damaged), (extents(&sound), vec![4]));
        }
    }
}
