//! The DCD header: the records before the first frame, from which kind and layout of the frames follow.

use crate::container::fortran::Layout;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::Fields;
use crate::index::Spacing;
use crate::source::{Extent, Source, ends_early};

use super::super::Header;

/// One AKMA unit of time in ps, as CHARMM defines it.
pub const AKMA_PS: f64 = 0.048_888_21;

/// A femtosecond in ps.
const FS_PS: f64 = 1e-3;

/// Bytes of the first record: "CORD" and twenty integers.
pub const FIRST_RECORD: u32 = 84;

/// The same if integers have 8 bytes (CHARMM compiled with `-i8`), which is refused by name.
const FIRST_RECORD_OF_8_BYTE_INTEGERS: u32 = 164;

/// Characters in a line of the title.
const TITLE_WIDTH: u64 = 80;

/// Remarks beyond this many bytes are skipped: a header may claim any length.
const MAX_REMARKS: u64 = 64 * 1024;

/// The longest record of a header that a file may be cut off in: longer ones, up to the free atoms of the largest
/// systems, are taken for wrong lengths.
const MAX_HEADER_RECORD: u64 = 16 * 1024 * 1024;

/// The header's description of the frames' layout.
#[derive(Debug, Clone, PartialEq)]
pub struct DcdHeader {
    /// Byte order and record lengths.
    pub layout: Layout,
    /// Whether the planes are velocities ("VELD").
    pub velocities: bool,
    /// The integers of the first record, after its tag.
    pub control: Vec<i32>,
    /// Frames that the header claims.
    pub claimed_frames: i32,
    /// Steps and times, ps; no times if the header's time step is zero or not a number.
    pub spacing: Spacing,
    /// Atoms.
    pub n_atoms: u32,
    /// Atoms that move, if some are fixed: later frames hold only these.
    pub free: Option<Vec<u32>>,
    /// Whether each frame has a unit cell.
    pub has_cell: bool,
    /// Whether each frame has a fourth plane.
    pub four_dimensional: bool,
    /// CHARMM's version, 0 for X-PLOR.
    pub version: i32,
    /// The program that wrote the file, as far as it decides the unit of the time step.
    pub program: Program,
    /// Assumption about the times, unless the user states them.
    pub assumption: Option<String>,
    /// Title lines.
    pub remarks: Vec<String>,
    /// Numbers of the header that cannot be right, and how they were read.
    pub warnings: Vec<String>,
    /// Where frame 0 begins.
    pub first_frame: u64,
}

/// The program that wrote a file, recognised by its title: the header does not say the unit of its time step.
///
/// CHARMM, X-PLOR, NAMD, OpenMM and MDAnalysis write AKMA units, whatever their title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Writes AKMA units, as CHARMM does.
    Charmm,
    /// LAMMPS (`dump dcd`), "Written by LAMMPS": the time step in the units of the run, which the file does not name.
    Lammps,
    /// VMD's plugin, "Created by DCD plugin" (VMD, CatDCD, MDTraj): always 1, with a stride of 1.
    VmdPlugin,
}

impl Program {
    fn from_remarks(remarks: &[String]) -> Self {
        let first = remarks.first().map(|line| line.to_ascii_lowercase()).unwrap_or_default();
        let first = first.strip_prefix("remarks ").unwrap_or(&first);
        if first.starts_with("written by lammps") {
            Self::Lammps
        } else if first.starts_with("created by dcd plugin") {
            Self::VmdPlugin
        } else {
            Self::Charmm
        }
    }

    /// The unit of the header's time step, ps.
    pub fn time_unit(self) -> f64 {
        match self {
            Self::Lammps => FS_PS,
            Self::Charmm | Self::VmdPlugin => AKMA_PS,
        }
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Self::Charmm => None,
            Self::Lammps => Some("LAMMPS"),
            Self::VmdPlugin => Some("VMD's DCD plugin"),
        }
    }

    /// Assumption about the time step.
    fn assumption(self, delta: f64, steps: i64) -> Option<String> {
        match self {
            Self::Charmm => None,
            Self::Lammps => Some(format!(
                "LAMMPS does not write the units of its run; the time step {delta} is taken as fs and lengths as \
                 angstrom (units real); others are stated with units={{\"time\": \"ps\"}} (--input-units time=ps)"
            )),
            Self::VmdPlugin => ((delta, steps) == (1.0, 1)).then(|| {
                "VMD's DCD plugin (VMD, CatDCD, MDTraj) writes a time step of 1 whatever it is, so times are those of \
                 no simulation (1 AKMA unit a frame); dt= (--timestep) gives the time between frames"
                    .to_owned()
            }),
        }
    }
}

