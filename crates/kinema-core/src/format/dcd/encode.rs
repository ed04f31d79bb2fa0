//! DCD encoder: the layout of CHARMM and NAMD, little-endian, with the cell as lengths and cosines.

use super::cell::{self, SHAPE_MATRIX_SINCE};
use super::header::{DcdHeader, FIRST_RECORD, Program, shown};
use super::times::Times;
use crate::container::fortran::Layout;
use crate::error::{Error, ErrorKind, Result};
use crate::format::cells;
use crate::format::frame_layout::vectors_of;
use crate::format::{
    AtomPlane, EncodeScratch, Encoder, FrameLayout, Making, Marker, Placing, Record, SomeAtoms, first_lost,
};
use crate::frame::{BlockView, Cell, Fields, NO_CELL, NOT_A_CELL, Stamp, is_lower};
use crate::selection::AtomSelection;

/// CHARMM's version in the header: with 24, cells are lengths and cosines, as NAMD writes them.
const VERSION: i32 = 24;
/// The same if cells are symmetric matrices.
const VERSION_OF_MATRICES: i32 = 36;

/// The line of the title: nothing in it depends on when or where the file was made.
const TITLE: &[u8] = b"REMARKS WRITTEN BY KINEMA";

/// Where the number of frames stands; first step, stride and number of steps follow.
const COUNTS: u64 = 8;

/// Where the time step stands.
const DELTA: u64 = COUNTS + 4 * 9;

/// Cells that do not lie as lengths and cosines say it.
const TURNED: &str = "cells are turned so that their first vector lies along x; positions are not";

/// Records of 4-byte lengths: the largest payload.
const LONGEST: u64 = i32::MAX as u64;

/// A cell read back may differ by this share of its longest edge, which is rounding in float64.
const CELL_ROUNDING: f64 = 1e-12;

/// How the six numbers of a cell are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellKind {
    /// No record of a cell.
    None,
    /// Lengths and cosines of cells whose first vector lies along x and the second in the xy plane.
    Lengths,
    /// The same of cells that lie otherwise.
    Turned,
    /// Symmetric matrices, as CHARMM from version 25 on writes them.
    Matrix,
}

/// Makes a DCD file.
#[derive(Debug)]
pub(super) struct DcdEncoder {
    n_atoms: u32,
    fields: Fields,
    cells: CellKind,
    /// CHARMM's, in the header.
    version: i32,
    times: Times,
    /// Whether steps and times of all frames were known.
    checks_times: bool,
    losses: Vec<String>,
    /// CHARMM's version in the source, if planes are copied.
    copied: Option<i32>,
}

/// As records are written.
const LAYOUT: Layout = Layout { big_endian: false, wide_markers: false };

/// Bytes of the record of a cell.
const CELL_RECORD: usize = 8 + 48;

