//! Snapshot of a scanned trajectory as bytes, from which other processes open the same trajectory without touching a file.
//!
//! It holds the headers, identities and indices that took a scan; no frame. A file is checked against its identity when it
//! is first read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::open_files::Handles;
use super::stored_index;
use super::{
    FrameFaults, IndexOrigin, OpenOptions, Part, Scanned, StatedUnits, Threads, TrajectoryFiles, not_scanned,
    open_decoder, scales_of,
};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Decoder, Format, ScanOptions};
use crate::index::identity::{FileIdentity, Match};
use crate::index::{AtomCheckpoints, Index, store};
use crate::source::{FileStatus, Source, Unchanged, ends_early};

const MAGIC: &[u8; 8] = b"KINEMAKO";

/// Bytes that were read of a file, with their offsets.
type Reads = Vec<(u64, Vec<u8>)>;

impl TrajectoryFiles {
    /// Serializes headers, identities and indices of all parts, for [`TrajectoryFiles::from_snapshot`].
    ///
    /// # Errors
    /// `Internal` before the scan; errors of reading the headers again.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        let scanned = self.scanned().ok_or_else(not_scanned)?;
        let mut bytes = MAGIC.to_vec();
        put(&mut bytes, scanned.parts.len() as u64);
        for (number, part) in scanned.parts.iter().enumerate() {
            let place = |error: Error| error.with_path(&part.path);
            let tap = CapturingSource { inner: &*self.source(number)?, reads: Mutex::default() };
            let (_, decoder) = open_decoder(&tap, &self.options)?;
            let table = match &part.index {
                Index::Table(table) => store::encode(table, &part.identity, part.format.info().name, self.n_atoms()),
                Index::Uniform(_) | Index::Chunked(_) => {
                    decoder.scan(&tap, &quiet_scan()).map_err(place)?;
                    Vec::new()
                }
            };
            put(&mut bytes, part.size);
            bytes.extend_from_slice(&part.identity.to_bytes());
            put(&mut bytes, table.len() as u64);
            bytes.extend_from_slice(&table);
            let checkpoints = match &part.index {
                Index::Table(table) => table.atom_checkpoints.as_ref().map(|known| known.to_bytes()),
                Index::Uniform(_) | Index::Chunked(_) => None,
            };
            let checkpoints = checkpoints.unwrap_or_default();
            put(&mut bytes, checkpoints.len() as u64);
            bytes.extend_from_slice(&checkpoints);
            let reads = tap.reads.into_inner().unwrap_or_else(PoisonError::into_inner);
            put(&mut bytes, reads.len() as u64);
            for (offset, read) in &reads {
                put(&mut bytes, *offset);
                put(&mut bytes, read.len() as u64);
                bytes.extend_from_slice(read);
            }
        }
        Ok(bytes)
    }

    /// A trajectory of the same files, scanned already, without touching any of them.
    ///
    /// # Errors
    /// `Corrupt` for bytes that are not from [`TrajectoryFiles::snapshot`] with the same paths and options.
    pub fn from_snapshot(paths: Vec<PathBuf>, options: OpenOptions, snapshot: &[u8]) -> Result<Self> {
        let wrong = || Error::new(ErrorKind::Corrupt, "the trajectory snapshot cannot be used: it ends early");
        let mut rest = snapshot.strip_prefix(MAGIC).ok_or_else(wrong)?;
        if take(&mut rest) != Some(paths.len() as u64) {
            return Err(Error::new(ErrorKind::Corrupt, "the trajectory snapshot is of another number of files"));
        }
        let mut parts = Vec::new();
        for path in &paths {
            let (size, identity, index, reads) = take_part(&mut rest).ok_or_else(wrong)?;
            let source = SnapshotSource { path: path.clone(), size, reads };
            let opened = open_decoder(&source, &options)?;
            let part = restored_part(path, opened, &source, identity, index, parts.first(), &options.units);
            parts.push(part.map_err(|error| error.with_path(path))?);
        }
        let Some(first) = parts.first().map(|part: &Part| (part.format, part.decoder.clone())) else {
            return Err(Error::new(ErrorKind::InvalidArgument, "no trajectory file given"));
        };
        let handles = Arc::new(Handles::new(options.max_open_files, options.sources.clone()));
        let unverified = parts.iter().map(|part| Arc::new(Unverified::new(&part.identity))).collect();
        let scanned = OnceLock::from(Scanned::new(parts, &options)?);
        Ok(Self {
            paths,
            options,
            handles,
            first,
            first_status: None,
            scanned,
            scanning: Mutex::default(),
            unverified,
            threads: Threads::default(),
            scanned_ranges: Mutex::default(),
            known: Mutex::default(),
            faults: FrameFaults::default(),
        })
    }

    /// Verifies a part of a snapshot against its identity, when it is first read here.
    pub(super) fn verify_part(&self, number: usize, source: &dyn Source) -> Result<()> {
        let Some(cells) = self.unverified.get(number).filter(|cells| cells.part.get().is_none()) else { return Ok(()) };
        let Some(part) = self.scanned().and_then(|scanned| scanned.parts.get(number)) else { return Ok(()) };
        let place = |error: Error| error.with_format(part.format.info().name).with_path(&part.path);
        // what changes from here on is another than it was when it was compared
        let status = source.status()?;
        let size = source.len()?;
        if let Match::Changed(how) = part.identity.check(source, Some(&part.index)).map_err(place)? {
            let kind = if size < part.size { ErrorKind::Truncated } else { ErrorKind::Corrupt };
            return Err(place(changed(kind, &how, self.options.catalogue.as_deref())));
        }
        if let (Some(catalogue), Index::Table(table)) = (self.options.catalogue.as_deref(), &part.index) {
            // the catalogue may have been made by somebody else
            let fault = stored_index::fault_of_whole(source, &*part.decoder, table, part.identity.size);
            if let Some(how) = fault.map_err(place)? {
                return Err(place(changed(ErrorKind::Corrupt, &how, Some(catalogue))));
            }
        }
        part.unchanged.0.begin(status);
        // another thread may have verified it as well
        let _ = cells.part.set(());
        Ok(())
    }

    /// Verifies all files of a snapshot against their identities now, including files from which parts take values.
    ///
    /// # Errors
    /// `Corrupt` or `Truncated` for a file that has changed; errors of opening and reading the files.
    pub fn verify(&self) -> Result<()> {
        let scanned = self.scanned().ok_or_else(not_scanned)?;
        for (number, part) in scanned.parts.iter().enumerate() {
            self.source(number)?;
            let Some(cells) = self.unverified.get(number) else { continue };
            for (other, path) in part.decoder.facts().other_files.iter().enumerate() {
                let file = u32::try_from(other + 1).unwrap_or(u32::MAX);
                let source = self.handles.get((number, file), path)?;
                cells.check_other(other, &*source, part.unchanged.1.get(other), self.options.catalogue.as_deref())?;
            }
        }
        Ok(())
    }
}

