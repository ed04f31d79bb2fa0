//! How a trajectory is opened. It opens nothing.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Overlap, StatedTimes, StatedUnits};
use crate::format::{Format, ReadStructure};
use crate::index::store::WriteFile;
use crate::named::Named;
use crate::source::{Files, OpenSource};

/// Treatment of an incomplete last frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTruncated {
    /// Refuse the file.
    Error,
    /// Use the complete frames and say so.
    Drop,
}

impl Named for OnTruncated {
    const OPTION: &'static str = "on_truncated";
    const ALL: &'static [(&'static str, Self)] = &[("error", Self::Error), ("drop", Self::Drop)];
}

/// Values of a field in frames that lack it, in formats whose frames say which fields they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// An error that names the frame.
    Error,
    /// NaN, marked as absent.
    Nan,
    /// The values of the last earlier frame that has it; before the first such frame NaN, marked as absent.
    Hold,
}

impl Named for Absent {
    const OPTION: &'static str = "absent";
    const ALL: &'static [(&'static str, Self)] = &[("error", Self::Error), ("nan", Self::Nan), ("hold", Self::Hold)];
}

/// Origin and destination of the index of a file that needs a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexPolicy {
    /// Load the stored index if it fits, extend it if the file has grown; otherwise build and store it.
    Auto,
    /// Build it, store nothing.
    Memory,
    /// Build it whatever is stored, and store it.
    Rebuild,
}

impl Named for IndexPolicy {
    const OPTION: &'static str = "index";
    const ALL: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("memory", Self::Memory), ("rebuild", Self::Rebuild)];
}

/// How a trajectory is opened.
#[derive(Clone)]
pub struct OpenOptions {
    /// The format, or `None` to detect it from the first bytes.
    pub format: Option<&'static dyn Format>,
    /// Which frames count where parts overlap.
    pub overlap: Overlap,
    /// Treatment of an incomplete last frame.
    pub on_truncated: OnTruncated,
    /// Values of fields in frames that lack them.
    pub absent: Absent,
    /// Origin of indices.
    pub index: IndexPolicy,
    /// Units that replace the units of the formats.
    pub units: StatedUnits,
    /// Times that replace the times of the files.
    pub times: StatedTimes,
    /// How many files may be open between reads.
    pub max_open_files: usize,
    /// Reads the structure of HDF5 files.
    pub structure: Option<Arc<dyn ReadStructure>>,
    /// Writes indices; without it, no index is stored.
    pub write_index: Option<Arc<WriteFile>>,
    /// Opens the files.
    pub sources: Arc<dyn OpenSource>,
    /// The catalogue that a snapshot is kept in, for errors.
    pub catalogue: Option<PathBuf>,
    /// Whether the files are being written: bytes that may still be filled are not damage, and nothing is stored about
    /// the files.
    pub growing: bool,
    /// Whether the files stand still, which means that they were not changed for long, though they may be written
    /// again.
    pub settled: bool,
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
            on_truncated: OnTruncated::Drop,
            absent: Absent::Error,
            index: IndexPolicy::Auto,
            units: StatedUnits::default(),
            times: StatedTimes::default(),
            max_open_files: 64,
            structure: None,
            write_index: None,
            sources: Arc::new(Files),
            catalogue: None,
            growing: false,
            settled: false,
        }
    }
}
