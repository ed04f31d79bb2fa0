//! Decoders: how a format finds the frames of a file and decodes them; mirror image of its encoder.
//!
//! A decoder is told which frames, fields and atoms to decode; it starts no threads.

use std::ops::Range;
use std::path::PathBuf;

use super::scan::{self, HeaderScan, UniformFrames};
use crate::clock::Meter;
use crate::container::hdf5::filters::FilterScratch;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{BlockMut, Fields, MadePositions, Scales};
use crate::index::{ChunkedIndex, Index, TableIndex};
use crate::selection::AtomSelection;
use crate::source::{Extent, Source};

/// Contents of a file's header.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Number of atoms, the same in all frames.
    pub n_atoms: u32,
    /// Fields present in this file.
    pub fields: Fields,
    /// Free text that the file carries (DCD titles), for `kinema info`.
    pub remarks: Vec<String>,
    /// Variant in words, for `kinema info`: "CHARMM, big-endian, with unit cell".
    pub variant: String,
    /// Disagreements to report: "header says 0 frames, file holds 98".
    pub warnings: Vec<String>,
}

/// Facts of a file besides its [`Header`]: how to understand its numbers, and what others may do with it.
///
/// Plain data, constant while the file is open. [`Facts::PLAIN`] holds for a file of which nothing special is known; a
/// format states what differs.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The name of the format if it is one of several that the same storage holds (HDF5); `None`: the format that opened
    /// the file.
    pub stored_format: Option<String>,
    /// Factors to angstrom and ps, if files of this format differ in their units; `None`: the format's own factors.
    pub scales: Option<Scales>,
    /// Whether units that the user states are in `scales` already: the file was opened with them (HDF5, NetCDF).
    pub has_stated_units: bool,
    /// The unit, in ps, that the numbers of the file are taken to have, if its times are given in ps (DCD).
    pub time_unit: f64,
    /// Assumption about the times if the user states neither their unit nor the time between frames.
    pub assumption: Option<String>,
    /// For each of the vectors, by their number in blocks, the values that stand for numbers that were never written.
    pub fills: [Vec<f64>; 3],
    /// Vectors that the file has in numbers that float32 does not hold.
    pub wide_fields: Fields,
    /// Whether frames may lack fields of the file: `decode` marks them as absent, and the pipeline refuses such frames
    /// if the fields are needed.
    pub may_lack_fields: bool,
    /// Whether frames are found one after the other only, so that a second worker would begin at the front again.
    pub reads_forward: bool,
    /// Numbers to one unit of length that the first frame was rounded to, if the format rounds.
    pub precision: Option<f64>,
    /// Data of the file besides the fields that are read, in words: only records of the same format keep them.
    pub extras: Vec<&'static str>,
    /// Version of the layout of frames, if [`super::Encoder::recode`] of this format can make records of them with it.
    pub recoded_version: Option<i32>,
    /// Files besides the one that was opened; their bytes have addresses as [`crate::source::MultiFileSource`] has them.
    pub other_files: Vec<PathBuf>,
}

impl Facts {
    /// Units and format are those of [`super::FormatInfo`], vectors are float32 and in every frame, and nothing else is
    /// known.
    pub const PLAIN: Self = Self {
        stored_format: None,
        scales: None,
        has_stated_units: false,
        time_unit: 1.0,
        assumption: None,
        fills: [const { Vec::new() }; 3],
        wide_fields: Fields::NONE,
        may_lack_fields: false,
        reads_forward: false,
        precision: None,
        extras: Vec::new(),
        recoded_version: None,
        other_files: Vec::new(),
    };
}

impl Default for Facts {
    fn default() -> Self {
        Self::PLAIN
    }
}

/// Fields and atoms to decode from some frames.
#[derive(Debug, Clone)]
pub struct Request {
    /// Fields to decode; those that a file does not have are refused before this point.
    pub fields: Fields,
    /// Atoms to decode.
    pub atoms: AtomSelection,
    /// Factors to apply.
    pub scales: Scales,
}