fn changed(kind: ErrorKind, how: &str, catalogue: Option<&Path>) -> Error {
    let what = match catalogue {
        None => format!("the file has changed since it was opened, or is another file on this machine: {how}"),
        Some(path) => {
            let path = path.display();
            format!(
                "the file has changed since the catalogue {path} was made: {how}; renew its entry with: kinema ml catalogue check {path} --update"
            )
        }
    };
    Error::new(kind, what)
}

/// Which files of a part of a snapshot have been verified in this process.
pub(super) struct Unverified {
    part: OnceLock<()>,
    /// The files from which it takes values. They are checked when they are opened: a part may name thousands, and a
    /// worker reads few of them.
    others: Vec<(FileStatus, OnceLock<()>)>,
}

impl Unverified {
    fn new(identity: &FileIdentity) -> Self {
        let others = identity.others().iter().map(|status| (*status, OnceLock::new())).collect();
        Self { part: OnceLock::new(), others }
    }

    /// Verifies a file from which a part takes values, by its inode, size and times.
    pub(super) fn check_other(
        &self,
        number: usize,
        source: &dyn Source,
        unchanged: Option<&Unchanged>,
        catalogue: Option<&Path>,
    ) -> Result<()> {
        let Some((then, cell)) = self.others.get(number).filter(|(_, cell)| cell.get().is_none()) else {
            return Ok(());
        };
        let now = source.status()?;
        if let Some(now) = now {
            let place = |error: Error| error.with_path(source.path());
            if now.size < then.size {
                let how = format!("it is shorter, expected {} bytes, found {}", then.size, now.size);
                return Err(place(changed(ErrorKind::Truncated, &how, catalogue)));
            }
            if then.is_changed_in_place(&now) {
                return Err(place(changed(ErrorKind::Corrupt, "it was changed in place", catalogue)));
            }
        }
        if let Some(unchanged) = unchanged {
            unchanged.begin(now);
        }
        let _ = cell.set(());
        Ok(())
    }
}

