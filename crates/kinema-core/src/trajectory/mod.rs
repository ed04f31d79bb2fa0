//! A trajectory: one or more files (parts), opened lazily, with their indices, their concatenation and transforms.
//!
//! It reads no frames itself (see `reader`) and knows nothing of HDF5 structure or topologies.

mod atom_checkpoints;
mod concatenation;
mod frame_faults;
mod growing;
mod handle;
mod open_files;
mod options;
mod parts;
mod ranged_scan;
mod snapshot;
mod stated;
mod stored_index;
mod threads;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

pub use self::atom_checkpoints::MadeCheckpoints;
pub use self::concatenation::{Concatenation, Gap, Overlap, PartSpan};
use self::concatenation::{OrderedPart, concatenate};
pub use self::frame_faults::{FoundFault, FrameFault, FrameFaults};
use self::growing::KnownParts;
pub use self::handle::Trajectory;
use self::open_files::Handles;
pub use self::options::{Absent, IndexPolicy, OnTruncated, OpenOptions};
use self::ranged_scan::ScannedRanges;
use self::snapshot::Unverified;
use self::stated::PartTimes;
pub use self::stated::StatedTimes;
pub(crate) use self::stored_index::check_stamp;
pub use self::stored_index::fault as stored_index_fault;
pub(crate) use self::threads::{ReaderBuffers, Threads};
use crate::clock::{Stopwatch, Work};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{self, Decoder, Format, Header, Request, Wanted};
use crate::frame::Scales;
pub use crate::frame::StatedUnits;
use crate::index::Index;
use crate::index::identity::FileIdentity;
use crate::named::Named;
use crate::source::{FileSource, FileStatus, MultiFileSource, Source, Unchanged, bytes_to_read};
use crate::trace::activity::HEADER;

/// Origin of an index.
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

impl Named for IndexOrigin {
    const OPTION: &'static str = "index";
    const ALL: &'static [(&'static str, Self)] = &[
        ("arithmetic", Self::Arithmetic),
        ("structure", Self::Structure),
        ("stored", Self::Stored),
        ("extended", Self::Extended),
        ("built", Self::Built),
    ];
}

/// One file of the trajectory, once it has been scanned.
#[derive(Clone)]
pub struct Part {
    /// The file.
    pub path: PathBuf,
    /// Its format.
    pub format: &'static dyn Format,
    /// Finds and decodes its frames.
    pub decoder: Arc<dyn Decoder>,
    /// Its frames.
    pub index: Index,
    /// Factors to angstrom and ps.
    pub scales: Scales,
    /// Its size when it was scanned.
    pub size: u64,
    /// Identity of the file when it was scanned.
    pub identity: FileIdentity,
    /// Origin of the index.
    pub origin: IndexOrigin,
    /// Path of the stored index.
    pub index_path: Option<PathBuf>,
    /// Why a stored index was not used, or why it could not be stored.
    pub index_note: Option<String>,
    /// Difference between a stored index and the frames of this file, although the index has the file's identity.
    pub wrong_index: Option<String>,
    /// The incomplete last frame that was dropped.
    pub truncation: Option<Error>,
    /// Its frames that stand for damaged bytes, see [`format::Scan::damaged`].
    pub damaged: Vec<u64>,
    /// Whether zeros were seen in unwritten places while the file was being written.
    pub extended: bool,
    /// Checks that the file has not changed since it was scanned, or since it was first read from a snapshot; and the
    /// same for the files that it names.
    pub(crate) unchanged: Arc<(Unchanged, Vec<Unchanged>)>,
}

impl Part {
    /// Facts from the header.
    pub fn header(&self) -> &Header {
        self.decoder.header()
    }

    /// Bytes that are read for `request` of the `wanted` frames (ascending), gaps included.
    pub(crate) fn bytes_to_read(&self, wanted: &[Wanted], request: &Request) -> Result<u64> {
        let mut segments = Vec::new();
        self.decoder.segments(&self.index, wanted, request, &mut segments)?;
        Ok(bytes_to_read(segments.iter().map(|segment| segment.extent)))
    }
}

/// Factors from the units of a file to angstrom and ps.
fn scales_of(format: &dyn Format, decoder: &dyn Decoder, units: &StatedUnits) -> Scales {
    let facts = decoder.facts();
    let own = facts.scales.unwrap_or(format.info().scales);
    if facts.has_stated_units { own } else { units.replace(own, facts.time_unit) }
}

/// Parts and their concatenation, once scanned.
pub struct Scanned {
    /// The files, in the order given.
    pub parts: Vec<Part>,
    /// Which of their frames count.
    pub concatenation: Concatenation,
    /// Their times.
    times: PartTimes,
    /// Whether the user has stated the unit of times, or the time between frames.
    times_are_stated: bool,
}

