//! The file of a block: its bytes, then the checksums of pieces of 64 KiB, the path that they came from, and the key.
//!
//! The bytes come first, so that a read of them is one call at their own position within the block.

use std::fs::File;
use std::io::IoSliceMut;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use kinema_core::source::{Extent, FileSource, Source};
use kinema_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_64;

use super::Verify;
use super::key::{BlockKey, FileKey};
use super::verified::{Pieces, Verified};

/// Bytes of a checksum.
pub(super) const PIECE: usize = 64 * 1024;
const MAGIC: [u8; 8] = *b"KINBLK01";
/// Magic, key, number, bytes, boot, length of the path, checksum of everything after the bytes of the block except
/// itself.
const FIXED: usize = 8 + 16 + 8 + 8 + 8 + 8 + 8;
/// The time of use is noted so often.
const TOUCHED: u64 = 60;
const LONGEST_PATH: u64 = 1 << 16;

/// Bytes of the file of a block of `len` bytes.
pub(super) fn stored_bytes(len: u64, path: &Path) -> u64 {
    len + len.div_ceil(PIECE as u64) * 8 + path.as_os_str().len() as u64 + FIXED as u64
}

/// The bytes of the file after the bytes of a block.
pub(super) fn footer(key: BlockKey, len: u64, path: &Path, sums: &[u64]) -> Vec<u8> {
    let path = path.as_os_str().as_bytes();
    let mut bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    bytes.extend_from_slice(path);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&key.file.0.to_le_bytes());
    for word in [key.number, len, boot(), path.len() as u64] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
    bytes
}

/// Identifies a start of the machine. A crash loses bytes that were on their way to the disk, while the file may have
/// its full length without them.
fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| std::fs::read("/proc/sys/kernel/random/boot_id").map_or(0, |id| xxh3_64(&id)))
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// An open block.
#[derive(Debug)]
pub(super) struct Block {
    pub key: BlockKey,
    file: FileSource,
    len: u64,
    sums: Box<[u64]>,
    /// Pieces that this process has compared.
    verified: Arc<Pieces>,
    /// When its use was noted last, s.
    touched: AtomicU64,
}

/// The last bytes of a block's file, as they are.
struct Fixed {
    key: BlockKey,
    len: u64,
    boot: u64,
    path_len: u64,
}

impl Fixed {
    fn parse(bytes: &[u8; FIXED]) -> std::result::Result<Self, String> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        if bytes[..8] != MAGIC {
            return Err("its end is not that of a block".to_owned());
        }
        let file = FileKey(u128::from(word(8)) | u128::from(word(16)) << 64);
        Ok(Self { key: BlockKey { file, number: word(24) }, len: word(32), boot: word(40), path_len: word(48) })
    }
}

impl Block {
    /// Opens the file of a block and checks everything except the bytes of the block; checks these as well if the file
    /// was written before the machine's last start. `NotFound` if there is no file, `Corrupt` if it is damaged.
    pub(super) fn open(place: &Path, key: BlockKey, verified: &Verified) -> Result<Self> {
        let file = FileSource::open(place)?;
        let (block, boot_then) = Self::parse(file, key, verified).map_err(|error| error.with_path(place))?;
        if boot_then != boot() {
            block.verify_new(0, block.len)?;
        }
        Ok(block)
    }

    fn parse(file: FileSource, key: BlockKey, verified: &Verified) -> Result<(Self, u64)> {
        let wrong = |what: String| Error::new(ErrorKind::Corrupt, format!("a damaged block: {what}"));
        let size = file.len()?;
        let Some(at) = size.checked_sub(FIXED as u64) else {
            return Err(wrong(format!("expected at least {FIXED} bytes, found {size}")));
        };
        let mut fixed = [0; FIXED];
        file.read_exact_at(at, &mut fixed)?;
        let found = Fixed::parse(&fixed).map_err(wrong)?;
        let before = found.len.checked_add(found.len.div_ceil(PIECE as u64) * 8 + FIXED as u64);
        if found.path_len > LONGEST_PATH || before.and_then(|bytes| bytes.checked_add(found.path_len)) != Some(size) {
            return Err(wrong(format!("{size} bytes, not those of a block of {} bytes", found.len)));
        }
        if found.key != key {
            return Err(wrong("it is of another file or place".to_owned()));
        }
        let mut behind = vec![0; (size - found.len) as usize];
        file.read_exact_at(found.len, &mut behind)?;
        let (said, sum) = behind.split_at(behind.len() - 8);
        if xxh3_64(said).to_le_bytes() != *sum {
            return Err(wrong("the checksum of its end is another".to_owned()));
        }
        let (sums, _) = said.split_at(found.len.div_ceil(PIECE as u64) as usize * 8);
        let sums: Box<[u64]> = sums.as_chunks::<8>().0.iter().map(|sum| u64::from_le_bytes(*sum)).collect();
        let verified = match file.file().metadata() {
            Ok(found) => verified.pieces(key, &found, sums.len()),
            Err(error) => return Err(Error::io("cannot stat the file", &error)),
        };
        Ok((Self { key, file, len: found.len, sums, verified, touched: AtomicU64::new(0) }, found.boot))
    }

