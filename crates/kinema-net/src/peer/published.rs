//! The published files of a node: `FOLDER/ID/NAME`, requested as `ID/NAME`.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use kinema_core::source::{FileSource, Source};
use kinema_core::{Error, ErrorKind, Result};

use super::Serve;

const ID: usize = 32;
/// Most bytes of a file's name, as file systems have it.
const LONGEST_FILE: usize = 255;

/// The published files of one folder.
#[derive(Debug, Clone)]
pub struct PublishedFiles {
    folder: PathBuf,
}

impl PublishedFiles {
    /// The files of a folder, which need not exist yet.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Path of a name; `None` if it does not have the form of a name here.
    fn place(&self, name: &[u8]) -> Option<PathBuf> {
        let (id, file) = (name.get(..ID)?, name.get(ID + 1..)?);
        let is_id = id.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_file = !file.is_empty() && !file.contains(&b'/') && !file.contains(&0) && file != b"." && file != b"..";
        let fits = is_id && is_file && name[ID] == b'/' && file.len() <= LONGEST_FILE;
        fits.then(|| self.folder.join(std::ffi::OsStr::from_bytes(id)).join(std::ffi::OsStr::from_bytes(file)))
    }
}

impl Serve for PublishedFiles {
    fn open(&self, name: &[u8]) -> Result<Option<Arc<dyn Source>>> {
        let Some(place) = self.place(name) else {
            return Err(Error::new(ErrorKind::InvalidArgument, "this is not the name of a published file"));
        };
        // anything else but a file leads somewhere else, or never ends
        match place.symlink_metadata() {
            Ok(found) if !found.is_file() => {
                return Err(Error::new(ErrorKind::InvalidArgument, "this is not a regular file"));
            }
            _ => {}
        }
        match FileSource::open(&place) {
            Ok(file) => Ok(Some(Arc::new(file))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let files = PublishedFiles::new("/data/published".into());
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(files.place(format!("{id}/a.xtc").as_bytes()), Some(format!("/data/published/{id}/a.xtc").into()));
        for wrong in ["", "/etc/passwd", &id[..31], id, &format!("{id}/"), &format!("{id}/.."), &format!("{id}/a/b")] {
            assert_eq!(files.place(wrong.as_bytes()), None, "{wrong}");
        }
        let long = format!("{id}/{}", "x".repeat(LONGEST_FILE + 1));
        for wrong in [format!("{id}a.xtc"), format!("{id}/a\0b"), format!("../{}/x", &id[3..]), long] {
            assert_eq!(files.place(wrong.as_bytes()), None, "{wrong}");
            assert!(files.open(wrong.as_bytes()).is_err());
        }
        assert!(files.open(format!("{id}/a.xtc").as_bytes()).unwrap().is_none());
    }
}
