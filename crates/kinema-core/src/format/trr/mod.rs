//! GROMACS' TRR: cell, positions, velocities and forces in single or double precision, one frame after the other; each
//! frame may lack any of them.

mod encode;
mod header;

use std::sync::Arc;

use self::header::{FrameHeader, LONGEST_HEADER, MAGIC, SHORTEST_HEADER, VERSION};
use super::numbers::BigEndianVectors;
use super::scan::{FrameHead, FrameHeaders, HeaderFault, ends_early};
use super::{Arrangement, Decoded, Decoder, Encoder, Facts, Format, FormatInfo, Header, Making};
use super::{Request, Scratch, Segment, SegmentBytes, Wanted};
use crate::container::xdr;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{BlockMut, Cell, Fields, NO_CELL, Scales, Stamp};
use crate::index::Index;
use crate::source::{Extent, Source};

/// The name in messages.
const NAME: &str = "TRR";

/// Frames whose headers say which fields a file has: forces may be in every hundredth frame only.
const FIRST_FRAMES: usize = 100;

/// The TRR format.
#[derive(Debug, Clone, Copy)]
pub struct Trr;

static INFO: FormatInfo = FormatInfo {
    name: NAME,
    extensions: &["trr"],
    file_names: &[],
    description: "GROMACS full-precision trajectory: positions, velocities, forces, cell, step, time; float or double",
    reads: true,
    writes: true,
    encodes: true,
    places_atoms: true,
    fields: Fields::ALL,
    length_unit: "nm",
    time_unit: "ps",
    // forces are in kJ/(mol nm)
    scales: Scales { length: 10.0, velocity: 10.0, force: 0.1, time: 1.0 },
    reference: "GROMACS manual, file format trr; RFC 4506 (XDR)",
};

impl Format for Trr {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn sniff(&self, head: &[u8]) -> bool {
        let text = head.get(4..).unwrap_or_default();
        let given = text.len().min(VERSION.len());
        // the other byte order is recognised too, so that the error names it
        xdr::int(head, 0).is_some_and(|magic| magic == MAGIC && text[..given] == VERSION[..given])
            || head.starts_with(&MAGIC.to_le_bytes()) && head.get(12..24) == Some(&VERSION[8..])
    }

    fn open(&self, source: &dyn Source) -> Result<Arc<dyn Decoder>> {
        let place = |error: Error| error.with_frame(0).with_format(NAME).with_path(source.path());
        let len = source.len()?;
        let first = header_at(source, 0, len, None)?.map_err(|fault| match fault {
            HeaderFault::Wrong(error) => place(error),
            HeaderFault::Short(needs) => place(ends_early(0, needs as u64, len)),
        })?;
        let (mut fields, mut lambda, mut matrices) = (first.fields(), first.lambda != 0.0, [false; 2]);
        let mut next = (first, 0_u64);
        // whether the number of atoms is proven: memory will be allocated by it
        let mut proven = !first.vectors.is_empty();
        for _ in 1..FIRST_FRAMES {
            matrices = [matrices[0] || next.0.matrices[1], matrices[1] || next.0.matrices[2]];
            let offset = next.1.saturating_add(next.0.frame_len());
            // the scan reports errors after the first frame
            let Ok(found) = header_at(source, offset, len, Some(first.n_atoms))? else { break };
            // an incomplete frame does not count as a frame of the file
            if offset.saturating_add(found.frame_len()) > len {
                break;
            }
            proven = proven || !found.vectors.is_empty();
            fields = fields | found.fields();
            lambda = lambda || found.lambda != 0.0;
            next = (found, offset);
        }
        if !proven {
            let what =
                format!("none of the first frames has positions, velocities or forces of its {} atoms", first.n_atoms);
            return Err(place(Error::new(ErrorKind::Unsupported, what)));
        }
        let extras = [(lambda, "lambda"), (matrices[0], "the virial"), (matrices[1], "the pressure")];
        let extras: Vec<&'static str> = extras.into_iter().filter(|(there, _)| *there).map(|(_, name)| name).collect();
        let precision = if first.double { "double" } else { "single" };
        let also = if extras.is_empty() { String::new() } else { format!(", with {}", extras.join(", ")) };
        let header = Header {
            n_atoms: first.n_atoms,
            fields,
            remarks: Vec::new(),
            variant: format!("{precision} precision{also}"),
            warnings: Vec::new(),
        };
        let vectors = Fields::POSITIONS | Fields::VELOCITIES | Fields::FORCES;
        let wide_fields = if first.double { fields - (Fields::ALL - vectors) } else { Fields::NONE };
        let facts = Facts { wide_fields, may_lack_fields: true, extras, ..Facts::PLAIN };
        let headers = TrrHeaders { n_atoms: first.n_atoms };
        Ok(Arc::new(TrrDecoder { header, facts, headers, first }))
    }

