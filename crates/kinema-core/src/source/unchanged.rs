//! Whether a file that is open is still what it was: asked after each read of it, by one `fstat` and one `stat`.

use std::sync::{Arc, Mutex};

use super::pool::locked;
use super::{Change, FileStatus, Source};
use crate::error::{Error, ErrorKind, Result};

/// A file as it was when it was opened, or when it was last found unchanged.
///
/// Readers check after the read: values that came before a change was seen are from the file that was opened.
#[derive(Debug, Default)]
pub struct Unchanged(Mutex<Option<Known>>);

/// A file as it was first, and as it was when it was last found to be the same.
#[derive(Debug, Clone, Copy)]
struct Known {
    first: FileStatus,
    last: FileStatus,
}

/// Verdict on a file that has grown: `None` if what is read of it is unchanged, else the reason why not.
pub type Grown<'a> = dyn Fn() -> Result<Option<&'static str>> + 'a;

impl Unchanged {
    /// Since this status; `None`: since the first look.
    pub fn from_status(status: Option<FileStatus>) -> Self {
        let unchanged = Self::default();
        unchanged.begin(status);
        unchanged
    }

    /// Since this status, unless one is known.
    pub fn begin(&self, status: Option<FileStatus>) {
        let mut known = locked(&self.0);
        *known = known.or(status.map(|status| Known { first: status, last: status }));
    }

    /// Checks that neither the open file nor the file that has its name now has changed. A file that was removed or
    /// moved counts as unchanged. `grown` is called if the file is longer than at first, whenever it has changed.
    ///
    /// # Errors
    /// `Corrupt` with path and difference; errors of the source and of `grown`.
    pub fn check(&self, source: &dyn Source, grown: &Grown<'_>) -> Result<()> {
        // before the looks below: no thread compares with what another has seen later
        let known = *locked(&self.0);
        let open = if source.is_open() { source.status()? } else { None };
        if source.is_open() && open.is_none() {
            // no file
            return Ok(());
        }
        let named = match FileStatus::from_path(source.path()) {
            Ok(named) => Some(named),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let Some(newest) = named.or(open) else { return Ok(()) };
        let then = known.unwrap_or(Known { first: open.unwrap_or(newest), last: open.unwrap_or(newest) });
        // the name first: a system that puts another file there changes the times of the open one before its links
        for now in named.into_iter().chain(open) {
            let how = match then.change_to(&now, named.is_none()) {
                Change::None => continue,
                Change::Changed(how) => how,
                Change::Grown => match grown()? {
                    None => continue,
                    Some(why) => {
                        let (expected, found) = (then.first.size, now.size);
                        format!("it is longer, expected {expected} bytes, found {found}, and {why}")
                    }
                },
            };
            return Err(changed(&how).with_path(source.path()));
        }
        let mut known = locked(&self.0);
        if known.is_none_or(|known| known.last.changed <= newest.changed) {
            *known = Some(Known { last: newest, ..then });
        }
        Ok(())
    }
}

impl Known {
    fn change_to(&self, now: &FileStatus, moved: bool) -> Change {
        match self.last.change_to(now, moved) {
            // a writer that adds to a file may change it in place as well: counts, structure
            Change::Changed(_) if now.inode == self.first.inode && now.size > self.first.size => Change::Grown,
            change => change,
        }
    }
}

/// Files of which none may change while they are read: archives, whose samples are counted once.
pub struct UnchangedFiles(Vec<(Arc<dyn Source>, Unchanged)>);

impl UnchangedFiles {
    /// These files, since these statuses.
    pub fn new(files: impl IntoIterator<Item = (Arc<dyn Source>, FileStatus)>) -> Self {
        Self(files.into_iter().map(|(source, status)| (source, Unchanged::from_status(Some(status)))).collect())
    }

