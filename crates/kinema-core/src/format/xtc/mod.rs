//! GROMACS' XTC: positions compressed to integers of a stated precision, one frame after the other.
//!
//! Values and encoded frames are those of the reference implementation (libxdrf) bit for bit.

mod batch;
mod checkpoints;
mod coordinates;
#[cfg(test)]
mod damage_tests;
pub mod encode;
mod faults;
mod header;
mod integers;
mod pack;
mod radix;
mod records;
mod scan;
mod selected;

use std::sync::Arc;

use self::checkpoints::{Run, SegmentPart};
use self::coordinates::{Cpu, Job, Stop, UnpackState};
use self::faults::fault;
use self::header::{FrameHeader, LONGEST_HEADER, MAGIC_CLASSIC, MAGIC_LONG, PLAIN_HEADER, Packing};
use self::radix::FullCoordinate;
use self::scan::XtcHeaders;
use super::scan::{HeaderFault, ends_early};
use super::{Arrangement, Decoded, Decoder, Encoder, Facts, Format, FormatInfo, Header, Making};
use super::{Request, Scan, ScanOptions, Scratch, Segment, SegmentBytes, Wanted};
use crate::container::xdr;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{BlockMut, Fields, NO_CELL, Real, Scales, Stamp, VectorsMut};
use crate::index::{Index, TableIndex};
use crate::source::{Extent, Source};

/// The name in messages.
const NAME: &str = "XTC";

/// The XTC format.
#[derive(Debug, Clone, Copy)]
pub struct Xtc;

static INFO: FormatInfo = FormatInfo {
    name: NAME,
    extensions: &["xtc"],
    file_names: &[],
    description: "GROMACS compressed trajectory (magic 1995 and 2023): positions, cell, step, time",
    reads: true,
    writes: true,
    encodes: true,
    places_atoms: false,
    fields: Fields::POSITIONS.union(Fields::CELL).union(Fields::STEP).union(Fields::TIME),
    length_unit: "nm",
    time_unit: "ps",
    scales: Scales { length: 10.0, velocity: 10.0, force: 0.1, time: 1.0 },
    reference: "GROMACS manual, file format xtc; RFC 4506 (XDR)",
};

impl Format for Xtc {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn sniff(&self, head: &[u8]) -> bool {
        let magic = xdr::int(head, 0);
        let atoms = xdr::int(head, 4);
        let known = magic == Some(MAGIC_CLASSIC) || magic == Some(MAGIC_LONG);
        // a file cut within its first header is still XTC, and is to be called truncated
        let agree = head.len() < PLAIN_HEADER || atoms == xdr::int(head, 52);
        known && agree && atoms.is_none_or(|atoms| atoms >= 0)
    }

    fn open(&self, source: &dyn Source) -> Result<Arc<dyn Decoder>> {
        let place = |error: Error| error.with_frame(0).with_format(NAME).with_path(source.path());
        let len = source.len()?;
        let mut bytes = vec![0; len.min(LONGEST_HEADER as u64) as usize];
        source.read_exact_at(0, &mut bytes)?;
        let first = FrameHeader::parse(&bytes, 0, None).map_err(|fault| match fault {
            HeaderFault::Wrong(error) => place(error),
            HeaderFault::Short(needs) => place(ends_early(0, needs as u64, len)),
        })?;
        let packing = match first.packing {
            None => "uncompressed".to_owned(),
            Some(packing) => format!("precision {}", packing.precision),
        };
        let header = Header {
            n_atoms: first.n_atoms,
            fields: INFO.fields,
            remarks: Vec::new(),
            variant: format!("magic {}, {packing}", first.magic),
            warnings: Vec::new(),
        };
        let facts = Facts { precision: first.packing.map(|packing| f64::from(packing.precision)), ..Facts::PLAIN };
        let headers = XtcHeaders { n_atoms: first.n_atoms };
        Ok(Arc::new(XtcDecoder { header, facts, headers }))
    }

