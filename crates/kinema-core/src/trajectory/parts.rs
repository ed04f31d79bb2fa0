//! Scan of the parts of a trajectory: the index of each, loaded, extended or built, and stored.
//!
//! Formats find the frames; `index::store` knows where indices are stored.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use super::growing::{self, KnownParts};
use super::stored_index;
use super::{
    FrameFault, IndexOrigin, IndexPolicy, OnTruncated, Part, Scanned, TrajectoryFiles, open_decoder, scales_of,
    status_before,
};
use crate::clock::{Stopwatch, Work};
use crate::error::{Error, ErrorKind, Result, printed};
use crate::format::{Decoder, Format, Scan, ScanOptions};
use crate::frame::Fields;
use crate::index::identity::FileIdentity;
use crate::index::store::{self, LoadOutcome, Stored};
use crate::index::{Index, TableIndex};
use crate::source::{FileStatus, Source, Unchanged};
use crate::trace::activity::SCAN;

impl TrajectoryFiles {
    /// Finds all frames of all parts and concatenates them; does nothing the second time. `progress` receives the
    /// number of scanned bytes.
    ///
    /// # Errors
    /// Errors of the formats and of [`Overlap`]; `Corrupt` if a part has a different number of atoms.
    pub fn scan(&self, workers: usize, progress: &(dyn Fn(u64) -> Result<()> + Sync)) -> Result<&Scanned> {
        self.scan_with(workers, false, progress)
    }

    /// As [`TrajectoryFiles::scan`]. With `skip_damaged`, damage that hides frames is listed in [`Part::damaged`]
    /// instead of being an error.
    ///
    /// # Errors
    /// As [`TrajectoryFiles::scan`].
    pub fn scan_with(
        &self,
        workers: usize,
        skip_damaged: bool,
        progress: &(dyn Fn(u64) -> Result<()> + Sync),
    ) -> Result<&Scanned> {
        if let Some(scanned) = self.scanned.get() {
            return Ok(scanned);
        }
        let _alone = self.scanning.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(scanned) = self.scanned.get() {
            return Ok(scanned);
        }
        let known = std::mem::take(&mut *self.known.lock().unwrap_or_else(PoisonError::into_inner));
        let parts =
            self.scan_parts(&known, ScanOptions { previous: None, workers: workers.max(1), progress, skip_damaged })?;
        let scanned = Scanned::new(parts, &self.options)?;
        Ok(self.scanned.get_or_init(|| scanned))
    }

