//! HISTORY, DL_POLY's trajectory: records of one width, so that every frame and atom is at a computed place.

use std::ops::Range;
use std::sync::Arc;

use super::fixed::{Fixed, LOOKED_AT};
use super::layout::Layout;
use super::{SCALES, TIME_UNIT, classic, encode_history, fields_of, shape_of, unformatted, warning_of};
use crate::error::{Error, ErrorKind, Result};
use crate::format::scan::uniform::lacks_frames;
use crate::format::{Arrangement, Decoded, Decoder, Encoder, Facts, Format, FormatInfo, Header, Making};
use crate::format::{
    FrameStamp, FrameStamps, HEAD_BYTES, Request, Scratch, Segment, SegmentBytes, UniformFrames, Wanted,
};
use crate::frame::{BlockMut, Fields, NO_CELL, Stamp};
use crate::index::{Index, UniformIndex};
use crate::source::{Extent, Source};

/// The name in messages.
pub(super) const NAME: &str = "DL_POLY HISTORY";

static INFO: FormatInfo = FormatInfo {
    name: NAME,
    extensions: &["history"],
    file_names: &["HISTORY"],
    description: "DL_POLY trajectory (text; read also unformatted): positions, velocities, forces, cell, step, time; the origin is the cell's centre",
    reads: true,
    writes: true,
    encodes: true,
    places_atoms: true,
    fields: Fields::ALL,
    length_unit: "angstrom",
    time_unit: TIME_UNIT,
    scales: SCALES,
    reference: "DL_POLY_4 manual, HISTORY file",
};

/// DL_POLY's trajectories.
#[derive(Debug, Clone, Copy)]
pub struct History;

impl Format for History {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn sniff(&self, head: &[u8]) -> bool {
        Layout::sniff(head) || classic::sniff(head) || unformatted::sniff(head)
    }

    fn open(&self, source: &dyn Source) -> Result<Arc<dyn Decoder>> {
        let place = |error: Error| error.with_format(NAME).with_path(source.path());
        let size = source.len()?;
        let mut head = vec![0; size.min(HEAD_BYTES) as usize];
        source.read_exact_at(0, &mut head)?;
        if !Layout::sniff(&head) && classic::sniff(&head) {
            return classic::open(source);
        }
        if unformatted::sniff(&head) {
            return unformatted::open(source);
        }
        let layout = Layout::parse(&head).map_err(place)?;
        Ok(Arc::new(HistoryDecoder::new(layout, source)?))
    }

    fn encoder(&self, making: &Making) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(encode_history::HistoryEncoder::new(making)?))
    }

    fn resume(&self, source: &dyn Source, _: &Index, making: &Making) -> Result<Box<dyn Encoder>> {
        let mut head = vec![0; source.len()?.min(HEAD_BYTES) as usize];
        source.read_exact_at(0, &mut head)?;
        let layout = written_layout(&head)?;
        Ok(Box::new(encode_history::HistoryEncoder::resume(source, &layout, making)?))
    }
}

/// The layout of a file whose frames are copied or that is continued: one with the records of DL_POLY_4.
fn written_layout(head: &[u8]) -> Result<Layout> {
    let records = match () {
        () if unformatted::sniff(head) => "unformatted ones of DL_POLY 2 and Classic",
        () if !Layout::sniff(head) && classic::sniff(head) => "any width",
        () => match Layout::parse(head)? {
            layout if layout.heads.are_written() => return Ok(layout),
            _ => "others",
        },
    };
    let what = format!(
        "HISTORY files of this layout are read alone, not cut, joined, salvaged or continued: expected records of 72 \
         characters as in DL_POLY_4, found {records}; kinema convert makes a file with such records"
    );
    Err(Error::new(ErrorKind::Unsupported, what))
}

/// Facts of a file's head for code that copies records.
#[derive(Debug, Clone)]
pub struct Head {
    /// All bytes before the first frame.
    pub data: Vec<u8>,
    /// Bytes of a record.
    pub width: u64,
    /// Records of a frame.
    pub records: u64,
    /// Columns of the second record that count frames and records.
    pub counts: [Range<u64>; 2],
}

impl Head {
    /// # Errors
    /// Errors of opening the file.
    pub fn read(source: &dyn Source) -> Result<Self> {
        let mut data = vec![0; source.len()?.min(HEAD_BYTES) as usize];
        source.read_exact_at(0, &mut data)?;
        let layout = written_layout(&data)?;
        data.truncate(layout.head_len() as usize);
        let width = layout.block.lines.width() as u64;
        let counts = if layout.block.compressed { [14..24, 24..34] } else { [30..51, 51..72] };
        Ok(Self { data, width, records: layout.stride() / width, counts })
    }
}

/// Finds and decodes the frames of one file.
#[derive(Debug)]
struct HistoryDecoder {
    header: Header,
    facts: Facts,
    layout: Layout,
    /// Whether the first atoms of the first frame are in the order of their indices: then runs of atoms are read alone.
    sorted: bool,
}

