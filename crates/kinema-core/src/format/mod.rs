//! Trajectory formats: the interface of a format, and the registry of all formats.
//!
//! A format knows sources and frames; it knows neither threads nor selections of frames, and no other format.

mod cells;
pub mod dcd;
pub mod decoder;
pub mod dlpoly;
pub mod encoder;
pub mod external;
mod frame_layout;
pub mod g96;
pub mod h5md;
mod labels;
mod lines;
pub mod made;
pub mod netcdf;
mod numbers;
mod planes;
mod registry;
mod scan;
pub mod trr;
pub mod xtc;

use std::path::Path;
use std::sync::Arc;

pub use self::decoder::{
    Arrangement, ChunkedDecoder, Decoded, Decoder, Facts, FrameCoupling, Header, Request, Scan, ScanOptions, Scratch,
    Segment, Wanted,
};
pub(crate) use self::encoder::first_lost;
pub use self::encoder::{Encoder, Making, Marker, Placing, Record};
pub(crate) use self::frame_layout::no_planes;
pub use self::frame_layout::{AtomNumbers, AtomPlane, FrameLayout, SomeAtoms};
pub use self::labels::AtomLabels;
pub use self::registry::{detect, find_by_file_name, find_by_head, find_by_name};
pub use self::scan::{FrameStamp, FrameStamps, HeaderScan, ReadStamp, UniformFrames};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{Fields, Scales, StatedUnits};
use crate::index::Index;
use crate::source::Source;

/// The one list of formats: documentation, `kinema formats` and error messages are made from it.
pub static FORMATS: &[&dyn Format] =
    &[&xtc::Xtc, &trr::Trr, &netcdf::Netcdf, &dcd::Dcd, &h5md::H5md, &dlpoly::History, &dlpoly::Config, &g96::G96];

/// Files in which no format of the list is found: another library may read them, slowly.
pub static EXTERNAL: &dyn Format = &external::External;

/// Files that stand for positions in memory, which only Kinema's own experiments write. They are opened if the caller
/// names the format: the head of a file from elsewhere must not decide how much memory is taken.
pub static MADE: &dyn Format = &made::Made;

/// Facts about a format, as data.
#[derive(Debug, Clone, Copy)]
pub struct FormatInfo {
    /// Name, as in messages: "XTC".
    pub name: &'static str,
    /// File name endings without the dot, lower case.
    pub extensions: &'static [&'static str],
    /// Names that files of this format have without an ending.
    pub file_names: &'static [&'static str],
    /// Description of the format, in one line.
    pub description: &'static str,
    /// Whether Kinema reads it.
    pub reads: bool,
    /// Whether Kinema writes it.
    pub writes: bool,
    /// Whether [`Format::encoder`] gives an encoder.
    pub encodes: bool,
    /// Whether each atom has a fixed place in a record: [`Encoder::frame_layout`].
    pub places_atoms: bool,
    /// Fields that a file of this format may hold.
    pub fields: Fields,
    /// The file's own unit of length.
    pub length_unit: &'static str,
    /// The file's own unit of time.
    pub time_unit: &'static str,
    /// Factors from the file's units to angstrom and ps.
    pub scales: Scales,
    /// Where the format is specified.
    pub reference: &'static str,
}

/// A trajectory format.
pub trait Format: Send + Sync {
    /// Its facts.
    fn info(&self) -> &'static FormatInfo;

    /// Whether a file that begins with `head` (up to [`HEAD_BYTES`]) is of this format.
    fn sniff(&self, head: &[u8]) -> bool;

    /// Whether another library reads the files of this format, frame by frame.
    fn is_external(&self) -> bool {
        false
    }

    /// Whether another library may read files that [`Format::open`] refuses as `Unsupported`: a variant that begins alike.
    fn has_foreign_variants(&self) -> bool {
        false
    }

    /// Reads the file's header (or that of frame 0) and nothing more.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt`, or `Unsupported` for a variant that is not read.
    fn open(&self, source: &dyn Source) -> Result<Arc<dyn Decoder>>;

    /// The same for a format whose structure is read by a library outside this crate, or whose files are understood by the
    /// units that the user states; `open` for all others.
    ///
    /// # Errors
    /// As [`Format::open`].
    fn open_with(
        &self,
        source: &dyn Source,
        structure: Option<&dyn ReadStructure>,
        stated: &StatedUnits,
    ) -> Result<Arc<dyn Decoder>> {
        let _ = (structure, stated);
        self.open(source)
    }

    /// The encoder that makes files of this format.
    ///
    /// # Errors
    /// `Unsupported` if Kinema does not write the format here; `InvalidArgument` for data that such a file cannot hold.
    fn encoder(&self, making: &Making) -> Result<Box<dyn Encoder>> {
        let _ = making;
        Err(self.not_made())
    }

    /// The encoder that extends a file of this format, which has frames: new records are like its last records, its
    /// head stays. [`Making::open_ended`] holds.
    ///
    /// # Errors
    /// `Unsupported` for a layout that is read but not written; `InvalidArgument` if the request differs from the file;
    /// errors of the source.
    fn resume(&self, source: &dyn Source, index: &Index, making: &Making) -> Result<Box<dyn Encoder>> {
        let _ = (source, index, making);
        Err(self.not_made())
    }

    /// The error of a format without an encoder.
    fn not_made(&self) -> Error {
        let known = FORMATS.iter().map(|format| format.info()).filter(|info| info.encodes).map(|info| info.name);
        let known: Vec<&str> = known.collect();
        let what = format!("files of this format are not made of frames here, expected {}", known.join(" or "));
        Error::new(ErrorKind::Unsupported, format!("{what}, found {}", self.info().name))
    }
}

impl dyn Format + '_ {
    /// Whether both are the same format.
    pub fn is_same(&self, other: &dyn Format) -> bool {
        self.info().name == other.info().name
    }
}

/// Bytes of a file's head that [`Format::sniff`] is given: HDF5 may have a user block before its signature.
pub const HEAD_BYTES: u64 = 2056;

/// Reads the structure of files through other libraries: of HDF5 files through libhdf5, which gives a decoder of their
/// bytes.
pub trait ReadStructure: Send + Sync {
    /// Opens an HDF5 file.
    ///
    /// # Errors
    /// Whatever the library meets.
    fn open(&self, path: &Path) -> Result<Arc<dyn Decoder>>;

    /// Opens a file in which no format is found: a decoder whose frames another library reads; `None` if that library
    /// does not know the file either.
    ///
    /// # Errors
    /// Whatever the library meets.
    fn open_other(&self, path: &Path) -> Result<Option<Arc<dyn Decoder>>> {
        let _ = path;
        Ok(None)
    }
}

/// Memory that a worker lends to encoders, so that they allocate nothing per frame.
#[derive(Debug, Default)]
pub struct EncodeScratch {
    /// Bytes.
    pub bytes: Vec<u8>,
    /// A triple of integers for each atom.
    pub integers: Vec<[i32; 3]>,
    /// The same in another order.
    pub ordered: Vec<[i32; 3]>,
    /// Scratch for XTC frames.
    pub xtc: xtc::encode::EncodeScratch,
}