fn restored_part(
    path: &Path,
    (format, decoder): (&'static dyn Format, Arc<dyn Decoder>),
    source: &SnapshotSource,
    identity: FileIdentity,
    stored: IndexBytes<'_>,
    first: Option<&Part>,
    units: &StatedUnits,
) -> Result<Part> {
    let name = format.info().name;
    let n_atoms = decoder.header().n_atoms;
    if let Some(expected) = first.map(|part| part.header().n_atoms).filter(|&expected| expected != n_atoms) {
        return Err(Error::corrupt("number of atoms differs from the first file", expected, n_atoms).with_format(name));
    }
    let (index, origin) = if stored.table.is_empty() {
        let index = decoder.scan(source, &quiet_scan())?.index;
        let chunked = matches!(index, Index::Chunked(_));
        (index, if chunked { IndexOrigin::Structure } else { IndexOrigin::Arithmetic })
    } else {
        let unusable = |reason| Error::new(ErrorKind::Corrupt, format!("the index cannot be used: {reason}"));
        let (mut table, _) = store::decode(stored.table, name, n_atoms).map_err(unusable)?;
        if !stored.checkpoints.is_empty() {
            let known = AtomCheckpoints::from_bytes(stored.checkpoints, table.n_frames(), n_atoms).map_err(unusable)?;
            table.atom_checkpoints = Some(Arc::new(known));
        }
        (Index::Table(table), IndexOrigin::Stored)
    };
    let scales = scales_of(format, &*decoder, units);
    let (path, size) = (path.to_path_buf(), source.size);
    let others = identity.others().iter().map(|_| Unchanged::default()).collect();
    Ok(Part {
        path,
        format,
        decoder,
        index,
        scales,
        size,
        identity,
        origin,
        index_path: None,
        index_note: None,
        wrong_index: None,
        truncation: None,
        damaged: Vec::new(),
        extended: false,
        unchanged: Arc::new((Unchanged::default(), others)),
    })
}

fn quiet_scan() -> ScanOptions<'static> {
    ScanOptions { previous: None, workers: 1, progress: &|_| Ok(()), skip_damaged: false }
}

fn put(bytes: &mut Vec<u8>, value: u64) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let (front, behind) = rest.split_first_chunk::<8>()?;
    *rest = behind;
    Some(u64::from_le_bytes(*front))
}

fn take_bytes<'a>(rest: &mut &'a [u8], len: u64) -> Option<&'a [u8]> {
    let (front, behind) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    *rest = behind;
    Some(front)
}

/// An index and its atom checkpoints as bytes; empty if a part does not have them.
struct IndexBytes<'a> {
    table: &'a [u8],
    checkpoints: &'a [u8],
}

/// Size, identity, stored index and reads of a part; `None` if the bytes end early.
fn take_part<'a>(rest: &mut &'a [u8]) -> Option<(u64, FileIdentity, IndexBytes<'a>, Reads)> {
    let size = take(rest)?;
    let identity = FileIdentity::take(rest)?;
    let len = take(rest)?;
    let table = take_bytes(rest, len)?;
    let len = take(rest)?;
    let index = IndexBytes { table, checkpoints: take_bytes(rest, len)? };
    let mut reads = Reads::new();
    for _ in 0..take(rest)? {
        let (offset, len) = (take(rest)?, take(rest)?);
        reads.push((offset, take_bytes(rest, len)?.to_vec()));
    }
    Some((size, identity, index, reads))
}

/// Passes reads on and records the bytes that they return.
struct CapturingSource<'a> {
    inner: &'a dyn Source,
    reads: Mutex<Reads>,
}

impl Source for CapturingSource<'_> {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read_exact_at(offset, buffer)?;
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).push((offset, buffer.to_vec()));
        Ok(())
    }
}

/// A file whose bytes are partly in the snapshot.
struct SnapshotSource {
    path: PathBuf,
    size: u64,
    reads: Reads,
}