    /// Bytes of the source in it.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The file itself.
    pub(super) fn file(&self) -> &File {
        self.file.file()
    }

    /// Notes that it was used, at most once a minute.
    pub(super) fn touch(&self) {
        let (now, before) = (now(), self.touched.load(Ordering::Relaxed));
        if now.abs_diff(before) >= TOUCHED {
            self.touched.store(now, Ordering::Relaxed);
            // a failure only makes the choice of blocks to remove worse
            let _ = self.file().set_modified(SystemTime::now());
        }
    }

    /// Fills `buffer` with bytes; their checksums are compared if `verify` says so.
    pub(super) fn read(&self, at: u64, buffer: &mut [u8], verify: Verify) -> Result<()> {
        self.touch();
        if verify == Verify::Always {
            let (first, end) = (at / PIECE as u64, (at + buffer.len() as u64).div_ceil(PIECE as u64));
            let start = first * PIECE as u64;
            let mut bytes = vec![0; ((end * PIECE as u64).min(self.len) - start) as usize];
            self.read_verified(start, &mut bytes)?;
            let within = (at - start) as usize;
            buffer.copy_from_slice(&bytes[within..within + buffer.len()]);
            return Ok(());
        }
        self.file.read_exact_at(at, buffer)?;
        if verify == Verify::Never {
            return Ok(());
        }
        // pieces that were read whole are compared in place
        let len = buffer.len() as u64;
        let whole = at.next_multiple_of(PIECE as u64);
        let first = (whole / PIECE as u64) as usize;
        let inside = usize::try_from(whole - at).ok().and_then(|skipped| buffer.get(skipped..)).unwrap_or_default();
        for (piece, bytes) in (first..).zip(inside.chunks(PIECE)) {
            let is_whole = bytes.len() == PIECE || at + len == self.len;
            if is_whole && !self.verified.has(piece) {
                self.compare(piece, bytes)?;
                self.verified.add(piece);
            }
        }
        self.verify_new(at, len)
    }

    /// The same into several buffers, without `Verify::Always`.
    pub(super) fn read_scattered(&self, at: u64, buffers: &mut [IoSliceMut<'_>], verify: Verify) -> Result<()> {
        self.touch();
        let len = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        self.file.read_scattered_at(at, buffers)?;
        if verify == Verify::Never { Ok(()) } else { self.verify_new(at, len) }
    }

    /// Begins to read into the page cache.
    pub(super) fn will_need(&self, extent: Extent) {
        self.file.will_need(extent);
    }

    /// Compares the checksums of all pieces that hold bytes of a run.
    pub(super) fn verify(&self, at: u64, len: u64) -> Result<()> {
        self.verify_pieces(at, len, |_| true)
    }

    /// The same of pieces that this process has not compared yet.
    fn verify_new(&self, at: u64, len: u64) -> Result<()> {
        self.verify_pieces(at, len, |piece| !self.verified.has(piece))
    }

    fn verify_pieces(&self, at: u64, len: u64, wanted: impl Fn(usize) -> bool) -> Result<()> {
        let mut bytes = Vec::new();
        let (first, end) = (at / PIECE as u64, (at + len).div_ceil(PIECE as u64));
        for piece in (first as usize..end as usize).filter(|&piece| wanted(piece)) {
            let start = (piece * PIECE) as u64;
            bytes.resize((self.len - start).min(PIECE as u64) as usize, 0);
            self.read_verified(start, &mut bytes)?;
            self.verified.add(piece);
        }
        Ok(())
    }

    /// Whole pieces from the start of one.
    fn read_verified(&self, start: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(start, bytes)?;
        let first = (start / PIECE as u64) as usize;
        (first..).zip(bytes.chunks(PIECE)).try_for_each(|(piece, bytes)| self.compare(piece, bytes))
    }

    /// Checks that a piece has its checksum.
    fn compare(&self, piece: usize, bytes: &[u8]) -> Result<()> {
        if self.sums.get(piece) == Some(&xxh3_64(bytes)) {
            return Ok(());
        }
        let what = "a damaged block: the checksum of 64 KiB of its bytes is another";
        Err(Error::new(ErrorKind::Corrupt, what).with_byte((piece * PIECE) as u64).with_path(self.file.path()))
    }

    /// Marks all pieces as compared: they were when the block was fetched.
    pub(super) fn is_new(&self) {
        (0..self.sums.len()).for_each(|piece| self.verified.add(piece));
    }
}

/// The path of the source that the file of a block names; `None` if the file is not a block.
pub(super) fn described(place: &Path) -> Option<PathBuf> {
    let file = FileSource::open(place).ok()?;
    let at = file.len().ok()?.checked_sub(FIXED as u64)?;
    let mut fixed = [0; FIXED];
    file.read_exact_at(at, &mut fixed).ok()?;
    let found = Fixed::parse(&fixed).ok()?;
    let mut path = vec![0; found.path_len.min(LONGEST_PATH) as usize];
    file.read_exact_at(at.checked_sub(found.path_len)?, &mut path).ok()?;
    Some(std::ffi::OsString::from_vec(path).into())
}