    fn encoder(&self, making: &Making) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(records::XtcEncoder::new(making)?))
    }

    fn resume(&self, source: &dyn Source, index: &Index, making: &Making) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(records::XtcEncoder::resume(source, index, making)?))
    }
}

/// Scans an XTC file in ranges on all `options.workers` threads, however short the file is.
///
/// For tests that compare it to the scan by one thread: files of 64 MiB would make slow tests.
///
/// # Errors
/// As the decoder's `scan`.
#[doc(hidden)]
pub fn scan_in_ranges(source: &dyn Source, n_atoms: u32, options: &ScanOptions<'_>) -> Result<Scan> {
    super::scan::scan(source, &XtcHeaders { n_atoms }, options, 0)
}

/// Finds and decodes the frames of one XTC file.
#[derive(Debug)]
struct XtcDecoder {
    header: Header,
    facts: Facts,
    headers: XtcHeaders,
}

impl Decoder for XtcDecoder {
    fn header(&self) -> &Header {
        &self.header
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn arrangement(&self) -> Arrangement<'_> {
        Arrangement::Headers(&self.headers)
    }

    /// The compressed coordinates of all atoms take as many bytes as the header says.
    fn is_filled(&self, _: u64, offset: u64, bytes: &[u8]) -> bool {
        let Ok(header) = FrameHeader::parse(bytes, offset, Some(self.header.n_atoms)) else { return false };
        let Some(stream) = bytes.get(header.len()..) else { return false };
        header.packing.is_none_or(|packing| stream_bytes(&header, offset, stream) == Some(packing.n_bytes))
    }

    fn atom_checkpoints(&self, bytes: &[u8], every: u32, words: &mut [u64]) -> Option<u32> {
        Some(checkpoints::find(bytes, self.header.n_atoms, every, words))
    }

    fn segments(&self, index: &Index, wanted: &[Wanted], request: &Request, segments: &mut Vec<Segment>) -> Result<()> {
        let runs = match index {
            Index::Table(TableIndex { atom_checkpoints: Some(known), .. }) => checkpoints::runs(known, request),
            _ => None,
        };
        segments.reserve(wanted.len() * runs.as_ref().map_or(1, |runs| runs.len() + 1));
        for (i, one) in wanted.iter().enumerate() {
            one.check_indexed(index, NAME)?;
            let whole = index.extent(one.frame);
            let i = u32::try_from(i).map_err(|_| Error::new(ErrorKind::Internal, "too many frames in one block"))?;
            if let Some(runs) = &runs
                && runs
                    .segments(one.frame, i, whole, segments)
                    .map_err(|e| e.with_frame(one.frame).with_format(NAME))?
            {
                continue;
            }
            segments.push(Segment {
                wanted: i..i.saturating_add(1),
                atoms: 0..self.header.n_atoms,
                part: 0,
                extent: Extent { offset: whole.offset, len: self.prefix(whole.len, request) },
                whole,
            });
        }
        Ok(())
    }

    fn decode(&self, given: SegmentBytes<'_>, out: &mut BlockMut<'_>, scratch: &mut Scratch) -> Result<Decoded> {
        let SegmentBytes { segment, bytes, request, .. } = given;
        let one = given.first_wanted(NAME)?;
        let Scratch { floats, header, .. } = scratch;
        let mut target = Target { segment, request, row: one.row as usize, out, room: floats };
        let decoded = match checkpoints::part(segment) {
            SegmentPart::Frame => self.frame(None, bytes, &mut target),
            SegmentPart::Head(tag) => {
                header.0 = segment.whole.offset;
                header.1.clear();
                header.1.extend_from_slice(bytes.get(..LONGEST_HEADER.min(bytes.len())).unwrap_or_default());
                self.frame(Some(tag), bytes, &mut target)
            }
            SegmentPart::Run(run) => self.run(run, header, bytes, &mut target),
        };
        decoded.map_err(|error| error.with_frame(one.frame).with_format(NAME))
    }
}

