//! Stored indices: an index is written beside its file, and loaded only if it still fits.
//!
//! No lock is taken: racing processes write the same bytes under names of their own and rename. How a file appears whole
//! is not known here: who opens a trajectory passes the function that writes ([`WriteFile`]).

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::identity::{FileIdentity, Match};
use super::table::{Sizes, Steps, Times};
use super::{Index, TableBuilder, TableIndex};
use crate::error::{Error, ErrorKind, Result, printed};
use crate::source::{FileSource, FileStatus, Source, read_regular};

const MAGIC: &[u8; 8] = b"KINEMAIX";
/// Changes whenever the bytes or the meaning of the identity do. 2: inode and times, pieces of content. 3: sizes in words or bytes.
const VERSION: u32 = 4;
/// Bytes of a stored index without its frames, and at most for each frame.
const FIXED_BYTES: u64 = 59 + FileIdentity::LEN as u64;
const MOST_BYTES_A_FRAME: u64 = 24;
/// No frame of a format whose frames differ in size is shorter: its header alone is longer.
const LEAST_FRAME_BYTES: u64 = 32;

/// Writes a file of these bytes, so that it appears whole or not at all; returns the text of a note, if any.
pub type WriteFile = dyn Fn(&Path, &[u8]) -> Result<Option<String>> + Send + Sync;

/// Outcome of loading the stored index of a file.
#[derive(Debug)]
pub enum LoadOutcome {
    /// An index of the file as it is.
    Fits(Stored),
    /// An index of the file before it grew, or of its complete frames: to be extended.
    Grew(Index),
    /// Nothing is stored.
    Absent,
    /// Something is stored that must not be used, and why.
    Rejected(String),
    /// Something is stored with the identity of the file that is not of its frames, and how it differs.
    Wrong(String),
}

/// A stored index that fits.
#[derive(Debug)]
pub struct Stored {
    /// The index.
    pub index: Index,
    /// The path of the stored index.
    pub place: PathBuf,
    /// The identity of the file as it is.
    pub identity: FileIdentity,
    /// Whether it should be stored again: it is that of a copy of the file, and a change in place of this one would not be
    /// seen by the status that is stored.
    pub renew: bool,
}

/// The places where the index of a file may be stored, best first: beside it, then the user's cache folder.
pub fn places(path: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    let absolute = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if let (Some(folder), Some(name)) = (absolute.parent(), absolute.file_name()) {
        let parts = [".".as_ref(), name, ".kinema-index".as_ref()];
        places.push(folder.join(parts.into_iter().collect::<OsString>()));
    }
    if let Some(cache) = cache_folder() {
        let keyed = format!("{:016x}.kinema-index", xxh3_64(absolute.as_os_str().as_encoded_bytes()));
        places.push(cache.join("index").join(keyed));
    }
    places
}

/// Kinema's folder in the user's cache folder, if the environment names one; it may not exist.
pub fn cache_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // a relative path would belong to the owner of the working folder; the XDG specification calls it invalid
    let cache = set("XDG_CACHE_HOME")
        .filter(|cache| cache.is_absolute())
        .or_else(|| set("HOME").map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("kinema"))
}

/// Stores the index of a file in the first of `places` that can be written; returns the path, and the text of a note,
/// if any.
///
/// # Errors
/// The last error if no place is writable; `InvalidArgument` for an index that needs no storing.
pub fn save(
    places: &[PathBuf],
    index: &Index,
    identity: &FileIdentity,
    format: &str,
    n_atoms: u32,
    write: &WriteFile,
) -> Result<(PathBuf, Option<String>)> {
    let Index::Table(table) = index else {
        return Err(Error::new(ErrorKind::InvalidArgument, "an index by arithmetic is not stored"));
    };
    let bytes = encode(table, identity, format, n_atoms);
    let mut failure = Error::new(ErrorKind::Io, "no folder to store the index in");
    for (i, place) in places.iter().enumerate() {
        // the folder of the trajectory is there; that of the cache may have to be made
        if i > 0
            && let Some(folder) = place.parent()
            && let Err(error) = fs::create_dir_all(folder)
        {
            failure = Error::io("cannot make the folder", &error).with_path(folder);
            continue;
        }
        match write(place, &bytes) {
            Ok(note) => return Ok((place.clone(), note)),
            Err(error) => failure = error.with_path(place),
        }
    }
    Err(failure)
}

