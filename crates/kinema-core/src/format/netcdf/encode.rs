//! Encoder of AMBER's NetCDF trajectories: records of one size, in CDF-2, or in CDF-5 if CDF-2 cannot hold them.

use super::layout::{Column, Layout, VECTORS};
use super::{NAME, VELOCITY, cell_of, lengths_and_degrees};
use crate::container::netcdf3::{Attribute, Dimension, Header, Kind, Value, Variable, Version};
use crate::error::{Error, ErrorKind, Result};
use crate::format::frame_layout::vectors_of;
use crate::format::{AtomPlane, EncodeScratch, Encoder, FrameLayout, Making, Marker, Placing, SomeAtoms, first_lost};
use crate::frame::{BlockView, Cell, Fields, NO_CELL, Stamp, StatedUnits, is_lower};

/// A variable of CDF-2 has fewer bytes in a record.
const MOST_BYTES: u64 = (1 << 32) - 4;

/// A loss.
const TURNED: &str = "cells are turned so that their first vector lies along x; positions are not";

/// Where the number of records stands.
const RECORDS: u64 = 4;

/// Makes a NetCDF file.
#[derive(Debug)]
pub(super) struct NetcdfEncoder {
    n_atoms: u32,
    fields: Fields,
    version: Version,
    has_cell: bool,
    /// `None` until the first frame has said it.
    has_times: Option<bool>,
    /// Whether cells are kept by lengths and angles alone.
    turned: bool,
    losses: Vec<String>,
}