/// Where a segment goes.
struct Target<'t, 'o> {
    segment: &'t Segment,
    request: &'t Request,
    row: usize,
    out: &'t mut BlockMut<'o>,
    /// For a row in the file's unit.
    room: &'t mut Vec<f32>,
}

impl XtcDecoder {
    /// Bytes of a frame that probably hold the requested atoms: atoms are about evenly spread over the bytes.
    fn prefix(&self, whole: u64, request: &Request) -> u64 {
        let header = LONGEST_HEADER as u64;
        if !request.fields.contains(Fields::POSITIONS) {
            return whole.min(header);
        }
        let guess = match (request.atoms.indices(), request.atoms.last()) {
            (None, _) => return whole,
            (Some(_), None) => header,
            (Some(_), Some(last)) => {
                let share = (u64::from(last) + 1).min(u64::from(self.header.n_atoms));
                let body = u128::from(whole) * u128::from(share) / u128::from(self.header.n_atoms.max(1));
                header + 256 + (body as u64).saturating_mul(6) / 5
            }
        };
        whole.min(guess.next_multiple_of(256))
    }

    /// A whole frame, or with a `tag` the header and first atoms of a frame in several segments.
    fn frame(&self, tag: Option<u32>, bytes: &[u8], target: &mut Target<'_, '_>) -> Result<Decoded> {
        let (segment, request) = (target.segment, target.request);
        let start = segment.whole.offset;
        let header = match FrameHeader::parse(bytes, start, Some(self.header.n_atoms)) {
            Ok(header) => header,
            Err(HeaderFault::Wrong(error)) => return Err(error),
            Err(HeaderFault::Short(needs)) if needs as u64 <= segment.whole.len => {
                return Ok(Decoded::NeedsPrefix(needs as u64));
            }
            Err(HeaderFault::Short(needs)) => return Err(wrong_frame_len(start, needs as u64, segment.whole.len)),
        };
        if header.frame_len() != segment.whole.len {
            return Err(wrong_frame_len(start, segment.whole.len, header.frame_len()));
        }
        if let Some(packing) = header.packing {
            packing.check(start)?;
        }
        if let Some(tag) = tag {
            checkpoints::check_tag(tag, &header, bytes, start)?;
        }
        if request.fields.contains(Fields::POSITIONS) {
            let decoded = self.positions(&header, bytes, target)?;
            if decoded != Decoded::Done {
                return Ok(decoded);
            }
        }
        let cell = header.cell.map(|vector| vector.map(|value| f64::scaled_f32(value, request.scales.length)));
        *target.out.stamp(target.row)? = Stamp {
            cell,
            step: i64::from(header.step),
            time: f64::from(header.time) * request.scales.time,
            present: if cell == NO_CELL { Fields::POSITIONS } else { Fields::POSITIONS | Fields::CELL },
            ..Stamp::default()
        };
        Ok(Decoded::Done)
    }

    fn positions(&self, header: &FrameHeader, bytes: &[u8], target: &mut Target<'_, '_>) -> Result<Decoded> {
        let (segment, request) = (target.segment, target.request);
        let body = bytes.get(header.len()..).unwrap_or_default();
        let Some(packing) = header.packing else {
            return self.fill(target, |_, length, places| {
                Ok(plain(body, request, length, places).unwrap_or(Decoded::NeedsPrefix(segment.whole.len)))
            });
        };
        let first = segment.whole.offset.saturating_add(header.len() as u64);
        let start = UnpackState::first(&packing);
        self.fill(target, |selected, length, places| {
            let stream = Stream { data: body, first, at: 0, start };
            match unpack(header, packing, stream, selected, length, places)? {
                None => Ok(Decoded::Done),
                Some(short) => {
                    let last = last_of(selected, request);
                    Ok(Decoded::NeedsPrefix(longer_prefix(segment, header, body.len(), &short, last)))
                }
            }
        })
    }