/// Reads records one after the other.
struct Records<'a> {
    source: &'a dyn Source,
    layout: Layout,
    at: u64,
    size: u64,
}

impl Records<'_> {
    /// The extent of the next record's payload; moves past the record.
    fn next(&mut self, name: &str) -> Result<Extent> {
        let marker = self.layout.marker_len();
        let mut bytes = [0; 8];
        let head = &mut bytes[..marker as usize];
        self.source.read_exact_at(self.at, head)?;
        let len = self.layout.marker(head);
        let Some(len) = len.filter(|&len| len <= self.size) else {
            // a file that ends within its header was cut off, or is still being written; longer records do not belong
            // to a header
            if let Some(len) = len.filter(|&len| len <= MAX_HEADER_RECORD) {
                return Err(ends_early(self.source.path(), self.at, len + 2 * marker, self.size));
            }
            let (what, most) = (format!("length of the {name} record"), format!("at most {} bytes", self.size));
            return Err(Error::corrupt(&what, most, shown(len)).with_byte(self.at));
        };
        let payload = Extent { offset: self.at + marker, len };
        let end = payload.end();
        let tail = &mut bytes[..marker as usize];
        self.source.read_exact_at(end, tail)?;
        if self.layout.marker(tail) != Some(len) {
            let what = format!("length after the {name} record");
            return Err(Error::corrupt(&what, len, shown(self.layout.marker(tail))).with_byte(end));
        }
        self.at = end + marker;
        Ok(payload)
    }

    /// The title record; if its lengths are wrong, by its number of lines.
    ///
    /// Some versions of MDAnalysis wrote three lines of 80 characters between lengths for two (`coordinates/test.dcd`
    /// of MDAnalysisTests). Such a record is taken only if the same length follows the lines that it counts.
    fn title(&mut self, warnings: &mut Vec<String>) -> Result<Extent> {
        let start = self.at;
        let error = match self.next("title") {
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Truncated) => error,
            other => return other,
        };
        let marker = self.layout.marker_len();
        let mut bytes = [0; 12];
        let head = &mut bytes[..marker as usize + 4];
        if start.saturating_add(marker + 4) > self.size {
            return Err(error);
        }
        self.source.read_exact_at(start, head)?;
        let lines = head.last_chunk().map_or(0, |count| self.layout.int(*count));
        let counted = 4 + TITLE_WIDTH * u64::try_from(lines).unwrap_or(0);
        let end = start + marker + counted;
        if lines <= 0 || end + marker > self.size {
            return Err(error);
        }
        // the same bytes as before the record
        let mut behind = [0; 8];
        let behind = &mut behind[..marker as usize];
        self.source.read_exact_at(end, behind)?;
        if !head.starts_with(behind) {
            return Err(error);
        }
        self.at = end + marker;
        warnings.push(format!("the title record has {lines} lines of 80, but another length"));
        Ok(Extent { offset: start + marker, len: counted })
    }

    fn ints(&self, payload: Extent) -> Result<Vec<i32>> {
        let mut bytes = vec![0; payload.len as usize];
        self.source.read_exact_at(payload.offset, &mut bytes)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|&word| self.layout.int(word)).collect())
    }
}

/// A record length for a message.
pub fn shown(marker: Option<u64>) -> String {
    marker.map_or_else(|| "a negative length".to_owned(), |len| len.to_string())
}

/// Possible beginnings of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A DCD file that can be read, and whether it holds velocities.
    Dcd(Layout, bool),
    /// A DCD file whose integers have 8 bytes.
    WideIntegers,
    /// A first record of the right length, of another name.
    Unknown([u8; 4]),
    /// Anything else.
    Other,
}

/// How a file begins, from its first 12 bytes or more.
pub fn kind(head: &[u8]) -> Kind {
    let tag =
        |layout: Layout| head.get(layout.marker_len() as usize..).and_then(|rest| rest.first_chunk::<4>()).copied();
    if let Some(layout) = Layout::detect(head, FIRST_RECORD) {
        return match tag(layout) {
            Some([b'C', b'O', b'R', b'D']) => Kind::Dcd(layout, false),
            Some([b'V', b'E', b'L', b'D']) => Kind::Dcd(layout, true),
            Some(tag) => Kind::Unknown(tag),
            None => Kind::Other,
        };
    }
    match Layout::detect(head, FIRST_RECORD_OF_8_BYTE_INTEGERS).and_then(tag) {
        Some(tag) if [*b"CORD", *b"VELD"].contains(&tag) => Kind::WideIntegers,
        _ => Kind::Other,
    }
}

