//! Bytes as a stored index over other bytes: used only where the index fits.
//!
//! Whether the frames it names are those of the file, the format's decoder finds out: it checks every header it reads.

use std::fs;
use std::path::PathBuf;

use kinema_core::format::{Format, ScanOptions, dcd, xtc};
use kinema_core::index::identity::{FileIdentity, Match};
use kinema_core::index::store::{self, LoadOutcome};
use kinema_core::index::{Index, TableBuilder};
use kinema_core::source::{MemorySource, Source};
use xxhash_rust::xxh3::xxh3_64;

use super::files;

/// Bits of the first byte.
const DCD: u8 = 1;
/// The rest is the content of an index: magic number, version, format and checksum are put around it.
const FRAMED: u8 = 2;
/// And the identity is that of the file, as far as one can be had.
const OF_THE_FILE: u8 = 4;

/// The first byte says how to read the rest, the next two how many bytes of it are the file, then the file, then the
/// index.
pub fn load(data: &[u8]) {
    let Some((&[mode, low, high], rest)) = data.split_first_chunk() else { return };
    let (file, content) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([low, high]))));
    let format: &dyn Format = if mode & DCD == 0 { &xtc::Xtc } else { &dcd::Dcd };
    let name = format.info().name;
    let source = MemorySource::new("fuzz", file);
    let decoder = format.open(&source).ok();
    let n_atoms = decoder.as_ref().map_or(0, |decoder| decoder.header().n_atoms);
    let stored = if mode & FRAMED == 0 { content.to_vec() } else { framed(&source, mode, name, n_atoms, content) };
    let place = place();
    fs::write(&place, &stored).expect("the temporary folder is writable");
    let loaded = store::load(std::slice::from_ref(&place), &source, name, n_atoms);
    fs::remove_file(&place).expect("it was written above");
    let size = file.len() as u64;
    match loaded.unwrap_or_else(|error| panic!("a wrong index is no error: {error}")) {
        LoadOutcome::Absent => panic!("it is there"),
        LoadOutcome::Rejected(reason) => assert!(!reason.is_empty()),
        LoadOutcome::Fits(found) => {
            assert_eq!(found.place, place);
            let index = found.index;
            check_belongs(&source, &stored, &index, size);
            // a file that claims more atoms than it can hold has no frame: the engine's memory limit refuses such a block
            if let Some(decoder) = decoder.filter(|_| u64::from(n_atoms) <= 9 + 4 * size) {
                files::decode_frames_of_any_index(&source, decoder.as_ref(), &index);
            }
        }
        LoadOutcome::Grew(index) => {
            check_belongs(&source, &stored, &index, size);
            if let Some(decoder) = decoder {
                let options =
                    ScanOptions { previous: Some(index), workers: 1, progress: &|_| Ok(()), skip_damaged: false };
                if let Ok(scan) = decoder.scan(&source, &options) {
                    files::check_index(&scan.index, size);
                }
            }
        }
    }
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

/// An index with these `contents` behind its identity, by the layout of `index::store`.
fn framed(source: &dyn Source, mode: u8, name: &str, n_atoms: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = b"KINEMAIX".to_vec();
    bytes.extend_from_slice(&2_u32.to_le_bytes());
    let mut padded = [0; 16];
    padded.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    bytes.extend_from_slice(&padded);
    bytes.extend_from_slice(&n_atoms.to_le_bytes());
    let (own, content) = content.split_at(content.len().min(FileIdentity::LEN));
    let mut identity = own.to_vec();
    if mode & OF_THE_FILE != 0 {
        let size = own.first_chunk::<8>().map_or(0, |size| u64::from_le_bytes(*size));
        let size = size.min(source.len().expect("it is in memory"));
        if let Some(true_one) = true_identity(source, size, content) {
            identity = true_one.to_bytes();
        }
    }
    bytes.extend_from_slice(&identity);
    bytes.extend_from_slice(content);
    let checksum = xxh3_64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// What an honest program would have stored for the frames that `content` names; `None` where it could not.
fn true_identity(source: &dyn Source, size: u64, content: &[u8]) -> Option<FileIdentity> {
    let (first, rest) = content.split_first_chunk::<8>()?;
    let (n, rest) = rest.split_first_chunk::<8>()?;
    let first = u64::from_le_bytes(*first);
    let len = usize::try_from(u64::from_le_bytes(*n)).ok()?.checked_mul(4)?;
    let words: Vec<u64> =
        rest.get(..len)?.as_chunks::<4>().0.iter().map(|w| u64::from(u32::from_le_bytes(*w))).collect();
    let mut builder = TableBuilder::new(first);
    let mut end = first;
    for words in words {
        end = end.checked_add(4 * words).filter(|&end| end <= size)?;
        builder.push(4 * words, 0, 0.0).ok()?;
    }
    FileIdentity::of(source, size, None, Some(&Index::Table(builder.finish())), FileIdentity::PLACES).ok()
}