impl DcdEncoder {
    /// # Errors
    /// `InvalidArgument` for fields that a file cannot hold, `Unsupported` for too many atoms.
    pub fn new(making: &Making) -> Result<Self> {
        let mut losses = Vec::new();
        let fields = making.only_field(&[Fields::POSITIONS, Fields::VELOCITIES], &mut losses)?;
        if making.precision.is_some() {
            return Err(Error::new(ErrorKind::InvalidArgument, "a DCD file holds float32, which no precision= rounds"));
        }
        if making.n_atoms == 0 || 4 * u64::from(making.n_atoms) > LONGEST {
            let what =
                format!("number of atoms of a DCD file, expected 1 to {}, found {}", LONGEST / 4, making.n_atoms);
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let cells = cell_kind(making);
        if cells == CellKind::Turned && !making.open_ended {
            losses.push(TURNED.to_owned());
        }
        making.note_extras(&mut losses);
        let times = Times::fit(&making.steps, &making.times, &mut losses);
        let version = if cells == CellKind::Matrix { VERSION_OF_MATRICES } else { VERSION };
        let copied = making.recoded_version.filter(|_| making.same_format && making.all_atoms);
        let checks_times = !making.open_ended;
        Ok(Self { n_atoms: making.n_atoms, fields, cells, version, times, checks_times, losses, copied })
    }

    /// The encoder that extends a file with this header.
    ///
    /// # Errors
    /// `Unsupported` for layouts that are not written here, with the reason; errors of [`DcdEncoder::new`].
    pub fn resume(header: &DcdHeader, making: &Making) -> Result<Self> {
        let reasons = [
            (header.layout.big_endian, "it is big-endian, expected little-endian"),
            (header.layout.wide_markers, "its record lengths have 8 bytes, expected 4"),
            (header.version == 0, "it is X-PLOR's layout, expected CHARMM's"),
            (header.free.is_some(), "it has fixed atoms, which later frames leave out"),
            (header.four_dimensional, "it has a fourth dimension"),
            (header.program == Program::Lammps, "LAMMPS wrote it, and it does not say the unit of its time step"),
        ];
        if let Some((_, reason)) = reasons.into_iter().find(|(holds, _)| *holds) {
            return Err(Error::new(ErrorKind::Unsupported, format!("the file cannot be extended: {reason}")));
        }
        let fields = if header.velocities { Fields::VELOCITIES } else { Fields::POSITIONS };
        if let Some(asked) = making.fields.filter(|asked| *asked != fields) {
            let (expected, found) = (fields.names().join(", "), asked.names().join(", "));
            let what = format!("the file holds one field in all frames, expected {expected}, found {found}");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let made = Self::new(making)?;
        let cells = match (header.has_cell, header.version >= SHAPE_MATRIX_SINCE) {
            (false, _) => CellKind::None,
            (true, false) => CellKind::Turned,
            (true, true) => CellKind::Matrix,
        };
        let delta = f32::from_bits(header.control.get(9).copied().unwrap_or_default().cast_unsigned());
        Ok(Self { cells, version: header.version, times: Times::stated(header.spacing, delta)?, ..made })
    }

    fn record_len(&self) -> u64 {
        let cell = if self.cells == CellKind::None { 0 } else { CELL_RECORD as u64 };
        cell + self.planes_len()
    }

    fn planes_len(&self) -> u64 {
        3 * (8 + 4 * u64::from(self.n_atoms))
    }

    /// The values of a block that are written.
    fn values<'a>(&self, rows: &BlockView<'a>) -> &'a [f32] {
        if self.fields == Fields::VELOCITIES { rows.velocities } else { rows.positions }
    }

    /// The record of a cell, if files have one.
    fn push_cell(&self, stored: &Cell, frame: u64, out: &mut Vec<u8>) -> Result<()> {
        if self.cells != CellKind::None {
            let numbers = self.cell(stored, frame)?;
            push_record(out, 48, |out| out.extend(numbers.iter().flat_map(|number| number.to_le_bytes())));
        } else if *stored != NO_CELL {
            let what = "a cell in a DCD file without cells, as its first frame has none";
            return Err(Error::new(ErrorKind::Unsupported, what).with_frame(frame));
        }
        Ok(())
    }

    /// The four counts for `n_frames` frames; beyond 32 bits they are the largest number, and readers go by the file's
    /// size.
    fn counts(&self, n_frames: u64) -> [i32; 4] {
        let most = |value: i128| value.clamp(i128::from(i32::MIN), i128::from(i32::MAX)) as i32;
        let (frames, stride) = (i128::from(n_frames), self.times.stride);
        [most(frames), self.times.first, stride, most(frames * i128::from(stride))]
    }

    fn cell(&self, stored: &Cell, frame: u64) -> Result<[f64; 6]> {
        let numbers = match self.cells {
            _ if *stored == NO_CELL => return Ok([0.0; 6]),
            CellKind::Matrix => matrix_of(stored),
            CellKind::None | CellKind::Lengths | CellKind::Turned => lengths_and_cosines(stored),
        };
        let found = cell::cell(numbers, self.version).filter(|found| *found != NO_CELL);
        let fits = found.is_some_and(|found| self.cells == CellKind::Turned || nearly_equal(&found, stored));
        if fits {
            return Ok(numbers);
        }
        let expected = match self.cells {
            CellKind::Matrix => "a symmetric matrix, as those of the other frames",
            _ => "a cell whose first vector lies along x and the second in the xy plane",
        };
        let what = format!("a cell that this DCD file cannot hold, expected {expected}, found {stored:?}");
        Err(Error::new(ErrorKind::Unsupported, what).with_frame(frame))
    }
}

impl Encoder for DcdEncoder {
    fn fields(&self) -> Fields {
        self.fields
    }

    fn losses(&self) -> &[String] {
        &self.losses
    }

    fn placing(&self) -> Placing {
        Placing::Uniform(self.record_len())
    }

