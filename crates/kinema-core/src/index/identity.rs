//! Identity of a file: evidence that a file is still the one for which something was stored.
//!
//! A stored index, a checkpoint, a chunk map, a verdict, the snapshot that workers are sent: each is right for one
//! content only. If the content were another, a wrong number could come from it silently. To hash a whole file would
//! cost as much as to analyse it. So there are two kinds of evidence:
//!
//! - *Status* ([`FileStatus`]): inode, size, time of modification, time of change. If all four are the same, the file
//!   is the same: no call sets the time of change, so a file whose middle was rewritten and whose size and time of
//!   modification were restored has another. Nothing is read then. If inode and size are the same and a time differs,
//!   something was done to this very file. It may have been only a new mode, link or name, but the bytes between the
//!   samples may be new too. Samples cannot tell, so the file counts as changed, unless the samples cover all of it.
//! - *Content*: size, both ends, pieces of 4 KiB at places that follow from the size alone, and the heads of some
//!   frames if the index has them. It must be the same whenever the status does not decide: for another inode (a copy,
//!   a file that was moved to another disk, another node's view), and for a file that has grown, up to its former size.
//!   Changes between the samples of a copy are not seen.
//!
//! Two changes within one tick of the file system's clock have the same time. A status that was taken within the tick
//! of the last change is not settled, and equality later proves nothing; [`FileStatus::settled_of`] waits for the tick.
//!
//! If a file counts as changed, its index is rebuilt, which looks at the heads of all frames, and is stored with the
//! new status. Verdicts and chunk maps are rebuilt and stored too. A snapshot and a checkpoint are refused.

use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::Index;
use crate::error::Result;
use crate::source::{CONTENT_PLACES, FileStatus, PIECE_BYTES, Source, sampled_content};

/// Frames whose heads are hashed.
const FRAMES: u64 = 16;
/// Bytes hashed of each head: magic number, atom count, step, time and cell of an XTC frame. The first and the last
/// frame have a whole piece hashed, with coordinates.
const HEAD_BYTES: u64 = 64;
/// Words of the bytes before the statuses.
const WORDS: usize = 8;

/// Result of comparing a file to an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// Inode, size and times say that nothing was changed; its content was not looked at.
    Unchanged,
    /// Another file, or one that has grown: its content agrees wherever it was looked at.
    SameContent,
    /// It is not, or may not be, what it was; why, in words.
    Changed(String),
}

/// Identity of a file when it had `size` bytes.
#[derive(Debug, Clone)]
pub struct FileIdentity {
    /// Size in bytes, up to the end of what counts: bytes of an incomplete last frame may follow.
    pub size: u64,
    /// Places at which content was sampled; with 0 no content was read.
    places: u64,
    /// xxh3 of the first and the last 64 KiB, of the pieces, of the heads of frames.
    digests: [u64; 4],
    /// `None` if it is unknown.
    status: Option<FileStatus>,
    /// Statuses of the files that it takes values from (virtual data sets).
    others: Arc<[FileStatus]>,
}

impl FileIdentity {
    /// Places at which content is sampled by default.
    pub const PLACES: u64 = CONTENT_PLACES;
    /// Bytes of the identity of a file that names no other.
    pub const LEN: usize = 8 * WORDS + FileStatus::LEN;

    /// The identity of the first `size` bytes of a source: the file as it is, or as it was before it grew. `status` is
    /// the source's status, taken before anything was read from it.
    ///
    /// # Errors
    /// Errors of the source; `Truncated` if it is shorter than `size`.
    pub fn from_source(
        source: &dyn Source,
        size: u64,
        status: Option<FileStatus>,
        index: Option<&Index>,
        places: u64,
    ) -> Result<Self> {
        let digests = if places == 0 { [0; 4] } else { content(source, size, index, places)? };
        Ok(Self { size, places, digests, status, others: Arc::default() })
    }

