//! Bytes as a file whose records are taken by the encoder of the same format.

use std::path::Path;
use std::sync::Arc;

use kinema_core::format::{EncodeScratch, Format, Making, Record, ScanOptions};
use kinema_core::frame::{Block, Fields, Units};
use kinema_core::pipeline::Progress;
use kinema_core::pipeline::encode::resume::Commits;
use kinema_core::pipeline::encode::{EncodeRequest, encode, making};
use kinema_core::pipeline::reader::Reader;
use kinema_core::selection::{AtomSelection, FrameSelection};
use kinema_core::sink::MemorySink;
use kinema_core::source::{MemorySource, OpenSource, Source};
use kinema_core::trajectory::{IndexPolicy, OpenOptions, Trajectory};
use kinema_core::{ErrorKind, Result};

use super::files::expand;

/// Records of all atoms are copied byte for byte, or refused. Records of the first and last atom alone are whole, and a
/// second recoding keeps every byte of them.
pub fn recode(format: &dyn Format, data: &[u8]) {
    let source = MemorySource::new("fuzz", data);
    let Ok(decoder) = format.open(&source) else { return };
    let options = ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false };
    let Ok(scan) = decoder.scan(&source, &options) else { return };
    let n_atoms = decoder.header().n_atoms;
    let all = AtomSelection::all(n_atoms);
    let mut ends = vec![n_atoms.saturating_sub(1), 0];
    ends.truncate(n_atoms as usize);
    let ends = AtomSelection::new(ends, n_atoms).expect("in range");
    for frame in 0..scan.index.n_frames() {
        let extent = scan.index.extent(frame);
        let bytes = &data[extent.offset as usize..extent.end() as usize];
        let made = |bytes: &[u8], source_atoms: u32, atoms: &AtomSelection| {
            let record = Record { bytes, offset: extent.offset, frame, time: None };
            let making = Making {
                n_atoms: atoms.n_requested() as u32,
                source_atoms,
                same_format: true,
                held: decoder.header().fields,
                ..Making::default()
            };
            let encoder = format.encoder(&making).ok().filter(|encoder| encoder.recodes())?;
            let mut out = Vec::new();
            match encoder.recode(&record, atoms, &mut EncodeScratch::default(), &mut out) {
                Ok(()) => Some(out),
                Err(error) => {
                    assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
                    None
                }
            }
        };
        if let Some(copy) = made(bytes, n_atoms, &all) {
            assert!(copy == bytes, "a record is not copied");
        }
        if let Some(few) = made(bytes, n_atoms, &ends) {
            let n_few = ends.n_requested() as u32;
            let again = made(&few, n_few, &AtomSelection::all(n_few));
            // XTC does not pack frames of so few atoms
            let is_plain = format.info().name == "XTC" && again.is_none();
            assert!(is_plain || again.is_some_and(|again| again == few));
        }
    }
}

/// Opens one file in memory, under any name.
#[derive(Debug)]
pub struct InMemory(pub Vec<u8>);

impl OpenSource for InMemory {
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(MemorySource::new(&path.to_string_lossy(), self.0.clone())))
    }
}

/// The file, opened and scanned.
pub fn opened(bytes: Vec<u8>, format: &'static dyn Format) -> Result<Trajectory> {
    let sources = Arc::new(InMemory(bytes));
    let options = OpenOptions { sources, format: Some(format), index: IndexPolicy::Memory, ..OpenOptions::default() };
    let trajectory = Trajectory::open(vec!["fuzz".into()], options)?;
    trajectory.scan(1, &|_| Ok(()))?;
    Ok(trajectory)
}

/// All frames in the units of the format.
fn values(trajectory: &Trajectory, fields: Fields, format: &dyn Format) -> Result<Block> {
    let n_frames = trajectory.scanned().map_or(0, |scanned| scanned.concatenation.n_frames);
    let atoms = AtomSelection::all(trajectory.n_atoms());
    let fields = fields | Fields::CELL | Fields::STEP | Fields::TIME;
    let mut block = Block::default();
    block.reset(0..n_frames, atoms.len(), fields);
    let frames = block.frames.clone();
    let units = Units::Of(format.info().scales);
    Reader::new(trajectory, fields, atoms, units)?.with_absent_marked().read(&frames, &mut block.as_mut())?;
    Ok(block)
}

/// Reads a file and writes it in the same format, from values and from records; reading that again gives the same
/// vectors, to the bit, and the same present fields.
pub fn reencode(format: &'static dyn Format, data: &[u8]) {
    let Ok(source) = opened(expand(data), format) else { return };
    let count = source.scanned().map_or(0, |scanned| scanned.concatenation.n_frames);
    let (frames, atoms) = (FrameSelection::Stride { start: 0, step: 1, count }, AtomSelection::all(source.n_atoms()));
    let Ok(known) = making(&source, &frames, &atoms, format) else { return };
    let Ok(stamps) = values(&source, Fields::NONE, format) else { return };
    let (steps, times) = stamps.stamps.iter().map(|stamp| (stamp.step, stamp.time)).unzip();
    let known = Making { steps, times, ..known };
    for same_format in [false, true] {
        let known = Making { same_format: same_format && known.same_format, ..known.clone() };
        let Ok(encoder) = format.encoder(&known) else { continue };
        let request =
            EncodeRequest { frames: frames.clone(), atoms: atoms.clone(), workers: 1, memory: 0, resumed: None };
        let sink = MemorySink::new("made");
        let (commits, progress) = (Commits::default(), Progress::default());
        match encode(&source, &request, format, &*encoder, &sink, &commits, &progress) {
            Ok(_) => {}
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
                continue;
            }
        }
        let made = opened(sink.bytes(), format).expect("what was written is read");
        // records of text are copied unchanged, even those with an invalid number
        let Ok(expected) = values(&source, encoder.fields(), format) else { continue };
        let found = values(&made, encoder.fields(), format).expect("what was written is read");
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        if source.scanned().is_some_and(|scanned| scanned.parts[0].decoder.facts().wide_fields.is_empty()) {
            assert_eq!(bits(&found.positions), bits(&expected.positions));
            assert_eq!(bits(&found.velocities), bits(&expected.velocities));
            assert_eq!(bits(&found.forces), bits(&expected.forces));
        }
        for (found, expected) in found.stamps.iter().zip(&expected.stamps) {
            assert_eq!(found.present, expected.present);
        }
    }
}
