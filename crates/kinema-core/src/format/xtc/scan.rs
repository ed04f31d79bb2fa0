//! XTC scan: what the headers of XTC frames say, for [`crate::format::scan`].

use super::header::{FrameHeader, LONGEST_HEADER, MAGIC_CLASSIC, MAGIC_LONG, PLAIN_HEADER};
use super::{NAME, stream_bytes};
use crate::container::xdr;
use crate::error::Error;
use crate::format::scan::{FrameHead, FrameHeaders, HeaderFault};

/// Headers of the frames of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct XtcHeaders {
    pub n_atoms: u32,
}

impl FrameHeaders for XtcHeaders {
    type Header = FrameHeader;

    const NAME: &'static str = NAME;
    const LONGEST: usize = LONGEST_HEADER;
    const RECOGNISED: usize = PLAIN_HEADER;

    fn parse(&self, bytes: &[u8], offset: u64) -> std::result::Result<FrameHeader, HeaderFault> {
        FrameHeader::parse(bytes, offset, Some(self.n_atoms))
    }

    fn head(&self, header: &FrameHeader) -> FrameHead {
        FrameHead {
            len: header.len(),
            frame_len: header.frame_len(),
            lines: 0,
            step: i64::from(header.step),
            time: f64::from(header.time),
        }
    }

    fn resembles(&self, bytes: &[u8], at: usize) -> bool {
        let n_atoms = Some(self.n_atoms);
        // the atom count first: it differs from noise more often than the first half of the magic number
        xdr::int(bytes, at + 4).map(|n| n as u32) == n_atoms
            && xdr::int(bytes, at + 52).map(|n| n as u32) == n_atoms
            && matches!(xdr::int(bytes, at), Some(MAGIC_CLASSIC | MAGIC_LONG))
    }

    fn overlong(&self, offset: u64, header: &FrameHeader, most: u64, next: u64) -> Error {
        let expected = format!("at most {most}, as the next frame is at byte {next}");
        let found = header.packing.map_or(0, |packing| packing.n_bytes);
        let error = Error::corrupt("wrong length of the compressed coordinates", expected, found);
        error.with_byte(offset.saturating_add(88))
    }

    fn stated_body(&self, header: &FrameHeader) -> Option<u64> {
        header.packing.map(|packing| packing.n_bytes)
    }