impl Scanned {
    /// The first part whose frames can be found only from its front: one worker reads it.
    pub fn forward_part(&self) -> Option<&Part> {
        self.parts.iter().find(|part| part.decoder.facts().reads_forward)
    }

    /// Concatenates the parts.
    fn new(parts: Vec<Part>, options: &OpenOptions) -> Result<Self> {
        let ordered: Vec<OrderedPart<'_>> = parts
            .iter()
            .map(|part| OrderedPart { path: &part.path, index: &part.index, time_scale: part.scales.time })
            .collect();
        let concatenation = concatenate(&ordered, options.overlap)?;
        let times = PartTimes::new(options.times, &parts, &concatenation, options.overlap);
        let times_are_stated = options.units.time.is_some() || options.times.dt.is_some();
        Ok(Self { parts, concatenation, times, times_are_stated })
    }

    /// Whether times are those of the files, but for their unit.
    pub fn has_stored_times(&self) -> bool {
        self.times.as_stored()
    }

    /// Shift that the user's statements add to all times, ps; it also applies to other records of the same simulation.
    pub fn time_shift(&self) -> f64 {
        self.times.shift()
    }

    /// An assumption about a part that the user has not stated.
    pub fn assumption(&self, part: usize) -> Option<&str> {
        if self.times_are_stated { None } else { self.parts[part].decoder.facts().assumption.as_deref() }
    }

    /// Time of a frame of a part in ps, where `stored` is that of the file in ps.
    pub fn time_of(&self, part: usize, frame: u64, stored: f64) -> f64 {
        self.times.time(part, &self.parts[part], frame, stored)
    }

    /// Time of a frame of a part in ps, if it is known without reading the frame.
    pub fn time(&self, part: usize, frame: u64) -> Option<f64> {
        let known = &self.parts[part];
        match known.index.time(frame) {
            Some(time) => Some(self.time_of(part, frame, time * known.scales.time)),
            // a stated time step needs no time of the file
            None => Some(self.time_of(part, frame, f64::NAN)).filter(|time| !time.is_nan()),
        }
    }
}

/// The open file of a part, and, if it names other files, the same together with them.
type OpenPart = (Arc<dyn Source>, Option<Arc<MultiFileSource>>);

/// The files of a trajectory, opened: what all handles on them share.
pub struct TrajectoryFiles {
    paths: Vec<PathBuf>,
    options: OpenOptions,
    handles: Arc<Handles>,
    first: (&'static dyn Format, Arc<dyn Decoder>),
    /// Status of the first file, before its header was read.
    first_status: Option<FileStatus>,
    scanned: OnceLock<Scanned>,
    /// One scan at a time; others wait for its outcome.
    scanning: Mutex<()>,
    /// One for each part of a snapshot; empty if this process has scanned.
    unverified: Vec<Arc<Unverified>>,
    /// Threads of the calls that read.
    pub(crate) threads: Threads,
    /// Parts of which other processes scan byte ranges.
    scanned_ranges: Mutex<BTreeMap<usize, ScannedRanges>>,
    /// Known parts of growing files, until they are scanned.
    known: Mutex<KnownParts>,
    /// Faults of frames that were read.
    pub(crate) faults: FrameFaults,
}

impl TrajectoryFiles {
    /// Whether frames may lack fields of the file: [`crate::format::Facts::may_lack_fields`] of the first part.
    pub fn may_lack_fields(&self) -> bool {
        self.first.1.facts().may_lack_fields
    }

    /// Values of fields in frames that lack them.
    pub fn absent(&self) -> Absent {
        self.options.absent
    }

    /// Reads the header of the first file, and does not touch the others.
    ///
    /// # Errors
    /// As [`FileSource::open`], [`format::detect`] and [`Format::open`].
    pub fn open(paths: Vec<PathBuf>, options: OpenOptions) -> Result<Self> {
        Self::open_again(paths, options, None)
    }

