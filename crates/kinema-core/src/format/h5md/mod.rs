//! H5MD and other trajectories in HDF5: decodes chunks that libhdf5 has located.
//!
//! Structure (groups, units, the row of each step) is read in Python and passed as [`H5mdDescription`].
//! Specification: H5MD 1.1, <https://www.nongnu.org/h5md/h5md.html>; HDF5 File Format Specification 3.0.

mod external_rows;
mod field;

use std::path::PathBuf;
use std::sync::Arc;

use self::external_rows::RowRequest;
pub use self::external_rows::{ReadRows, RowValues};
pub use self::field::{ABSENT, Field, Rows};
use self::field::{PART_BITS, Work};
use super::{
    Arrangement, ChunkedDecoder, Decoded, Decoder, Facts, Format, FormatInfo, FrameCoupling, Header, ReadStructure,
    Request, Scratch, Segment, SegmentBytes, Wanted,
};
use crate::container::hdf5;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{BlockMut, Cell, Fields, RowsMut, Scales, Stamp, StatedUnits, VectorsMut};
use crate::index::{ChunkedIndex, Index};
use crate::selection::AtomSelection;
use crate::source::{Extent, Source};

static INFO: FormatInfo = FormatInfo {
    name: "H5MD",
    extensions: &["h5md", "h5", "hdf5"],
    file_names: &[],
    description: "HDF5 trajectories: H5MD of any program, MDTraj's own, a bare data set",
    reads: true,
    writes: true,
    encodes: false,
    places_atoms: false,
    fields: Fields::ALL,
    length_unit: "as the file says",
    time_unit: "as the file says",
    scales: Scales::NATIVE,
    reference: "H5MD 1.1, doi 10.1016/j.cpc.2014.01.018",
};

/// The H5MD format.
pub struct H5md;

impl Format for H5md {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn sniff(&self, head: &[u8]) -> bool {
        hdf5::sniff(head)
    }

    fn open(&self, _: &dyn Source) -> Result<Arc<dyn Decoder>> {
        Err(Error::new(ErrorKind::Unsupported, "HDF5 files are opened with libhdf5, which is not available here"))
    }

    fn open_with(
        &self,
        source: &dyn Source,
        structure: Option<&dyn ReadStructure>,
        _: &StatedUnits,
    ) -> Result<Arc<dyn Decoder>> {
        match structure {
            Some(structure) => structure.open(source.path()),
            None => self.open(source),
        }
    }
}

/// Description of a file's structure, as Python has read it (`kinema.h5md.H5mdDescription`).
pub struct H5mdDescription {
    /// The name of its format; `None`: that which has opened it.
    pub format: Option<String>,
    /// Number of atoms.
    pub n_atoms: u32,
    /// Number of frames.
    pub n_frames: u64,
    /// Step of each frame.
    pub steps: Option<Vec<i64>>,
    /// Time of each frame in the file's unit.
    pub times: Option<Vec<f64>>,
    /// From the file's unit of time to ps.
    pub time_scale: f64,
    /// Positions, velocities, forces.
    pub vectors: [Option<Field>; 3],
    /// Cells: one unit (edges of a cuboid) or three (rows of a matrix).
    pub cell: Option<Field>,
    /// Along which edges cells are periodic.
    pub periodic: [bool; 3],
    /// Files that the addresses of virtual data sets point into.
    pub other_files: Vec<PathBuf>,
    /// Whether the reader of the rows goes through the file from its front.
    pub reads_forward: bool,
    /// Where an incomplete frame begins, after all others.
    pub cut_at: Option<u64>,
    /// For `kinema info`.
    pub variant: String,
    /// For `kinema info`.
    pub remarks: Vec<String>,
    /// For `kinema info`.
    pub warnings: Vec<String>,
}

/// Fields by their numbers: vectors as blocks have them, then the cell.
const KINDS: [Fields; 4] = [Fields::POSITIONS, Fields::VELOCITIES, Fields::FORCES, Fields::CELL];
/// The number of the cell among the fields; positions, velocities and forces come before it.
const CELL: u32 = 3;
/// A segment without bytes, for all that the file says once or Python reads.
const STAMPS: u32 = 4;

/// Decodes one file.
pub struct H5mdDecoder {
    header: Header,
    facts: Facts,
    vectors: [Option<Field>; 3],
    cell: Option<Field>,
    periodic: [bool; 3],
    index: ChunkedIndex,
    cut_at: Option<u64>,
}