impl HistoryDecoder {
    fn new(layout: Layout, source: &dyn Source) -> Result<Self> {
        let there = layout.frames_in(source.len()?);
        let mut warnings: Vec<String> = warning_of(layout.imcon).into_iter().collect();
        if layout.frames > 0 && layout.frames < there {
            let counted = layout.frames;
            warnings.push(format!("header says {counted} frames, file holds {there}: later frames are not committed"));
        }
        warnings.extend(layout.miscounted());
        let (mut sorted, mut displaced) = (true, false);
        for frame in [Some(0), there.checked_sub(1)].into_iter().flatten().filter(|&frame| frame < there) {
            let block = &layout.block;
            let len = block.len().min((LOOKED_AT / block.atom_len()).max(1) * block.atom_len());
            let mut bytes = vec![0; len as usize];
            source.read_exact_at(layout.frame_at(frame).saturating_add(layout.frame_head_len()), &mut bytes)?;
            sorted = sorted && (frame > 0 || block.is_in_order(&bytes));
            displaced = displaced || super::atoms::any_displaced(block, &bytes);
        }
        let layout_name = match (layout.block.compressed, layout.block.lines.end) {
            (false, 1) => "",
            (false, _) => ", lines end as on Windows",
            (true, 1) => ", compressed",
            (true, _) => ", compressed, lines end as on Windows",
        };
        let order = if sorted { "" } else { ", atoms not in the order of their indices" };
        let cell = if layout.imcon == 0 { Fields::NONE } else { Fields::CELL };
        let header = Header {
            n_atoms: layout.block.n_atoms,
            fields: fields_of(layout.block.levels) | cell | Fields::STEP | Fields::TIME,
            remarks: Some(layout.title.clone()).filter(|title| !title.is_empty()).into_iter().collect(),
            variant: format!(
                "keytrj {}, {}{layout_name}{}{order}",
                layout.keytrj,
                shape_of(layout.imcon),
                layout.heads.name()
            ),
            warnings,
        };
        let copied = !layout.block.compressed && layout.heads.are_written();
        let facts = Facts {
            wide_fields: fields_of(layout.block.levels),
            extras: if displaced { vec!["the displacement of the atoms"] } else { Vec::new() },
            recoded_version: copied.then(|| encode_history::version_of(layout.keytrj, layout.imcon)),
            ..Facts::PLAIN
        };
        Ok(Self { header, facts, layout, sorted })
    }
}

impl UniformFrames for HistoryDecoder {
    fn name(&self) -> &'static str {
        NAME
    }

    fn places(&self, source: &dyn Source) -> Result<(UniformIndex, Option<Error>)> {
        let (size, layout) = (source.len()?, &self.layout);
        let there = layout.frames_in(size);
        let n_frames = if layout.frames == 0 { there } else { layout.frames.min(there) };
        let rest = size.saturating_sub(layout.frame_at(there));
        let counted = Some(layout.frames).filter(|&counted| counted > there);
        let truncation = (counted.is_some() || n_frames == there && rest > 0)
            .then(|| lacks_frames(counted, there, layout.frame_at(there), rest));
        let stride = layout.stride();
        let first = Extent { offset: layout.head_len(), len: stride };
        Ok((UniformIndex { n_frames, first, stride, spacing: None, steps: None, times: None }, truncation))
    }

    fn stamps(&self) -> Option<FrameStamps<'_>> {
        let read = |bytes: &[u8], at| {
            let head = self.layout.frame_head(bytes, at)?;
            Ok(FrameStamp { step: head.step, time: head.time, is_written: true })
        };
        let len = self.layout.block.lines.width() as u64;
        Some(FrameStamps { offset: 0, len, has_steps: true, read: Box::new(read) })
    }
}

impl Decoder for HistoryDecoder {
    fn header(&self) -> &Header {
        &self.header
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn arrangement(&self) -> Arrangement<'_> {
        Arrangement::Uniform(self)
    }

    fn segments(&self, index: &Index, wanted: &[Wanted], request: &Request, segments: &mut Vec<Segment>) -> Result<()> {
        let fixed = self.fixed();
        for (i, one) in (0_u32..).zip(wanted) {
            one.check_indexed(index, NAME)?;
            fixed.segments(i, index.extent(one.frame), request, segments);
        }
        Ok(())
    }

    fn decode(&self, given: SegmentBytes<'_>, out: &mut BlockMut<'_>, scratch: &mut Scratch) -> Result<Decoded> {
        let one = given.first_wanted(NAME)?;
        let decoded = self.part(given, one.row as usize, out, scratch);
        decoded.map_err(|error| error.with_byte(given.segment.extent.offset).with_frame(one.frame).with_format(NAME))
    }
}

impl HistoryDecoder {
    fn part(
        &self,
        given: SegmentBytes<'_>,
        row: usize,
        out: &mut BlockMut<'_>,
        scratch: &mut Scratch,
    ) -> Result<Decoded> {
        let SegmentBytes { segment, bytes, request, .. } = given;
        let fixed = self.fixed();
        if let Some(decoded) = fixed.decode_run(given, row, out)? {
            return Ok(decoded);
        }
        let at = segment.extent.offset;
        let head = self.layout.frame_head(bytes, at)?;
        let cell = self.layout.cell(bytes, &head, at, &request.scales)?;
        let there = if cell == NO_CELL { Fields::NONE } else { Fields::CELL };
        let present = fields_of(self.layout.block.levels) | there;
        *out.stamp(row)? = Stamp {
            cell,
            periodic: super::periodic_of(head.imcon),
            step: head.step,
            time: head.time * request.scales.time,
            present,
        };
        fixed.decode_frame(given, row, out, scratch)
    }

    fn fixed(&self) -> Fixed {
        Fixed { head_len: self.layout.frame_head_len(), block: self.layout.block, sorted: self.sorted }
    }
}
