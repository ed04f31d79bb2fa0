//! Bytes as a stored index over other bytes: used only if the index fits.
//!
//! The format's decoder finds out whether the frames that it names are those of the file: it checks every header it
//! reads.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kinema_core::Result;
use kinema_core::format::{Format, ScanOptions, dlpoly, trr, xtc};
use kinema_core::index::identity::{FileIdentity, Match};
use kinema_core::index::store::{self, LoadOutcome};
use kinema_core::index::{Index, TableBuilder};
use kinema_core::source::{MemorySource, Source};
use xxhash_rust::xxh3::xxh3_64;

use super::files;

/// By the first two bits of the first byte: formats whose indices are stored.
const FORMATS: [&dyn Format; 4] = [&xtc::Xtc, &trr::Trr, &dlpoly::History, &xtc::Xtc];
/// Further bits of it. The rest is stored unchanged.
const AS_IT_IS: u8 = 4;
/// The index is that of the file when it was shorter.
const GREW: u8 = 8;
/// The rest lists frames, and an honest index of these is stored: 8 bytes for the offset of the first, then length and
/// step of each in two bytes.
const OTHER_FRAMES: u8 = 16;
/// The checksum is not made right after the changes.
const CHECKSUM: u8 = 32;

/// The first byte says how to read the rest, and the next two how many bytes of the rest are the file. The file
/// follows, then changes of the stored index: place in two bytes and the new byte, or, with the highest bit of the
/// place set, the number of bytes that are removed.
pub fn load(data: &[u8]) {
    let Some((&[mode, low, high], rest)) = data.split_first_chunk() else { return };
    let (file, changes) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([low, high]))));
    let format = FORMATS[usize::from(mode & 3)];
    let name = format.info().name;
    let source = MemorySource::new("fuzz", file);
    let decoder = format.open(&source).ok();
    let n_atoms = decoder.as_ref().map_or(0, |decoder| decoder.header().n_atoms);
    let stored = if mode & AS_IT_IS == 0 { stored(format, file, mode, changes) } else { Some(changes.to_vec()) };
    let Some(stored) = stored else { return };
    let place = place();
    fs::write(&place, &stored).expect("the temporary folder is writable");
    let loaded = store::load(std::slice::from_ref(&place), &source, name, n_atoms, &|_| Ok(None));
    fs::remove_file(&place).expect("it was written above");
    let size = file.len() as u64;
    match loaded.unwrap_or_else(|error| panic!("a wrong index must not be an error: {error}")) {
        LoadOutcome::Absent => panic!("it is there"),
        LoadOutcome::Rejected(reason) | LoadOutcome::Wrong(reason) => {
            assert!(!reason.is_empty());
            let is_honest = mode & (AS_IT_IS | OTHER_FRAMES) == 0 && changes.is_empty();
            assert!(!is_honest, "an honest index is rejected: {reason}");
        }
        LoadOutcome::Fits(found) => {
            assert_eq!(found.place, place);
            let index = found.index;
            check_belongs(&source, &stored, &index, size);
            // a file that claims more atoms than it can hold has no frame: the engine's memory limit refuses such a
            // block
            if let Some(decoder) = decoder.filter(|_| u64::from(n_atoms) <= 9 + 4 * size) {
                files::decode_frames_of_any_index(&source, decoder.as_ref(), &index);
            }
        }
        LoadOutcome::Grew(index) => {
            check_belongs(&source, &stored, &index, size);
            if let Some(decoder) = decoder
                && let Ok(scan) = decoder.scan(&source, &options(Some(index)))
            {
                files::check_index(&scan.index, size);
            }
        }
    }
}

fn options(previous: Option<Index>) -> ScanOptions<'static> {
    ScanOptions { previous, workers: 1, progress: &|_| Ok(()), skip_damaged: false }
}

/// The index that an honest program would have stored, with the changes; `None` if it would have stored none.
fn stored(format: &dyn Format, file: &[u8], mode: u8, changes: &[u8]) -> Option<Vec<u8>> {
    let len = if mode & GREW == 0 { file.len() } else { file.len() / 3 * 2 };
    let source = MemorySource::new("fuzz", &file[..len]);
    let decoder = format.open(&source).ok()?;
    let (index, changes) = if mode & OTHER_FRAMES == 0 {
        (decoder.scan(&source, &options(None)).ok()?.index, changes)
    } else {
        (frames_of(changes, len as u64)?, &[][..])
    };
    let size = if mode & GREW == 0 { len as u64 } else { index.end()? };
    let identity = FileIdentity::from_source(&source, size, None, Some(&index), FileIdentity::PLACES).ok()?;
    let written = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&written);
    let write = move |_: &Path, bytes: &[u8]| -> Result<Option<String>> {
        *into.lock().expect("one thread") = bytes.to_vec();
        Ok(None)
    };
    let name = format.info().name;
    store::save(&[PathBuf::from("x")], &index, &identity, name, decoder.header().n_atoms, &write).ok()?;
    let mut bytes = written.lock().expect("one thread").clone();
    for change in changes.as_chunks::<3>().0 {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        match bytes.len() {
            0 => break,
            n if place >> 15 == 0 => bytes[place % n] = change[2],
            n => drop(bytes.drain(place % n..(place % n + usize::from(change[2])).min(n))),
        }
    }
    if mode & CHECKSUM == 0 && bytes.len() > 8 {
        let content = bytes.len() - 8;
        let checksum = xxh3_64(&bytes[..content]);
        bytes[content..].copy_from_slice(&checksum.to_le_bytes());
    }
    Some(bytes)
}

/// An index of frames that need not exist, within `size` bytes.
fn frames_of(list: &[u8], size: u64) -> Option<Index> {
    let (first, frames) = list.split_first_chunk::<8>()?;
    let first = u64::from_le_bytes(*first);
    let (mut builder, mut end) = (TableBuilder::new(first), first);
    for frame in frames.as_chunks::<4>().0 {
        let len = u64::from(u16::from_le_bytes([frame[0], frame[1]]));
        end = end.checked_add(len).filter(|&end| end <= size)?;
        builder.push(len, i64::from(u16::from_le_bytes([frame[2], frame[3]])), 0.0).ok()?;
    }
    Some(Index::Table(builder.finish()))
}

/// One file a thread, beside no trajectory.
fn place() -> PathBuf {
    let thread = format!("{:?}", std::thread::current().id());
    let number: String = thread.chars().filter(char::is_ascii_digit).collect();
    std::env::temp_dir().join(format!("kinema-fuzz-{}-{number}.kinema-index", std::process::id()))
}

/// An index that was accepted has a true checksum and the identity of the file, and names bytes of the file.
fn check_belongs(source: &dyn Source, stored: &[u8], index: &Index, size: u64) {
    let (content, checksum) = stored.split_last_chunk::<8>().expect("a checksum");
    assert_eq!(xxh3_64(content), u64::from_le_bytes(*checksum));
    let identity = FileIdentity::take(&mut stored.get(32..).expect("an identity")).expect("an identity");
    assert!(identity.size <= size);
    files::check_index(index, identity.size);
    assert_eq!(identity.check(source, Some(index)).expect("it was had before"), Match::SameContent);
}