impl H5mdDecoder {
    /// Checks that all fields fit each other.
    ///
    /// # Errors
    /// `Corrupt` if a field has another number of atoms, or fewer rows than its frames need.
    pub fn new(description: H5mdDescription) -> Result<Self> {
        let mut fields = Fields::NONE;
        for (field, kind) in description.vectors.iter().zip(KINDS) {
            if let Some(field) = field {
                check_rows(field, description.n_frames)?;
                check_units(field, u64::from(description.n_atoms))?;
                fields = fields | kind;
            }
        }
        if let Some(cell) = &description.cell {
            check_rows(cell, description.n_frames)?;
            let units = |array: &crate::container::hdf5::array::Array| array.shape()[1];
            if let Rows::Stored(pieces) = &cell.rows
                && let Some((_, array)) = pieces.iter().find(|(_, array)| !matches!(units(array), 1 | 3))
            {
                let what = format!("data set {}: vectors of a cell", array.name());
                return Err(Error::corrupt(&what, "1 or 3", units(array)));
            }
            fields = fields | Fields::CELL;
        }
        for (there, field) in [(description.steps.is_some(), Fields::STEP), (description.times.is_some(), Fields::TIME)]
        {
            if there {
                fields = fields | field;
            }
        }
        let short = |len: Option<usize>| len.is_some_and(|len| len as u64 != description.n_frames);
        if short(description.steps.as_ref().map(Vec::len)) || short(description.times.as_ref().map(Vec::len)) {
            return Err(Error::new(ErrorKind::Corrupt, "steps or times are not as many as frames"));
        }
        let mut index = ChunkedIndex {
            n_frames: description.n_frames,
            frame_bytes: description
                .vectors
                .iter()
                .flatten()
                .map(|field| frame_bytes(field, description.n_atoms))
                .sum::<u64>()
                .max(1),
            samples: Arc::from([]),
            frames_per_sample: 1,
            steps: description.steps.map(Into::into),
            times: description.times.map(Into::into),
        };
        if let Some(samples) = description.vectors.iter().flatten().map(Field::samples).next() {
            index.frames_per_sample = description.n_frames.div_ceil(samples.len().max(1) as u64);
            index.samples = samples.into();
        }
        let header = Header {
            n_atoms: description.n_atoms,
            fields,
            remarks: description.remarks,
            variant: description.variant,
            warnings: description.warnings,
        };
        let H5mdDescription { format, vectors, cell, periodic, time_scale, other_files, reads_forward, cut_at, .. } =
            description;
        let facts = Facts {
            stored_format: format,
            scales: Some(scales(&vectors, &cell, time_scale)),
            has_stated_units: true,
            fills: vectors.each_ref().map(|field| field.as_ref().map_or(Vec::new(), |field| field.fills.clone())),
            wide_fields: wide_fields(&vectors),
            reads_forward,
            other_files,
            ..Facts::PLAIN
        };
        Ok(Self { header, facts, vectors, cell, periodic, index, cut_at })
    }

    fn present(&self, fields: Fields) -> impl Iterator<Item = (u32, &Field)> {
        let vectors = self.vectors.iter().zip(KINDS).enumerate();
        let vectors = vectors.filter(move |(_, (_, kind))| fields.contains(*kind));
        let vectors = vectors.filter_map(|(number, (field, _))| Some((number as u32, field.as_ref()?)));
        let cell = self.cell.as_ref().filter(|_| fields.contains(Fields::CELL));
        vectors.chain(cell.map(|cell| (CELL, cell)))
    }
}

/// From the units of the fields to angstrom and ps.
fn scales(vectors: &[Option<Field>; 3], cell: &Option<Field>, time: f64) -> Scales {
    let scale = |field: &Option<Field>| field.as_ref().map_or(1.0, |field| field.scale);
    let [positions, velocity, force] = vectors.each_ref().map(scale);
    let length = if vectors[0].is_some() { positions } else { scale(cell) };
    Scales { length, velocity, force, time }
}

fn wide_fields(vectors: &[Option<Field>; 3]) -> Fields {
    let is_wide = |field: &Option<Field>| field.as_ref().is_some_and(Field::is_wide);
    let wide = vectors.iter().zip(KINDS).filter(|(field, _)| is_wide(field));
    wide.fold(Fields::NONE, |all, (_, kind)| all | kind)
}

/// Least number of bytes in memory for a frame of a field, whoever reads them.
fn frame_bytes(field: &Field, n_atoms: u32) -> u64 {
    match &field.rows {
        Rows::Stored(_) => field.frame_bytes(),
        Rows::External(..) => 12 * u64::from(n_atoms),
    }
}

fn check_rows(field: &Field, n_frames: u64) -> Result<()> {
    let Rows::Stored(pieces) = &field.rows else { return Ok(()) };
    let mut there = 0;
    for (first, array) in pieces {
        if *first != there {
            let what = format!("data set {}: first row", array.name());
            return Err(Error::corrupt(&what, there, first));
        }
        there += array.shape()[0];
    }
    let needed = match &field.row_of {
        _ if field.fixed => 1,
        None => n_frames,
        Some(rows) if rows.len() as u64 != n_frames => {
            return Err(Error::corrupt(&format!("rows of {}", field.name), n_frames, rows.len()));
        }
        Some(rows) => rows.iter().max().map_or(0, |&last| (last + 1).max(0) as u64),
    };
    if needed > there && n_frames > 0 {
        return Err(Error::corrupt(&format!("rows of {}", field.name), format!("at least {needed}"), there));
    }
    Ok(())
}