    /// The identity of a file of which only the size is known.
    pub fn from_size(size: u64) -> Self {
        Self { size, places: 0, digests: [0; 4], status: None, others: Arc::default() }
    }

    /// The same with the statuses of the files that it takes values from.
    #[must_use]
    pub fn naming(self, others: Vec<FileStatus>) -> Self {
        Self { others: others.into(), ..self }
    }

    /// The same content with the status of a file in which it was found.
    #[must_use]
    pub fn found_in(self, status: Option<FileStatus>) -> Self {
        Self { status, ..self }
    }

    /// Inode and times, if known.
    pub fn status(&self) -> Option<&FileStatus> {
        self.status.as_ref()
    }

    /// Statuses of the files that it takes values from.
    pub fn others(&self) -> &Arc<[FileStatus]> {
        &self.others
    }

    /// Compares an open file to this identity; other files that it names are not looked at. The index must be the one
    /// of the identity. A file that has grown is compared up to its former size.
    ///
    /// # Errors
    /// Errors of the source.
    pub fn check(&self, source: &dyn Source, index: Option<&Index>) -> Result<Match> {
        let size = source.len()?;
        if size < self.size {
            return Ok(Match::Changed(format!("it is shorter, expected {} bytes, found {size}", self.size)));
        }
        if let Some(decided) = self.match_status(source.status()?.as_ref()) {
            return Ok(decided);
        }
        Ok(self.match_content(&Self::from_source(source, self.size, None, index, self.places)?))
    }

    /// Whether the file has the same content at all samples, up to its former size. Its status is not looked at, so a
    /// file that was extended after that size is the same.
    ///
    /// # Errors
    /// Errors of the source.
    pub fn has_same_content(&self, source: &dyn Source, index: Option<&Index>) -> Result<bool> {
        let now = Self::from_source(source, self.size, None, index, self.places)?;
        Ok(matches!(self.match_content(&now), Match::SameContent))
    }

    /// Whether the frames of the index are unchanged at all samples; for a file that has become longer, whose head and
    /// structure may differ accordingly. If the places of the frames are unknown, all samples of the content are
    /// compared.
    ///
    /// # Errors
    /// Errors of the source.
    pub fn has_same_frames(&self, source: &dyn Source, index: &Index) -> Result<bool> {
        let last = index.n_frames().saturating_sub(1);
        if index.n_frames() == 0 || (index.sample(0).len == 0 && index.sample(last).len == 0) {
            return self.has_same_content(source, Some(index));
        }
        Ok(self.places > 0 && self.digests[3] == frames(source, self.size, index)?)
    }

    /// Compares this identity to `now`, which was taken of the same file now, at as many places; other files that it
    /// names are included.
    pub fn compare(&self, now: &Self) -> Match {
        if self.size != now.size {
            return Match::Changed(format!("it has another size, expected {} bytes, found {}", self.size, now.size));
        }
        if self.others.len() != now.others.len() {
            let (expected, found) = (self.others.len(), now.others.len());
            return Match::Changed(format!("it names other files, expected {expected}, found {found}"));
        }
        let mut unchanged = true;
        for (other, now) in self.others.iter().zip(now.others.iter()) {
            if other.is_changed_in_place(now) || other.size != now.size {
                return Match::Changed("a file that it takes values from was changed".to_owned());
            }
            unchanged &= other.is_unchanged(now);
        }
        match self.match_status(now.status.as_ref()) {
            Some(Match::Unchanged) if !unchanged => self.match_content(now),
            Some(decided) => decided,
            None => self.match_content(now),
        }
    }

    /// Whether the digests are of all bytes.
    fn is_whole(&self) -> bool {
        self.places > 0 && self.size <= self.places.saturating_mul(PIECE_BYTES)
    }

