//! Tests of `reader`: what counts as reading, and what as decoding.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use super::*;
use crate::format::{Arrangement, Decoder, Header, Scratch, SegmentBytes};
use crate::frame::Block;
use crate::index::Index;
use crate::source::MemorySource;
use crate::trajectory::OpenOptions;

const READ: Duration = Duration::from_millis(20);
const DECODE: Duration = Duration::from_millis(15);

/// Takes its time over each read.
struct SlowSource(MemorySource);

impl Source for SlowSource {
    fn path(&self) -> &Path {
        self.0.path()
    }
    fn len(&self) -> Result<u64> {
        self.0.len()
    }
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        sleep(READ);
        self.0.read_exact_at(offset, buffer)
    }
}

/// Takes its time over each segment: it guesses half of it, but needs the whole.
struct GuessesHalf(Header);

impl Decoder for GuessesHalf {
    fn header(&self) -> &Header {
        &self.0
    }
    fn arrangement(&self) -> Arrangement<'_> {
        unreachable!("not scanned here")
    }
    fn segments(&self, _: &Index, wanted: &[Wanted], _: &Request, segments: &mut Vec<Segment>) -> Result<()> {
        // so far apart that each is read alone
        segments.extend((0..wanted.len() as u32).map(|i| {
            let whole = Extent { offset: u64::from(i) << 20, len: 8 };
            Segment { extent: Extent { len: 4, ..whole }, whole, wanted: i..i + 1, atoms: 0..1, part: 0 }
        }));
        Ok(())
    }
    fn decode(&self, given: SegmentBytes<'_>, _: &mut BlockMut<'_>, _: &mut Scratch) -> Result<Decoded> {
        sleep(DECODE);
        Ok(if (given.bytes.len() as u64) < given.segment.whole.len { Decoded::NeedsPrefix(8) } else { Decoded::Done })
    }
}

#[test]
fn reading_is_counted_as_reading_and_decoding_as_decoding() {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/golden/ca.dcd"));
    let trajectory = Trajectory::open(vec![path], OpenOptions::default()).unwrap();
    trajectory.scan(1, &|_| Ok(())).unwrap();
    let atoms = AtomSelection::all(trajectory.n_atoms());
    let mut reader = Reader::new(&trajectory, Fields::POSITIONS, atoms, Units::Native).unwrap();
    let known = &reader.scanned.parts[0];
    let part = Part {
        path: known.path.clone(),
        format: known.format,
        decoder: Arc::new(GuessesHalf(known.header().clone())),
        index: known.index.clone(),
        scales: known.scales,
        size: known.size,
        identity: known.identity.clone(),
        origin: known.origin,
        index_path: None,
        index_note: None,
        wrong_index: None,
        truncation: None,
        damaged: Vec::new(),
        extended: false,
        unchanged: Arc::default(),
    };
    reader.buffers.wanted = (0..3).map(|row| Wanted { frame: u64::from(row), row }).collect();
    let source = SlowSource(MemorySource::new("slow", vec![0; 3 << 20]));
    reader.read_batch(&part, &source, &mut Block::default().as_mut()).unwrap();
    let phases = reader.phases();
    assert_eq!((phases.reads, phases.bytes_read), (6, 3 * (4 + 8)));
    assert!(phases.io >= 6 * READ, "{phases:?}");
    assert!(phases.decode >= 6 * DECODE, "{phases:?}");
}