fn check_units(field: &Field, n_atoms: u64) -> Result<()> {
    let Rows::Stored(pieces) = &field.rows else { return Ok(()) };
    let expected = if field.flat { [3 * n_atoms, 1] } else { [n_atoms, 3] };
    for (_, array) in pieces {
        let [_, units, components] = array.shape();
        if [units, components] != expected || units > u64::from(u32::MAX) {
            let what = format!("data set {}: atoms and components", array.name());
            return Err(Error::corrupt(&what, format!("{expected:?}"), format!("{:?}", [units, components])));
        }
    }
    Ok(())
}

impl Decoder for H5mdDecoder {
    fn header(&self) -> &Header {
        &self.header
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn chunked(&self) -> Option<&dyn ChunkedDecoder> {
        Some(self)
    }

    fn arrangement(&self) -> Arrangement<'_> {
        Arrangement::Listed { index: &self.index, cut_at: self.cut_at }
    }

    fn segments(&self, index: &Index, wanted: &[Wanted], request: &Request, segments: &mut Vec<Segment>) -> Result<()> {
        if wanted.iter().any(|one| one.frame >= index.n_frames()) {
            return Err(Error::new(ErrorKind::Internal, "a frame beyond the index was asked for"));
        }
        let all = Extent::default();
        let wanted_all = 0..wanted.len() as u32;
        segments.push(Segment { wanted: wanted_all, atoms: 0..0, part: STAMPS, extent: all, whole: all });
        for (number, field) in self.present(request.fields) {
            if number == CELL {
                let units = match &field.rows {
                    Rows::Stored(pieces) => pieces.first().map_or(1, |(_, array)| array.shape()[1]),
                    Rows::External(..) => 3,
                };
                field.segments(number, wanted, &AtomSelection::all(units as u32), segments)?;
            } else {
                field.segments(number, wanted, &request.atoms, segments)?;
            }
        }
        segments.sort_by_key(|segment| segment.extent.offset);
        Ok(())
    }

    fn decode(&self, given: SegmentBytes<'_>, out: &mut BlockMut<'_>, scratch: &mut Scratch) -> Result<Decoded> {
        let SegmentBytes { segment, bytes, wanted, request } = given;
        if let Some(longer) = given.whole_needed() {
            return Ok(longer);
        }
        match segment.part & ((1 << PART_BITS) - 1) {
            STAMPS => self.stamps(wanted, request, out, scratch)?,
            CELL => self.cells(given, out, scratch)?,
            number => {
                let Some(Some(field)) = self.vectors.get(number as usize) else {
                    return Err(Error::new(ErrorKind::Internal, "a segment of a field that is not there"));
                };
                let len = 3 * out.n_selected;
                let (decoded, scratch) = (&mut scratch.bytes, &mut scratch.filters);
                let factor = self.factor(number, &request.scales);
                let atoms = &request.atoms;
                let work = Work { segment, bytes, wanted, atoms, factor, decoded, scratch };
                match &mut out.vectors[number as usize] {
                    VectorsMut::Absent => {}
                    VectorsMut::F32(rows) => field.decode(work, rows, len)?,
                    VectorsMut::F64(rows) => field.decode(work, rows, len)?,
                }
            }
        }
        Ok(Decoded::Done)
    }
}

impl ChunkedDecoder for H5mdDecoder {
    fn coupling(&self, fields: Fields) -> FrameCoupling {
        self.present(fields).fold(FrameCoupling::INDEPENDENT, |all, (_, field)| all.and(field.coupling()))
    }

    fn redecoded_frames(&self, before: u64, after: u64, fields: Fields) -> u64 {
        let changing = || self.present(fields).map(|(_, field)| field).filter(|field| !field.fixed);
        // fields weigh by their bytes: to decode a chunk of cells again matters little
        let all: u64 = changing().map(Field::frame_bytes).sum();
        let bytes = |field: &Field| field.shared_rows(before, after).saturating_mul(field.frame_bytes());
        let shared = changing().fold(0_u64, |sum, field| sum.saturating_add(bytes(field)));
        shared.div_ceil(all.max(1))
    }

    fn is_stored(&self, frame: u64) -> bool {
        self.present(self.header.fields).all(|(_, field)| field.is_stored(frame))
    }

