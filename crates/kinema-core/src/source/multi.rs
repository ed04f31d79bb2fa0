//! Several files as one source, for virtual data sets of HDF5: the upper bits of a position are the number of the file.
//!
//! Files are opened by the caller when a read touches them; `len` is that of the first.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::pool::locked;
use super::{Extent, FileStatus, Source};
use crate::error::Result;

/// Positions below this are in the first file; the bits above are the number of the file.
const FILE_SHIFT: u32 = 48;

type Open = dyn Fn(u32) -> Result<Arc<dyn Source>> + Send + Sync;

/// Files whose bytes are addressed by [`MultiFileSource::address`].
pub struct MultiFileSource {
    first: Arc<dyn Source>,
    other: Box<Open>,
    /// The others that were read.
    touched: Mutex<BTreeMap<u32, Arc<dyn Source>>>,
}

impl MultiFileSource {
    /// No file may be as large as this.
    pub const LARGEST: u64 = 1 << FILE_SHIFT;
    /// Most files that can be addressed.
    pub const MOST_FILES: u32 = 1 << 15;

    /// The file itself, and how the others are opened, which count from 1.
    pub fn new(first: Arc<dyn Source>, other: Box<Open>) -> Self {
        Self { first, other, touched: Mutex::default() }
    }

    /// The others that were read, by their numbers.
    pub fn touched(&self) -> Vec<(u32, Arc<dyn Source>)> {
        locked(&self.touched).iter().map(|(file, source)| (*file, source.clone())).collect()
    }

    /// The position of a byte of a file.
    pub fn address(file: u32, offset: u64) -> u64 {
        u64::from(file) << FILE_SHIFT | offset
    }
}

impl Source for MultiFileSource {
    fn path(&self) -> &Path {
        self.first.path()
    }

    fn len(&self) -> Result<u64> {
        self.first.len()
    }

    fn check(&self, extent: Extent) -> Result<()> {
        let (file, offset) = ((extent.offset >> FILE_SHIFT) as u32, extent.offset & (Self::LARGEST - 1));
        let extent = Extent { offset, ..extent };
        if file == 0 { self.first.check(extent) } else { (self.other)(file)?.check(extent) }
    }

    fn status(&self) -> Result<Option<FileStatus>> {
        self.first.status()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match ((offset >> FILE_SHIFT) as u32, offset & (Self::LARGEST - 1)) {
            (0, offset) => self.first.read_exact_at(offset, buffer),
            (file, offset) => {
                let source = (self.other)(file)?;
                locked(&self.touched).entry(file).or_insert_with(|| source.clone());
                source.read_exact_at(offset, buffer)
            }
        }
    }
}