/// The layout of a file that begins with `head`, and whether it holds velocities.
fn readable(head: &[u8]) -> Result<(Layout, bool)> {
    let error = match kind(head) {
        Kind::Dcd(layout, velocities) => return Ok((layout, velocities)),
        Kind::WideIntegers => {
            Error::new(ErrorKind::Unsupported, "a DCD file of 8-byte integers (CHARMM compiled with -i8) is not read")
        }
        Kind::Unknown(tag) => {
            let what = format!("unknown kind of DCD file, expected CORD or VELD, found {}", tag.escape_ascii());
            Error::new(ErrorKind::Unsupported, what)
        }
        Kind::Other => Error::new(ErrorKind::Corrupt, "not a DCD file: it does not begin with a CORD or VELD record"),
    };
    Err(error.with_byte(0))
}

impl DcdHeader {
    /// Reads all records before the first frame.
    ///
    /// # Errors
    /// `Truncated`, `Corrupt`, `Unsupported`.
    pub fn read(source: &dyn Source) -> Result<Self> {
        let size = source.len()?;
        let mut head = vec![0; size.min(16) as usize];
        source.read_exact_at(0, &mut head)?;
        let (layout, velocities) = readable(&head)?;
        let mut records = Records { source, layout, at: 0, size };
        let control = control_words(&records.next("first")?, &records)?;
        let word = |i: usize| control.get(i).copied().unwrap_or_default();
        let version = word(19);
        let mut warnings = Vec::new();
        let remarks = remarks(&records.title(&mut warnings)?, &records)?;
        let n_atoms = atom_count(&mut records)?;
        let free = match word(8) {
            0 => None,
            fixed => Some(free_atoms(fixed, n_atoms, &mut records)?),
        };
        let steps = i64::from(word(2)).max(1);
        if word(2) < 1 {
            warnings.push(format!("the header says {} steps between frames, taken as 1", word(2)));
        }
        let delta = time_step(layout, version, [word(9), word(10)]);
        let program = Program::from_remarks(&remarks);
        let time = Some(delta * steps as f64 * program.time_unit()).filter(|time| time.is_finite() && *time > 0.0);
        let assumption = match time {
            Some(_) => program.assumption(delta, steps),
            None => Some(format!(
                "the header says a time step of {delta}, so the frames have no times; dt= (--timestep) gives them"
            )),
        };
        Ok(Self {
            layout,
            velocities,
            claimed_frames: word(0),
            spacing: Spacing { first_step: i64::from(word(1)), steps, time },
            n_atoms,
            free,
            // any number but 0 is "yes", as in the programs that write it
            has_cell: version != 0 && word(10) != 0,
            four_dimensional: version != 0 && word(11) != 0,
            version,
            program,
            assumption,
            remarks,
            warnings,
            first_frame: records.at,
            control,
        })
    }

    /// Bytes of a frame in which `n` atoms are stored.
    pub fn frame_len(&self, n: u64) -> u64 {
        self.cell_len() + self.n_planes() as u64 * self.layout.record_len(4 * n)
    }

    /// Planes of a frame.
    pub fn n_planes(&self) -> usize {
        if self.four_dimensional { 4 } else { 3 }
    }

    /// Bytes of the cell record.
    pub fn cell_len(&self) -> u64 {
        if self.has_cell { self.layout.record_len(48) } else { 0 }
    }

    /// Atoms stored in a frame: all in the first, later those that are not fixed.
    pub fn stored_atoms(&self, frame: u64) -> u64 {
        match &self.free {
            Some(free) if frame > 0 => free.len() as u64,
            _ => u64::from(self.n_atoms),
        }
    }

    /// Number of complete frames in a file of `size` bytes, and bytes of an incomplete frame after them.
    pub fn frames_in(&self, size: u64) -> (u64, u64) {
        let first = self.frame_len(self.stored_atoms(0));
        let stride = self.frame_len(self.stored_atoms(1));
        match size.checked_sub(self.first_frame + first) {
            Some(behind) => (1 + behind / stride, behind % stride),
            None => (0, size.saturating_sub(self.first_frame)),
        }
    }

    /// Where [`DcdHeader::control`] begins in the file.
    pub fn control_offset(&self) -> u64 {
        self.layout.marker_len() + 4
    }