    fn reads_in_place(&self, segment: &Segment, wanted: &[Wanted], request: &Request) -> Option<(usize, f64)> {
        let number = (segment.part & ((1 << PART_BITS) - 1)) as usize;
        let field = self.vectors.get(number)?.as_ref()?;
        let factor = self.factor(number as u32, &request.scales);
        field.reads_in_place(segment, wanted, &request.atoms).then_some((number, factor))
    }
}

impl H5mdDecoder {
    /// The factor of a field by its number. Cells are given in the unit of positions, even if positions are left as
    /// they are.
    fn factor(&self, number: u32, scales: &Scales) -> f64 {
        match number {
            0 => scales.length,
            1 => scales.velocity,
            2 => scales.force,
            _ => match (&self.cell, &self.vectors[0]) {
                (Some(cell), Some(positions)) if cell.scale == positions.scale => scales.length,
                (Some(cell), Some(positions)) if scales.length == positions.scale => cell.scale,
                (Some(cell), Some(positions)) => scales.length * (cell.scale / positions.scale),
                _ => scales.length,
            },
        }
    }

    /// Steps, times, and whatever has no bytes: absent fields, fields that Python reads.
    fn stamps(
        &self,
        wanted: &[Wanted],
        request: &Request,
        out: &mut BlockMut<'_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        for one in wanted {
            let at = one.frame as usize;
            let step = self.index.steps.as_ref().and_then(|steps| steps.get(at)).copied().unwrap_or(one.frame as i64);
            let time = self.index.times.as_ref().and_then(|times| times.get(at)).copied();
            let time = time.map_or(f64::NAN, |time| time * request.scales.time);
            *out.stamp(one.row as usize)? = Stamp { periodic: self.periodic, step, time, ..Stamp::default() };
        }
        for (number, field) in self.present(request.fields) {
            let (kind, len) = (KINDS[number as usize], 3 * out.n_selected);
            for one in wanted {
                let row = one.row as usize;
                if !field.absent(one.frame)? {
                    let stamp = out.stamp(row)?;
                    stamp.present = stamp.present | kind;
                } else if number == CELL {
                    out.stamp(row)?.cell = [[f64::NAN; 3]; 3];
                } else {
                    out.vectors[number as usize].set_absent(row, len)?;
                }
            }
            if let Rows::External(reader, _) = &field.rows {
                let factor = self.factor(number, &request.scales);
                let row_request = RowRequest { number, field, wanted, atoms: &request.atoms, factor };
                self.read_external(&**reader, &row_request, out, &mut scratch.meter)?;
            }
        }
        Ok(())
    }

    fn cells(&self, given: SegmentBytes<'_>, out: &mut BlockMut<'_>, scratch: &mut Scratch) -> Result<()> {
        let SegmentBytes { segment, bytes, wanted, request } = given;
        let Some(Field { rows: Rows::Stored(pieces), .. }) = &self.cell else {
            return Err(Error::new(ErrorKind::Internal, "a segment of a cell that is not there"));
        };
        let Some(field) = &self.cell else { return Ok(()) };
        let units = pieces.first().map_or(1, |(_, array)| array.shape()[1]) as usize;
        let factor = self.factor(CELL, &request.scales);
        let frames = wanted.get(segment.wanted.start as usize..segment.wanted.end as usize).unwrap_or_default();
        let dense: Vec<Wanted> = frames.iter().zip(0..).map(|(one, row)| Wanted { frame: one.frame, row }).collect();
        let here = Segment { wanted: 0..dense.len() as u32, ..segment.clone() };
        let width = 3 * units;
        let Scratch { doubles, bytes: decoded, filters: scratch, .. } = scratch;
        doubles.clear();
        // a segment may hold some of the components only: the others stay as they are
        for one in frames {
            let cell = out.stamp(one.row as usize)?.cell;
            match units {
                1 => doubles.extend([cell[0][0], cell[1][1], cell[2][2]]),
                _ => doubles.extend(cell.iter().flatten()),
            }
        }
        let atoms = AtomSelection::all(units as u32);
        let work = Work { segment: &here, bytes, wanted: &dense, atoms: &atoms, factor, decoded, scratch };
        field.decode(work, &mut RowsMut::Adjacent(doubles, width), width)?;
        for (one, values) in frames.iter().zip(doubles.chunks_exact(width)) {
            if field.row(one.frame) >= 0 {
                put_cell(&mut out.stamp(one.row as usize)?.cell, values);
            }
        }
        Ok(())
    }
}

/// Edges of a cuboid or rows of a matrix into a cell.
fn put_cell(cell: &mut Cell, values: &[f64]) {
    match values {
        [x, y, z] => *cell = [[*x, 0.0, 0.0], [0.0, *y, 0.0], [0.0, 0.0, *z]],
        values => cell.iter_mut().flatten().zip(values).for_each(|(out, value)| *out = *value),
    }
}
