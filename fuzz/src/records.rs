//! Bytes as a file whose records are taken by the encoder of the same format.

use kinema_core::ErrorKind;
use kinema_core::format::{EncodeScratch, Format, Making, Record, ScanOptions};
use kinema_core::selection::AtomSelection;
use kinema_core::source::MemorySource;

/// Records of all atoms are copied byte for byte, or refused; those of the first and last atom alone are whole records, of
/// which a second recoding keeps every byte.
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
            let record = Record { bytes, offset: extent.offset, frame };
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
            assert!(made(&few, n_few, &AtomSelection::all(n_few)).is_some_and(|again| again == few));
        }
    }
}