    /// Few parts: all threads on each; many: a part a thread.
    fn scan_parts(&self, known: &KnownParts, options: ScanOptions<'_>) -> Result<Vec<Part>> {
        let (n, workers) = (self.paths.len(), options.workers);
        if workers == 1 || n < 2 * workers {
            return (0..n).map(|part| self.scan_part(part, known, &options, workers)).collect();
        }
        let next = AtomicUsize::new(0);
        let slots: Vec<OnceLock<Result<Part>>> = (0..n).map(|_| OnceLock::new()).collect();
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    loop {
                        let part = next.fetch_add(1, Ordering::Relaxed);
                        let Some(slot) = slots.get(part) else { break };
                        let outcome = crate::error::catch_panics(|| self.scan_part(part, known, &options, 1));
                        if outcome.is_err() {
                            next.store(n, Ordering::Relaxed);
                        }
                        let _ = slot.set(outcome);
                    }
                });
            }
        });
        // the first error in the order of the parts; only slots after it are empty
        let mut parts = Vec::with_capacity(n);
        let mut failure = None;
        for slot in slots {
            match slot.into_inner() {
                Some(Ok(part)) => parts.push(part),
                Some(Err(error)) if failure.is_none() => failure = Some(error),
                _ => {}
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(parts),
        }
    }

    fn scan_part(&self, number: usize, known: &KnownParts, options: &ScanOptions<'_>, workers: usize) -> Result<Part> {
        let path = &self.paths[number];
        if let Some(part) = known.unchanged(path) {
            return Ok(part.clone());
        }
        let first = self.handles.get((number, 0), path)?;
        // taken before anybody reads from the file: any later change gives another status
        let (earlier, ranges) = self.take_scanned_ranges(number);
        let (opened, status) = match number {
            0 => (self.first.clone(), self.first_status),
            _ => {
                let status = status_before(&*first, &self.options)?;
                (open_decoder(&*first, &self.options)?, earlier.or(status))
            }
        };
        let source = self.multi_file(number, &first, &*opened.1).map_or(first, |multi| multi as Arc<dyn Source>);
        // the loaded index gives `previous`, unless it is known already
        let previous = known.index(path, &*source).map_err(|error| error.with_path(path))?;
        let options = ScanOptions { previous, workers, ..*options };
        let mut watch = Stopwatch::start();
        let scanned = self.scan_source(number, opened, &*source, (status, &ranges), options, known);
        let mut part = scanned.map_err(|error| error.with_path(path))?;
        self.load_atom_checkpoints(&mut part, &*source)?;
        let work = Work { file: Some(path), size: part.size, frames: part.index.n_frames(), ..Work::default() };
        watch.lap(&SCAN, work);
        Ok(part)
    }

    fn scan_source(
        &self,
        number: usize,
        (format, decoder): (&'static dyn Format, Arc<dyn Decoder>),
        source: &dyn Source,
        (status, ranges): (Option<FileStatus>, &[TableIndex]),
        options: ScanOptions<'_>,
        known: &KnownParts,
    ) -> Result<Part> {
        let path = self.paths[number].clone();
        let name = format.info().name;
        let n_atoms = decoder.header().n_atoms;
        if n_atoms != self.n_atoms() {
            let what = format!("number of atoms differs from {}", printed(&self.paths[0]));
            return Err(Error::corrupt(&what, self.n_atoms(), n_atoms).with_format(name));
        }
        let scales = scales_of(format, &*decoder, &self.options.units);
        let size = source.len()?;
        let few_zeros = known.few_zeros(&path, self.options.settled);
        let file = File { number, path: &path, name, decoder: &*decoder, source, status, size, few_zeros };
        let loaded = match self.options.index {
            IndexPolicy::Auto if options.previous.is_none() => stored_index::load(&path, source, &*decoder, name)?,
            IndexPolicy::Auto | IndexPolicy::Memory | IndexPolicy::Rebuild => LoadOutcome::Absent,
        };
        let found = match loaded {
            LoadOutcome::Fits(Stored { index, .. }) | LoadOutcome::Grew(index) if self.options.growing => {
                let previous = growing::drop_last(&index);
                self.scanned_file(&file, ScanOptions { previous, ..options }, ranges)?
            }
            LoadOutcome::Fits(stored) => self.stored(&file, stored),
            LoadOutcome::Grew(index) => {
                self.scanned_file(&file, ScanOptions { previous: Some(index), ..options }, ranges)?
            }
            LoadOutcome::Absent => self.scanned_file(&file, options, ranges)?,
            LoadOutcome::Rejected(reason) => self.scanned_file(&file, options, ranges)?.reject_stored(reason),
            LoadOutcome::Wrong(reason) => {
                let found = self.scanned_file(&file, options, ranges)?.reject_stored(reason);
                Found { wrong_index: found.index_note.clone(), ..found }
            }
        };
        let Found { index, identity, origin, index_path, index_note, wrong_index, truncation, damaged, extended } =
            found;
        let extended = extended || known.is_extended(&path);
        let others = identity.others().iter().map(|other| Unchanged::from_status(Some(*other))).collect();
        let unchanged = Arc::new((Unchanged::from_status(status), others));
        Ok(Part {
            path,
            format,
            decoder,
            index,
            scales,
            size,
            identity,
            origin,
            index_path,
            index_note,
            wrong_index,
            truncation,
            damaged,
            extended,
            unchanged,
        })
    }

    /// A part with its stored index. The index is stored again if it was stored for a copy of the file.
    fn stored(&self, file: &File<'_>, Stored { index, mut place, identity, renew }: Stored) -> Found {
        let mut index_note = None;
        if renew {
            match self.save_index(file, &index, &identity) {
                Ok(Some((at, noted))) => (place, index_note) = (at, noted),
                Ok(None) => {}
                Err(error) => index_note = Some(format!("the index could not be stored again: {error}")),
            }
        }
        let (origin, index_path) = (IndexOrigin::Stored, Some(place));
        Found {
            index,
            identity,
            origin,
            index_path,
            index_note,
            wrong_index: None,
            truncation: None,
            damaged: Vec::new(),
            extended: false,
        }
    }

    fn scanned_file(&self, file: &File<'_>, options: ScanOptions<'_>, ranges: &[TableIndex]) -> Result<Found> {
        let extended = options.previous.is_some();
        let scan = match self.options.growing {
            true => growing::scan(file.decoder, file.source, &options, file.few_zeros),
            false => file.decoder.scan_with_ranges(file.source, &options, ranges).map(|scan| (scan, false)),
        };
        let (scan, unfilled) = scan.map_err(|e| e.with_format(file.name))?;
        if let (Some(error), OnTruncated::Error) = (&scan.truncation, self.options.on_truncated) {
            let what =
                format!("{}; on_truncated=\"drop\" uses the {} complete frames", error.what(), scan.index.n_frames());
            let place = Error::new(ErrorKind::Truncated, what).with_format(file.name);
            return Err(with_place_of(place, error));
        }
        let others = file.decoder.facts().other_files.iter().map(|path| FileStatus::from_path(path));
        // in a growing file, the bytes after its frames will change
        let end = if self.options.growing { scan.index.end().filter(|_| !scan.index.is_chunked()) } else { None };
        let identity = file.identity(end.unwrap_or(file.size), &scan.index)?;
        let identity = identity.naming(others.collect::<Result<Vec<_>>>()?);
        let (mut index_path, mut index_note) = (None, None);
        let origin = match scan.index {
            Index::Chunked(_) => IndexOrigin::Structure,
            Index::Uniform(_) => IndexOrigin::Arithmetic,
            Index::Table(_) if extended => IndexOrigin::Extended,
            Index::Table(_) => IndexOrigin::Built,
        };
        if matches!(scan.index, Index::Table(_)) && !self.options.growing {
            if !scan.damaged.is_empty() {
                // the next reader is to find the damage, and to note it
                index_note = Some("the index is not stored, as the file is damaged".to_owned());
            } else {
                match self.store_index(file, &scan, &identity) {
                    Ok(Some((at, noted))) => (index_path, index_note) = (Some(at), noted),
                    Ok(None) => {}
                    Err(error) => index_note = Some(format!("the index could not be stored: {error}")),
                }
            }
        }
        let truncation = scan.truncation.map(|error| error.with_format(file.name).with_path(file.path));
        if let Some(frame) = scan.without_time {
            self.faults.add(FrameFault::Unwritten(Fields::TIME), file.number, frame);
        }
        let (index, damaged) = (scan.index, scan.damaged);
        let (wrong_index, extended) = (None, unfilled);
        Ok(Found { index, identity, origin, index_path, index_note, wrong_index, truncation, damaged, extended })
    }

    /// Stores the index of the complete frames. If the file ends in the middle of a frame, the index is stored as that
    /// of a shorter file, so that the next reader takes the file for one that has grown and continues from there.
    fn store_index(
        &self,
        file: &File<'_>,
        scan: &Scan,
        whole: &FileIdentity,
    ) -> Result<Option<(PathBuf, Option<String>)>> {
        let Some(end) = scan.index.end() else { return Ok(None) };
        match scan.truncation {
            Some(_) => self.save_index(file, &scan.index, &file.identity(end, &scan.index)?),
            None => self.save_index(file, &scan.index, whole),
        }
    }

    /// Stores an index; returns its path and a note. `None` if nothing is to be stored.
    fn save_index(
        &self,
        file: &File<'_>,
        index: &Index,
        identity: &FileIdentity,
    ) -> Result<Option<(PathBuf, Option<String>)>> {
        let Some(write) = self.options.write_index.as_deref().filter(|_| self.options.index != IndexPolicy::Memory)
        else {
            return Ok(None);
        };
        let n_atoms = file.decoder.header().n_atoms;
        store::save(&store::places(file.path), index, identity, file.name, n_atoms, write).map(Some)
    }
}