    fn head(&self) -> Vec<u8> {
        let mut words = [0_i32; 20];
        words[..4].copy_from_slice(&self.counts(0));
        words[9] = self.times.delta.to_bits().cast_signed();
        words[10] = i32::from(self.cells != CellKind::None);
        words[19] = self.version;
        let mut first = if self.fields == Fields::VELOCITIES { b"VELD".to_vec() } else { b"CORD".to_vec() };
        first.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let mut title = [b' '; 4 + 80];
        title[..4].copy_from_slice(&1_i32.to_le_bytes());
        title[4..4 + TITLE.len()].copy_from_slice(TITLE);
        debug_assert_eq!(first.len(), FIRST_RECORD as usize);
        let mut head = Vec::new();
        for record in [&first[..], &title, &self.n_atoms.to_le_bytes()] {
            push_record(&mut head, record.len() as u64, |out| out.extend_from_slice(record));
        }
        head
    }

    fn cell_read_back(&self, cell: &Cell) -> Cell {
        let numbers = match self.cells {
            CellKind::Matrix => matrix_of(cell),
            CellKind::None | CellKind::Lengths | CellKind::Turned => numbers_of(cells::lengths_and_cosines(cell)),
        };
        cell::cell(numbers, self.version).unwrap_or(NOT_A_CELL)
    }

    fn push_records(&self, rows: &BlockView<'_>, first: u64, _: &mut EncodeScratch, out: &mut Vec<u8>) -> Result<()> {
        let width = 3 * rows.n_selected;
        let values = self.values(rows);
        if rows.n_selected != self.n_atoms as usize || values.len() != width * rows.rows() {
            return Err(Error::new(ErrorKind::Internal, "the block has other atoms or fields than the file"));
        }
        out.reserve(rows.rows() * self.record_len() as usize);
        for (row, (values, stamp)) in values.chunks_exact(width.max(1)).zip(rows.stamps).enumerate() {
            let frame = first + row as u64;
            if self.checks_times {
                self.times.check(stamp.step, stamp.time, frame)?;
            }
            self.push_cell(&stamp.cell, frame, out)?;
            let atoms = values.as_chunks::<3>().0;
            for axis in 0..3 {
                push_record(out, 4 * atoms.len() as u64, |out| push_axis(atoms, axis, out));
            }
        }
        Ok(())
    }

    fn plane_layout(&self, stamp: &Stamp, frame: u64) -> Result<FrameLayout> {
        let mut piece = Vec::new();
        self.push_cell(&stamp.cell, frame, &mut piece)?;
        let plane = 4 * u64::from(self.n_atoms);
        let marker = (plane as u32).to_le_bytes();
        let mut layout = FrameLayout { bytes: self.record_len(), ..FrameLayout::default() };
        let mut at = 0;
        for _ in 0..3 {
            piece.extend(marker);
            let offset = at + piece.len() as u64;
            layout.pieces.push((at, std::mem::replace(&mut piece, marker.to_vec())));
            layout.planes.push(AtomPlane { offset, width: 4 });
            at = offset + plane;
        }
        layout.pieces.push((at, piece));
        Ok(layout)
    }

    fn encode_atoms(&self, atoms: &SomeAtoms<'_>, plane: usize, out: &mut Vec<u8>) -> Result<()> {
        push_axis(vectors_of(self.values(&atoms.rows), atoms.rows.n_selected)?, plane, out);
        Ok(())
    }

    fn recodes(&self) -> bool {
        self.copied.is_some()
    }

    /// The planes are copied; the cell is converted, because the file may hold it as other numbers.
    fn recode(&self, record: &Record<'_>, _: &AtomSelection, _: &mut EncodeScratch, out: &mut Vec<u8>) -> Result<()> {
        let cell_len = (record.bytes.len() as u64).checked_sub(self.planes_len());
        let (Some(version), Some(cell_len @ (0 | 56))) = (self.copied, cell_len) else {
            return Err(Error::new(ErrorKind::Internal, "a record of another layout than the file"));
        };
        let (cell, planes) = record.bytes.split_at(cell_len as usize);
        let plane = 8 + 4 * self.n_atoms as usize;
        for (axis, name) in ["x plane", "y plane", "z plane"].into_iter().enumerate() {
            check_record(record, cell.len() + axis * plane, plane - 8, name)?;
        }
        let mut stored = NO_CELL;
        if !cell.is_empty() {
            check_record(record, 0, 48, "unit cell")?;
            let mut numbers = [0.0; 6];
            numbers.iter_mut().zip(cell[4..].as_chunks().0).for_each(|(number, bytes)| *number = LAYOUT.double(*bytes));
            // by the rule of all formats, a frame whose numbers do not make a cell has none
            stored = cell::cell(numbers, version).unwrap_or(NO_CELL);
        }
        self.push_cell(&stored, record.frame, out)?;
        out.extend_from_slice(planes);
        Ok(())
    }