/// One frame that is wanted, and the row of the block that it goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Frame number in the file.
    pub frame: u64,
    /// Row in the block.
    pub row: u32,
}

impl Wanted {
    /// Errors: `Internal` if an index of a file of this format does not have the frame.
    pub(super) fn check_indexed(self, index: &Index, format: &'static str) -> Result<()> {
        if self.frame < index.n_frames() {
            return Ok(());
        }
        let what = format!("frame {} is not in the index of {} frames", self.frame, index.n_frames());
        Err(Error::new(ErrorKind::Internal, what).with_format(format))
    }
}

/// The smallest run of bytes that decodes alone; it covers a box: field x frames x atoms x components.
///
/// An XTC frame, a run of atoms in one plane of a DCD frame, an HDF5 chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Which of the wanted frames it holds values of, as positions in the list of wanted frames.
    pub wanted: Range<u32>,
    /// Which atoms of the trajectory.
    pub atoms: Range<u32>,
    /// The part of a frame that it holds; the meaning of the number is the format's own (plane, data set, ...).
    pub part: u32,
    /// Bytes to read at first.
    pub extent: Extent,
    /// The whole segment if `extent` is a guessed prefix of it, else the same extent.
    pub whole: Extent,
}

/// The bytes of one segment, and what is wanted of them.
#[derive(Debug, Clone, Copy)]
pub struct SegmentBytes<'a> {
    /// The segment.
    pub segment: &'a Segment,
    /// Its bytes, or the first of them.
    pub bytes: &'a [u8],
    /// The frames for which the segments were made.
    pub wanted: &'a [Wanted],
    /// The fields and atoms for which they were made.
    pub request: &'a Request,
}

impl SegmentBytes<'_> {
    /// The first of the wanted frames that the segment holds values of.
    /// Errors: `Internal` if it is a segment of other frames.
    pub(super) fn first_wanted(&self, format: &'static str) -> Result<Wanted> {
        let found = self.wanted.get(self.segment.wanted.start as usize).copied();
        found.ok_or_else(|| {
            Error::new(ErrorKind::Internal, "the segment is not of the wanted frames").with_format(format)
        })
    }

    /// The outcome of decoding if there are only the first bytes of the segment, for formats that need all of them.
    pub(super) fn whole_needed(&self) -> Option<Decoded> {
        let len = self.segment.whole.len;
        ((self.bytes.len() as u64) < len).then_some(Decoded::NeedsPrefix(len))
    }
}

/// Outcome of [`Decoder::decode`] for the bytes that it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// The rows are written.
    Done,
    /// The guessed prefix was too short; read at least this many bytes (up to the whole segment) and call again.
    NeedsPrefix(u64),
}

/// Coupling of frames through shared segments: how many frames must be read or decoded as one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameCoupling {
    /// Frames that may share a segment; 1 if the bytes of a frame stand alone.
    pub frames: u64,
    /// Whether shared segments are decoded whole, however few of their frames are requested: compressed chunks.
    pub decoded_whole: bool,
    /// Bytes of working memory for the largest segment, encoded and decoded, beyond the memory for a frame.
    pub working_bytes: u64,
}

impl FrameCoupling {
    /// Frames that share nothing.
    pub const INDEPENDENT: Self = Self { frames: 1, decoded_whole: false, working_bytes: 0 };

    /// The bounds that hold for both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            frames: self.frames.max(other.frames),
            decoded_whole: self.decoded_whole || other.decoded_whole,
            working_bytes: self.working_bytes.max(other.working_bytes),
        }
    }
}

