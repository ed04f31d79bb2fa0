//! Files as one trajectory: parts that are opened when touched, their indices, and how they are joined.
//!
//! Reads no frames itself (see `reader`) and knows nothing of HDF5 structure or topologies.

mod known;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::format::{self, Decoder, Format, Header, ReadStructure, Scan, ScanOptions};
use crate::frame::Scales;
use crate::index::Index;
use crate::index::fingerprint::Fingerprint;
use crate::index::store::{self, Loaded};
use crate::join::{self, Joined, Overlap};
use crate::source::{FileSource, ReadLog, RecordingSource, Source, StackedSource};

/// What to do with an incomplete last frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTruncated {
    /// Refuse the file.
    Error,
    /// Use the complete frames and say so.
    Drop,
}

/// Where the index of a file that needs a scan comes from and goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexPolicy {
    /// Load the stored one where it fits, extend it where the file grew; else build and store it.
    Auto,
    /// Build it, store nothing.
    Memory,
    /// Build it whatever is stored, and store it.
    Rebuild,
}

/// How a trajectory is opened.
#[derive(Clone)]
pub struct OpenOptions {
    /// The format, or `None` to look at the first bytes.
    pub format: Option<&'static dyn Format>,
    /// Which frames count where parts overlap.
    pub overlap: Overlap,
    /// What to do with an incomplete last frame.
    pub on_truncated: OnTruncated,
    /// Where indices come from.
    pub index: IndexPolicy,
    /// Where they are stored, instead of beside the files.
    pub index_folder: Option<PathBuf>,
    /// How many files may be open between reads.
    pub max_open_files: usize,
    /// Reads the structure of HDF5 files.
    pub structure: Option<Arc<dyn ReadStructure>>,
    /// Notes every read, for tests.
    pub log: Option<ReadLog>,
}

impl std::fmt::Debug for dyn Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.info().name)
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            format: None,
            overlap: Overlap::Last,
            on_truncated: OnTruncated::Error,
            index: IndexPolicy::Auto,
            index_folder: None,
            max_open_files: 64,
            structure: None,
            log: None,
        }
    }
}

/// How an index was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexOrigin {
    /// By arithmetic from header and size.
    Arithmetic,
    /// From the structure of the file, which libhdf5 has read.
    Structure,
    /// Loaded.
    Stored,
    /// Loaded, and extended by the frames that the file has grown by.
    Extended,
    /// Built by a scan.
    Built,
}

/// Everything known of one file once it has been scanned.
pub struct Part {
    /// The file.
    pub path: PathBuf,
    /// Its format.
    pub format: &'static dyn Format,
    /// Finds and decodes its frames.
    pub decoder: Arc<dyn Decoder>,
    /// Its frames.
    pub index: Index,
    /// Its size when it was scanned.
    pub size: u64,
    /// Identity of the content.
    pub fingerprint: Fingerprint,
    /// How the index was come by.
    pub origin: IndexOrigin,
    /// Where the index is stored.
    pub index_path: Option<PathBuf>,
    /// Why a stored index was not used, or why it could not be stored.
    pub index_note: Option<String>,
    /// The incomplete last frame that was dropped.
    pub truncation: Option<Error>,
}

impl Part {
    /// What the header says.
    pub fn header(&self) -> &Header {
        self.decoder.header()
    }
    /// Factors to angstrom and ps.
    pub fn scales(&self) -> Scales {
        self.decoder.scales().unwrap_or(self.format.info().scales)
    }
}

/// Parts and their join, once scanned.
pub struct Scanned {
    /// The files, in the order given.
    pub parts: Vec<Part>,
    /// Which of their frames count.
    pub joined: Joined,
}

/// A trajectory of one or more files.
pub struct Trajectory {
    paths: Vec<PathBuf>,
    options: OpenOptions,
    handles: Arc<Handles>,
    first: (&'static dyn Format, Arc<dyn Decoder>),
    scanned: OnceLock<Scanned>,
    /// One scan at a time; others wait for its outcome.
    scanning: Mutex<()>,
    /// Parts that another process has opened, until they are read here; none where this process has opened them.
    unchecked: Vec<OnceLock<()>>,
}

impl Trajectory {
    /// Reads the header of the first file; the others are not touched.
    ///
    /// # Errors
    /// As [`FileSource::open`], [`format::detect`] and [`Format::open`].
    pub fn open(paths: Vec<PathBuf>, options: OpenOptions) -> Result<Self> {
        let Some(path) = paths.first() else {
            return Err(Error::new(ErrorKind::InvalidArgument, "no trajectory file given"));
        };
        let handles = Arc::new(Handles::new(options.max_open_files, options.log.clone()));
        let source = handles.get((0, 0), path)?;
        let first = open_decoder(&*source, &options)?;
        Ok(Self {
            paths,
            options,
            handles,
            first,
            scanned: OnceLock::new(),
            scanning: Mutex::new(()),
            unchecked: Vec::new(),
        })
    }