    /// The header as all formats have it.
    pub fn describe(&self, frames_in_file: u64) -> Header {
        let mut variant =
            vec![if self.version == 0 { "X-PLOR".to_owned() } else { format!("CHARMM {}", self.version) }];
        variant.extend(self.program.name().map(|name| format!("written by {name}")));
        variant.push(if self.layout.big_endian { "big-endian" } else { "little-endian" }.to_owned());
        if self.layout.wide_markers {
            variant.push("8-byte record lengths".to_owned());
        }
        if self.has_cell {
            variant.push("with unit cell".to_owned());
        }
        if self.four_dimensional {
            variant.push("with a fourth dimension (skipped)".to_owned());
        }
        if let Some(free) = &self.free {
            variant.push(format!("{} of {} atoms fixed", self.n_atoms as usize - free.len(), self.n_atoms));
        }
        let vectors = if self.velocities { Fields::VELOCITIES } else { Fields::POSITIONS };
        let cell = if self.has_cell { Fields::CELL } else { Fields::NONE };
        let mut warnings = self.warnings.clone();
        if i64::from(self.claimed_frames) != frames_in_file as i64 {
            warnings.push(format!("the header says {} frames, the file holds {frames_in_file}", self.claimed_frames));
        }
        Header {
            n_atoms: self.n_atoms,
            fields: vectors | cell | Fields::STEP | self.spacing.time.map_or(Fields::NONE, |_| Fields::TIME),
            remarks: self.remarks.clone(),
            variant: variant.join(", "),
            warnings,
        }
    }
}

/// The integration time step in the unit of the program.
fn time_step(layout: Layout, version: i32, words: [i32; 2]) -> f64 {
    if version != 0 {
        return f64::from(f32::from_bits(words[0].cast_unsigned()));
    }
    // X-PLOR: one float64 in two words, in the order of the file
    let bytes = words.map(|word| if layout.big_endian { word.to_be_bytes() } else { word.to_le_bytes() });
    let mut double = [0; 8];
    double.copy_from_slice(bytes.as_flattened());
    layout.double(double)
}

fn atom_count(records: &mut Records<'_>) -> Result<u32> {
    let counted = records.next("atom count")?;
    if counted.len != 4 {
        return Err(Error::corrupt("length of the atom count record", 4, counted.len).with_byte(counted.offset));
    }
    let count = records.ints(counted)?.first().copied().unwrap_or_default();
    let n_atoms = u32::try_from(count)
        .ok()
        .filter(|&n| n > 0)
        .ok_or_else(|| Error::corrupt("number of atoms", "a positive number", count).with_byte(counted.offset))?;
    if !records.layout.wide_markers && 4 * u64::from(n_atoms) > i32::MAX as u64 {
        let what = format!("{n_atoms} atoms: records beyond 2 GiB, which Fortran splits, are not read");
        return Err(Error::new(ErrorKind::Unsupported, what).with_byte(counted.offset));
    }
    Ok(n_atoms)
}

fn control_words(payload: &Extent, records: &Records<'_>) -> Result<Vec<i32>> {
    let words = Extent { offset: payload.offset + 4, len: payload.len.saturating_sub(4).min(80) };
    records.ints(words)
}

fn remarks(payload: &Extent, records: &Records<'_>) -> Result<Vec<String>> {
    let text = Extent { offset: payload.offset + 4, len: payload.len.saturating_sub(4).min(MAX_REMARKS) };
    let mut bytes = vec![0; text.len as usize];
    records.source.read_exact_at(text.offset, &mut bytes)?;
    let lines = bytes.chunks(TITLE_WIDTH as usize).map(|line| {
        let line = String::from_utf8_lossy(line.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
        line.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned()
    });
    Ok(lines.filter(|line| !line.is_empty()).collect())
}

fn free_atoms(fixed: i32, n_atoms: u32, records: &mut Records<'_>) -> Result<Vec<u32>> {
    let at = records.at;
    let n_free =
        u32::try_from(fixed).ok().and_then(|fixed| n_atoms.checked_sub(fixed)).filter(|&n| n > 0).ok_or_else(|| {
            Error::corrupt("number of fixed atoms", format!("0 to {}", n_atoms - 1), fixed).with_byte(at)
        })?;
    let payload = records.next("free atoms")?;
    if payload.len != 4 * u64::from(n_free) {
        return Err(Error::corrupt("length of the free atoms record", 4 * u64::from(n_free), payload.len).with_byte(at));
    }
    let list = records.ints(payload)?;
    let mut before = 0;
    list.into_iter()
        .map(|atom| match u32::try_from(atom) {
            // counted from 1, strictly ascending
            Ok(atom) if atom > before && atom <= n_atoms => {
                before = atom;
                Ok(atom - 1)
            }
            _ => {
                Err(Error::corrupt("number of a free atom", format!("{} to {n_atoms}", before + 1), atom).with_byte(at))
            }
        })
        .collect()
}
