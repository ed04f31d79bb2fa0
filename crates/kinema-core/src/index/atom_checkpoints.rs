//! Atom checkpoints: places within the frames of a file at which decoding can start, and their store.
//!
//! The format decides what a checkpoint contains. Frames cannot prove their checkpoints right, as they can their
//! extents. So the store lies only in the user's cache folder, keyed by the identity of the file; besides, a format
//! ties each checkpoint to bytes that it reads on every use.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::Index;
use super::identity::{FileIdentity, Match};
use super::store::{WriteFile, cache_folder};
use crate::error::{Error, ErrorKind, Result, printed};
use crate::source::{Source, read_regular};

/// Atoms between two checkpoints by default: a scan over half of them takes one or two microseconds.
pub const ATOMS_PER_CHECKPOINT: u32 = 4096;

const MAGIC: &[u8; 8] = b"KINEMAAC";
/// Changes whenever the bytes or their meaning do.
const VERSION: u32 = 1;
/// Bytes before the checkpoints of all frames: numbers of frames and of atoms between checkpoints, and of checkpoints a
/// frame.
const HEAD_BYTES: usize = 16;
/// Bytes of a stored file in addition to its checkpoints, rounded up.
const FIXED_BYTES: u64 = 4096;

/// The checkpoints of all frames of a file, as many in each: one at every `every`-th atom except the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtomCheckpoints {
    every: u32,
    per_frame: usize,
    /// By frame and atom; 0: none is known.
    words: Vec<u64>,
    /// One a frame, by which the frame is recognised.
    tags: Vec<u32>,
}

impl AtomCheckpoints {
    /// Checkpoints in a frame of `n_atoms` atoms.
    pub fn count_per_frame(n_atoms: u32, every: u32) -> usize {
        (n_atoms.saturating_sub(1) / every.max(1)) as usize
    }

    /// Checkpoints for frames of `n_atoms` atoms; `words` has [`AtomCheckpoints::count_per_frame`] words for each frame
    /// of `tags`.
    ///
    /// # Errors
    /// `Internal` if the number of words differs, or `every` is 0.
    pub fn new(n_atoms: u32, every: u32, words: Vec<u64>, tags: Vec<u32>) -> Result<Self> {
        let per_frame = Self::count_per_frame(n_atoms, every);
        if every == 0 || tags.len().checked_mul(per_frame) != Some(words.len()) {
            let what = format!("{} checkpoints of {} frames, expected {per_frame} of each", words.len(), tags.len());
            return Err(Error::new(ErrorKind::Internal, what));
        }
        Ok(Self { every, per_frame, words, tags })
    }

    /// Atoms between two checkpoints.
    pub fn every(&self) -> u32 {
        self.every
    }

    /// Number of frames.
    pub fn n_frames(&self) -> u64 {
        self.tags.len() as u64
    }

    /// Number of checkpoints that are known.
    pub fn number(&self) -> u64 {
        self.words.iter().filter(|&&word| word != 0).count() as u64
    }

    /// Tag and checkpoints of a frame: `words[i]` is for atom `(i + 1) * every`, 0 if there is none.
    pub fn of_frame(&self, frame: u64) -> Option<(u32, &[u64])> {
        let frame = usize::try_from(frame).ok()?;
        let from = frame.checked_mul(self.per_frame)?;
        Some((*self.tags.get(frame)?, self.words.get(from..from.checked_add(self.per_frame)?)?))
    }

    /// Little-endian bytes for [`AtomCheckpoints::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + 8 * self.words.len() + 4 * self.tags.len());
        bytes.extend_from_slice(&self.n_frames().to_le_bytes());
        bytes.extend_from_slice(&self.every.to_le_bytes());
        bytes.extend_from_slice(&(self.per_frame as u32).to_le_bytes());
        self.words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        self.tags.iter().for_each(|tag| bytes.extend_from_slice(&tag.to_le_bytes()));
        bytes
    }

    /// Parses the bytes of [`AtomCheckpoints::to_bytes`] for a file of `n_frames` frames and `n_atoms` atoms.
    ///
    /// # Errors
    /// The reason why the bytes are refused, in words.
    pub fn from_bytes(bytes: &[u8], n_frames: u64, n_atoms: u32) -> std::result::Result<Self, String> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or("it ends early")?;
        let [frames_low, frames_high, every, per_frame] =
            [0, 4, 8, 12].map(|at| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
        if u64::from(frames_low) | (u64::from(frames_high) << 32) != n_frames {
            return Err("it is of another number of frames".to_owned());
        }
        let expected = Self::count_per_frame(n_atoms, every);
        if every == 0 || per_frame as usize != expected {
            return Err(format!("it has {per_frame} checkpoints a frame, expected {expected}"));
        }
        let n_words = usize::try_from(n_frames).ok().and_then(|n| n.checked_mul(expected));
        let cut = n_words.and_then(|n| n.checked_mul(8)).ok_or("its frame count is absurd")?;
        let (words, tags) = rest.split_at_checked(cut).ok_or("it ends early")?;
        let ((words, _), (tags, left)) = (words.as_chunks::<8>(), tags.as_chunks::<4>());
        if tags.len() as u64 != n_frames || !left.is_empty() {
            return Err("its length is not that of its checkpoints".to_owned());
        }
        let words = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let tags = tags.iter().map(|tag| u32::from_le_bytes(*tag)).collect();
        Ok(Self { every, per_frame: expected, words, tags })
    }
}