impl Source for SnapshotSource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> Result<u64> {
        Ok(self.size)
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.saturating_add(buffer.len() as u64);
        if end > self.size {
            return Err(ends_early(&self.path, offset, buffer.len() as u64, self.size));
        }
        let found = self.reads.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(offset.checked_sub(*start)?).ok()?;
            bytes.get(from..from.checked_add(buffer.len())?)
        });
        let what = "bytes are needed that the trajectory snapshot does not hold";
        let found =
            found.ok_or_else(|| Error::new(ErrorKind::Internal, what).with_byte(offset).with_path(&self.path))?;
        buffer.copy_from_slice(found);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::Trajectory;

    fn dcd_like(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/golden").join(name)
    }

    fn opened(paths: &[PathBuf]) -> Trajectory {
        let options = OpenOptions { index: super::super::IndexPolicy::Memory, ..OpenOptions::default() };
        let trajectory = Trajectory::open(paths.to_vec(), options).unwrap();
        trajectory.scan(1, &|_| Ok(())).unwrap();
        trajectory
    }

    fn golden() -> Vec<PathBuf> {
        let folder = dcd_like("");
        let mut found: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        found.retain(|path| path.extension().is_some_and(|end| end == "xtc" || end == "dcd"));
        found.sort();
        found
    }

    #[test]
    fn a_snapshot_opens_the_same_trajectory_and_touches_no_file() {
        let mut compared = 0;
        for path in golden() {
            let options = OpenOptions { index: super::super::IndexPolicy::Memory, ..OpenOptions::default() };
            let Ok(trajectory) = Trajectory::open(vec![path.clone()], options.clone()) else { continue };
            if trajectory.scan(1, &|_| Ok(())).is_err() {
                continue;
            }
            let snapshot = trajectory.snapshot().unwrap();
            // the path of a file that is not there
            let nowhere = vec![PathBuf::from("/nowhere").join(path.file_name().unwrap())];
            let restored = Trajectory::from_snapshot(nowhere.clone(), options, &snapshot).unwrap();
            let (one, other) = (&trajectory.scanned().unwrap().parts[0], &restored.scanned().unwrap().parts[0]);
            assert_eq!(one.index, other.index, "{}", path.display());
            assert_eq!(one.header(), other.header());
            assert_eq!((one.size, one.identity.to_bytes()), (other.size, other.identity.to_bytes()));
            assert_eq!(restored.source(0).err().unwrap().kind(), ErrorKind::NotFound);
            compared += 1;
        }
        assert!(compared >= 2);
    }

    #[test]
    fn a_file_that_has_changed_is_refused_when_it_is_read() {
        let path =
            golden().into_iter().find(|path| Trajectory::open(vec![path.clone()], OpenOptions::default()).is_ok());
        let bytes = std::fs::read(path.unwrap()).unwrap();
        let copy = std::env::temp_dir().join(format!("kinema-snapshot-{}", std::process::id()));
        std::fs::write(&copy, &bytes).unwrap();
        let snapshot = opened(std::slice::from_ref(&copy)).snapshot().unwrap();
        let restored = || Trajectory::from_snapshot(vec![copy.clone()], OpenOptions::default(), &snapshot).unwrap();
        assert!(restored().source(0).is_ok() && restored().verify().is_ok());
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        std::fs::write(&copy, &changed).unwrap();
        let error = restored().verify().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("has changed since it was opened"), "{error}");
        let kept = OpenOptions { catalogue: Some("all.kinema-catalogue".into()), ..OpenOptions::default() };
        let error = Trajectory::from_snapshot(vec![copy.clone()], kept, &snapshot).unwrap().verify().unwrap_err();
        assert!(error.to_string().ends_with("kinema ml catalogue check all.kinema-catalogue --update"), "{error}");
        std::fs::write(&copy, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(restored().source(0).err().unwrap().kind(), ErrorKind::Truncated);
        std::fs::remove_file(&copy).unwrap();
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let path =
            golden().into_iter().find(|path| Trajectory::open(vec![path.clone()], OpenOptions::default()).is_ok());
        let path = vec![path.unwrap()];
        let snapshot = opened(&path).snapshot().unwrap();
        for len in 0..snapshot.len() {
            assert!(Trajectory::from_snapshot(path.clone(), OpenOptions::default(), &snapshot[..len]).is_err());
        }
        let two = vec![path[0].clone(), path[0].clone()];
        assert!(Trajectory::from_snapshot(two, OpenOptions::default(), &snapshot).is_err());
    }
}