/// Stores the index of a file that has just been written and has its final name; as [`save`].
///
/// # Errors
/// As [`save`], and errors of reading the file; `Corrupt` if the file's size differs from the end of the index.
pub fn save_written(
    path: &Path,
    table: TableIndex,
    format: &str,
    n_atoms: u32,
    write: &WriteFile,
) -> Result<(PathBuf, Option<String>)> {
    let source = FileSource::open(path)?;
    let status = FileStatus::settled_of(&source)?;
    let (size, index) = (source.len()?, Index::Table(table));
    let end = index.end().unwrap_or(0);
    if size != end {
        return Err(Error::corrupt("the file is not what was written, its size", end, size).with_path(path));
    }
    let identity = FileIdentity::from_source(&source, size, status, Some(&index), FileIdentity::PLACES)?;
    save(&places(path), &index, &identity, format, n_atoms, write)
}

/// Loads an index that fits the file, preferably one that was stored for this very file. A wrong index is not an error:
/// it is rebuilt. So is the index of a file that was changed in place, whatever an index in another place says.
///
/// The writer of an index may have written its identity as well, so `fault` compares the index with the frames of the
/// file: it says in words where they differ.
///
/// # Errors
/// Only errors of the source itself.
pub fn load(
    places: &[PathBuf],
    source: &dyn Source,
    format: &str,
    n_atoms: u32,
    fault: &dyn Fn(&TableIndex) -> Result<Option<String>>,
) -> Result<LoadOutcome> {
    let mut outcome = LoadOutcome::Absent;
    let (size, status) = (source.len()?, FileStatus::settled_of(source)?);
    let mut copied = None;
    let mut in_place = false;
    for place in places {
        let bytes = match read_regular(place, most_bytes(size)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => {
                outcome = LoadOutcome::Rejected(format!("{} cannot be read: {}", printed(place), error.what()));
                continue;
            }
        };
        let (table, stored) = match decode(&bytes, format, n_atoms) {
            Ok(decoded) => decoded,
            Err(reason) => {
                outcome = LoadOutcome::Rejected(format!("{}: {reason}", printed(place)));
                continue;
            }
        };
        // an index of the unchanged file whose frames end before the file does is extended: frames may be missing
        let is_whole = stored.size == size && table.end() == size;
        let index = Index::Table(table);
        let matched = stored.check(source, Some(&index))?;
        if let (Match::Unchanged | Match::SameContent, Index::Table(table)) = (&matched, &index)
            && let Some(how) = fault(table)?
        {
            outcome = LoadOutcome::Wrong(format!("{} is not that of the file: {how}", printed(place)));
            continue;
        }
        match matched {
            Match::Unchanged if is_whole => {
                let (place, identity) = (place.clone(), stored);
                return Ok(LoadOutcome::Fits(Stored { index, place, identity, renew: false }));
            }
            Match::Unchanged => return Ok(LoadOutcome::Grew(index)),
            Match::SameContent if is_whole => {
                let (place, identity) = (place.clone(), stored.found_in(status));
                copied = copied.or(Some(LoadOutcome::Fits(Stored { index, place, identity, renew: true })));
            }
            Match::SameContent => copied = copied.or(Some(LoadOutcome::Grew(index))),
            Match::Changed(how) => {
                in_place |= stored.status().zip(status).is_some_and(|(then, now)| then.is_changed_in_place(&now));
                outcome = LoadOutcome::Rejected(format!("{} does not fit the file: {how}", printed(place)));
            }
        }
    }
    Ok(copied.filter(|_| !in_place).unwrap_or(outcome))
}