/// Where the checkpoints of a file are stored: the user's cache folder, if the environment names one.
pub fn place(path: &Path) -> Option<PathBuf> {
    let absolute = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let keyed = format!("{:016x}.kinema-atoms", xxh3_64(absolute.as_os_str().as_encoded_bytes()));
    Some(cache_folder()?.join("atoms").join(keyed))
}

/// Stores the checkpoints of a file with this identity; returns the text of a note, if any.
///
/// # Errors
/// If the folder cannot be made, and errors of `write`.
pub fn save(
    place: &Path,
    checkpoints: &AtomCheckpoints,
    identity: &FileIdentity,
    format: &str,
    write: &WriteFile,
) -> Result<Option<String>> {
    if let Some(folder) = place.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| Error::io("cannot make the folder", &error).with_path(folder))?;
    }
    let mut bytes = head(identity, format);
    bytes.extend_from_slice(&checkpoints.to_bytes());
    let checksum = xxh3_64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    write(place, &bytes).map_err(|error| error.with_path(place))
}

/// Stored checkpoints of a file. `None` if nothing is stored; the reason, in words, if they are not used.
///
/// # Errors
/// Only errors of the file itself.
pub fn load(
    place: &Path,
    source: &dyn Source,
    index: &Index,
    format: &str,
    n_atoms: u32,
) -> Result<Option<std::result::Result<AtomCheckpoints, String>>> {
    let size = source.len()?;
    let bytes = match read_regular(place, size.saturating_mul(4).saturating_add(FIXED_BYTES)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Ok(Some(Err(format!("they cannot be read: {}", error.what())))),
    };
    let refused = |why: String| Ok(Some(Err(format!("{}: {why}", printed(place)))));
    let (identity, checkpoints) = match decode(&bytes, format) {
        Ok(decoded) => decoded,
        Err(why) => return refused(why),
    };
    match identity.check(source, Some(index))? {
        Match::Unchanged if identity.size == size => {}
        Match::Unchanged => return refused("the file has grown since they were made".to_owned()),
        Match::SameContent => return refused("they were made of another file with this content".to_owned()),
        Match::Changed(how) => return refused(how),
    }
    match AtomCheckpoints::from_bytes(checkpoints, index.n_frames(), n_atoms) {
        Ok(checkpoints) => Ok(Some(Ok(checkpoints))),
        Err(why) => refused(why),
    }
}

/// The bytes before the checkpoints of a file with this identity.
fn head(identity: &FileIdentity, format: &str) -> Vec<u8> {
    let mut bytes = file_head(format);
    bytes.extend_from_slice(&identity.to_bytes());
    bytes
}

fn file_head(format: &str) -> Vec<u8> {
    let mut name = [0_u8; 16];
    name.iter_mut().zip(format.bytes()).for_each(|(place, byte)| *place = byte);
    [MAGIC, &VERSION.to_le_bytes()[..], &name].concat()
}

/// The identity of the file and the bytes of its checkpoints, or in words why not.
fn decode<'a>(bytes: &'a [u8], format: &str) -> std::result::Result<(FileIdentity, &'a [u8]), String> {
    let (content, checksum) = bytes.split_last_chunk::<8>().ok_or("it ends early")?;
    if xxh3_64(content) != u64::from_le_bytes(*checksum) {
        return Err("its checksum is wrong".to_owned());
    }
    let mut rest = content.strip_prefix(&file_head(format)[..]).ok_or("another version made them")?;
    let identity = FileIdentity::take(&mut rest).ok_or("its identity is none")?;
    Ok((identity, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> AtomCheckpoints {
        AtomCheckpoints::new(100, 30, (1..=12).collect(), vec![7, 8, 9, 10]).expect("three of each of four frames")
    }

    #[test]
    fn what_is_stored_comes_back_and_nothing_else_does() {
        let stored = example();
        let mut bytes = head(&FileIdentity::from_size(80), "XTC");
        bytes.extend_from_slice(&stored.to_bytes());
        let checksum = xxh3_64(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        let (identity, rest) = decode(&bytes, "XTC").expect("as it was stored");
        assert_eq!(identity.size, 80);
        assert_eq!(AtomCheckpoints::from_bytes(rest, 4, 100).expect("as they were stored"), stored);
        assert_eq!(stored.of_frame(2), Some((9, &[7, 8, 9][..])));
        assert_eq!(stored.of_frame(4), None);
        assert!(decode(&bytes, "TRR").is_err());
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len], "XTC").is_err(), "cut at {len}");
            let mut damaged = bytes.clone();
            damaged[len] ^= 1 << (len % 8);
            assert!(decode(&damaged, "XTC").is_err(), "flipped at {len}");
        }
    }

    #[test]
    fn bytes_of_other_frames_are_refused() {
        let bytes = example().to_bytes();
        assert!(AtomCheckpoints::from_bytes(&bytes, 4, 100).is_ok());
        for (n_frames, n_atoms) in [(3, 100), (4, 130), (4, 0), (u64::MAX, 100)] {
            assert!(AtomCheckpoints::from_bytes(&bytes, n_frames, n_atoms).is_err());
        }
        for len in 0..bytes.len() {
            assert!(AtomCheckpoints::from_bytes(&bytes[..len], 4, 100).is_err(), "cut at {len}");
        }
        assert!(AtomCheckpoints::new(100, 30, vec![0; 5], vec![0; 2]).is_err());
        assert!(AtomCheckpoints::new(100, 0, Vec::new(), Vec::new()).is_err());
    }
}