/// Buffers that a worker lends to decoders, so that they allocate nothing per frame.
#[derive(Default)]
pub struct Scratch {
    /// 32-bit integers.
    pub ints: Vec<i32>,
    /// 32-bit floats.
    pub floats: Vec<f32>,
    /// 64-bit floats.
    pub doubles: Vec<f64>,
    /// A decoded chunk.
    pub bytes: Vec<u8>,
    /// Between the filters of a chunk.
    pub filters: FilterScratch,
    /// Header of the frame that was decoded last, and its first byte in the file: of a frame in several segments the
    /// first has it.
    pub header: (u64, Vec<u8>),
    /// The first frame whose time was never written, among those decoded since the value was last taken.
    pub without_time: Option<u64>,
    /// Where the time of the worker goes; what another library reads in the middle of decoding is reading.
    pub meter: Meter,
}

impl Scratch {
    /// Bytes that it holds on to.
    pub fn capacity(&self) -> usize {
        4 * (self.ints.capacity() + self.floats.capacity())
            + 8 * self.doubles.capacity()
            + self.bytes.capacity()
            + self.filters.capacity()
    }
}

/// How a scan of a file is to be done.
pub struct ScanOptions<'a> {
    /// The index of the same file when it was shorter; the scan continues after its last frame.
    pub previous: Option<Index>,
    /// Threads to use.
    pub workers: usize,
    /// Called now and then with the bytes scanned so far; an error (cancelled) ends the scan.
    pub progress: &'a (dyn Fn(u64) -> Result<()> + Sync),
    /// Whether the scan steps over damage that hides frames, and lists it in [`Scan::damaged`]; else it is an error.
    pub skip_damaged: bool,
}

/// Result of a scan.
#[derive(Debug, Clone)]
pub struct Scan {
    /// The complete frames.
    pub index: Index,
    /// Where and why the frames end before the file does; `None` for a whole file.
    pub truncation: Option<Error>,
    /// Numbers of the frames that stand for damaged bytes, of however many frames: none of them can be decoded.
    pub damaged: Vec<u64>,
    /// The first frame whose time was never written: it is NaN in the index.
    pub without_time: Option<u64>,
}