    fn encoder(&self, making: &Making) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(encode::TrrEncoder::new(making)?))
    }

    fn resume(&self, source: &dyn Source, _: &Index, making: &Making) -> Result<Box<dyn Encoder>> {
        // each frame says what it is; those that are added have the precision of the first
        let first = header_at(source, 0, source.len()?, None)?.ok();
        self.encoder(&Making { double: making.double.or(first.map(|first| first.double)), ..making.clone() })
    }
}

/// The header of the frame at `offset`, or why there is none.
fn header_at(
    source: &dyn Source,
    offset: u64,
    len: u64,
    n_atoms: Option<u32>,
) -> Result<std::result::Result<FrameHeader, HeaderFault>> {
    let mut bytes = [0; LONGEST_HEADER];
    let given = len.saturating_sub(offset).min(LONGEST_HEADER as u64) as usize;
    if given > 0 {
        source.read_exact_at(offset, &mut bytes[..given])?;
    }
    Ok(FrameHeader::parse(&bytes[..given], offset, n_atoms))
}

/// Headers of the frames of a file.
#[derive(Debug, Clone, Copy)]
struct TrrHeaders {
    n_atoms: u32,
}

impl FrameHeaders for TrrHeaders {
    type Header = FrameHeader;

    const NAME: &'static str = NAME;
    const LONGEST: usize = LONGEST_HEADER;
    const RECOGNISED: usize = SHORTEST_HEADER;
    // twelve letters, and sizes that must fit the number of atoms
    const UNMISTAKABLE: bool = true;

    fn parse(&self, bytes: &[u8], offset: u64) -> std::result::Result<FrameHeader, HeaderFault> {
        FrameHeader::parse(bytes, offset, Some(self.n_atoms))
    }

    fn head(&self, header: &FrameHeader) -> FrameHead {
        let (step, time) = (i64::from(header.step), header.time);
        FrameHead { len: header.len(), frame_len: header.frame_len(), lines: 0, step, time }
    }

    fn resembles(&self, bytes: &[u8], at: usize) -> bool {
        xdr::int(bytes, at) == Some(MAGIC) && bytes.get(at + 4..at + 4 + VERSION.len()) == Some(&VERSION[..])
    }

    fn overlong(&self, offset: u64, header: &FrameHeader, most: u64, next: u64) -> Error {
        let expected = format!("at most {most}, as the next frame is at byte {next}");
        let found = header.frame_len() - header.len() as u64;
        Error::corrupt("wrong sizes of the sections of a frame", expected, found).with_byte(offset.saturating_add(32))
    }
}

/// Finds and decodes the frames of one TRR file.
#[derive(Debug)]
struct TrrDecoder {
    header: Header,
    facts: Facts,
    headers: TrrHeaders,
    first: FrameHeader,
}

impl Decoder for TrrDecoder {
    fn header(&self) -> &Header {
        &self.header
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn arrangement(&self) -> Arrangement<'_> {
        Arrangement::Headers(&self.headers)
    }

    /// The vectors of a frame that has a head and no more yet are zeros.
    fn unwritten_numbers(&self, bytes: &[u8]) -> (usize, usize) {
        let Ok(header) = FrameHeader::parse(bytes, 0, Some(self.header.n_atoms)) else { return (0, 0) };
        let vectors = bytes.get(header.vectors_at() as usize..).unwrap_or_default();
        let written = vectors.iter().any(|&byte| byte != 0);
        (if written { 0 } else { vectors.len() / header.width() }, vectors.len() / header.width())
    }