    fn marker(&self, committed: u64) -> Option<Marker> {
        let bytes = self.counts(committed).iter().flat_map(|count| count.to_le_bytes()).collect();
        Some(Marker { offset: COUNTS, bytes })
    }

    fn time_by(&mut self, steps: &[i64], times: &[f64]) -> Option<Marker> {
        self.times = Times::fit(steps, times, &mut Vec::new());
        Some(Marker { offset: DELTA, bytes: self.times.delta.to_le_bytes().to_vec() })
    }

    fn stamp_losses(&self, stamps: &[Stamp], first: u64) -> Vec<(&'static str, u64)> {
        let turned = |stamp: &Stamp| self.cells == CellKind::Turned && !is_lower(&stamp.cell);
        let turned = first_lost(TURNED, stamps, first, turned);
        self.times.losses(stamps, first).into_iter().chain(turned).collect()
    }
}

/// Checks the lengths before and after the `len` bytes of a record that begins at byte `at` of a frame.
fn check_record(frame: &Record<'_>, at: usize, len: usize, name: &str) -> Result<()> {
    for at in [at, at + 4 + len] {
        let found = frame.bytes.get(at..).and_then(|bytes| LAYOUT.marker(bytes));
        if found != Some(len as u64) {
            let error = Error::corrupt(&format!("record length of the {name}"), len, shown(found));
            return Err(error.with_frame(frame.frame).with_byte(frame.offset + at as u64));
        }
    }
    Ok(())
}

/// One plane of these atoms.
fn push_axis(atoms: &[[f32; 3]], axis: usize, out: &mut Vec<u8>) {
    out.extend(atoms.iter().flat_map(|atom| atom[axis].to_le_bytes()));
}

/// A record of `len` bytes with its lengths.
fn push_record(out: &mut Vec<u8>, len: u64, payload: impl FnOnce(&mut Vec<u8>)) {
    let marker = (len as u32).to_le_bytes();
    out.extend_from_slice(&marker);
    payload(out);
    out.extend_from_slice(&marker);
}

/// The kind of cell record that holds the cells of all frames that were looked at.
fn cell_kind(making: &Making) -> CellKind {
    if !making.held.contains(Fields::CELL) {
        return CellKind::None;
    }
    let mut there = making.cells.iter().filter(|cell| **cell != NO_CELL);
    let symmetric = |cell: &Cell| cell[0][1] == cell[1][0] && cell[0][2] == cell[2][0] && cell[1][2] == cell[2][1];
    if there.clone().all(is_lower) {
        // others may follow
        if making.open_ended { CellKind::Turned } else { CellKind::Lengths }
    } else if there.all(symmetric) {
        CellKind::Matrix
    } else {
        CellKind::Turned
    }
}

/// The upper triangle of a symmetric matrix, as a file has it.
fn matrix_of(cell: &Cell) -> [f64; 6] {
    [cell[0][0], cell[0][1], cell[1][1], cell[0][2], cell[1][2], cell[2][2]]
}

/// Lengths and cosines in the order of a file.
fn numbers_of(([a, b, c], [alpha, beta, gamma]): ([f64; 3], [f64; 3])) -> [f64; 6] {
    [a, gamma, b, beta, alpha, c]
}

fn nearly_equal(a: &Cell, b: &Cell) -> bool {
    let edge = b.iter().flatten().fold(0.0_f64, |most, value| most.max(value.abs()));
    a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| (a - b).abs() <= CELL_ROUNDING * edge)
}

/// `A, cos gamma, B, cos beta, cos alpha, C` from which a reader gets the cell back, to the last bit if there are such
/// numbers within two steps of the computed ones.
fn lengths_and_cosines(cell: &Cell) -> [f64; 6] {
    let made = cells::lengths_and_cosines(cell);
    let ([a, b, c], [alpha, beta, gamma]) = made;
    let exact =
        |numbers: &[f64; 6], row: usize| cell::cell(*numbers, VERSION).is_some_and(|found| found[row] == cell[row]);
    let numbers = numbers_of(made);
    if exact(&numbers, 1) && exact(&numbers, 2) {
        return numbers;
    }
    // the second vector is made of B and gamma alone; then the third of the others
    let near = |value: f64| if value == 0.0 { vec![value] } else { near(value) };
    let second =
        near(b).into_iter().flat_map(|b| near(gamma).into_iter().map(move |gamma| [a, gamma, b, beta, alpha, c]));
    let numbers = second.clone().find(|numbers| exact(numbers, 1)).unwrap_or(numbers);
    let third = near(beta).into_iter().flat_map(|beta| {
        let [a, gamma, b, ..] = numbers;
        let ends = near(alpha).into_iter().flat_map(move |alpha| near(c).into_iter().map(move |c| (alpha, c)));
        ends.map(move |(alpha, c)| [a, gamma, b, beta, alpha, c])
    });
    third.into_iter().find(|numbers| exact(numbers, 2)).unwrap_or(numbers)
}

