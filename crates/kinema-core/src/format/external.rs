//! Formats that another library reads, frame by frame: files in which no format of this crate is found.
//!
//! Which library, and which formats it knows, is Python's business ([`ReadStructure::open_other`]).

use std::sync::Arc;

use super::{Decoder, Format, FormatInfo, ReadStructure};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{Fields, Scales, StatedUnits};
use crate::source::Source;

static INFO: FormatInfo = FormatInfo {
    name: "MDAnalysis",
    extensions: &[],
    file_names: &[],
    description: "any other format, read through MDAnalysis",
    reads: true,
    writes: false,
    encodes: false,
    places_atoms: false,
    fields: Fields::ALL,
    length_unit: "as MDAnalysis gives it",
    time_unit: "as MDAnalysis gives it",
    scales: Scales::NATIVE,
    reference: "MDAnalysis, doi 10.25080/Majora-629e541a-00e",
};

/// The format of files that another library reads.
pub struct External;

impl Format for External {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    /// Never: names of files decide, when no other format fits.
    fn sniff(&self, _: &[u8]) -> bool {
        false
    }

    fn is_external(&self) -> bool {
        true
    }

    fn open(&self, _: &dyn Source) -> Result<Arc<dyn Decoder>> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "files of other formats are read by a library that is not available here",
        ))
    }

    fn open_with(
        &self,
        source: &dyn Source,
        structure: Option<&dyn ReadStructure>,
        _: &StatedUnits,
    ) -> Result<Arc<dyn Decoder>> {
        let Some(structure) = structure else { return self.open(source) };
        let unknown = || Error::new(ErrorKind::Unsupported, "not a format that MDAnalysis reads, by its name");
        structure.open_other(source.path())?.ok_or_else(unknown)
    }
}