impl NetcdfEncoder {
    /// # Errors
    /// `InvalidArgument` for fields that the source lacks and for a precision.
    pub fn new(making: &Making) -> Result<Self> {
        if making.precision.is_some() {
            let what = "a NetCDF file holds float32, which no precision= rounds";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let mut losses = Vec::new();
        let fields = making.chosen_fields(Fields::POSITIONS | Fields::VELOCITIES | Fields::FORCES, &mut losses)?;
        making.note_wide(fields, &mut losses);
        making.note_extras(&mut losses);
        if making.open_ended {
            return Ok(Self::with(making, fields, None, losses));
        }
        let counted = making.steps.iter().enumerate().all(|(i, &step)| i64::try_from(i) == Ok(step));
        if !counted {
            losses.push("steps are not kept: AMBER's NetCDF convention has none, frames are counted from 0".to_owned());
        }
        let known = making.times.iter().filter(|time| time.is_finite()).count();
        let error = |&time: &f64| if time.is_finite() { (f64::from(time as f32) - time).abs() } else { 0.0 };
        let error = making.times.iter().map(error).fold(0.0, f64::max);
        if error > 0.0 {
            losses.push(format!("times are rounded to float32, by up to {error:.2e} ps"));
        }
        if making.cells.iter().any(|cell| !is_lower(cell)) {
            losses.push(TURNED.to_owned());
        }
        Ok(Self::with(making, fields, Some(known > 0), losses))
    }

    fn with(making: &Making, fields: Fields, has_times: Option<bool>, losses: Vec<String>) -> Self {
        let version = if 12 * u64::from(making.n_atoms) < MOST_BYTES { Version::Offset64 } else { Version::Data64 };
        let turned = making.open_ended || making.cells.iter().any(|cell| !is_lower(cell));
        // no cells of zeros in all frames, which MDAnalysis does not read
        let there = making.open_ended || making.cells.iter().any(|cell| *cell != NO_CELL);
        let has_cell = making.held.contains(Fields::CELL) && there;
        Self { n_atoms: making.n_atoms, fields, version, has_cell, has_times, turned, losses }
    }

    /// The encoder that extends a file with this header.
    ///
    /// # Errors
    /// `Unsupported` if records are laid out otherwise than they are written here; `InvalidArgument` for other fields.
    pub fn resume(header: &Header, layout: &Layout, making: &Making) -> Result<Self> {
        let fields = layout.fields();
        if let Some(asked) = making.fields.filter(|asked| *asked != fields) {
            let (expected, found) = (fields.names().join(", "), asked.names().join(", "));
            let what = format!("the file holds the same fields in all frames, expected {expected}, found {found}");
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let made = Self::new(&Making { held: making.held | fields, fields: Some(fields), ..making.clone() })?;
        let made = Self {
            version: header.version,
            has_cell: layout.cell.is_some(),
            has_times: Some(layout.time.is_some()),
            ..made
        };
        let own = Layout::from_header(&made.header(), &StatedUnits::default())?;
        let places = |layout: &Layout| {
            let place = |column: Column| (column.begin - layout.first, column.double, column.factor);
            let cell = layout.cell.map(|(lengths, angles)| (place(lengths), place(angles)));
            (layout.restart, layout.stride, layout.vectors.map(|one| one.map(place)), layout.time.map(place), cell)
        };
        if places(layout) != places(&own) {
            let what = "the file cannot be extended: its records are laid out in another way than they are written here \
                        (time, coordinates, velocities, forces in float, lengths and angles in double)";
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        Ok(made)
    }

    fn vectors(&self) -> impl Iterator<Item = (usize, Fields)> + '_ {
        Fields::VECTORS.into_iter().enumerate().filter(|(_, field)| self.fields.contains(*field))
    }

    fn vector_len(&self) -> u64 {
        12 * u64::from(self.n_atoms)
    }

    fn record_len(&self) -> u64 {
        let (time, cell) = (if self.has_times == Some(true) { 4 } else { 0 }, if self.has_cell { 48 } else { 0 });
        time + cell + self.vectors().count() as u64 * self.vector_len()
    }

    /// The header of a file without records yet; all variables of records follow it side by side.
    fn header(&self) -> Header {
        let unlimited = Dimension { name: "frame".to_owned(), len: None };
        let fixed = |name: &str, len: u64| Dimension { name: name.to_owned(), len: Some(len) };
        let mut dimensions = vec![unlimited, fixed("spatial", 3), fixed("atom", u64::from(self.n_atoms))];
        if self.has_cell {
            dimensions.extend([fixed("cell_spatial", 3), fixed("cell_angular", 3), fixed("label", 5)]);
        }
        let named = |name: &str, value: &str| Attribute { name: name.to_owned(), value: Value::Text(value.to_owned()) };
        let attributes = [
            ("title", ""),
            ("application", "AMBER"),
            ("program", "Kinema"),
            ("programVersion", "1"),
            ("Conventions", "AMBER"),
            ("ConventionVersion", "1.0"),
        ];
        let variable = |name: &str, dimensions: &[usize], kind: Kind, unit: &str| Variable {
            name: name.to_owned(),
            dimensions: dimensions.to_vec(),
            attributes: if unit.is_empty() { Vec::new() } else { vec![named("units", unit)] },
            kind,
            begin: 0,
        };
        let mut variables = vec![variable("spatial", &[1], Kind::Char, "")];
        if self.has_cell {
            variables.push(variable("cell_spatial", &[3], Kind::Char, ""));
            variables.push(variable("cell_angular", &[4, 5], Kind::Char, ""));
        }
        if self.has_times == Some(true) {
            variables.push(variable("time", &[0], Kind::Float, "picosecond"));
        }
        let units = ["angstrom", "angstrom/picosecond", "kilocalorie/mole/angstrom"];
        for (number, field) in self.vectors() {
            let mut made = variable(VECTORS[number], &[0, 2, 1], Kind::Float, units[number]);
            if field == Fields::VELOCITIES {
                made.attributes.push(Attribute { name: "scale_factor".to_owned(), value: Value::Double(VELOCITY) });
            }
            variables.push(made);
        }
        if self.has_cell {
            variables.push(variable("cell_lengths", &[0, 3], Kind::Double, "angstrom"));
            variables.push(variable("cell_angles", &[0, 4], Kind::Double, "degree"));
        }
        let (version, attributes) = (self.version, attributes.map(|(name, value)| named(name, value)).to_vec());
        let mut header = Header { version, records: Some(0), dimensions, attributes, variables, len: 0 };
        header.len = header.bytes().len() as u64;
        let mut begin = header.len;
        for i in 0..header.variables.len() {
            // the labels first, then the record
            let size = header.size_of(&header.variables[i]).unwrap_or(0);
            header.variables[i].begin = begin;
            begin += size.next_multiple_of(4);
        }
        header
    }

    fn push_time(&self, time: f64, out: &mut Vec<u8>) {
        if self.has_times == Some(true) {
            out.extend((time as f32).to_be_bytes());
        }
    }

    fn push_cell(&self, cell: &Cell, frame: u64, out: &mut Vec<u8>) -> Result<()> {
        if self.has_cell {
            let (lengths, angles) = self.cell(cell, frame)?;
            out.extend(lengths.into_iter().chain(angles).flat_map(f64::to_be_bytes));
        } else if *cell != NO_CELL {
            let what = "a cell in a NetCDF file without cells, as its first frame has none";
            return Err(Error::new(ErrorKind::Unsupported, what).with_frame(frame));
        }
        Ok(())
    }

    fn cell(&self, cell: &Cell, frame: u64) -> Result<([f64; 3], [f64; 3])> {
        if !self.turned && !is_lower(cell) {
            let expected =
                "a cell whose first vector lies along x and the second in the xy plane, as in the other frames";
            let what = format!("a cell that lengths and angles do not hold, expected {expected}, found {cell:?}");
            return Err(Error::new(ErrorKind::Unsupported, what).with_frame(frame));
        }
        Ok(lengths_and_degrees(cell))
    }
}

impl Encoder for NetcdfEncoder {
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
        let header = self.header();
        let mut bytes = header.bytes();
        let labels = [("spatial", "xyz"), ("cell_spatial", "abc"), ("cell_angular", "alphabeta gamma")];
        for (_, text) in labels.iter().filter(|(name, _)| header.variable(name).is_some()) {
            bytes.extend(text.bytes());
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    fn cell_read_back(&self, cell: &Cell) -> Cell {
        let (lengths, degrees) = lengths_and_degrees(cell);
        cell_of(lengths, degrees)
    }

    fn has_narrow_times(&self) -> bool {
        self.has_times == Some(true)
    }

    fn push_records(&self, rows: &BlockView<'_>, first: u64, _: &mut EncodeScratch, out: &mut Vec<u8>) -> Result<()> {
        let width = 3 * rows.n_selected;
        let values = [rows.positions, rows.velocities, rows.forces];
        let sound = self.vectors().all(|(number, _)| values[number].len() == width * rows.rows());
        if rows.n_selected != self.n_atoms as usize || !sound {
            return Err(
                Error::new(ErrorKind::Internal, "the block has other atoms or fields than the file").with_format(NAME)
            );
        }
        out.reserve(rows.rows() * self.record_len() as usize);
        for (row, stamp) in rows.stamps.iter().enumerate() {
            self.push_time(stamp.time, out);
            for (number, _) in self.vectors() {
                push_vectors(&values[number][row * width..(row + 1) * width], out);
            }
            self.push_cell(&stamp.cell, first + row as u64, out)?;
        }
        Ok(())
    }

    fn plane_layout(&self, stamp: &Stamp, frame: u64) -> Result<FrameLayout> {
        let (mut time, mut cell) = (Vec::new(), Vec::new());
        self.push_time(stamp.time, &mut time);
        self.push_cell(&stamp.cell, frame, &mut cell)?;
        let at = |plane| time.len() as u64 + plane as u64 * self.vector_len();
        let planes: Vec<AtomPlane> =
            self.vectors().enumerate().map(|(plane, _)| AtomPlane { offset: at(plane), width: 12 }).collect();
        let pieces = [(at(planes.len()), cell), (0, time)];
        let pieces = pieces.into_iter().rev().filter(|(_, bytes)| !bytes.is_empty()).collect();
        Ok(FrameLayout { bytes: self.record_len(), pieces, planes })
    }

    fn encode_atoms(&self, atoms: &SomeAtoms<'_>, plane: usize, out: &mut Vec<u8>) -> Result<()> {
        let rows = &atoms.rows;
        let values =
            self.vectors().nth(plane).map(|(number, _)| [rows.positions, rows.velocities, rows.forces][number]);
        let vectors = vectors_of(values.unwrap_or_default(), rows.n_selected)?;
        push_vectors(vectors.as_flattened(), out);
        Ok(())
    }

    fn marker(&self, committed: u64) -> Option<Marker> {
        let bytes = if self.version == Version::Data64 {
            committed.to_be_bytes().to_vec()
        } else {
            // 2^32 - 1 says that it follows from the size of the file
            u32::try_from(committed).unwrap_or(u32::MAX).to_be_bytes().to_vec()
        };
        Some(Marker { offset: RECORDS, bytes })
    }

    fn time_by(&mut self, _: &[i64], times: &[f64]) -> Option<Marker> {
        self.has_times.get_or_insert(times.iter().any(|time| time.is_finite()));
        None
    }

    fn stamp_losses(&self, stamps: &[Stamp], first: u64) -> Vec<(&'static str, u64)> {
        let mut frame = first..;
        let steps = first_lost(
            "steps are not kept: AMBER's NetCDF convention has none, frames are counted from 0",
            stamps,
            first,
            |stamp| frame.next().map(i64::try_from) != Some(Ok(stamp.step)),
        );
        let narrow = |stamp: &Stamp| stamp.time.is_finite() && f64::from(stamp.time as f32) != stamp.time;
        let has_times = self.has_times == Some(true);
        let losses = [
            steps,
            first_lost("times are rounded to float32", stamps, first, |stamp| has_times && narrow(stamp)),
            first_lost("frames without a time have NaN in its place", stamps, first, |stamp| {
                has_times && stamp.time.is_nan()
            }),
            first_lost("times are not kept: the first frame has none", stamps, first, |stamp| {
                !has_times && stamp.time.is_finite()
            }),
            first_lost(TURNED, stamps, first, |stamp| !is_lower(&stamp.cell)),
        ];
        losses.into_iter().flatten().collect()
    }
}

fn push_vectors(values: &[f32], out: &mut Vec<u8>) {
    out.extend(values.iter().flat_map(|value| value.to_be_bytes()));
}