    fn found_body(&self, offset: u64, header: &FrameHeader, body: &[u8]) -> Option<u64> {
        stream_bytes(header, offset, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ErrorKind, Result};
    use crate::format::scan::{HeaderScan, cut, scan, scan_range, scan_with_ranges};
    use crate::format::{Scan, ScanOptions};
    use crate::index::{Index, TableIndex};
    use crate::source::{MemorySource, ReadLog};

    const MIXED: &[u8] = include_bytes!("../../../tests/data/xtc/mixed.xtc");
    const HEADERS: XtcHeaders = XtcHeaders { n_atoms: 540 };

    fn scanned(bytes: &[u8], workers: usize, previous: Option<Index>) -> Result<Scan> {
        let source = MemorySource::new("test.xtc", bytes.to_vec());
        scan(&source, &HEADERS, &ScanOptions { previous, workers, progress: &|_| Ok(()), skip_damaged: false }, 1)
    }

    /// Both scans have the same index, and end for the same reason at the same place.
    fn same(bytes: &[u8]) {
        let serial = scanned(bytes, 1, None);
        for workers in [2, 3, 7, 40] {
            match (&serial, scanned(bytes, workers, None)) {
                (Ok(serial), Ok(parallel)) => {
                    assert_eq!(serial.index, parallel.index);
                    let texts = [&serial.truncation, &parallel.truncation].map(|e| e.as_ref().map(Error::to_string));
                    assert_eq!(texts[0], texts[1]);
                }
                (Err(serial), Err(parallel)) => assert_eq!(serial.to_string(), parallel.to_string()),
                (serial, parallel) => panic!("{serial:?} but with {workers} workers {parallel:?}"),
            }
        }
    }

    #[test]
    fn ranges_give_the_index_of_a_walk() {
        let bytes = MIXED.repeat(5);
        same(&bytes);
        for cut in [MIXED.len() - 1, bytes.len() - 1, bytes.len() - 2000, MIXED.len() * 4 + 30, 60] {
            same(&bytes[..cut]);
        }
        for broken_at in [MIXED.len(), 2 * MIXED.len() + 4, 4 * MIXED.len() + 88] {
            let mut broken = bytes.clone();
            broken[broken_at] ^= 0x80;
            same(&broken);
            assert!(scanned(&broken, 3, None).is_err());
        }
    }

    #[test]
    fn indices_of_ranges_give_the_index_of_a_walk() {
        let whole = MIXED.repeat(5);
        let mut broken = whole.clone();
        broken[2 * MIXED.len() + 4] ^= 0x80;
        for bytes in [&whole[..], &whole[..whole.len() - 9], &broken] {
            let source = MemorySource::new("test.xtc", bytes.to_vec());
            let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
            let serial = scan(&source, &HEADERS, &options, u64::MAX);
            for n in [1, 2, 5, 13] {
                let ranges = cut(&(0..bytes.len() as u64), n);
                let mut found: Vec<TableIndex> = ranges
                    .into_iter()
                    .map(|range| scan_range(&source, &HEADERS, range, &|_| Ok(())).expect("readable"))
                    .collect();
                for lost in 0..=n {
                    let combined = scan_with_ranges(&source, &HEADERS, &options, &found);
                    match (&serial, combined) {
                        (Ok(one), Ok(other)) => assert_eq!(one.index, other.index),
                        (Err(one), Err(other)) => assert_eq!(one.to_string(), other.to_string()),
                        (one, other) => panic!("{one:?} but combined {other:?}"),
                    }
                    // nor does it matter whether one is missing
                    if let Some(table) = found.get_mut(lost) {
                        *table = TableIndex::default();
                    }
                }
            }
        }
    }

    #[test]
    fn headers_within_a_frame_do_not_mislead() {
        // a frame whose bit stream is itself a trajectory: a search finds headers there, a walk does not
        let inner = &MIXED[..7000];
        let mut outer = MIXED[..92].to_vec();
        outer[88..92].copy_from_slice(&(inner.len() as i32).to_be_bytes());
        let bytes = [MIXED, &outer, inner, MIXED].concat();
        same(&bytes);
        assert_eq!(scanned(&bytes, 4, None).expect("sound").index.n_frames(), 9);
    }

    #[test]
    fn a_known_index_is_extended() {
        let bytes = MIXED.repeat(3);
        let whole = scanned(&bytes, 1, None).expect("sound").index;
        for cut in [0, MIXED.len(), bytes.len() - 5, bytes.len()] {
            let previous = scanned(&bytes[..cut], 1, None).expect("sound").index;
            let log = ReadLog::default();
            let source = MemorySource::new("test.xtc", bytes.clone()).recorded(&log);
            let start = previous.end().unwrap_or(0);
            let options =
                ScanOptions { previous: Some(previous), workers: 1, progress: &|_| Ok(()), skip_damaged: false };
            assert_eq!(scan(&source, &HEADERS, &options, 1).expect("sound").index, whole);
            assert!(log.take_extents().iter().all(|read| read.offset >= start));
        }
        // of no use once the file is shorter
        let shorter = scanned(MIXED, 1, Some(whole)).expect("sound").index;
        assert_eq!(shorter.n_frames(), 4);
    }

    #[test]
    fn small_frames_are_read_together_and_of_large_ones_the_headers_alone() {
        let log = ReadLog::default();
        let reads = |headers: XtcHeaders, bytes: &[u8], workers| {
            let source = MemorySource::new("test.xtc", bytes).recorded(&log);
            let options = ScanOptions { previous: None, workers, progress: &|_| Ok(()), skip_damaged: false };
            let scan = HeaderScan::scan(&headers, &source, &options, &[]).expect("sound");
            (scan.index.n_frames(), log.take_extents())
        };
        let small = MIXED.repeat(100);
        let (n_frames, of_small) = reads(HEADERS, &small, 1);
        assert_eq!(n_frames, 400);
        // four windows of 256 KiB and the rest, after the first header
        assert_eq!(of_small.len(), 6);
        // so small a file costs more on several threads
        assert_eq!(reads(HEADERS, &small, 4).1, of_small);
        let mut large = MIXED[..92].to_vec();
        for (at, number) in [(4, 5000), (52, 5000), (88, 20_000)] {
            large[at..at + 4].copy_from_slice(&i32::to_be_bytes(number));
        }
        large.resize(92 + 20_000, 0);
        let (n_frames, of_large) = reads(XtcHeaders { n_atoms: 5000 }, &large.repeat(20), 1);
        assert_eq!(n_frames, 20);
        assert!(of_large.iter().map(|read| read.len).sum::<u64>() <= 20 * LONGEST_HEADER as u64, "{of_large:?}");
    }

    #[test]
    fn an_error_of_progress_ends_the_scan() {
        let source = MemorySource::new("test.xtc", MIXED.repeat(2000));
        let cancel = |_| Err(Error::new(ErrorKind::Cancelled, "cancelled"));
        for workers in [1, 2] {
            let options = ScanOptions { previous: None, workers, progress: &cancel, skip_damaged: false };
            let error = scan(&source, &HEADERS, &options, 1).expect_err("cancelled");
            assert_eq!(error.kind(), ErrorKind::Cancelled);
        }
    }
}