/// A part that is being scanned, as it was before.
struct File<'a> {
    /// Which of the parts it is.
    number: usize,
    path: &'a Path,
    /// Name of its format.
    name: &'static str,
    decoder: &'a dyn Decoder,
    source: &'a dyn Source,
    status: Option<FileStatus>,
    size: u64,
    /// See [`growing::scan`].
    few_zeros: usize,
}

impl File<'_> {
    /// Identity of its first `size` bytes.
    fn identity(&self, size: u64, index: &Index) -> Result<FileIdentity> {
        FileIdentity::from_source(self.source, size, self.status, Some(index), FileIdentity::PLACES)
    }
}

/// Facts of a part found by a scan; the fields are those of [`Part`].
struct Found {
    index: Index,
    identity: FileIdentity,
    origin: IndexOrigin,
    index_path: Option<PathBuf>,
    index_note: Option<String>,
    wrong_index: Option<String>,
    truncation: Option<Error>,
    damaged: Vec<u64>,
    extended: bool,
}

impl Found {
    /// The same with why a stored index was not used.
    fn reject_stored(self, reason: String) -> Self {
        Self { index_note: Some(format!("the stored index was not used: {reason}")), ..self }
    }
}

fn with_place_of(error: Error, place: &Error) -> Error {
    let error = match place.frame() {
        Some(frame) => error.with_frame(frame),
        None => error,
    };
    match place.offset() {
        Some(offset) => error.with_byte(offset),
        None => error,
    }
}