/// How the frames of a file are arranged.
pub enum Arrangement<'a> {
    /// One after the other, each with a header that says how long it is: a scan goes from header to header.
    Headers(&'a dyn HeaderScan),
    /// Frames of one size: arithmetic finds them.
    Uniform(&'a dyn UniformFrames),
    /// In chunks that were listed when the file was opened.
    Listed {
        /// All frames.
        index: &'a ChunkedIndex,
        /// Where a frame begins that is not whole, after all others.
        cut_at: Option<u64>,
    },
}

/// Finds and decodes the frames of one file; no input or output in `segments` and `decode`.
pub trait Decoder: Send + Sync {
    /// Contents of the header.
    fn header(&self) -> &Header;

    /// Further facts of the file: the same at each call.
    fn facts(&self) -> &Facts {
        static PLAIN: Facts = Facts::PLAIN;
        &PLAIN
    }

    /// The same decoder if frames of the file share chunks (HDF5); `None` if the bytes of each frame stand alone.
    fn chunked(&self) -> Option<&dyn ChunkedDecoder> {
        None
    }

    /// The positions of all frames if they are in memory already; `None` if they are decoded.
    fn made_positions(&self) -> Option<&MadePositions> {
        None
    }

    /// How its frames are arranged, by which they are found.
    fn arrangement(&self) -> Arrangement<'_>;

    /// Whether the bytes of a frame at byte `offset` of a file that is being written are all there, as far as they show it:
    /// its head is sound, what ends it has come. Zeros at its end are the caller's business.
    fn is_filled(&self, frame: u64, offset: u64, bytes: &[u8]) -> bool {
        let _ = (frame, offset, bytes);
        true
    }

    /// For formats that fill files with such numbers: how many numbers in the first bytes of a frame mean "never
    /// written", and how many numbers there are.
    fn unwritten_numbers(&self, bytes: &[u8]) -> (usize, usize) {
        let _ = bytes;
        (0, 0)
    }

    /// The atom checkpoints of a frame, given all its bytes: writes to `words` one place at which decoding can start
    /// for every `every`-th atom except the first, or 0 if there is none. Returns the tag by which the frame is
    /// recognised; `None` if the format has no use for checkpoints.
    fn atom_checkpoints(&self, bytes: &[u8], every: u32, words: &mut [u64]) -> Option<u32> {
        let _ = (bytes, every, words);
        None
    }

    /// Appends the segments that hold `request` of the `wanted` frames (ascending frames) to `segments`, in the
    /// order of their offsets. They must include every frame's header, so that it is checked when it is read.
    ///
    /// # Errors
    /// None on a sound index; `Internal` otherwise.
    fn segments(&self, index: &Index, wanted: &[Wanted], request: &Request, segments: &mut Vec<Segment>) -> Result<()>;

    /// Decodes the bytes of one segment into the rows of `out`: the selected atoms side by side, scaled. The segments of
    /// a frame are given in their order, with the same `scratch`.
    ///
    /// Checks the frame's header (magic number, atom count, record lengths). Never panics, whatever the bytes.
    ///
    /// # Errors
    /// `Corrupt` with frame and byte offset in the file.
    fn decode(&self, given: SegmentBytes<'_>, out: &mut BlockMut<'_>, scratch: &mut Scratch) -> Result<Decoded>;
}

impl dyn Decoder + '_ {
    /// Finds all frames.
    ///
    /// # Errors
    /// `Corrupt` if a frame contradicts the format in the middle of the file, the operating system's errors, and errors
    /// that `progress` returns. An incomplete last frame is not an error: `Scan::truncation` reports it.
    pub fn scan(&self, source: &dyn Source, options: &ScanOptions<'_>) -> Result<Scan> {
        self.scan_with_ranges(source, options, &[])
    }

    /// As `scan`, given the indices of ascending byte ranges, if frames are found by their headers; the result is the same.
    ///
    /// # Errors
    /// As `scan`.
    pub fn scan_with_ranges(
        &self,
        source: &dyn Source,
        options: &ScanOptions<'_>,
        ranges: &[TableIndex],
    ) -> Result<Scan> {
        match self.arrangement() {
            Arrangement::Headers(headers) => headers.scan(source, options, ranges),
            Arrangement::Uniform(frames) => scan::uniform::scan(frames, source, options),
            Arrangement::Listed { index, cut_at } => {
                (options.progress)(source.len()?)?;
                let truncation = cut_at.map(|byte| {
                    let what = "the file ends within a frame, expected a whole one";
                    Error::new(ErrorKind::Truncated, what).with_frame(index.n_frames).with_byte(byte)
                });
                let index = Index::Chunked(index.clone());
                Ok(Scan { index, truncation, damaged: Vec::new(), without_time: None })
            }
        }
    }

    /// The coupling of frames if these fields are requested.
    pub fn coupling(&self, fields: Fields) -> FrameCoupling {
        self.chunked().map_or(FrameCoupling::INDEPENDENT, |chunked| chunked.coupling(fields))
    }
}

/// Further methods of a decoder whose frames share chunks; each chunk is read and decoded as a unit.
pub trait ChunkedDecoder {
    /// The coupling of frames if these fields are requested.
    fn coupling(&self, fields: Fields) -> FrameCoupling;

    /// Frames of this file that are decoded twice if two frames, neighbours in some order, are decoded by different
    /// tasks: the frames of the chunks that both need, if chunks are decoded whole.
    fn redecoded_frames(&self, before: u64, after: u64, fields: Fields) -> u64;

    /// Whether all chunks that hold a frame have been given a place in the file.
    fn is_stored(&self, frame: u64) -> bool;

    /// Whether the bytes of a segment are, as they are in the file, float32 values of all atoms of its wanted frames, row
    /// after row: then they may be read to their place, instead of [`Decoder::decode`]. Which vectors, by their number in
    /// blocks, and the factor that they are to be multiplied with.
    fn reads_in_place(&self, segment: &Segment, wanted: &[Wanted], request: &Request) -> Option<(usize, f64)>;
}
