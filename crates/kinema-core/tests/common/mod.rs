//! Shared tools of the format tests: whole reads through the public path, damage, and a small generator.
#![allow(dead_code)] // each test binary uses a part

pub mod dcd_builder;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kinema_core::Result;
use kinema_core::format::{Decoded, Format, Request, ScanOptions, Scratch, SegmentBytes, Wanted};
use kinema_core::frame::{Block, Fields, Scales};
use kinema_core::selection::AtomSelection;
use kinema_core::source::{Gather, MemorySource, OpenSource, Source};
use kinema_core::trajectory::{OpenOptions, Trajectory};

/// xorshift64*, so that every run sees the same damage.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Opens one file that is in memory, whatever its name.
#[derive(Debug)]
struct InMemory(Vec<u8>);

impl OpenSource for InMemory {
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(MemorySource::new(&path.to_string_lossy(), self.0.clone())))
    }
}

/// The trajectory of one file of these bytes, scanned.
pub fn opened(bytes: Vec<u8>) -> Result<Trajectory> {
    let options = OpenOptions { sources: Arc::new(InMemory(bytes)), ..OpenOptions::default() };
    let trajectory = Trajectory::open(vec!["made".into()], options)?;
    trajectory.scan(1, &|_| Ok(()))?;
    Ok(trajectory)
}

/// Frames of a source as its decoder gives them: those asked for, or all.
pub struct Read {
    pub block: Block,
    pub n_frames: u64,
    pub truncated: bool,
}

/// Reads `frames` (all when `None`) of some atoms, in the file's own units.
pub fn read(format: &dyn Format, source: &dyn Source, frames: Option<&[u64]>, atoms: Option<Vec<u32>>) -> Result<Read> {
    let decoder = format.open(source)?;
    let header = decoder.header().clone();
    let scan = decoder
        .scan(source, &ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false })?;
    let n_frames = scan.index.n_frames();
    let all: Vec<u64> = (0..n_frames).collect();
    let frames = frames.unwrap_or(&all);
    let atoms = match atoms {
        None => AtomSelection::all(header.n_atoms),
        Some(list) => AtomSelection::from_sorted(list, header.n_atoms)?,
    };
    let vectors = if header.fields.contains(Fields::VELOCITIES) { Fields::VELOCITIES } else { Fields::POSITIONS };
    let request = Request { fields: vectors, atoms, scales: Scales::NATIVE };
    let mut block = Block::default();
    block.reset(frames.iter().copied(), request.atoms.len(), vectors);
    let wanted: Vec<Wanted> =
        frames.iter().enumerate().map(|(row, &frame)| Wanted { frame, row: row as u32 }).collect();
    let mut segments = Vec::new();
    decoder.segments(&scan.index, &wanted, &request, &mut segments)?;
    let mut gather = Gather::default();
    gather.read(source, segments.iter().map(|segment| segment.extent))?;
    let mut scratch = Scratch::default();
    for (i, segment) in segments.iter().enumerate() {
        let mut bytes = gather.bytes(i).to_vec();
        while let Decoded::NeedsPrefix(len) = decoder.decode(
            SegmentBytes { segment, bytes: &bytes, wanted: &wanted, request: &request },
            &mut block.as_mut(),
            &mut scratch,
        )? {
            assert!(len > bytes.len() as u64 && len <= segment.whole.len, "a longer prefix is asked for");
            bytes.resize(len as usize, 0);
            source.read_exact_at(segment.whole.offset, &mut bytes)?;
        }
    }
    Ok(Read { block, n_frames, truncated: scan.truncation.is_some() })
}

/// Reads a file that was cut or damaged: whatever happens, nothing may panic.
pub fn read_damaged(format: &dyn Format, bytes: &[u8]) -> Result<Read> {
    read(format, &MemorySource::new("damaged", bytes.to_vec()), None, None)
}

/// A folder of its own for a test.
pub fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("kinema-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