    /// Unpacks the atoms after a checkpoint; their frame's header was decoded last.
    fn run(
        &self,
        run: Run,
        (start, header_bytes): &(u64, Vec<u8>),
        bytes: &[u8],
        target: &mut Target<'_, '_>,
    ) -> Result<Decoded> {
        let segment = target.segment;
        let header = match FrameHeader::parse(header_bytes, *start, Some(self.header.n_atoms)) {
            Ok(header) if start.saturating_add(header.frame_len()) == segment.whole.end() => header,
            _ => return Err(Error::new(ErrorKind::Internal, "the segments of a frame are not given in their order")),
        };
        let first = start.saturating_add(header.len() as u64);
        let (Some(packing), Some(at)) = (header.packing, segment.whole.offset.checked_sub(first)) else {
            return Err(checkpoints::foreign(segment.whole.offset));
        };
        if bytes.len() < checkpoints::CHECKED_BYTES && (bytes.len() as u64) < segment.whole.len {
            return Ok(Decoded::NeedsPrefix(segment.whole.len));
        }
        let state = run.state(segment, *start, bytes)?;
        self.fill(target, |selected, length, places| {
            let stream = Stream { data: bytes, first: segment.whole.offset, at, start: state };
            match unpack(&header, packing, stream, selected, length, places)? {
                None => Ok(Decoded::Done),
                Some(_) => Ok(Decoded::NeedsPrefix(segment.whole.len)),
            }
        })
    }

    /// Has `decode` fill the places of the selected atoms that the segment holds (`None`: all), with their factor.
    fn fill(
        &self,
        Target { segment, request, row, out, room }: &mut Target<'_, '_>,
        decode: impl FnOnce(Option<&[u32]>, f32, &mut [[f32; 3]]) -> Result<Decoded>,
    ) -> Result<Decoded> {
        let n_selected = request.atoms.len();
        if n_selected != out.n_selected || request.atoms.n_atoms() != self.header.n_atoms {
            return Err(Error::new(ErrorKind::Internal, "the block is not made for this selection of atoms"));
        }
        let (selected, atoms) = match request.atoms.indices() {
            Some(indices) if segment.part != 0 => {
                let from = indices.partition_point(|&atom| atom < segment.atoms.start);
                let to = indices.partition_point(|&atom| atom < segment.atoms.end).max(from);
                (indices.get(from..to), from..to)
            }
            indices => (indices, 0..n_selected),
        };
        let (factor, len) = (request.scales.length, 3 * n_selected);
        match &mut out.vectors[0] {
            VectorsMut::Absent => Ok(Decoded::Done),
            VectorsMut::F32(rows) if f64::from(factor as f32) == factor => {
                let places = rows.row(*row, len)?.as_chunks_mut::<3>().0;
                decode(selected, factor as f32, &mut places[atoms])
            }
            // a factor that float32 does not hold, or float64 wanted: in the file's unit first
            vectors => {
                room.resize(3 * atoms.len(), 0.0);
                let places = room.as_chunks_mut::<3>().0;
                let decoded = decode(selected, 1.0, places)?;
                vectors.put(*row, atoms.start, factor, places)?;
                Ok(decoded)
            }
        }
    }
}

/// Copies the selected ones of up to nine uncompressed atoms; `None` if the bytes do not reach that far.
fn plain(body: &[u8], request: &Request, length: f32, places: &mut [[f32; 3]]) -> Option<Decoded> {
    for (atom, place) in request.atoms.iter().zip(places) {
        *place = xdr::floats::<3>(body, atom as usize * 12)?.map(|value| scaled(value, length));
    }
    Some(Decoded::Done)
}

/// Some of the compressed coordinates of a frame.
struct Stream<'a> {
    /// Bytes from the first wanted one on, perhaps not all.
    data: &'a [u8],
    /// The byte of the file at which they start.
    first: u64,
    /// The byte of the compressed coordinates at which they start.
    at: u64,
    /// The group to start at.
    start: UnpackState,
}