    /// The files.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
    /// Format of the first file.
    pub fn format(&self) -> &'static dyn Format {
        self.first.0
    }
    /// Header of the first file.
    pub fn header(&self) -> &Header {
        self.first.1.header()
    }
    /// Number of atoms, the same in all parts.
    pub fn n_atoms(&self) -> u32 {
        self.header().n_atoms
    }
    /// The parts, if they have been scanned.
    pub fn scanned(&self) -> Option<&Scanned> {
        self.scanned.get()
    }

    /// Finds all frames of all parts and joins them; does nothing the second time. `progress` gets scanned bytes.
    ///
    /// # Errors
    /// Of the formats and of [`join::join`]; `Corrupt` when a part has another number of atoms.
    pub fn scan(&self, workers: usize, progress: &(dyn Fn(u64) -> Result<()> + Sync)) -> Result<&Scanned> {
        if let Some(scanned) = self.scanned.get() {
            return Ok(scanned);
        }
        let _alone = self.scanning.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(scanned) = self.scanned.get() {
            return Ok(scanned);
        }
        let parts = self.scan_parts(workers.max(1), progress)?;
        let indices: Vec<&Index> = parts.iter().map(|part| &part.index).collect();
        let joined = join::join(&indices, self.options.overlap).map_err(|error| error.at_path(&self.paths[0]))?;
        Ok(self.scanned.get_or_init(|| Scanned { parts, joined }))
    }