    /// As [`TrajectoryFiles::open`], reusing the parts of a trajectory that was opened before: unchanged parts are
    /// taken over, parts that have grown are scanned from their former end. The [`OpenOptions::growing`] of `previous`
    /// applies, if given.
    ///
    /// # Errors
    /// As [`TrajectoryFiles::open`].
    pub fn open_again(paths: Vec<PathBuf>, options: OpenOptions, previous: Option<&Self>) -> Result<Self> {
        let Some(path) = paths.first() else {
            return Err(Error::new(ErrorKind::InvalidArgument, "no trajectory file given"));
        };
        let known = KnownParts::from_previous(previous);
        let handles = Arc::new(Handles::new(options.max_open_files, options.sources.clone()));
        let (first_status, first) = match known.unchanged(path) {
            Some(part) => (part.identity.status().copied(), (part.format, part.decoder.clone())),
            None => {
                let mut watch = Stopwatch::start();
                let source = handles.get((0, 0), path)?;
                let opened = (status_before(&*source, &options)?, open_decoder(&*source, &options)?);
                check_claim(&*source, &opened.1)?;
                watch.lap(&HEADER, Work { file: Some(path), ..Work::default() });
                opened
            }
        };
        Ok(Self {
            paths,
            options,
            handles,
            first,
            first_status,
            scanned: OnceLock::new(),
            scanning: Mutex::new(()),
            unverified: Vec::new(),
            threads: Threads::default(),
            scanned_ranges: Mutex::default(),
            known: Mutex::new(known),
            faults: FrameFaults::default(),
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
    /// Decoder of the first file.
    pub fn decoder(&self) -> &dyn Decoder {
        &*self.first.1
    }
    /// Header of the first file.
    pub fn header(&self) -> &Header {
        self.first.1.header()
    }
    /// Number of atoms, the same in all parts.
    pub fn n_atoms(&self) -> u32 {
        self.header().n_atoms
    }
    /// Faults of the frames that were read until now.
    pub fn faults(&self) -> &FrameFaults {
        &self.faults
    }
    /// The parts, if they have been scanned.
    pub fn scanned(&self) -> Option<&Scanned> {
        self.scanned.get()
    }

    /// The open file of a part, opened if necessary. Use [`TrajectoryFiles::read_of`] to read from it.
    ///
    /// # Errors
    /// As [`FileSource::open`].
    pub fn source(&self, part: usize) -> Result<Arc<dyn Source>> {
        self.open_part(part).map(|(first, multi)| multi.map_or(first, |multi| multi as Arc<dyn Source>))
    }

    fn open_part(&self, part: usize) -> Result<OpenPart> {
        let first = self.handles.get((part, 0), &self.paths[part])?;
        let multi = self.scanned().and_then(|scanned| scanned.parts.get(part));
        let multi = multi.and_then(|scanned| self.multi_file(part, &first, &*scanned.decoder));
        self.verify_part(part, multi.as_deref().map_or(&*first, |multi| multi as &dyn Source))?;
        Ok((first, multi))
    }

    /// Calls `read` with the open file of a part, then checks that the file has not changed since it was opened. Frames
    /// are read in no other way. A change is reported even if `read` has failed as well. Files that are being written
    /// are not checked: whoever follows them notices changes.
    /// Errors of `read`, of [`TrajectoryFiles::source`], and of [`Unchanged::check`].
    pub(crate) fn read_of<T>(&self, part: usize, read: impl FnOnce(&Arc<dyn Source>) -> Result<T>) -> Result<T> {
        let (first, multi) = self.open_part(part)?;
        let outcome = match &multi {
            Some(multi) => read(&(multi.clone() as Arc<dyn Source>)),
            None => read(&first),
        };
        let Some(scanned) = self.scanned().and_then(|scanned| scanned.parts.get(part)) else { return outcome };
        if self.options.growing {
            return outcome;
        }
        let place = |error: Error| error.with_format(scanned.format.info().name).with_path(&scanned.path);
        let (unchanged, others) = &*scanned.unchanged;
        let grown = || self.grown(part, scanned);
        unchanged.check(&*first, &grown).map_err(place)?;
        for (file, source) in multi.map(|multi| multi.touched()).unwrap_or_default() {
            if let Some(other) = others.get((file as usize).wrapping_sub(1)) {
                other.check(&*source, &grown)?;
            }
        }
        outcome
    }

    /// Whether the sampled frames of a part that has grown are unchanged; they are read from the file itself.
    fn grown(&self, number: usize, part: &Part) -> Result<Option<&'static str>> {
        let file: Arc<dyn Source> = Arc::new(FileSource::open(&part.path)?);
        let source = self.multi_file(number, &file, &*part.decoder).map_or(file, |multi| multi as Arc<dyn Source>);
        let same = part.identity.has_same_frames(&*source, &part.index)?;
        Ok((!same).then_some("its frames are others"))
    }

    /// Identity of a part when it was scanned, with its content sampled now, at `places` places. If the file was
    /// changed in between, its status differs later on.
    ///
    /// # Errors
    /// `Internal` before the scan; errors of [`TrajectoryFiles::source`] and of reading.
    pub fn identity(&self, part: usize, places: u64) -> Result<FileIdentity> {
        let scanned = self.scanned().and_then(|scanned| scanned.parts.get(part)).ok_or_else(not_scanned)?;
        let (known, source) = (&scanned.identity, self.source(part)?);
        let identity =
            FileIdentity::from_source(&*source, known.size, known.status().copied(), Some(&scanned.index), places);
        Ok(identity.map_err(|error| error.with_path(&scanned.path))?.naming(known.others().to_vec()))
    }

    /// The file of a part with the files that it names; `None` if it names none.
    fn multi_file(&self, part: usize, first: &Arc<dyn Source>, decoder: &dyn Decoder) -> Option<Arc<MultiFileSource>> {
        let paths = decoder.facts().other_files.clone();
        if paths.is_empty() {
            return None;
        }
        let handles = self.handles.clone();
        let unverified = self.unverified.get(part).cloned();
        let unchanged = self.scanned().and_then(|scanned| scanned.parts.get(part)).map(|part| part.unchanged.clone());
        let catalogue = self.options.catalogue.clone();
        let other = move |file: u32| {
            let number = (file as usize).wrapping_sub(1);
            let path = paths.get(number).ok_or_else(|| {
                Error::new(ErrorKind::Internal, format!("file {file} of a virtual data set is not known"))
            })?;
            let source = handles.get((part, file), path)?;
            if let Some(unverified) = &unverified {
                let unchanged = unchanged.as_deref().and_then(|(_, others)| others.get(number));
                unverified.check_other(number, &*source, unchanged, catalogue.as_deref())?;
            }
            Ok(source)
        };
        Some(Arc::new(MultiFileSource::new(first.clone(), Box::new(other))))
    }
}

pub(crate) fn not_scanned() -> Error {
    Error::new(ErrorKind::Internal, "the trajectory has not been scanned")
}

/// The status of a file before anything is read from it; it settles first, so that any later change shows.
fn status_before(source: &dyn Source, options: &OpenOptions) -> Result<Option<FileStatus>> {
    match options.index {
        // a follower checks the file again and again, and nobody changes a file that stands still
        IndexPolicy::Memory if options.growing || options.settled => source.status(),
        IndexPolicy::Memory | IndexPolicy::Auto | IndexPolicy::Rebuild => FileStatus::settled_of(source),
    }
}

/// Above this number of atoms, check that the file is large enough to hold a frame of them.
const MANY_ATOMS: u32 = 1 << 24;
/// Most atoms per byte: among formats that store frames one by one, XTC at its best has four.
const ATOMS_A_BYTE: u64 = 4;

/// Checks that a file is long enough for one frame of the atoms that its header claims, as memory is allocated for each
/// of them before a frame is read. HDF5 is left out: it compresses further, and has bytes in other files.
fn check_claim(source: &dyn Source, (format, decoder): &(&'static dyn Format, Arc<dyn Decoder>)) -> Result<()> {
    let n_atoms = decoder.header().n_atoms;
    if n_atoms <= MANY_ATOMS || decoder.facts().stored_format.is_some() {
        return Ok(());
    }
    let (size, least) = (source.len()?, u64::from(n_atoms) / ATOMS_A_BYTE);
    if size >= least {
        return Ok(());
    }
    let what = format!("the file has no whole frame of {n_atoms} atoms, expected at least {least} bytes, found {size}");
    Err(Error::new(ErrorKind::Truncated, what).with_format(format.info().name).with_path(source.path()))
}

fn open_decoder(source: &dyn Source, options: &OpenOptions) -> Result<(&'static dyn Format, Arc<dyn Decoder>)> {
    let structure = options.structure.as_deref();
    let open = |format: &'static dyn Format| {
        let place = |error: Error| error.with_format(format.info().name).with_path(source.path());
        let decoder = format.open_with(source, structure, &options.units).map_err(place)?;
        let stored = decoder.facts().stored_format.as_deref().filter(|_| !format.is_external());
        Ok((stored.and_then(format::find_by_name).unwrap_or(format), decoder))
    };
    let is_foreign = |format: &'static dyn Format, error: &Error| {
        format.has_foreign_variants() && error.kind() == ErrorKind::Unsupported
    };
    match options.format {
        Some(format) if !format.is_external() => open(format),
        Some(_) => match format::detect(source) {
            Ok(own) if open(own).is_err_and(|error| is_foreign(own, &error)) => open(format::EXTERNAL),
            Ok(own) => {
                let what = format!("this is {}, which Kinema reads itself; leave out format=", own.info().name);
                Err(Error::new(ErrorKind::InvalidArgument, what).with_path(source.path()))
            }
            Err(_) => open(format::EXTERNAL),
        },
        None => {
            let error = match format::detect(source) {
                Ok(own) => match open(own) {
                    Err(error) if is_foreign(own, &error) => error,
                    opened => return opened,
                },
                Err(error) => error,
            };
            // also of a file whose name is that of another format
            let may_be_known = matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Corrupt);
            let Some(structure) = structure.filter(|_| may_be_known) else { return Err(error) };
            // one that names the file says whose it is
            let place = |error: Error| match error.path() {
                Some(_) => error,
                None => error.with_format(format::EXTERNAL.info().name).with_path(source.path()),
            };
            let other = structure.open_other(source.path()).map_err(place)?;
            other.map(|decoder| (format::EXTERNAL, decoder)).ok_or(error)
        }
    }
}
