//! DCD (CHARMM, NAMD, X-PLOR, OpenMM, LAMMPS): Fortran records, one plane a coordinate; indexed by arithmetic.
//!
//! Reads every variant: both byte orders, 4- and 8-byte record lengths, cells of all conventions, fixed atoms,
//! velocities, a fourth dimension (its plane is passed over). Facts: CHARMM's `dynio` and the headers that the programs write.

mod cell;
mod encode;
mod header;
mod times;

use std::sync::Arc;

pub use self::header::DcdHeader;
use self::header::{Kind, shown};
use super::planes::{PlaneRuns, gather_run, interleave};
use super::scan::uniform::incomplete;
use super::scan::{UNFINISHED, unfinished};
use super::{Arrangement, Decoded, Decoder, Encoder, Facts, Format, FormatInfo, Header, Making};
use super::{Request, Scratch, Segment, SegmentBytes, UniformFrames, Wanted};
use crate::container::fortran::Layout;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{BlockMut, Fields, NO_CELL, NOT_A_CELL, Real, RowsMut, Scales, Stamp, VectorsMut};
use crate::index::{Index, UniformIndex};
use crate::source::{Extent, Source};

static INFO: FormatInfo = FormatInfo {
    name: "DCD",
    extensions: &["dcd", "veldcd"],
    file_names: &[],
    description: "CHARMM, NAMD, X-PLOR, OpenMM and LAMMPS binary trajectory",
    reads: true,
    writes: true,
    encodes: true,
    places_atoms: true,
    fields: Fields::POSITIONS.union(Fields::VELOCITIES).union(Fields::CELL).union(Fields::STEP).union(Fields::TIME),
    length_unit: "angstrom",
    time_unit: "ps (the header's time step is in AKMA units, 0.04888821 ps; where LAMMPS wrote it taken as fs)",
    // velocities are in angstrom per AKMA unit of time
    scales: Scales { length: 1.0, velocity: 1.0 / header::AKMA_PS, force: 1.0, time: 1.0 },
    reference: "CHARMM source, dynio; NAMD dcdlib",
};

/// Contents of a segment.
mod part {
    /// A whole frame.
    pub const FRAME: u32 = 0;
    /// The cell record and the record length before the x plane.
    pub const HEAD: u32 = 1;
    /// A run of atoms of the x plane; y and z follow.
    pub const X: u32 = 2;
}

/// The DCD format.
pub struct Dcd;

impl Format for Dcd {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn sniff(&self, head: &[u8]) -> bool {
        // those that are refused by name are recognised as well, so that the error names the variant
        matches!(header::kind(head), Kind::Dcd(..) | Kind::WideIntegers)
    }

    fn open(&self, source: &dyn Source) -> Result<Arc<dyn Decoder>> {
        let dcd = DcdHeader::read(source)?;
        let (index, _) = uniform(&dcd, source.len()?);
        let header = dcd.describe(index.n_frames);
        let facts = Facts {
            assumption: dcd.assumption.clone(),
            time_unit: dcd.program.time_unit(),
            recoded_version: recoded_version(&dcd),
            ..Facts::PLAIN
        };
        let mut decoder = DcdDecoder { header, facts, dcd, fixed: None };
        if decoder.dcd.free.is_some() {
            decoder.fixed = Some(decoder.read_fixed(source)?);
        }
        Ok(Arc::new(decoder))
    }

    fn encoder(&self, making: &Making) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(encode::DcdEncoder::new(making)?))
    }

    fn resume(&self, source: &dyn Source, _: &Index, making: &Making) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(encode::DcdEncoder::resume(&DcdHeader::read(source)?, making)?))
    }
}

/// The version of little-endian records with all atoms and three planes; others cannot be recoded.
fn recoded_version(dcd: &DcdHeader) -> Option<i32> {
    let plain = dcd.layout == Layout { big_endian: false, wide_markers: false };
    (plain && dcd.free.is_none() && !dcd.four_dimensional).then_some(dcd.version)
}

/// The frames of a file of `size` bytes, and the number of bytes of an incomplete frame after them.
fn uniform(dcd: &DcdHeader, size: u64) -> (UniformIndex, u64) {
    let first = Extent { offset: dcd.first_frame, len: dcd.frame_len(dcd.stored_atoms(0)) };
    let stride = dcd.frame_len(dcd.stored_atoms(1));
    let (n_frames, rest) = dcd.frames_in(size);
    (UniformIndex { n_frames, first, stride, spacing: Some(dcd.spacing), steps: None, times: None }, rest)
}

