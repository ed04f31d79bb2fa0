//! Formats by name, and the format of a file by its first bytes.

use std::path::Path;

use super::{EXTERNAL, FORMATS, Format, HEAD_BYTES, MADE};
use crate::error::{Error, ErrorKind, Result};
use crate::source::Source;

/// The format of that name (any case) or file name ending.
pub fn find_by_name(name: &str) -> Option<&'static dyn Format> {
    let name = name.trim_start_matches('.').to_ascii_lowercase();
    FORMATS.iter().copied().chain([EXTERNAL, MADE]).find(|format| {
        let info = format.info();
        info.name.eq_ignore_ascii_case(&name) || info.extensions.contains(&name.as_str())
    })
}

/// The format of an output of that name: by its ending, or by the whole name if it has no ending.
pub fn find_by_file_name(path: &Path) -> Option<&'static dyn Format> {
    let name = path.file_name()?.to_str()?;
    let named = || FORMATS.iter().copied().find(|format| format.info().file_names.contains(&name));
    path.extension().map_or_else(named, |ending| ending.to_str().and_then(find_by_name))
}

/// The format of a file that begins so, up to [`HEAD_BYTES`].
pub fn find_by_head(head: &[u8]) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.sniff(head))
}

/// Finds the format of a source by its first bytes; the ending of its name serves only for the message.
///
/// # Errors
/// `Corrupt` or `Unsupported` that names the formats Kinema reads.
pub fn detect(source: &dyn Source) -> Result<&'static dyn Format> {
    let len = source.len()?;
    if len == 0 {
        return Err(Error::new(ErrorKind::Truncated, "the file is empty").with_path(source.path()));
    }
    let mut head = vec![0; len.min(HEAD_BYTES) as usize];
    source.read_exact_at(0, &mut head)?;
    if let Some(format) = find_by_head(&head) {
        return Ok(format);
    }
    let known: Vec<&str> = FORMATS.iter().map(|format| format.info().name).collect();
    let claimed = find_by_file_name(source.path());
    Err(match claimed {
        Some(format) => Error::new(
            ErrorKind::Corrupt,
            format!("not {} in spite of its name: the first bytes are {}", format.info().name, show_bytes(&head)),
        ),
        None => Error::new(
            ErrorKind::Unsupported,
            format!("not a format that Kinema reads ({}): the first bytes are {}", known.join(", "), show_bytes(&head)),
        ),
    }
    .with_path(source.path()))
}

fn show_bytes(head: &[u8]) -> String {
    let head = &head[..head.len().min(16)];
    format!("\"{}\"", head.escape_ascii())
}