/// Unpacks the selected atoms; if the given bytes end before them, returns how far it came.
fn unpack(
    header: &FrameHeader,
    packing: Packing,
    stream: Stream<'_>,
    selected: Option<&[u32]>,
    length: f32,
    places: &mut [[f32; 3]],
) -> Result<Option<UnpackState>> {
    let Stream { data, first, at, start } = stream;
    let full = full_coordinate(packing).ok_or_else(|| {
        let what = format!(
            "wrong range of the coordinates, expected below 2^32, found {:?} to {:?}",
            packing.min, packing.max
        );
        Error::new(ErrorKind::Corrupt, what)
            .with_byte(first.saturating_sub(at + header.len() as u64).saturating_add(60))
    })?;
    let whole = packing.n_bytes.saturating_sub(at);
    let data = usize::try_from(whole).ok().and_then(|whole| data.get(..whole)).unwrap_or(data);
    let n_atoms = header.n_atoms as usize;
    let job = Job { packing, full, n_atoms, data, start, selected, length };
    let (stop, state) = coordinates::unpack(&job, places, Cpu::detect());
    if stop == Stop::Short && (data.len() as u64) < whole {
        return Ok(Some(state));
    }
    match fault(header, packing, &stop, &state, at) {
        None => Ok(None),
        Some(error) => Err(error),
    }
    // a group that was skipped may have ended after the stream
    .map_err(|error| error.with_byte(first.saturating_add((state.bit / 8).min(whole))))
}

fn full_coordinate(packing: Packing) -> Option<FullCoordinate> {
    let sizes = [0, 1, 2].map(|axis| i64::from(packing.max[axis]) - i64::from(packing.min[axis]) + 1);
    FullCoordinate::new(sizes.map(|size| u64::try_from(size).unwrap_or(0)))
}

/// Bytes of `stream` that the compressed coordinates of all atoms take; `None` if they cannot be decoded.
fn stream_bytes(header: &FrameHeader, offset: u64, stream: &[u8]) -> Option<u64> {
    let packing = header.packing.filter(|packing| packing.check(offset).is_ok())?;
    let n_atoms = header.n_atoms as usize;
    let full = full_coordinate(packing)?;
    let start = UnpackState::first(&packing);
    // all are walked through, and none but the last is kept: memory for all of them would be that of a claim
    let last = header.n_atoms.checked_sub(1)?;
    let job = Job { packing, full, n_atoms, data: stream, start, selected: Some(&[last]), length: 1.0 };
    let (stop, state) = coordinates::unpack(&job, &mut [[0.0; 3]], Cpu::detect());
    (stop == Stop::Done).then(|| state.bit.div_ceil(8))
}

/// The last atom wanted of a segment.
fn last_of(selected: Option<&[u32]>, request: &Request) -> Option<u32> {
    selected.map_or(request.atoms.last(), |selected| selected.last().copied())
}

/// How many bytes of the frame to ask for after the `given` bytes of its bit stream gave out at `state`.
fn longer_prefix(segment: &Segment, header: &FrameHeader, given: usize, state: &UnpackState, last: Option<u32>) -> u64 {
    let given = given as u64;
    let atoms = last.map_or(0, |last| u128::from(last) + 1);
    let ended = state.atom.max(1) as u128;
    let needs = u128::from(state.bit / 8) * atoms / ended * 9 / 8;
    // at least a quarter more each time, so that few rounds suffice whatever the guess
    let needs = u64::try_from(needs).unwrap_or(u64::MAX).max(given + given / 4).saturating_add(512);
    needs.saturating_add(header.len() as u64).min(segment.whole.len)
}

fn scaled(value: f32, factor: f32) -> f32 {
    // a product, even by one, would quiet a signalling NaN: in its own unit a value is passed on as it is
    if factor == 1.0 { value } else { value * factor }
}

fn wrong_frame_len(offset: u64, expected: u64, found: u64) -> Error {
    Error::corrupt("wrong length of the frame", expected, found).with_byte(offset)
}