/// Coordinates of the atoms that later frames leave out.
struct Fixed {
    /// x, y, z of all atoms in frame 0, unscaled.
    positions: Vec<[f32; 3]>,
    /// Place of each atom in later frames; `u32::MAX` for a fixed atom.
    slots: Vec<u32>,
}

/// Largest number of unfinished frames at the end of a file: no more are written at a time.
const MOST_UNFINISHED: u64 = 1024;

struct DcdDecoder {
    header: Header,
    facts: Facts,
    dcd: DcdHeader,
    fixed: Option<Fixed>,
}

impl DcdDecoder {
    /// The first frame that several processes were writing when they were ended. There is none in a file whose header
    /// counts all frames.
    fn first_unfinished(&self, source: &dyn Source, index: &UniformIndex) -> Result<Option<u64>> {
        let counted = u64::try_from(self.dcd.claimed_frames).unwrap_or(0);
        if counted >= index.n_frames {
            return Ok(None);
        }
        let all = Index::Uniform(index.clone());
        for frame in counted.max(index.n_frames.saturating_sub(MOST_UNFINISHED))..index.n_frames {
            let mut found = [0; UNFINISHED.len()];
            source.read_exact_at(all.extent(frame).offset, &mut found)?;
            if found == *UNFINISHED {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }
}

impl UniformFrames for DcdDecoder {
    fn name(&self) -> &'static str {
        INFO.name
    }

    fn places(&self, source: &dyn Source) -> Result<(UniformIndex, Option<Error>)> {
        let (mut index, rest) = uniform(&self.dcd, source.len()?);
        if let Some(frame) = self.first_unfinished(source, &index)? {
            let at = Index::Uniform(index.clone()).extent(frame).offset;
            index.n_frames = frame;
            return Ok((index, Some(unfinished(at).with_frame(frame))));
        }
        let truncation = (rest > 0).then(|| {
            let expected = if index.n_frames == 0 { index.first.len } else { index.stride };
            let at = Index::Uniform(index.clone()).end().unwrap_or(index.first.offset);
            incomplete(index.n_frames, at, expected, rest)
        });
        Ok((index, truncation))
    }
}

impl Decoder for DcdDecoder {
    fn header(&self) -> &Header {
        &self.header
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn arrangement(&self) -> Arrangement<'_> {
        Arrangement::Uniform(self)
    }

    /// Every record has its length before and after it.
    fn is_filled(&self, frame: u64, _: u64, bytes: &[u8]) -> bool {
        let layout = self.dcd.layout;
        let (end, mut at, mut whole) = (bytes.len() as u64, 0, true);
        let cell = self.dcd.cell_len();
        let plane = 4 * self.dcd.stored_atoms(frame);
        while whole && at < end {
            let payload = if at == 0 && cell > 0 { cell - 2 * layout.marker_len() } else { plane };
            whole = layout.payload(bytes, at, payload).is_ok();
            at += layout.record_len(payload);
        }
        whole
    }

    fn segments(&self, index: &Index, wanted: &[Wanted], request: &Request, segments: &mut Vec<Segment>) -> Result<()> {
        let n_atoms = self.dcd.n_atoms;
        let wants_planes = request.fields.contains(self.field());
        let runs = PlaneRuns::new(&request.atoms, 4);
        let marker = self.dcd.layout.marker_len();
        let plane = self.dcd.layout.record_len(4 * u64::from(n_atoms));
        for (i, one) in wanted.iter().enumerate() {
            let frame = index.extent(one.frame);
            if one.frame >= index.n_frames() || frame.len != self.dcd.frame_len(self.dcd.stored_atoms(one.frame)) {
                let what = format!("the index does not fit the file at frame {}", one.frame);
                return Err(Error::new(ErrorKind::Internal, what));
            }
            let i = i as u32;
            let mut push = |part: u32, atoms: std::ops::Range<u32>, extent: Extent| {
                segments.push(Segment { wanted: i..i + 1, atoms, part, extent, whole: extent });
            };
            let head = Extent { offset: frame.offset, len: self.dcd.cell_len() + marker };
            if !wants_planes {
                push(part::HEAD, 0..0, head);
                continue;
            }
            // or atoms are not where their numbers say
            if runs.need_whole(frame.len) || self.fixed.is_some() {
                push(part::FRAME, 0..n_atoms, frame);
                continue;
            }
            push(part::HEAD, 0..0, head);
            for axis in 0..3 {
                for (run, extent) in runs.plane_extents(head.end() + u64::from(axis) * plane) {
                    push(part::X + axis, run, extent);
                }
            }
        }
        Ok(())
    }

