//! The folder of a cache: checked before it is used, and the paths of its files.

use std::fs::{DirBuilder, Metadata};
use std::io::ErrorKind as IoErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use kinema_core::{Error, ErrorKind, Result};

use super::key::BlockKey;

/// File systems of other machines, by the magic number that `statfs` gives.
const NETWORK: &[(u64, &str)] = &[
    (0x6969, "NFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x1983_0326, "BeeGFS"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x2003_0528, "OrangeFS"),
    (0xaad7_aaea, "PanFS"),
    (0x0102_1997, "9P"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
];
const FUSE: u64 = 0x6573_5546;

/// Files that are locked; two blocks of one lock only wait for each other.
const STRIPES: u64 = 1024;

/// The folders of a cache; the files in them are of this version.
#[derive(Debug, Clone)]
pub(super) struct Root {
    /// As it was given, without symbolic links.
    pub path: PathBuf,
    pub blocks: PathBuf,
    pub locks: PathBuf,
    pub temporary: PathBuf,
    pub orders: PathBuf,
}

impl Root {
    /// Creates the folder, for its user alone, if it does not exist; otherwise checks it.
    pub(super) fn open(given: &Path, fuse: bool) -> Result<Self> {
        let make = |path: &Path| {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(|error| Error::io("cannot make the folder of the node cache", &error).with_path(path))
        };
        match given.symlink_metadata() {
            Err(error) if error.kind() == IoErrorKind::NotFound => make(given)?,
            _ => {}
        }
        // for a symbolic link, its target is checked
        let path = given
            .canonicalize()
            .map_err(|error| Error::io("cannot open the folder of the node cache", &error).with_path(given))?;
        check_unnamed(&path, fuse).map_err(|error| error.with_path(given))?;
        let inside = path.join("kinema-cache-1");
        let root = Self {
            blocks: inside.join("blocks"),
            locks: inside.join("locks"),
            temporary: inside.join("temporary"),
            orders: inside.join("orders"),
            path,
        };
        for folder in [&root.blocks, &root.locks, &root.temporary, &root.orders] {
            make(folder)?;
        }
        let found = inside.symlink_metadata().map_err(|error| Error::io("cannot stat the folder", &error))?;
        owned(&found).map_err(|what| Error::new(ErrorKind::InvalidArgument, what).with_path(&inside))?;
        Ok(root)
    }

    pub(super) fn folder_of(&self, key: BlockKey) -> PathBuf {
        self.blocks.join(key.file.text())
    }

    pub(super) fn block(&self, key: BlockKey) -> PathBuf {
        self.folder_of(key).join(format!("{:x}", key.number))
    }

    /// The lock for fetching a block.
    pub(super) fn lock_of(&self, key: BlockKey) -> PathBuf {
        self.locks.join(format!("{:03x}", key.spread() % STRIPES))
    }

    /// The same for a block that another node is asked for: a process that waits for another node holds none of the
    /// former.
    pub(super) fn lock_of_away(&self, key: BlockKey) -> PathBuf {
        self.locks.join(format!("away-{:03x}", key.spread() % STRIPES))
    }

    /// Path of the state that throttled sources share.
    pub(super) fn rate(&self) -> PathBuf {
        self.locks.join("rate")
    }

    /// The number of bytes that were fetched and not read.
    pub(super) fn unused(&self) -> PathBuf {
        self.locks.join("unused")
    }

    /// The lock for counting and freeing bytes; the file holds the number of bytes.
    pub(super) fn space(&self) -> PathBuf {
        self.locks.join("space")
    }
}

/// Checks that a folder can keep files of this node: the user's own, writable by nobody else, on a disk or in memory of
/// the node; with `fuse`, also on FUSE, whose location nobody can tell.
///
/// # Errors
/// `InvalidArgument` with the reason; `Io`.
pub fn check(path: &Path, fuse: bool) -> Result<()> {
    check_unnamed(path, fuse).map_err(|error| error.with_path(path))
}

/// The same; the error has no path, as the caller may know the path by another name.
fn check_unnamed(path: &Path, fuse: bool) -> Result<()> {
    let refused = |what| Error::new(ErrorKind::InvalidArgument, what);
    let found = path.metadata().map_err(|error| Error::io("cannot stat the folder of the node cache", &error))?;
    owned(&found).map_err(refused)?;
    let kind = kind_of(path).map_err(|error| Error::io("cannot ask for the file system of the node cache", &error))?;
    refusal(kind, fuse).map_or(Ok(()), |what| Err(refused(what)))
}

/// The reason why a file system cannot have a cache: its locks and times are not those of this node.
fn refusal(kind: u64, fuse: bool) -> Option<String> {
    const ADVICE: &str = "give a folder on a local disk, or in /dev/shm";
    if let Some((_, name)) = NETWORK.iter().find(|(magic, _)| *magic == kind) {
        return Some(format!(
            "a node cache must be on a disk or in memory of the node, and this folder is on {name}, a file system of \
             other machines; {ADVICE}"
        ));
    }
    (kind == FUSE && !fuse).then(|| {
        format!(
            "a node cache must be on a disk or in memory of the node, and this folder is on FUSE, which may be another \
             machine's; {ADVICE}, or say fuse=True if it is local"
        )
    })
}

fn owned(found: &Metadata) -> std::result::Result<(), String> {
    if !found.is_dir() {
        return Err("the node cache must be a folder".to_owned());
    }
    // SAFETY: the call takes nothing and cannot fail
    let user = unsafe { libc::geteuid() };
    if found.uid() != user {
        return Err(format!(
            "the folder of a node cache must be the user's own, expected owner {user}, found {}; give a folder that \
             does not exist yet",
            found.uid()
        ));
    }
    let mode = found.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(format!(
            "others may write into this folder, and into results by it, expected mode 700, found {mode:o}; chmod 700 it, \
             or give another"
        ));
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn kind_of(path: &Path) -> std::io::Result<u64> {
    let text = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let mut found = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the text ends with a zero byte, and `found` has room for the result
    if unsafe { libc::statfs(text.as_ptr(), found.as_mut_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: written by the call, and before that zeros, which are integers too
    let kind = unsafe { found.assume_init() }.f_type;
    // the number has 32 bits, and on some machines a sign
    Ok(kind as u64 & 0xffff_ffff)
}

#[cfg(not(target_os = "linux"))]
fn kind_of(_: &Path) -> std::io::Result<u64> {
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_other_machines_are_refused_by_name() {
        for (magic, name) in NETWORK {
            assert!(refusal(*magic, true).is_some_and(|what| what.contains(&format!("is on {name},"))));
        }
        assert!(refusal(FUSE, false).is_some_and(|what| what.contains("FUSE")) && refusal(FUSE, true).is_none());
        // ext4, tmpfs, XFS, overlay
        for local in [0xef53, 0x0102_1994, 0x5846_5342, 0x794c_7630] {
            assert!(refusal(local, false).is_none());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_is_asked_for_the_file_system() {
        assert_eq!(kind_of(Path::new("/proc")).unwrap(), 0x9fa0);
        assert!(kind_of(Path::new("/nowhere")).is_err());
    }
}
