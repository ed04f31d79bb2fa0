//! CONFIG encoder: one frame, in records of one width as DL_POLY_4 writes them.

use super::encode::{
    AtomLines, CELLS, Kind, NO_TIME, WIDTH, cell_in_columns, check_rows, checked, end_record, holds_cell, imcon_of,
    layout_of, levels, note_digits, put_atoms, put_cell, put_title, takes_doubles,
};
use crate::container::text::fortran::{put_e, put_i};
use crate::container::text::parse_f64;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{AtomNumbers, EncodeScratch, Encoder, FrameLayout, Making, Placing, SomeAtoms, first_lost};
use crate::frame::{BlockView, Cell, Fields, NO_CELL, Stamp};

/// A loss.
const TIMES: &str = "times are rounded to 8 digits";

/// Makes a CONFIG file.
#[derive(Debug)]
pub(super) struct ConfigEncoder {
    n_atoms: u32,
    levels: usize,
    has_cell: bool,
    title: Option<String>,
    atoms: AtomLines,
    losses: Vec<String>,
    takes_doubles: bool,
}

/// The error of a second frame.
pub(super) fn one_frame() -> Error {
    let what = "a CONFIG file holds one frame; choose it (--dump TIME, frames=), or write a HISTORY file, which holds any number";
    Error::new(ErrorKind::InvalidArgument, what)
}

/// Whether the columns of a time hold it.
fn holds_time(time: f64) -> bool {
    let mut text = Vec::new();
    put_e(&mut text, time, 16, 7);
    time.is_nan() || parse_f64(text.trim_ascii()) == Some(time)
}

impl ConfigEncoder {
    /// # Errors
    /// `InvalidArgument` for several frames, for fields that the source lacks or that are not held together, and for a
    /// precision.
    pub fn new(making: &Making) -> Result<Self> {
        if making.steps.len() > 1 {
            return Err(one_frame());
        }
        let mut losses = Vec::new();
        let levels = levels(making, &mut losses)?;
        note_digits(making, super::fields_of(levels), &mut losses);
        making.note_extras(&mut losses);
        let atoms = AtomLines::new(making, Kind::Config, &mut losses)?;
        let has_cell = making.cells.iter().any(|cell| *cell != NO_CELL);
        let made = Self {
            n_atoms: making.n_atoms,
            levels,
            has_cell,
            title: making.title.clone(),
            atoms,
            losses,
            takes_doubles: takes_doubles(making),
        };
        if making.open_ended {
            return Ok(made);
        }
        let time = making.times.first().copied().unwrap_or(f64::NAN);
        let stamp = Stamp { time, cell: making.cells.first().copied().unwrap_or(NO_CELL), ..Stamp::default() };
        let lost = made.stamp_losses(&[stamp], 0);
        let losses = made.losses.into_iter().chain(lost.into_iter().map(|(what, _)| what.to_owned())).collect();
        Ok(Self { losses, ..made })
    }

    fn record_len(&self) -> u64 {
        let before = if self.has_cell { 5 } else { 2 };
        WIDTH as u64 * (before + u64::from(self.n_atoms) * (1 + self.levels as u64))
    }

    /// Appends the records before the atoms.
    fn put_head(&self, stamp: &Stamp, frame: u64, out: &mut Vec<u8>) -> Result<()> {
        if frame > 0 {
            return Err(one_frame());
        }
        if (stamp.cell != NO_CELL) != self.has_cell {
            return Err(Error::new(ErrorKind::Internal, "the cell of the frame is not the one that was announced"));
        }
        put_title(out, self.title.as_deref());
        let start = out.len();
        put_i(out, self.levels as i64 - 1, 10);
        put_i(out, imcon_of(&stamp.cell), 10);
        checked(out, "a number of atoms", |out| put_i(out, i64::from(self.n_atoms), 10))?;
        // words that are read as they come: the number of atoms ends where the columns of the step begin
        checked(out, "a step", |out| {
            out.push(b' ');
            put_i(out, stamp.step, 9);
        })?;
        // the time step is not known here
        put_e(out, 0.0, 16, 7);
        checked(out, "a time", |out| put_e(out, stamp.time, 16, 7))?;
        end_record(out, start);
        if self.has_cell {
            put_cell(out, &stamp.cell)?;
        }
        Ok(())
    }
}

impl Encoder for ConfigEncoder {
    fn fields(&self) -> Fields {
        super::fields_of(self.levels)
    }

    fn losses(&self) -> &[String] {
        &self.losses
    }

    fn takes_doubles(&self) -> bool {
        self.takes_doubles
    }

    fn placing(&self) -> Placing {
        Placing::Uniform(self.record_len())
    }

    fn head(&self) -> Vec<u8> {
        Vec::new()
    }

    fn cell_read_back(&self, cell: &Cell) -> Cell {
        cell_in_columns(cell)
    }

    fn push_records(&self, rows: &BlockView<'_>, first: u64, _: &mut EncodeScratch, out: &mut Vec<u8>) -> Result<()> {
        check_rows(rows, self.n_atoms)?;
        for ((row, stamp), frame) in rows.stamps.iter().enumerate().zip(first..) {
            self.put_head(stamp, frame, out)
                .and_then(|()| put_atoms(&self.atoms, rows, AtomNumbers::From(0), row, self.levels, out))
                .map_err(|error| error.with_frame(frame))?;
        }
        Ok(())
    }

    fn plane_layout(&self, stamp: &Stamp, frame: u64) -> Result<FrameLayout> {
        let mut head = Vec::new();
        self.put_head(stamp, frame, &mut head).map_err(|error| error.with_frame(frame))?;
        Ok(layout_of(head, self.n_atoms, self.levels))
    }

    fn encode_atoms(&self, atoms: &SomeAtoms<'_>, _: usize, out: &mut Vec<u8>) -> Result<()> {
        put_atoms(&self.atoms, &atoms.rows, atoms.numbers, 0, self.levels, out)
    }

    fn stamp_losses(&self, stamps: &[Stamp], first: u64) -> Vec<(&'static str, u64)> {
        let losses = [
            first_lost(TIMES, stamps, first, |stamp| !holds_time(stamp.time)),
            first_lost(NO_TIME, stamps, first, |stamp| stamp.time.is_nan()),
            first_lost(CELLS, stamps, first, |stamp| !holds_cell(&stamp.cell)),
        ];
        losses.into_iter().flatten().collect()
    }
}