    fn decode(&self, given: SegmentBytes<'_>, out: &mut BlockMut<'_>, _: &mut Scratch) -> Result<Decoded> {
        let SegmentBytes { segment, bytes, wanted, request } = given;
        if let Some(longer) = given.whole_needed() {
            return Ok(longer);
        }
        let one = wanted[segment.wanted.start as usize];
        let frame = FrameBytes { decoder: self, bytes, frame: one.frame, offset: segment.extent.offset };
        let row = one.row as usize;
        match segment.part {
            part::FRAME => {
                frame.head(request, out, row)?;
                let planes = Planes::Whole(frame.planes()?, one.frame);
                self.vectors(&planes, request, out, row)?;
            }
            part::HEAD => frame.head(request, out, row)?,
            axis => {
                let planes = Planes::Run(bytes.as_chunks::<4>().0, (axis - part::X) as usize, segment);
                self.vectors(&planes, request, out, row)?;
            }
        }
        Ok(Decoded::Done)
    }
}

impl DcdDecoder {
    /// The field that the planes hold.
    fn field(&self) -> Fields {
        if self.dcd.velocities { Fields::VELOCITIES } else { Fields::POSITIONS }
    }

    /// The requested vectors of a row from bytes of the planes.
    fn vectors(&self, planes: &Planes<'_>, request: &Request, out: &mut BlockMut<'_>, row: usize) -> Result<()> {
        let (number, factor) =
            if self.dcd.velocities { (1, request.scales.velocity) } else { (0, request.scales.length) };
        let len = 3 * out.n_selected;
        match &mut out.vectors[number] {
            VectorsMut::Absent => Ok(()),
            VectorsMut::F32(rows) => self.fill(planes, request, factor, row_of(rows, row, len)?),
            VectorsMut::F64(rows) => self.fill(planes, request, factor, row_of(rows, row, len)?),
        }
    }

    fn fill<R: Real>(&self, planes: &Planes<'_>, request: &Request, factor: f64, values: &mut [[R; 3]]) -> Result<()> {
        let narrow = factor as f32;
        if f64::from(narrow) == factor {
            self.fill_with(planes, request, values, |value| R::scaled_narrow(value, narrow))
        } else {
            self.fill_with(planes, request, values, |value| R::scaled_f32(value, factor))
        }
    }

    #[inline(always)]
    fn fill_with<R: Real>(
        &self,
        planes: &Planes<'_>,
        request: &Request,
        values: &mut [[R; 3]],
        scaled: impl Fn(f32) -> R,
    ) -> Result<()> {
        match *planes {
            Planes::Whole(planes, frame) => self.gather(planes, frame, request, values, scaled),
            Planes::Run(plane, axis, segment) => {
                let number = |bytes| scaled(self.dcd.layout.float(bytes));
                gather_run(plane, axis, segment, request, values, number);
            }
        }
        Ok(())
    }

    /// Frame 0, and where the atoms that move are in later frames.
    fn read_fixed(&self, source: &dyn Source) -> Result<Fixed> {
        let (index, _) = uniform(&self.dcd, source.len()?);
        // also the bound for the allocations below: the file holds a whole frame of `n_atoms` atoms
        if index.n_frames == 0 {
            let what = "frame 0 is incomplete, and it alone holds the fixed atoms";
            return Err(Error::new(ErrorKind::Truncated, what).with_frame(0).with_byte(index.first.offset));
        }
        let mut slots = vec![u32::MAX; self.dcd.n_atoms as usize];
        for (slot, &atom) in self.dcd.free.iter().flatten().enumerate() {
            slots[atom as usize] = slot as u32;
        }
        let mut bytes = vec![0; index.first.len as usize];
        source.read_exact_at(index.first.offset, &mut bytes)?;
        let frame = FrameBytes { decoder: self, bytes: &bytes, frame: 0, offset: index.first.offset };
        let [x, y, z] = frame.planes()?;
        let float = |bytes: &[u8; 4]| self.dcd.layout.float(*bytes);
        let positions = x.iter().zip(y).zip(z).map(|((x, y), z)| [float(x), float(y), float(z)]).collect();
        Ok(Fixed { positions, slots })
    }