/// Bytes of the largest index that a file of `size` bytes can have.
fn most_bytes(size: u64) -> u64 {
    (size / LEAST_FRAME_BYTES).saturating_mul(MOST_BYTES_A_FRAME).saturating_add(FIXED_BYTES)
}

/// The bytes of a stored index.
pub(crate) fn encode(table: &TableIndex, identity: &FileIdentity, format: &str, n_atoms: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FIXED_BYTES as usize + MOST_BYTES_A_FRAME as usize * table.n_frames() as usize);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    let mut name = [0_u8; 16];
    name.iter_mut().zip(format.bytes()).for_each(|(place, byte)| *place = byte);
    bytes.extend_from_slice(&name);
    bytes.extend_from_slice(&n_atoms.to_le_bytes());
    bytes.extend_from_slice(&identity.to_bytes());
    bytes.extend_from_slice(&table.first.to_le_bytes());
    bytes.extend_from_slice(&table.n_frames().to_le_bytes());
    match &table.sizes {
        Sizes::Words(words) => column(&mut bytes, 4, words.iter().map(|words| words.to_le_bytes())),
        Sizes::Bytes(exact) => column(&mut bytes, 8, exact.iter().map(|bytes| bytes.to_le_bytes())),
    }
    match &table.steps {
        Steps::Narrow(steps) => column(&mut bytes, 4, steps.iter().map(|step| step.to_le_bytes())),
        Steps::Wide(steps) => column(&mut bytes, 8, steps.iter().map(|step| step.to_le_bytes())),
    }
    match &table.times {
        Times::Narrow(times) => column(&mut bytes, 4, times.iter().map(|time| time.to_le_bytes())),
        Times::Wide(times) => column(&mut bytes, 8, times.iter().map(|time| time.to_le_bytes())),
    }
    let checksum = xxh3_64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

fn column<const N: usize>(bytes: &mut Vec<u8>, width: u8, values: impl Iterator<Item = [u8; N]>) {
    bytes.push(width);
    values.for_each(|value| bytes.extend_from_slice(&value));
}

/// The remaining bytes; every take is checked.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, n: usize) -> std::result::Result<&'a [u8], String> {
        let (front, rest) = self.0.split_at_checked(n).ok_or("it ends early")?;
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> std::result::Result<[u8; N], String> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn values<const N: usize, T>(&mut self, n: usize, from: fn([u8; N]) -> T) -> std::result::Result<Vec<T>, String> {
        let bytes = self.take(n.checked_mul(N).ok_or("its frame count is absurd")?)?;
        let (values, _) = bytes.as_chunks::<N>();
        Ok(values.iter().map(|value| from(*value)).collect())
    }
}