    /// Few parts: all threads on each; many: a part a thread.
    fn scan_parts(&self, workers: usize, progress: &(dyn Fn(u64) -> Result<()> + Sync)) -> Result<Vec<Part>> {
        let n = self.paths.len();
        if workers == 1 || n < 2 * workers {
            return (0..n).map(|part| self.scan_part(part, workers, progress)).collect();
        }
        let next = AtomicUsize::new(0);
        let slots: Vec<OnceLock<Result<Part>>> = (0..n).map(|_| OnceLock::new()).collect();
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    loop {
                        let part = next.fetch_add(1, Ordering::Relaxed);
                        let Some(slot) = slots.get(part) else { break };
                        let outcome = crate::error::catch_panics(|| self.scan_part(part, 1, progress));
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

    fn scan_part(&self, number: usize, workers: usize, progress: &(dyn Fn(u64) -> Result<()> + Sync)) -> Result<Part> {
        let path = &self.paths[number];
        let first = self.handles.get((number, 0), path)?;
        let opened = match number {
            0 => self.first.clone(),
            _ => open_decoder(&*first, &self.options)?,
        };
        let source = self.stacked(number, first, &*opened.1);
        self.scan_source(number, opened, &*source, workers, progress).map_err(|error| error.at_path(path))
    }

    fn scan_source(
        &self,
        number: usize,
        (format, decoder): (&'static dyn Format, Arc<dyn Decoder>),
        source: &dyn Source,
        workers: usize,
        progress: &(dyn Fn(u64) -> Result<()> + Sync),
    ) -> Result<Part> {
        let path = self.paths[number].clone();
        let name = format.info().name;
        let n_atoms = decoder.header().n_atoms;
        if n_atoms != self.n_atoms() {
            let what = format!("number of atoms differs from {}", self.paths[0].display());
            return Err(Error::corrupt(&what, self.n_atoms(), n_atoms).in_format(name));
        }
        let size = source.len()?;
        let loaded = match self.options.index {
            IndexPolicy::Auto => store::load(&self.index_places(&path), source, name, n_atoms)?,
            IndexPolicy::Memory | IndexPolicy::Rebuild => Loaded::None,
        };
        let (known, mut note) = match loaded {
            Loaded::Fits(index, at) => {
                let fingerprint = Fingerprint::of(source, size, &index)?;
                let origin = IndexOrigin::Stored;
                let (index_path, index_note, truncation) = (Some(at), None, None);
                return Ok(Part {
                    path,
                    format,
                    decoder,
                    index,
                    size,
                    fingerprint,
                    origin,
                    index_path,
                    index_note,
                    truncation,
                });
            }
            Loaded::Grew(index) => (Some(index), None),
            Loaded::None => (None, None),
            Loaded::Wrong(reason) => (None, Some(format!("the stored index was not used: {reason}"))),
        };
        let extended = known.is_some();
        let scan = decoder.scan(source, &ScanOptions { known, workers, progress }).map_err(|e| e.in_format(name))?;
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
            if self.options.index != IndexPolicy::Memory {
                match self.store_index(source, &scan, &fingerprint, name, n_atoms, &path) {
                    Ok(at) => index_path = at,
                    Err(error) => note = Some(format!("the index could not be stored: {error}")),
                }
            }
        }
        let truncation = scan.truncation.map(|error| error.in_format(name).at_path(&path));
        let index = scan.index;
        Ok(Part { path, format, decoder, index, size, fingerprint, origin, index_path, index_note: note, truncation })
    }

    fn index_places(&self, path: &Path) -> Vec<PathBuf> {
        store::places(path, self.options.index_folder.as_deref())
    }

    /// Stores the indices of all parts that have one in `folder`, for other processes that open the same files with it
    /// as [`OpenOptions::index_folder`].
    ///
    /// # Errors
    /// `Internal` before the scan; else those of [`store::save`].
    pub fn store_indices(&self, folder: &Path) -> Result<()> {
        let scanned = self.scanned().ok_or_else(not_scanned)?;
        for (number, part) in scanned.parts.iter().enumerate() {
            let Some(end) = part.index.end().filter(|_| matches!(part.index, Index::Table(_))) else { continue };
            let places = store::places(&part.path, Some(folder));
            let name = part.format.info().name;
            let shorter = match part.truncation {
                Some(_) => Some(Fingerprint::of(&*self.source(number)?, end, &part.index)?),
                None => None,
            };
            let fingerprint = shorter.as_ref().unwrap_or(&part.fingerprint);
            store::save(&places, &part.index, fingerprint, name, self.n_atoms())?;
        }
        Ok(())
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
    ) -> Result<Option<PathBuf>> {
        let Some(end) = scan.index.end() else { return Ok(None) };
        let shorter = match scan.truncation {
            Some(_) => Some(Fingerprint::of(source, end, &scan.index)?),
            None => None,
        };
        store::save(&self.index_places(path), &scan.index, shorter.as_ref().unwrap_or(whole), format, n_atoms).map(Some)
    }

    /// The open file of a part, opened if it is not.
    ///
    /// # Errors
    /// As [`FileSource::open`].
    pub fn source(&self, part: usize) -> Result<Arc<dyn Source>> {
        let first = self.handles.get((part, 0), &self.paths[part])?;
        let source = match self.scanned().and_then(|scanned| scanned.parts.get(part)) {
            Some(known) => self.stacked(part, first, &*known.decoder),
            None => first,
        };
        self.check_known(part, &*source)?;
        Ok(source)
    }

    /// The file of a part with those that it names.
    fn stacked(&self, part: usize, first: Arc<dyn Source>, decoder: &dyn Decoder) -> Arc<dyn Source> {
        if decoder.other_files().is_empty() {
            return first;
        }
        let paths = decoder.other_files().to_vec();
        let handles = self.handles.clone();
        let other = move |file: u32| match paths.get((file as usize).wrapping_sub(1)) {
            Some(path) => handles.get((part, file), path),
            None => Err(Error::new(ErrorKind::Internal, format!("file {file} of a virtual data set is not known"))),
        };
        Arc::new(StackedSource::new(first, Box::new(other)))
    }
}

pub(crate) fn not_scanned() -> Error {
    Error::new(ErrorKind::Internal, "the trajectory has not been scanned")
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

fn open_decoder(source: &dyn Source, options: &OpenOptions) -> Result<(&'static dyn Format, Arc<dyn Decoder>)> {
    let format = match options.format {
        Some(format) => format,
        None => format::detect(source)?,
    };
    let decoder = format
        .open_with(source, options.structure.as_deref())
        .map_err(|error| error.in_format(format.info().name).at_path(source.path()))?;
    Ok((format, decoder))
}

/// Open files, at most so many between reads; the one unused for longest is closed first.
struct Handles {
    most: usize,
    log: Option<ReadLog>,
    open: Mutex<VecDeque<Handle>>,
}

/// Number of the part and of the file in it (0: the part itself), and the open file.
type Handle = ((usize, u32), Arc<dyn Source>);

impl Handles {
    fn new(most: usize, log: Option<ReadLog>) -> Self {
        Self { most: most.max(1), log, open: Mutex::new(VecDeque::new()) }
    }

    fn get(&self, part: (usize, u32), path: &Path) -> Result<Arc<dyn Source>> {
        let find = |open: &mut VecDeque<Handle>| {
            let at = open.iter().position(|(number, _)| *number == part)?;
            let entry = open.remove(at)?;
            let source = entry.1.clone();
            open.push_back(entry);
            Some(source)
        };
        if let Some(source) = find(&mut self.open.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(source);
        }
        // opened outside the lock: on a parallel file system this can take long
        let file = FileSource::open(path)?;
        if let Some(log) = &self.log {
            log.opened(path);
        }
        let source: Arc<dyn Source> = match &self.log {
            Some(log) => Arc::new(RecordingSource::logging(file, log.clone())),
            None => Arc::new(file),
        };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = find(&mut open) {
            return Ok(source);
        }
        open.push_back((part, source.clone()));
        if open.len() > self.most {
            open.pop_front();
        }
        Ok(source)
    }
}
