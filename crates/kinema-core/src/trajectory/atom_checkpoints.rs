//! Atom checkpoints of the parts of a trajectory: made on demand, stored, and loaded with the index.
//!
//! Reading never makes them. The format defines their content; `index::atom_checkpoints` stores them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{IndexPolicy, Part, TrajectoryFiles, not_scanned};
use crate::error::{Error, ErrorKind, Result, catch_panics};
use crate::index::atom_checkpoints::{self, AtomCheckpoints};
use crate::index::{Index, TableIndex};
use crate::source::Source;

/// Bytes of frames that a thread takes at a time.
const SHARE_BYTES: u64 = 8 << 20;

/// Checkpoints made for a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeCheckpoints {
    /// Path of the stored checkpoints.
    pub path: PathBuf,
    /// Number of checkpoints of all frames.
    pub number: u64,
    /// Note for the user about them.
    pub note: Option<String>,
}

/// First of some neighbouring frames, their checkpoints and their tags.
type Share = (u64, Vec<u64>, Vec<u32>);

/// Frames of a file whose checkpoints are being made.
struct Task<'a> {
    part: &'a Part,
    source: &'a dyn Source,
    table: &'a TableIndex,
    every: u32,
    /// The next frame that no thread has taken.
    next: AtomicU64,
    done: Mutex<Vec<Share>>,
    progress: &'a (dyn Fn(u64) -> Result<()> + Sync),
}

impl TrajectoryFiles {
    /// Makes and stores checkpoints of every `every`-th atom of all frames of all parts, for trajectories that are
    /// opened later. `None` for a part that cannot use them, because of its format or because it has few atoms.
    /// `progress` receives the number of bytes read.
    ///
    /// # Errors
    /// `Internal` before the scan; `InvalidArgument` if nothing may be stored or `every` is 0; errors of reading and of
    /// writing.
    pub fn store_atom_checkpoints(
        &self,
        every: u32,
        workers: usize,
        progress: &(dyn Fn(u64) -> Result<()> + Sync),
    ) -> Result<Vec<Option<MadeCheckpoints>>> {
        let scanned = self.scanned().ok_or_else(not_scanned)?;
        let invalid = |what: &str| Error::new(ErrorKind::InvalidArgument, what);
        if every == 0 {
            return Err(invalid("the number of atoms between checkpoints is 0, expected 1 or more"));
        }
        let write = self.options.write_index.as_deref().filter(|_| self.options.index != IndexPolicy::Memory);
        let Some(write) = write else {
            let what = "atom checkpoints are not stored for a trajectory that is opened with stored=False";
            return Err(invalid(what));
        };
        let mut made = Vec::with_capacity(scanned.parts.len());
        for (number, part) in scanned.parts.iter().enumerate() {
            let one = |source: &Arc<dyn Source>| -> Result<Option<MadeCheckpoints>> {
                let Index::Table(table) = &part.index else { return Ok(None) };
                let place = atom_checkpoints::place(&part.path).ok_or_else(|| {
                    invalid("no folder for atom checkpoints, expected XDG_CACHE_HOME or HOME to be set")
                })?;
                let Some(checkpoints) = make(part, &**source, table, every, workers, progress)? else {
                    return Ok(None);
                };
                let note =
                    atom_checkpoints::save(&place, &checkpoints, &part.identity, part.format.info().name, write)?;
                Ok(Some(MadeCheckpoints { path: place, number: checkpoints.number(), note }))
            };
            let place = |error: Error| error.with_format(part.format.info().name).with_path(&part.path);
            made.push(self.read_of(number, one).map_err(place)?);
        }
        Ok(made)
    }

    /// Adds the stored checkpoints of a part to its index, or notes why they are not used.
    pub(super) fn load_atom_checkpoints(&self, part: &mut Part, source: &dyn Source) -> Result<()> {
        if self.options.index != IndexPolicy::Auto || !matches!(part.index, Index::Table(_)) {
            return Ok(());
        }
        let Some(place) = atom_checkpoints::place(&part.path) else { return Ok(()) };
        let (name, n_atoms) = (part.format.info().name, part.header().n_atoms);
        let loaded = atom_checkpoints::load(&place, source, &part.index, name, n_atoms)?;
        match (loaded, &mut part.index) {
            (Some(Ok(known)), Index::Table(table)) => table.atom_checkpoints = Some(Arc::new(known)),
            (Some(Err(why)), _) => {
                let note = format!("the stored atom checkpoints were not used: {why}");
                part.index_note =
                    Some(part.index_note.take().map_or(note.clone(), |before| format!("{before}; {note}")));
            }
            _ => {}
        }
        Ok(())
    }
}

/// The checkpoints of all frames of a part; `None` if it cannot use them.
fn make(
    part: &Part,
    source: &dyn Source,
    table: &TableIndex,
    every: u32,
    workers: usize,
    progress: &(dyn Fn(u64) -> Result<()> + Sync),
) -> Result<Option<AtomCheckpoints>> {
    let n_atoms = part.header().n_atoms;
    if AtomCheckpoints::count_per_frame(n_atoms, every) == 0
        || part.decoder.atom_checkpoints(&[], every, &mut []).is_none()
    {
        return Ok(None);
    }
    let task = Task { part, source, table, every, next: AtomicU64::new(0), done: Mutex::default(), progress };
    let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers.max(1)).map(|_| scope.spawn(|| catch_panics(|| task.work()))).collect();
        let died = |_| Err(Error::new(ErrorKind::Internal, "a thread that makes checkpoints died"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(died)).collect()
    });
    outcomes.into_iter().collect::<Result<()>>()?;
    let mut done = task.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(first, ..)| *first);
    let (words, tags): (Vec<_>, Vec<_>) = done.into_iter().map(|(_, words, tags)| (words, tags)).unzip();
    AtomCheckpoints::new(n_atoms, every, words.concat(), tags.concat()).map(Some)
}

impl Task<'_> {
    /// Takes frames until none are left, or until something fails here or elsewhere.
    fn work(&self) -> Result<()> {
        let n_frames = self.table.n_frames();
        let at_once = (SHARE_BYTES / self.table.largest().max(1)).max(1);
        let per_frame = AtomCheckpoints::count_per_frame(self.part.header().n_atoms, self.every);
        let mut bytes = Vec::new();
        loop {
            let first = self.next.fetch_add(at_once, Ordering::Relaxed);
            let frames = first..first.saturating_add(at_once).min(n_frames);
            if frames.is_empty() {
                return Ok(());
            }
            let outcome = self.share(frames, per_frame, &mut bytes);
            if outcome.is_err() {
                self.next.store(n_frames, Ordering::Relaxed);
            }
            outcome?;
        }
    }

    fn share(&self, frames: std::ops::Range<u64>, per_frame: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let (first, n) = (frames.start, (frames.end - frames.start) as usize);
        let (mut words, mut tags) = (vec![0; n * per_frame], Vec::with_capacity(n));
        for (frame, words) in frames.zip(words.chunks_exact_mut(per_frame)) {
            let extent = self.table.extent(frame);
            bytes.resize(extent.len as usize, 0);
            self.source.read_exact_at(extent.offset, bytes).map_err(|error| error.with_frame(frame))?;
            tags.push(self.part.decoder.atom_checkpoints(bytes, self.every, words).unwrap_or_default());
            (self.progress)(extent.len)?;
        }
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push((first, words, tags));
        Ok(())
    }
}
