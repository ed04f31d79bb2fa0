//! The client: one request after another on one connection; fetches a whole published file into a file.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

use kinema_core::error::catch_panics;
use kinema_core::pipeline::Progress;
use kinema_core::source::Extent;
use kinema_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::Xxh3;

use super::channel::{Channel, Message};
use super::key::Key;
use super::wire::Patience;
use super::{LONGEST_NAME, PIECE};

/// A request: offset, length, name.
pub(super) const REQUEST: usize = 16 + LONGEST_NAME;
/// An answer: its kind, the size of the whole source, the number of bytes that follow; or why there are none.
pub(super) const ANSWER: usize = 17 + MOST_WORDS;
pub(super) const MOST_WORDS: usize = 512;
pub(super) const GIVEN: u8 = 0;
pub(super) const ABSENT: u8 = 1;
pub(super) const FAILED: u8 = 2;

/// A connection to a peer.
pub struct Client {
    channel: Channel,
}

impl Client {
    /// Connects; afterwards both sides have proved the key.
    ///
    /// # Errors
    /// `Io` if there is no server, or none that answers in time; `PermissionDenied` if the keys differ.
    pub fn connect(host: &str, port: u16, key: &Key, patience: &Patience<'_>) -> Result<Self> {
        Ok(Self { channel: Channel::connect(host, port, key, patience)? })
    }

    /// Requests bytes of the source with this name, and passes them to `take` as they arrive; a length of `u64::MAX`
    /// means everything from the offset on. Returns the size of the whole source in bytes.
    ///
    /// # Errors
    /// `NotFound` if the peer has nothing of this name; `Io` if it fails or is too slow; `Corrupt` if it sends what was
    /// not requested; errors of `take`. The connection cannot be used after an error.
    pub fn read(
        &mut self,
        name: &[u8],
        extent: Extent,
        patience: &Patience<'_>,
        mut take: impl FnMut(&mut Message) -> Result<()>,
    ) -> Result<u64> {
        if name.len() > LONGEST_NAME {
            return Err(Error::new(ErrorKind::InvalidArgument, "the name is too long for a request to a peer"));
        }
        let request = [&extent.offset.to_le_bytes()[..], &extent.len.to_le_bytes(), name].concat();
        self.channel.send(&request, patience)?;
        let (size, follow) = answer(self.channel.receive(ANSWER, patience, "its answer")?.bytes())?;
        let expected = size.saturating_sub(extent.offset).min(extent.len);
        if follow != expected {
            return Err(Error::corrupt("the peer sends other bytes than were asked for", expected, follow));
        }
        let mut left = follow;
        while left > 0 {
            let piece = self.channel.receive(PIECE, patience, "the next bytes")?;
            let wanted = left.min(PIECE as u64);
            if piece.bytes().len() as u64 != wanted {
                return Err(Error::corrupt("a message of the peer has the wrong length", wanted, piece.bytes().len()));
            }
            take(piece)?;
            left -= wanted;
        }
        Ok(size)
    }
}

/// Size in all and bytes that follow.
fn answer(bytes: &[u8]) -> Result<(u64, u64)> {
    let wrong = || Error::new(ErrorKind::Corrupt, "the peer's answer is malformed");
    let (&kind, rest) = bytes.split_first().ok_or_else(wrong)?;
    let words = || String::from_utf8_lossy(rest).into_owned();
    match (kind, rest.as_chunks::<8>()) {
        (GIVEN, (&[size, follow], [])) => Ok((u64::from_le_bytes(size), u64::from_le_bytes(follow))),
        (ABSENT, _) => Err(Error::new(ErrorKind::NotFound, "the peer does not have it")),
        (FAILED, _) => Err(Error::new(ErrorKind::Io, format!("the peer failed: {}", words()))),
        _ => Err(wrong()),
    }
}

/// Messages that wait to be written.
const WAITING: usize = 4;

/// Fetches a whole file into an empty one, and compares size and checksum; `progress` counts bytes. One thread
/// receives, another writes.
///
/// # Errors
/// Errors of [`Client::read`]; `Corrupt` if size or checksum differ; errors of writing, with the path.
pub fn fetch_file(
    client: &mut Client,
    name: &[u8],
    (size, checksum): (u64, u64),
    target: &Path,
    patience: &Patience<'_>,
    progress: &Progress,
) -> Result<()> {
    let (full, pieces) = sync_channel::<Message>(WAITING);
    let (empty, used) = channel();
    let (found, written) = std::thread::scope(|scope| {
        let writer = scope.spawn(move || catch_panics(|| write(target, &pieces, &empty, progress)));
        let found = client.read(name, Extent { offset: 0, len: size }, patience, |piece| {
            // the bytes are not copied: the connection continues with a different buffer
            let spare = used.try_recv().unwrap_or_else(|_| Message(Vec::new()));
            full.send(std::mem::replace(piece, spare))
                .map_err(|_| Error::new(ErrorKind::Io, "the file cannot be written"))
        });
        drop(full);
        let defect = || Err(Error::new(ErrorKind::Internal, "a thread died"));
        (found, writer.join().unwrap_or_else(|_| defect()))
    });
    // an error here is the reason why the peer is read no further
    let (written, hash) = written?;
    let found = found?;
    if (found, written) != (size, size) {
        return Err(Error::corrupt("the peer has a file of another size", size, found));
    }
    if hash != checksum {
        let (expected, found) = (format!("{checksum:016x}"), format!("{hash:016x}"));
        return Err(Error::corrupt("the peer sent a file with another checksum", expected, found));
    }
    Ok(())
}

/// Writes pieces until there are no more, and gives their buffers back. Returns the number of bytes and their checksum.
fn write(
    target: &Path,
    pieces: &Receiver<Message>,
    empty: &Sender<Message>,
    progress: &Progress,
) -> Result<(u64, u64)> {
    let failed = |error: std::io::Error| Error::io("cannot write", &error).with_path(target);
    let mut file = File::options().write(true).open(target).map_err(failed)?;
    let (mut hash, mut written) = (Xxh3::new(), 0);
    for piece in pieces {
        hash.update(piece.bytes());
        file.write_all(piece.bytes()).map_err(failed)?;
        written += piece.bytes().len() as u64;
        progress.done.store(written, Ordering::Relaxed);
        // the other side may have all that it needs
        let _ = empty.send(piece);
    }
    Ok((written, hash.digest()))
}