    /// The selected atoms of a whole frame, side by side.
    #[inline(always)]
    fn gather<R: Real>(
        &self,
        planes: [&[[u8; 4]]; 3],
        frame: u64,
        request: &Request,
        values: &mut [[R; 3]],
        scaled: impl Fn(f32) -> R,
    ) {
        let atoms = &request.atoms;
        match (&self.fixed, frame) {
            (Some(fixed), 1..) => {
                let float = |bytes: [u8; 4]| self.dcd.layout.float(bytes);
                for (out, atom) in values.iter_mut().zip(atoms.iter()) {
                    let slot = fixed.slots[atom as usize];
                    let position = if slot == u32::MAX {
                        fixed.positions[atom as usize]
                    } else {
                        planes.map(|plane| float(plane[slot as usize]))
                    };
                    *out = position.map(&scaled);
                }
            }
            _ if self.dcd.layout.big_endian => {
                interleave(planes, atoms.indices(), values, |bytes| scaled(f32::from_be_bytes(bytes)));
            }
            _ => interleave(planes, atoms.indices(), values, |bytes| scaled(f32::from_le_bytes(bytes))),
        }
    }
}

/// Bytes of the planes of a frame.
enum Planes<'a> {
    /// x, y and z of all atoms, and the frame.
    Whole([&'a [[u8; 4]]; 3], u64),
    /// Some atoms of one plane: their numbers, which plane, and the segment that says which atoms.
    Run(&'a [[u8; 4]], usize, &'a Segment),
}

fn row_of<'b, R>(rows: &'b mut RowsMut<'_, R>, row: usize, len: usize) -> Result<&'b mut [[R; 3]]> {
    Ok(rows.row(row, len)?.as_chunks_mut::<3>().0)
}

/// The bytes of a frame, or of its head, with their place.
struct FrameBytes<'a> {
    decoder: &'a DcdDecoder,
    bytes: &'a [u8],
    frame: u64,
    offset: u64,
}

impl<'a> FrameBytes<'a> {
    /// Checks one record length.
    fn check(&self, at: u64, expected: u64, name: &str) -> Result<()> {
        let found = self.bytes.get(at as usize..).and_then(|bytes| self.decoder.dcd.layout.marker(bytes));
        if found == Some(expected) {
            return Ok(());
        }
        let what = format!("record length of the {name}");
        Err(Error::corrupt(&what, expected, shown(found)).with_frame(self.frame).with_byte(self.offset + at))
    }

    /// Checks the head and writes cell, step and time.
    fn head(&self, request: &Request, out: &mut BlockMut<'_>, row: usize) -> Result<()> {
        let dcd = &self.decoder.dcd;
        let mut cell = NO_CELL;
        if dcd.has_cell {
            self.check(0, 48, "unit cell")?;
            let at = dcd.layout.marker_len();
            self.check(at + 48, 48, "unit cell")?;
            let numbers = self.bytes.get(at as usize..).unwrap_or_default().as_chunks::<8>().0;
            let mut six = [0.0; 6];
            six.iter_mut().zip(numbers).for_each(|(value, bytes)| *value = dcd.layout.double(*bytes));
            cell = cell::cell(six, dcd.version).unwrap_or(NOT_A_CELL);
            cell.iter_mut().flatten().for_each(|value| *value *= request.scales.length);
        }
        self.check(dcd.cell_len(), 4 * dcd.stored_atoms(self.frame), "x plane")?;
        *out.stamp(row)? = Stamp {
            cell,
            step: dcd.spacing.step(self.frame),
            time: dcd.spacing.time(self.frame).unwrap_or(f64::NAN) * request.scales.time,
            present: if cell == NO_CELL { self.decoder.field() } else { self.decoder.field() | Fields::CELL },
            ..Stamp::default()
        };
        Ok(())
    }

    /// Checks the record lengths of a whole frame, of a fourth plane as well; its x, y and z planes.
    fn planes(&self) -> Result<[&'a [[u8; 4]]; 3]> {
        let dcd = &self.decoder.dcd;
        let payload = 4 * dcd.stored_atoms(self.frame);
        let marker = dcd.layout.marker_len();
        let mut planes: [&[[u8; 4]]; 4] = [&[]; 4];
        let names = ["x plane", "y plane", "z plane", "fourth plane"];
        for (axis, (plane, name)) in planes[..dcd.n_planes()].iter_mut().zip(names).enumerate() {
            let at = dcd.cell_len() + axis as u64 * dcd.layout.record_len(payload);
            self.check(at, payload, name)?;
            self.check(at + marker + payload, payload, name)?;
            let data = (at + marker) as usize..(at + marker + payload) as usize;
            *plane = self.bytes.get(data).unwrap_or_default().as_chunks::<4>().0;
        }
        let [x, y, z, _] = planes;
        Ok([x, y, z])
    }
}
