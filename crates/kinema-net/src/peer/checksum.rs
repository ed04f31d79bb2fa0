//! The checksum of published files: XXH3-64 of all bytes. It finds damage; it does not protect against forgery.

use std::sync::atomic::Ordering;

use kinema_core::pipeline::Progress;
use kinema_core::source::Source;
use kinema_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::Xxh3;

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// Size and XXH3-64 of a source; `progress` counts bytes.
///
/// # Errors
/// Errors of reading, `Cancelled`, and `Truncated` if the source becomes shorter meanwhile.
pub fn checksum(source: &dyn Source, progress: &Progress) -> Result<(u64, u64)> {
    let size = source.len()?;
    let (mut hash, mut buffer, mut at) = (Xxh3::new(), vec![0; size.min(PIECE) as usize], 0);
    while at < size {
        if progress.cancel.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "cancelled by the caller"));
        }
        let piece = &mut buffer[..(size - at).min(PIECE) as usize];
        source.read_exact_at(at, piece)?;
        hash.update(piece);
        at += piece.len() as u64;
        progress.done.store(at, Ordering::Relaxed);
    }
    Ok((size, hash.digest()))
}