/// A number and those up to two steps from it.
fn near(value: f64) -> Vec<f64> {
    let (below, above) = (value.next_down(), value.next_up());
    vec![value, below, above, below.next_down(), above.next_up()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoder(cells: Vec<Cell>) -> DcdEncoder {
        let held = Fields::POSITIONS | Fields::CELL;
        let times = vec![0.0; cells.len()];
        DcdEncoder::new(&Making { n_atoms: 1, held, cells, steps: vec![0], times, ..Making::default() }).unwrap()
    }

    #[test]
    fn cells_that_a_reader_made_are_kept_to_the_bit() {
        let mut state = 1_u64;
        let mut random = |from: f64, to: f64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            from + (to - from) * (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut exact = 0;
        for _ in 0..1000 {
            let lengths = [0; 3].map(|_| random(10.0, 200.0));
            let angles = [0; 3].map(|_| random(60.0, 110.0));
            let Some(made) = cell::cell([lengths[0], angles[2], lengths[1], angles[1], angles[0], lengths[2]], 24)
            else {
                continue;
            };
            let numbers = encoder(vec![made]).cell(&made, 0).unwrap();
            let found = cell::cell(numbers, VERSION).unwrap();
            assert!(nearly_equal(&found, &made), "{found:?} {made:?}");
            exact += usize::from(found == made);
        }
        // the others differ in the last bit
        assert!(exact >= 900, "{exact}");
        for made in [[[50.1, 0.0, 0.0], [0.0, 60.2, 0.0], [0.0, 0.0, 70.3]], NO_CELL] {
            assert_eq!(cell::cell(encoder(vec![made]).cell(&made, 0).unwrap(), VERSION), Some(made));
        }
    }

    #[test]
    fn symmetric_matrices_stay_matrices_and_others_are_turned() {
        let matrix = [[50.0, 0.5, 0.0], [0.5, 50.0, 0.0], [0.0, 0.0, 50.0]];
        let made = encoder(vec![matrix, NO_CELL]);
        assert_eq!((made.cells, made.version), (CellKind::Matrix, 36));
        assert_eq!(cell::cell(made.cell(&matrix, 0).unwrap(), 36), Some(matrix));
        let cuboid = [[50.0, 0.0, 0.0], [0.0, 60.0, 0.0], [0.0, 0.0, 70.0]];
        assert_eq!(cell::cell(made.cell(&cuboid, 0).unwrap(), 36), Some(cuboid));
        let turned = [[0.0, 50.0, 0.0], [-60.0, 0.0, 0.0], [0.0, 0.0, 70.0]];
        let error = made.cell(&turned, 7).unwrap_err();
        assert_eq!((error.kind(), error.frame()), (ErrorKind::Unsupported, Some(7)));
        let made = encoder(vec![turned]);
        assert!(made.losses()[0].starts_with("cells are turned"));
        assert_eq!(
            cell::cell(made.cell(&turned, 0).unwrap(), VERSION),
            Some([[50.0, 0.0, 0.0], [0.0, 60.0, 0.0], [0.0, 0.0, 70.0]])
        );
        let flat = [[50.0, 0.0, 0.0], [0.0, 60.0, 0.0], [3.0, 4.0, 0.0]];
        assert_eq!(encoder(vec![flat]).cell(&flat, 3).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn open_edges_are_kept() {
        let [a, b, c] = [[50.0, 0.0, 0.0], [20.0, 60.0, 0.0], [5.0, 6.0, 70.0]];
        let none = [0.0; 3];
        for cell in [[a, b, none], [a, none, none], [none, [0.0, 60.0, 0.0], none], [a, none, [5.0, 0.0, 70.0]]] {
            let made = encoder(vec![cell, [a, b, c]]);
            let found = cell::cell(made.cell(&cell, 0).unwrap(), VERSION).unwrap();
            assert!(nearly_equal(&found, &cell), "{found:?} {cell:?}");
        }
        let sheared = [[50.0, 0.5, 0.0], [0.5, 60.0, 0.0], none];
        let made = encoder(vec![sheared]);
        assert_eq!(cell::cell(made.cell(&sheared, 0).unwrap(), made.version), Some(sheared));
    }
}
