//! The file of a journal: consecutive whole lines, or gzip members of about a mebibyte of lines.

use std::fs::{File, OpenOptions};
use std::io::{Error, Result};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use libdeflater::{CompressionLvl, Compressor};

/// Bytes of lines in a gzip member.
const MEMBER: usize = 1 << 20;
/// Most file names that are tried: other processes with the same number on hosts of the same name (containers), or
/// earlier traces, may have taken some.
const MOST_FILES: u32 = 10_000;

/// An open trace file.
pub(super) struct Output {
    file: File,
    pub(super) path: PathBuf,
    /// Offset of the end of the last line, or of the last member.
    end: u64,
    gzip: Option<Gzip>,
}

struct Gzip {
    compressor: Compressor,
    lines: Vec<u8>,
}

impl Output {
    /// Creates the first of `stem.pfw`, `stem-2.pfw`, ... that does not exist; never opens an existing file or a link.
    pub(super) fn create(folder: &Path, stem: &str, compress: bool) -> Result<Self> {
        let suffix = if compress { "pfw.gz" } else { "pfw" };
        let options = OpenOptions::new().write(true).create_new(true).custom_flags(libc::O_NOFOLLOW).clone();
        let mut number = 1;
        let (file, path) = loop {
            let name = if number == 1 { format!("{stem}.{suffix}") } else { format!("{stem}-{number}.{suffix}") };
            let path = folder.join(name);
            match options.open(&path) {
                Ok(file) => break (file, path),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < MOST_FILES => number += 1,
                Err(error) => return Err(error),
            }
        };
        let gzip = compress.then(|| Gzip { compressor: Compressor::new(CompressionLvl::fastest()), lines: Vec::new() });
        Ok(Self { file, path, end: 0, gzip })
    }

    /// Adds whole lines; of a compressed file they may wait in memory.
    pub(super) fn add(&mut self, lines: &[u8]) -> Result<()> {
        match &mut self.gzip {
            None => self.write(lines),
            Some(gzip) => {
                gzip.lines.extend_from_slice(lines);
                if gzip.lines.len() >= MEMBER { self.flush() } else { Ok(()) }
            }
        }
    }

    /// Whether lines wait in memory.
    pub(super) fn waits(&self) -> bool {
        self.gzip.as_ref().is_some_and(|gzip| !gzip.lines.is_empty())
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self) -> Result<()> {
        let Some(gzip) = self.gzip.as_mut().filter(|gzip| !gzip.lines.is_empty()) else { return Ok(()) };
        let mut member = vec![0; gzip.compressor.gzip_compress_bound(gzip.lines.len())];
        let len = gzip.compressor.gzip_compress(&gzip.lines, &mut member);
        let len = len.map_err(|error| Error::other(error.to_string()))?;
        gzip.lines.clear();
        self.write(&member[..len])
    }

    /// After an error, the file ends at its former end.
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self.file.write_all_at(bytes, self.end) {
            Ok(()) => {
                self.end += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                // what cannot be cut is a line that is not whole, which readers leave out
                let _ = self.file.set_len(self.end);
                Err(error)
            }
        }
    }
}