    /// `None` if the content must be looked at.
    fn match_status(&self, now: Option<&FileStatus>) -> Option<Match> {
        let (then, now) = (self.status.as_ref()?, now?);
        if then.is_unchanged(now) {
            return Some(Match::Unchanged);
        }
        if then.is_changed_in_place(now) && !self.is_whole() {
            let what = "it was changed in place, in its content or only in name, links or mode, which cannot be told \
                        apart (a copy is compared by its content)";
            return Some(Match::Changed(what.to_owned()));
        }
        None
    }

    fn match_content(&self, now: &Self) -> Match {
        if self.places == 0 || (self.places, self.digests) != (now.places, now.digests) {
            return Match::Changed("its content is another".to_owned());
        }
        Match::SameContent
    }

    /// Little-endian: size, places, four digests, number of other files, whether there is a status, the status, the
    /// statuses of the other files.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::LEN + self.others.len() * FileStatus::LEN);
        let [head, tail, pieces, frames] = self.digests;
        let known = u64::from(self.status.is_some());
        for word in [self.size, self.places, head, tail, pieces, frames, self.others.len() as u64, known] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.status.map_or([0; FileStatus::LEN], |status| status.to_bytes()));
        self.others.iter().for_each(|other| bytes.extend_from_slice(&other.to_bytes()));
        bytes
    }

    /// Back from [`FileIdentity::to_bytes`], which are taken off the front; `None` for other bytes.
    pub fn take(bytes: &mut &[u8]) -> Option<Self> {
        let (words, rest) = bytes.split_first_chunk::<{ 8 * WORDS }>()?;
        let (words, _) = words.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let &[size, places, head, tail, pieces, frames, n_others, known @ 0..=1] = &words[..] else { return None };
        let (own, mut rest) = rest.split_first_chunk::<{ FileStatus::LEN }>()?;
        let status = if known == 1 { Some(FileStatus::from_bytes(*own)?) } else { None };
        let mut others = Vec::new();
        for _ in 0..n_others {
            let (other, behind) = rest.split_first_chunk::<{ FileStatus::LEN }>()?;
            others.push(FileStatus::from_bytes(*other)?);
            rest = behind;
        }
        *bytes = rest;
        Some(Self { size, places, digests: [head, tail, pieces, frames], status, others: others.into() })
    }

    /// The content as 16 hexadecimal digits, for people: the same for a copy.
    pub fn fingerprint(&self) -> String {
        let mut digest = Xxh3::new();
        digest.update(&self.size.to_le_bytes());
        self.digests.iter().for_each(|one| digest.update(&one.to_le_bytes()));
        format!("{:016x}", digest.digest())
    }
}

fn content(source: &dyn Source, size: u64, index: Option<&Index>, places: u64) -> Result<[u64; 4]> {
    let [head, tail, pieces] = sampled_content(source, size, places)?;
    let frames = match index {
        Some(index) => frames(source, size, index)?,
        None => 0,
    };
    Ok([head, tail, pieces, frames])
}

/// Heads of frames that differ in size, of frames in chunks pieces of chunks, which may lie in other files; and a piece of
/// the first and of the last frame.
fn frames(source: &dyn Source, size: u64, index: &Index) -> Result<u64> {
    let n = index.n_frames();
    let (heads, most) = match index {
        // they are as far apart as the head of the file says
        Index::Uniform(_) => (0, 0),
        Index::Table(_) => (n.min(FRAMES), HEAD_BYTES.min(size)),
        Index::Chunked(_) => (n.min(FRAMES), PIECE_BYTES),
    };
    let spread = (0..heads).map(|i| ((u128::from(i) * u128::from(n) / u128::from(heads)) as u64, most));
    let ends = [0, n.saturating_sub(1)].into_iter().filter(|_| n > 0).map(|frame| (frame, PIECE_BYTES));
    let mut digest = Xxh3::new();
    let mut bytes = [0; PIECE_BYTES as usize];
    for (frame, most) in spread.chain(ends) {
        let extent = index.sample(frame);
        let head = &mut bytes[..extent.len.min(most) as usize];
        source.read_exact_at(extent.offset, head)?;
        digest.update(head);
    }
    Ok(digest.digest())
}
