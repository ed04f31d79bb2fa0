//! Scan of the parts of a trajectory: the index of each, loaded, extended or built, and stored.
//!
//! How frames are found is the format's business, where indices are stored that of `index::store`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use super::{IndexOrigin, IndexPolicy, OnTruncated, Part, Scanned, Trajectory, open_decoder, scales_of};
use crate::error::{Error, ErrorKind, Result, printed};
use crate::format::{Decoder, Format, Scan, ScanOptions};
use crate::index::Index;
use crate::index::fingerprint::Fingerprint;
use crate::index::store::{self, LoadOutcome};
use crate::source::Source;

impl Trajectory {
    /// Finds all frames of all parts and concatenates them; does nothing the second time. `progress` gets scanned bytes.
    ///
    /// # Errors
    /// Of the formats and of [`Overlap`]; `Corrupt` when a part has another number of atoms.
    pub fn scan(&self, workers: usize, progress: &(dyn Fn(u64) -> Result<()> + Sync)) -> Result<&Scanned> {
        self.scan_with(workers, false, progress)
    }

    /// As [`Trajectory::scan`]; with `skip_damaged` damage that hides frames is no error but in [`Part::damaged`].
    ///
    /// # Errors
    /// As [`Trajectory::scan`].
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
        let parts = self.scan_parts(ScanOptions { previous: None, workers: workers.max(1), progress, skip_damaged })?;
        let scanned = Scanned::new(parts, &self.options)?;
        Ok(self.scanned.get_or_init(|| scanned))
    }

    /// Few parts: all threads on each; many: a part a thread.
    fn scan_parts(&self, options: ScanOptions<'_>) -> Result<Vec<Part>> {
        let (n, workers) = (self.paths.len(), options.workers);
        if workers == 1 || n < 2 * workers {
            return (0..n).map(|part| self.scan_part(part, &options, workers)).collect();
        }
        let next = AtomicUsize::new(0);
        let slots: Vec<OnceLock<Result<Part>>> = (0..n).map(|_| OnceLock::new()).collect();
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    loop {
                        let part = next.fetch_add(1, Ordering::Relaxed);
                        let Some(slot) = slots.get(part) else { break };
                        let outcome = crate::error::catch_panics(|| self.scan_part(part, &options, 1));
                        if outcome.is_err() {
                            next.store(n, Ordering::Relaxed);
                        }
                        let _ = slot.set(outcome);
                    }
                });
            }
        });
        // the first error in the order of the parts; slots left empty lie behind it
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

    fn scan_part(&self, number: usize, options: &ScanOptions<'_>, workers: usize) -> Result<Part> {
        let path = &self.paths[number];
        let first = self.handles.get((number, 0), path)?;
        let opened = match number {
            0 => self.first.clone(),
            _ => open_decoder(&*first, &self.options)?,
        };
        let source = self.multi_file(number, first, &*opened.1);
        // `previous` is found where the index is loaded
        let options = ScanOptions { previous: None, workers, ..*options };
        let mut part = self.scan_source(number, opened, &*source, options).map_err(|error| error.at_path(path))?;
        self.load_atom_checkpoints(&mut part, &*source)?;
        Ok(part)
    }

    fn scan_source(
        &self,
        number: usize,
        (format, decoder): (&'static dyn Format, Arc<dyn Decoder>),
        source: &dyn Source,
        options: ScanOptions<'_>,
    ) -> Result<Part> {
        let path = self.paths[number].clone();
        let name = format.info().name;
        let n_atoms = decoder.header().n_atoms;
        if n_atoms != self.n_atoms() {
            let what = format!("number of atoms differs from {}", printed(&self.paths[0]));
            return Err(Error::corrupt(&what, self.n_atoms(), n_atoms).in_format(name));
        }
        let scales = scales_of(format, &*decoder, &self.options.units);
        let size = source.len()?;
        let loaded = match self.options.index {
            IndexPolicy::Auto => store::load(&store::places(&path), source, name, n_atoms)?,
            IndexPolicy::Memory | IndexPolicy::Rebuild => LoadOutcome::Absent,
        };
        let (previous, mut note) = match loaded {
            LoadOutcome::Fits(index, at) => {
                let fingerprint = Fingerprint::of(source, size, &index)?;
                let origin = IndexOrigin::Stored;
                let (index_path, index_note, truncation, damaged) = (Some(at), None, None, Vec::new());
                return Ok(Part {
                    path,
                    format,
                    decoder,
                    index,
                    scales,
                    size,
                    fingerprint,
                    origin,
                    index_path,
                    index_note,
                    truncation,
                    damaged,
                });
            }
            LoadOutcome::Grew(index) => (Some(index), None),
            LoadOutcome::Absent => (None, None),
            LoadOutcome::Rejected(reason) => (None, Some(format!("the stored index was not used: {reason}"))),
        };
        let extended = previous.is_some();
        let scan = decoder
            .scan_with_ranges(source, &ScanOptions { previous, ..options }, &self.take_scanned_ranges(number))
            .map_err(|e| e.in_format(name))?;
        if let (Some(error), OnTruncated::Error) = (&scan.truncation, self.options.on_truncated) {
            let what =
                format!("{}; on_truncated=\"drop\" uses the {} complete frames", error.what(), scan.index.n_frames());
            let place = Error::new(ErrorKind::Truncated, what).in_format(name);
            return Err(with_place_of(place, error));
        }
        let fingerprint = Fingerprint::of(source, size, &scan.index)?;
        let mut index_path = None;
        let mut origin = match scan.index {
            Index::Chunked(_) => IndexOrigin::Structure,
            _ => IndexOrigin::Arithmetic,
        };
        if matches!(scan.index, Index::Table(_)) {
            origin = if extended { IndexOrigin::Extended } else { IndexOrigin::Built };
            if !scan.damaged.is_empty() {
                // the next reader is to find the damage, and to note it
                note = Some("the index is not stored, as the file is damaged".to_owned());
            } else {
                match self.store_index(source, &scan, &fingerprint, name, n_atoms, &path) {
                    Ok(Some((at, noted))) => (index_path, note) = (Some(at), noted.or(note)),
                    Ok(None) => {}
                    Err(error) => note = Some(format!("the index could not be stored: {error}")),
                }
            }
        }
        let truncation = scan.truncation.map(|error| error.in_format(name).at_path(&path));
        let (index, damaged, index_note) = (scan.index, scan.damaged, note);
        Ok(Part {
            path,
            format,
            decoder,
            index,
            scales,
            size,
            fingerprint,
            origin,
            index_path,
            index_note,
            truncation,
            damaged,
        })
    }

    /// Stores the index of the complete frames; of a file that ends in the middle of a frame as that of a shorter
    /// file, so that the next reader takes it for one that has grown and goes on behind it.
    fn store_index(
        &self,
        source: &dyn Source,
        scan: &Scan,
        whole: &Fingerprint,
        format: &str,
        n_atoms: u32,
        path: &Path,
    ) -> Result<Option<(PathBuf, Option<String>)>> {
        let wanted = self.options.write_index.as_deref().filter(|_| self.options.index != IndexPolicy::Memory);
        let (Some(write), Some(end)) = (wanted, scan.index.end()) else { return Ok(None) };
        let shorter = match scan.truncation {
            Some(_) => Some(Fingerprint::of(source, end, &scan.index)?),
            None => None,
        };
        let fingerprint = shorter.as_ref().unwrap_or(whole);
        store::save(&store::places(path), &scan.index, fingerprint, format, n_atoms, write).map(Some)
    }
}

fn with_place_of(error: Error, place: &Error) -> Error {
    let error = match place.frame() {
        Some(frame) => error.at_frame(frame),
        None => error,
    };
    match place.offset() {
        Some(offset) => error.at_byte(offset),
        None => error,
    }
}