/// Back from [`encode`], or in words why not.
pub(crate) fn decode(
    bytes: &[u8],
    format: &str,
    n_atoms: u32,
) -> std::result::Result<(TableIndex, FileIdentity), String> {
    let (content, checksum) = bytes.split_last_chunk::<8>().ok_or("it ends early")?;
    let mut rest = Rest(content);
    if rest.take(8)? != MAGIC {
        return Err("it is no Kinema index".to_owned());
    }
    if u32::from_le_bytes(rest.array()?) != VERSION {
        return Err("it was stored by another version".to_owned());
    }
    if xxh3_64(content) != u64::from_le_bytes(*checksum) {
        return Err("its checksum is wrong".to_owned());
    }
    let name = rest.array::<16>()?;
    if name.iter().copied().take_while(|&byte| byte != 0).ne(format.bytes()) {
        return Err("it is of another format".to_owned());
    }
    if u32::from_le_bytes(rest.array()?) != n_atoms {
        return Err("it is of another number of atoms".to_owned());
    }
    let identity = FileIdentity::take(&mut rest.0).ok_or("its identity is none")?;
    let first = u64::from_le_bytes(rest.array()?);
    if first > identity.size {
        return Err("its frames begin beyond the file".to_owned());
    }
    let n = usize::try_from(u64::from_le_bytes(rest.array()?)).map_err(|_| "its frame count is absurd")?;
    let sizes: Vec<u64> = match rest.array::<1>()? {
        [4] => rest.values(n, u32::from_le_bytes)?.into_iter().map(|words| 4 * u64::from(words)).collect(),
        [8] => rest.values(n, u64::from_le_bytes)?,
        [other] => return Err(format!("its sizes have {other} bytes")),
    };
    let steps = match rest.array::<1>()? {
        [4] => rest.values(n, i32::from_le_bytes)?.into_iter().map(i64::from).collect(),
        [8] => rest.values(n, i64::from_le_bytes)?,
        [other] => return Err(format!("its steps have {other} bytes")),
    };
    let times = match rest.array::<1>()? {
        [4] => rest.values(n, f32::from_le_bytes)?.into_iter().map(f64::from).collect(),
        [8] => rest.values(n, f64::from_le_bytes)?,
        [other] => return Err(format!("its times have {other} bytes")),
    };
    if !rest.0.is_empty() {
        return Err("it has bytes left over".to_owned());
    }
    let mut builder = TableBuilder::new(first);
    for ((len, step), time) in sizes.into_iter().zip(steps).zip(times) {
        builder.push(len, step, time).map_err(|error| error.to_string())?;
        if builder.end() > identity.size {
            return Err("its frames reach beyond the file".to_owned());
        }
    }
    Ok((builder.finish(), identity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;

    fn example(wide: bool) -> (MemorySource, Index, FileIdentity) {
        let mut builder = TableBuilder::new(0);
        for frame in 0..100_i64 {
            let step = if wide { frame << 40 } else { frame };
            let len = 400 + if wide { 3 } else { 4 } * frame as u64;
            builder.push(len, step, frame as f64 * if wide { 0.1 } else { 0.5 }).unwrap();
        }
        let bytes: Vec<u8> = (0..builder.end()).map(|i| (i * 7 % 251) as u8).collect();
        let source = MemorySource::new("md.xtc", bytes);
        let index = Index::Table(builder.finish());
        let identity = FileIdentity::from_source(&source, source.len().unwrap(), None, Some(&index), 16).unwrap();
        (source, index, identity)
    }

    fn agrees(_: &TableIndex) -> Result<Option<String>> {
        Ok(None)
    }

    fn write(path: &Path, bytes: &[u8]) -> Result<Option<String>> {
        fs::write(path, bytes).map(|()| None).map_err(|error| Error::io("cannot write", &error))
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("kinema-store-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn what_is_stored_comes_back() {
        for wide in [false, true] {
            let (source, index, identity) = example(wide);
            let folder = folder(&format!("round-{wide}"));
            let places = [folder.join(".md.xtc.kinema-index")];
            let (place, _) = save(&places, &index, &identity, "XTC", 9, &write).unwrap();
            let LoadOutcome::Fits(found) = load(&places, &source, "XTC", 9, &agrees).unwrap() else {
                panic!("not loaded")
            };
            assert_eq!((found.index, found.place), (index.clone(), place));
            assert!(matches!(load(&places, &source, "TRR", 9, &agrees).unwrap(), LoadOutcome::Rejected(_)));
            assert!(matches!(load(&places, &source, "XTC", 8, &agrees).unwrap(), LoadOutcome::Rejected(_)));
            fs::remove_dir_all(folder).unwrap();
        }
    }

    #[test]
    fn an_index_that_is_not_that_of_the_file_is_rejected_in_words() {
        let (source, index, identity) = example(false);
        let folder = folder("fault");
        let places = [folder.join("index")];
        save(&places, &index, &identity, "XTC", 9, &write).unwrap();
        let differs = |_: &TableIndex| Ok(Some("frame 3: no magic number".to_owned()));
        match load(&places, &source, "XTC", 9, &differs).unwrap() {
            LoadOutcome::Wrong(how) => assert!(how.ends_with("is not that of the file: frame 3: no magic number")),
            other => panic!("{other:?}"),
        }
        let fails = |_: &TableIndex| Err(Error::new(ErrorKind::Io, "no"));
        assert_eq!(load(&places, &source, "XTC", 9, &fails).unwrap_err().kind(), ErrorKind::Io);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_index_whose_frames_end_before_the_file_is_extended() {
        let (source, index, identity) = example(false);
        let Index::Table(table) = &index else { unreachable!() };
        let folder = folder("early");
        let places = [folder.join("index")];
        let mut shorter = TableBuilder::extend(table.clone());
        shorter.pop();
        let shorter = Index::Table(shorter.finish());
        save(&places, &shorter, &identity, "XTC", 9, &write).unwrap();
        let loaded = load(&places, &source, "XTC", 9, &agrees).unwrap();
        assert!(matches!(loaded, LoadOutcome::Rejected(_)), "heads of other frames");
        let alike = FileIdentity::from_source(&source, source.len().unwrap(), None, Some(&shorter), 16).unwrap();
        save(&places, &shorter, &alike, "XTC", 9, &write).unwrap();
        let loaded = load(&places, &source, "XTC", 9, &agrees).unwrap();
        assert!(matches!(loaded, LoadOutcome::Grew(found) if found == shorter));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_grown_file_is_distinguished_from_a_changed_one() {
        let (source, index, identity) = example(false);
        let folder = folder("grown");
        let places = [folder.join("index")];
        save(&places, &index, &identity, "XTC", 9, &write).unwrap();
        let mut bytes = vec![0; source.len().unwrap() as usize];
        source.read_exact_at(0, &mut bytes).unwrap();
        let mut grown = bytes.clone();
        grown.extend_from_slice(&[1; 500]);
        let grown = MemorySource::new("md.xtc", grown);
        assert!(matches!(load(&places, &grown, "XTC", 9, &agrees).unwrap(), LoadOutcome::Grew(same) if same == index));
        bytes[10] ^= 1;
        let changed = MemorySource::new("md.xtc", bytes.clone());
        assert!(matches!(load(&places, &changed, "XTC", 9, &agrees).unwrap(), LoadOutcome::Rejected(_)));
        let shorter = MemorySource::new("md.xtc", &bytes[..bytes.len() - 10_000]);
        assert!(matches!(load(&places, &shorter, "XTC", 9, &agrees).unwrap(), LoadOutcome::Rejected(_)));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_damaged_index_is_never_used() {
        let (_, index, identity) = example(false);
        let Index::Table(table) = &index else { unreachable!() };
        let bytes = encode(table, &identity, "XTC", 9);
        assert!(decode(&bytes, "XTC", 9).is_ok());
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len], "XTC", 9).is_err(), "cut at {len}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(decode(&damaged, "XTC", 9).is_err(), "flipped at {at}");
        }
    }

    #[test]
    fn an_unwritable_folder_leads_to_the_next_place() {
        let (source, index, identity) = example(false);
        let folder = folder("cache");
        let blocked = folder.join("a-file");
        fs::write(&blocked, b"").unwrap();
        let places = [blocked.join("index"), folder.join("cache").join("index")];
        let (place, _) = save(&places, &index, &identity, "XTC", 9, &write).unwrap();
        assert_eq!(place, places[1]);
        assert!(matches!(load(&places, &source, "XTC", 9, &agrees).unwrap(), LoadOutcome::Fits(..)));
        let error = save(&places[..1], &index, &identity, "XTC", 9, &write).unwrap_err();
        assert_eq!(error.path(), Some(&*places[0]));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn files_whose_names_differ_in_bytes_that_are_no_utf8_have_indices_of_their_own() {
        use std::os::unix::ffi::OsStringExt;
        let name = |byte: u8| PathBuf::from(OsString::from_vec(vec![b'm', byte, b'.', b'x']));
        assert_ne!(places(&name(0xfe))[0].file_name(), places(&name(0xff))[0].file_name());
    }
}