    fn segments(&self, index: &Index, wanted: &[Wanted], request: &Request, segments: &mut Vec<Segment>) -> Result<()> {
        segments.reserve(wanted.len());
        for (i, one) in wanted.iter().enumerate() {
            one.check_indexed(index, NAME)?;
            let whole = index.extent(one.frame);
            // most frames have what the first has; of others the header is read first
            let guess =
                if whole.len == self.first.frame_len() { needed(&self.first, request) } else { LONGEST_HEADER as u64 };
            let extent = Extent { offset: whole.offset, len: whole.len.min(guess.next_multiple_of(256)) };
            let i = i as u32;
            segments.push(Segment { wanted: i..i + 1, atoms: 0..self.header.n_atoms, part: 0, extent, whole });
        }
        Ok(())
    }

    fn decode(&self, given: SegmentBytes<'_>, out: &mut BlockMut<'_>, _: &mut Scratch) -> Result<Decoded> {
        let one = given.first_wanted(NAME)?;
        let decoded = self.frame(given, one.row as usize, out);
        decoded.map_err(|error| error.with_frame(one.frame).with_format(NAME))
    }
}

impl TrrDecoder {
    fn frame(&self, given: SegmentBytes<'_>, row: usize, out: &mut BlockMut<'_>) -> Result<Decoded> {
        let SegmentBytes { segment, bytes, request, .. } = given;
        let start = segment.whole.offset;
        let header = match FrameHeader::parse(bytes, start, Some(self.header.n_atoms)) {
            Ok(header) => header,
            Err(HeaderFault::Wrong(error)) => return Err(error),
            Err(HeaderFault::Short(needs)) if needs as u64 <= segment.whole.len => {
                return Ok(Decoded::NeedsPrefix(needs as u64));
            }
            Err(HeaderFault::Short(needs)) => return Err(ends_early(start, needs as u64, segment.whole.end())),
        };
        if header.frame_len() != segment.whole.len {
            let error = Error::corrupt("wrong length of the frame", segment.whole.len, header.frame_len());
            return Err(error.with_byte(start));
        }
        let needs = needed(&header, request);
        if (bytes.len() as u64) < needs {
            return Ok(Decoded::NeedsPrefix(needs));
        }
        let n_selected = request.atoms.len();
        if n_selected != out.n_selected || request.atoms.n_atoms() != self.header.n_atoms {
            return Err(Error::new(ErrorKind::Internal, "the block is not made for this selection of atoms"));
        }
        let Scales { length, velocity, force, time } = request.scales;
        for ((field, factor), vectors) in
            Fields::VECTORS.into_iter().zip([length, velocity, force]).zip(&mut out.vectors)
        {
            if !header.vectors.contains(field) {
                vectors.set_absent(row, 3 * n_selected)?;
                continue;
            }
            let bytes = bytes.get(header.section_at(field) as usize..).unwrap_or_default();
            let bytes = bytes.get(..header.vector_len() as usize).unwrap_or(bytes);
            let (double, atoms) = (header.double, request.atoms.indices());
            BigEndianVectors { bytes, double, first: 0, atoms, factor }.put(vectors, row, n_selected)?;
        }
        let cell = cell(&header, bytes).map(|vector| vector.map(|value| value * length));
        let there = if cell == NO_CELL { Fields::NONE } else { Fields::CELL };
        let (step, time) = (i64::from(header.step), header.time * time);
        *out.stamp(row)? = Stamp { cell, step, time, present: header.vectors | there, ..Stamp::default() };
        Ok(Decoded::Done)
    }
}

/// Bytes from the start of a frame that hold all requested fields.
fn needed(header: &FrameHeader, request: &Request) -> u64 {
    let last = request.atoms.last().map_or(0, |last| u64::from(last) + 1);
    let sections =
        Fields::VECTORS.into_iter().filter(|&field| request.fields.contains(field) && header.vectors.contains(field));
    let end = |field: Fields| header.section_at(field) + 3 * header.width() as u64 * last;
    sections.map(end).fold(header.vectors_at(), u64::max)
}

/// The cell in nm, which follows the header.
fn cell(header: &FrameHeader, bytes: &[u8]) -> Cell {
    let number = |i: usize| {
        let at = header.len() + header.width() * i;
        if header.double { xdr::double(bytes, at) } else { xdr::float(bytes, at).map(f64::from) }
    };
    let mut cell = NO_CELL;
    if header.matrices[0] {
        cell.iter_mut().flatten().enumerate().for_each(|(i, value)| *value = number(i).unwrap_or_default());
    }
    cell
}
