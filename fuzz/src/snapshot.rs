//! Bytes as a catalogue's knowledge of a file, beside the file: refused, or frames that its decoder takes or refuses.

use std::path::PathBuf;
use std::sync::Arc;

use kinema_core::frame::{Block, Fields, Units};
use kinema_core::pipeline::reader::Reader;
use kinema_core::selection::AtomSelection;
use kinema_core::trajectory::{IndexPolicy, OpenOptions, Trajectory};

use super::files::expand;
use super::records::InMemory;

/// Most atoms of a file: opening it takes memory for the atoms that its header claims, and a caller must agree to that.
const MOST_ATOMS: u32 = 4096;
const MOST_FRAMES: u64 = 64;

/// Two bytes for the length of the file, then the file; then changes of a true snapshot of it: place in two bytes, and
/// the new byte, or, with the highest bit of the place set, the number of bytes that are removed.
pub fn restore(data: &[u8]) {
    let Some((len, rest)) = data.split_first_chunk::<2>() else { return };
    let (file, changes) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*len))));
    let options = || OpenOptions {
        sources: Arc::new(InMemory(expand(file))),
        index: IndexPolicy::Memory,
        ..OpenOptions::default()
    };
    let path = || vec![PathBuf::from("fuzz")];
    let Ok(trajectory) = Trajectory::open(path(), options()) else { return };
    if trajectory.scan(1, &|_| Ok(())).is_err() {
        return;
    }
    let Ok(mut snapshot) = trajectory.snapshot() else { return };
    for change in changes.as_chunks::<3>().0 {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        match snapshot.len() {
            0 => break,
            n if place >> 15 == 0 => snapshot[place % n] = change[2],
            n => drop(snapshot.drain(place % n..(place % n + usize::from(change[2])).min(n))),
        }
    }
    let Ok(restored) = Trajectory::from_snapshot(path(), options(), &snapshot) else { return };
    if restored.source(0).is_err() || restored.n_atoms() > MOST_ATOMS {
        return;
    }
    let n_frames = restored.scanned().map_or(0, |scanned| scanned.concatenation.n_frames);
    let atoms = AtomSelection::all(restored.n_atoms());
    let fields = Fields::POSITIONS | Fields::CELL | Fields::STEP | Fields::TIME;
    let Ok(reader) = Reader::new(&restored, fields, atoms.clone(), Units::default()) else { return };
    let mut reader = reader.with_absent_marked();
    for frame in 0..n_frames.min(MOST_FRAMES) {
        let mut block = Block::default();
        block.reset([frame], atoms.len(), fields);
        // with any outcome: an index of another file gives an error of its frames
        let _ = reader.read(&[frame], &mut block.as_mut());
    }
}
