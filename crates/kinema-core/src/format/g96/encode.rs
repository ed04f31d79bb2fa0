//! G96 encoder: frames as `gmx trjconv` writes them, with the title in the first one.

use super::NAME;
use super::head_of;
use super::shape::{COLUMN, END, Shape, skipped};
use crate::container::text::fortran::{holds, put_f, put_i};
use crate::error::{Error, ErrorKind, Result};
use crate::format::encoder::index_frames;
use crate::format::lines::TextFrames;
use crate::format::{EncodeScratch, Encoder, Making, Placing, first_lost};
use crate::frame::{BlockView, Cell, Fields, Stamp};
use crate::index::TableBuilder;

/// Decimals of the numbers of a vector and of a time.
const DECIMALS: usize = 9;
const TIME_DECIMALS: usize = 6;
/// Bytes of the line of a vector.
const LINE: usize = 3 * COLUMN + 1;
/// Vectors that files can hold.
const VECTORS: [(Fields, &str); 2] = [(Fields::POSITIONS, "POSITIONRED"), (Fields::VELOCITIES, "VELOCITYRED")];
/// Longest title.
const TITLE_WIDTH: usize = 400;

/// Losses.
const TIMES: &str = "times are rounded to 1e-6 ps";
const NO_TIME: &str = "frames without a time have NaN in its place";
const CELLS: &str = "cells are rounded to 1e-9 nm";

/// Makes a G96 file.
#[derive(Debug)]
pub(super) struct G96Encoder {
    shape: Shape,
    title: String,
    takes_doubles: bool,
    losses: Vec<String>,
}