    /// As [`Unchanged::check`], for some of the files by their numbers.
    ///
    /// # Errors
    /// As [`Unchanged::check`]; `OutOfRange` if there is no file of a number.
    pub fn check(&self, files: impl IntoIterator<Item = usize>) -> Result<()> {
        for file in files {
            let Some((source, known)) = self.0.get(file) else {
                let what = format!("there is no file {file}, expected one below {}", self.0.len());
                return Err(Error::new(ErrorKind::OutOfRange, what));
            };
            known.check(&**source, &|| Ok(Some("what it has was counted before")))?;
        }
        Ok(())
    }
}

/// The error for a file that differs from the one that was opened.
pub fn changed(how: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the file has changed since it was opened: {how}"))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::source::FileSource;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("kinema-unchanged-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// The error after a file was read and then changed by `change`; empty if the file counts as unchanged.
    fn said(name: &str, is_grown: bool, change: impl FnOnce(&Path)) -> String {
        let folder = folder(name);
        let path = folder.join("file");
        fs::write(&path, b"abcdefgh").unwrap();
        let source = FileSource::open(&path).unwrap();
        let known = Unchanged::from_status(FileStatus::settled_of(&source).unwrap());
        let grown = || Ok((!is_grown).then_some("nobody adds to it"));
        known.check(&source, &grown).unwrap();
        change(&path);
        let found = known.check(&source, &grown);
        // an error is repeated
        assert_eq!(known.check(&source, &grown).is_ok(), found.is_ok());
        fs::remove_dir_all(&folder).unwrap();
        found.err().map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn changes_of_content_are_errors_that_name_the_path_and_the_difference() {
        let in_place = said("place", false, |path| fs::write(path, b"ABCDEFGH").unwrap());
        assert!(
            in_place.contains("file: the file has changed since it was opened: it was changed in place"),
            "{in_place}"
        );
        let replaced = said("replaced", false, |path| {
            let other = path.with_extension("new");
            fs::write(&other, b"abcdefgh").unwrap();
            fs::rename(&other, path).unwrap();
        });
        assert!(replaced.contains("another file has its name, expected inode"), "{replaced}");
        let cut = said("cut", false, |path| fs::write(path, b"abc").unwrap());
        assert!(cut.contains("it is shorter, expected 8 bytes, found 3"), "{cut}");
        let add = |path: &Path| OpenOptions::new().append(true).open(path).unwrap().write_all(b"i").unwrap();
        let longer = said("longer", false, add);
        assert!(longer.contains("it is longer, expected 8 bytes, found 9, and nobody adds to it"), "{longer}");
        assert_eq!(said("grown", true, add), "");
        // a file that grows may be changed in place as well
        let both = |path: &Path| {
            add(path);
            OpenOptions::new().write(true).open(path).unwrap().write_all(b"x").unwrap();
        };
        assert_eq!(said("both", true, both), "");
        let restored = said("restored", false, |path| {
            let before = fs::metadata(path).unwrap().modified().unwrap();
            fs::write(path, b"ABCDEFGH").unwrap();
            OpenOptions::new().write(true).open(path).unwrap().set_modified(before).unwrap();
        });
        assert!(restored.contains("time of change"), "{restored}");
        let touched = said("touched", false, |path| {
            let time = SystemTime::now() - Duration::from_secs(60);
            OpenOptions::new().write(true).open(path).unwrap().set_modified(time).unwrap();
        });
        assert!(touched.contains("time of modification"), "{touched}");
    }

    #[test]
    fn permissions_and_names_are_no_content() {
        assert_eq!(
            said("mode", false, |path| fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap()),
            ""
        );
        assert_eq!(said("link", false, |path| fs::hard_link(path, path.with_extension("link")).unwrap()), "");
        assert_eq!(said("removed", false, |path| fs::remove_file(path).unwrap()), "");
        assert_eq!(said("moved", false, |path| fs::rename(path, path.with_extension("moved")).unwrap()), "");
    }
}