impl G96Encoder {
    /// # Errors
    /// `InvalidArgument` for fields that the source lacks, for velocities alone, and for a precision.
    pub fn new(making: &Making) -> Result<Self> {
        if making.precision.is_some() {
            let what = "a G96 file has 9 decimals of each number, which no precision= changes";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let mut losses = Vec::new();
        let fields = making.chosen_fields(Fields::POSITIONS | Fields::VELOCITIES, &mut losses)?;
        if !fields.contains(Fields::POSITIONS) {
            let found = fields.names().join(", ");
            let what = format!("fields of a G96 file, expected positions, or positions and velocities, found {found}");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        losses.extend(fields.names().into_iter().map(|name| format!("{name} are rounded to 9 decimals of nm")));
        making.note_extras(&mut losses);
        if !making.open_ended {
            let lost = [
                (NO_TIME, making.times.iter().any(|time| time.is_nan())),
                (TIMES, making.times.iter().any(|&time| !holds(time, TIME_DECIMALS as i32))),
                (CELLS, !making.cells.iter().all(holds_cell)),
            ];
            losses.extend(lost.into_iter().filter(|(_, lost)| *lost).map(|(what, _)| what.to_owned()));
        }
        let velocities = fields.contains(Fields::VELOCITIES);
        let lines = u64::from(making.n_atoms);
        Ok(Self {
            shape: Shape { n_atoms: making.n_atoms, lines, velocities, cell: true, timed: true },
            title: title_of(making.title.as_deref()),
            takes_doubles: making.open_ended || VECTORS.into_iter().any(|(field, _)| making.wide.contains(field)),
            losses,
        })
    }

    /// Extends a file whose first frame has this shape.
    ///
    /// # Errors
    /// `Unsupported` for blocks that are not written here; `InvalidArgument` for other fields than those of the file.
    pub fn resume(shape: &Shape, making: &Making) -> Result<Self> {
        if !shape.cell || !shape.timed || shape.has_comments() {
            let what = "the file cannot be extended: its frames are not as they are written here, with TIMESTEP and BOX and \
                        without comments";
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let velocities = if shape.velocities { Fields::VELOCITIES } else { Fields::NONE };
        let fields = Fields::POSITIONS | velocities;
        if let Some(asked) = making.fields.filter(|asked| *asked != fields) {
            let (expected, found) = (fields.names().join(", "), asked.names().join(", "));
            let what = format!("the file holds the same fields in all frames, expected {expected}, found {found}");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        Self::new(&Making { held: making.held | fields, fields: Some(fields), ..making.clone() })
    }

    fn put_frame(&self, rows: &BlockView<'_>, row: usize, is_first: bool, out: &mut Vec<u8>) -> Result<()> {
        let stamp = &rows.stamps[row];
        out.extend(b"TITLE\n");
        out.extend(if is_first { self.title.as_bytes() } else { b"" });
        out.extend(b"\nEND\nTIMESTEP\n");
        checked(out, "a step or time", |out| {
            put_i(out, stamp.step, COLUMN);
            put_f(out, stamp.time, COLUMN, TIME_DECIMALS);
        })?;
        out.extend(b"\nEND\n");
        let (single, double) = ([rows.positions, rows.velocities], rows.doubles);
        let range = 3 * row * rows.n_selected..3 * (row + 1) * rows.n_selected;
        for (i, (field, name)) in VECTORS.into_iter().enumerate() {
            if !self.fields().contains(field) {
                continue;
            }
            out.extend(name.as_bytes());
            out.push(b'\n');
            let start = out.len();
            if double.iter().any(|values| !values.is_empty()) {
                put_vectors(double[i].get(range.clone()), out);
            } else {
                put_vectors(single[i].get(range.clone()), out);
            }
            if let Some(at) = memchr::memchr(b'*', &out[start..]) {
                let (names, atom) = (field.names().concat(), at / LINE + 1);
                return Err(too_wide(&format!("{names} of atom {atom} (counted from 1)")));
            }
            end_block(out);
        }
        out.extend(b"BOX\n");
        checked(out, "a cell", |out| put_cell(&stamp.cell, out))?;
        out.push(b'\n');
        end_block(out);
        Ok(())
    }
}

impl Encoder for G96Encoder {
    fn fields(&self) -> Fields {
        if self.shape.velocities { Fields::POSITIONS | Fields::VELOCITIES } else { Fields::POSITIONS }
    }

    fn losses(&self) -> &[String] {
        &self.losses
    }

    fn largest_rounding(&self) -> f64 {
        0.5e-9
    }

    fn takes_doubles(&self) -> bool {
        self.takes_doubles
    }

    fn placing(&self) -> Placing {
        let blocks = if self.shape.velocities { 2 } else { 1 };
        let around = self.title.len() as u64 + 256;
        Placing::Ordered(around + 9 * COLUMN as u64 + blocks * LINE as u64 * u64::from(self.shape.n_atoms))
    }

    fn head(&self) -> Vec<u8> {
        Vec::new()
    }

    fn cell_read_back(&self, cell: &Cell) -> Cell {
        cell.map(|vector| vector.map(|value| (value * 1e9).round() / 1e9))
    }

    fn length_unit(&self) -> f64 {
        super::INFO.scales.length
    }

    fn push_records(&self, rows: &BlockView<'_>, first: u64, _: &mut EncodeScratch, out: &mut Vec<u8>) -> Result<()> {
        if rows.n_selected != self.shape.n_atoms as usize {
            return Err(Error::new(ErrorKind::Internal, "the block has other atoms than the file"));
        }
        for (row, frame) in (0..rows.stamps.len()).zip(first..) {
            let start = out.len();
            if let Err(error) = self.put_frame(rows, row, frame == 0, out) {
                out.truncate(start);
                return Err(error.with_frame(frame));
            }
        }
        Ok(())
    }

    fn index(&self, records: &[u8], index: &mut TableBuilder) -> Result<()> {
        index_frames(records, index, |bytes, offset| {
            let (head, mut len) = head_of(&self.shape, bytes, offset).ok()?;
            len += skipped(&bytes[len..], head.lines)?;
            len += skipped(&bytes[len..], self.shape.further_lines(&bytes[len..]).ok()?)?;
            Some((len as u64, head.step, head.time))
        })
    }

    fn stamp_losses(&self, stamps: &[Stamp], first: u64) -> Vec<(&'static str, u64)> {
        let losses = [
            first_lost(TIMES, stamps, first, |stamp| !holds(stamp.time, TIME_DECIMALS as i32)),
            first_lost(NO_TIME, stamps, first, |stamp| stamp.time.is_nan()),
            first_lost(CELLS, stamps, first, |stamp| !holds_cell(&stamp.cell)),
        ];
        losses.into_iter().flatten().collect()
    }
}

/// One line that no reader takes for the end of its block.
fn title_of(title: Option<&str>) -> String {
    let clean = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '_' };
    let title: String = title.unwrap_or("written by Kinema").chars().take(TITLE_WIDTH).map(clean).collect();
    if title.trim_end().as_bytes() == END { format!("{title} of a title") } else { title }
}

fn holds_cell(cell: &Cell) -> bool {
    cell.iter().flatten().all(|&value| holds(value, DECIMALS as i32))
}

fn end_block(out: &mut Vec<u8>) {
    out.extend(END);
    out.push(b'\n');
}

/// Appends what `put` does, unless a number has more digits than its columns.
fn checked(out: &mut Vec<u8>, what: &str, put: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
    let start = out.len();
    put(out);
    if memchr::memchr(b'*', &out[start..]).is_some() { Err(too_wide(what)) } else { Ok(()) }
}

fn too_wide(what: &str) -> Error {
    let what = format!("{what} that the {COLUMN} columns of a {NAME} file do not hold");
    Error::new(ErrorKind::Unsupported, what)
}

fn put_vectors<R: Copy + Into<f64>>(values: Option<&[R]>, out: &mut Vec<u8>) {
    for vector in values.unwrap_or_default().as_chunks::<3>().0 {
        vector.iter().for_each(|&value| put_f(out, value.into(), COLUMN, DECIMALS));
        out.push(b'\n');
    }
}

/// The diagonal, and the other numbers unless all are zero.
fn put_cell(cell: &Cell, out: &mut Vec<u8>) {
    let [[xx, xy, xz], [yx, yy, yz], [zx, zy, zz]] = *cell;
    let rest = [xy, xz, yx, yz, zx, zy];
    let rest = if rest == [0.0; 6] { &[][..] } else { &rest[..] };
    [xx, yy, zz].iter().chain(rest).for_each(|&value| put_f(out, value, COLUMN, DECIMALS));
}
