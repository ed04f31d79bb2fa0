//! Layout of a NetCDF file by AMBER's conventions: where values of frames lie, and their units.
//!
//! Source: AMBER NetCDF trajectory and restart conventions, version 1.0, revision C.

use crate::container::netcdf3::{Header, Kind, Value, Variable, attribute, text};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{Fields, Scales, StatedUnits};

/// kJ in a kcal.
pub(super) const KILOCALORIE: f64 = 4.184;

/// Names of the variables of positions, velocities and forces.
pub(super) const VECTORS: [&str; 3] = ["coordinates", "velocities", "forces"];

/// The value with which netCDF, by itself, fills numbers that were never written.
const FILL: f64 = 9.969_209_968_386_869e36;

/// Values of one variable in each frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Column {
    /// Where it lies in the first frame.
    pub begin: u64,
    pub double: bool,
    /// From the numbers to angstrom, ps and kJ/mol.
    pub factor: f64,
    /// Numbers that mean "never written".
    pub fills: [f64; 3],
}

impl Column {
    /// Bytes of a number.
    pub fn width(&self) -> u64 {
        if self.double { 8 } else { 4 }
    }

    /// Whether a number stands for one that was never written.
    pub fn is_fill(&self, number: f64) -> bool {
        self.fills.contains(&number)
    }
}

/// Where the values of frames lie.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    pub n_atoms: u32,
    /// Positions, velocities, forces.
    pub vectors: [Option<Column>; 3],
    pub time: Option<Column>,
    /// Lengths and angles; the factor of the latter gives degrees.
    pub cell: Option<(Column, Column)>,
    /// Whether there is a cell of which nothing is known, as its unit is not.
    pub unknown_cell: bool,
    /// Where the first frame begins.
    pub first: u64,
    /// Bytes from frame to frame.
    pub stride: u64,
    /// Bytes of a frame that must be there.
    pub frame_len: u64,
    /// A restart: one frame in variables without records.
    pub restart: bool,
    /// Variables that are left out, and why.
    pub left_out: Vec<String>,
}

/// Units that variables may have, with their factors; the first is the convention's own.
type Units = [(&'static str, f64)];

const LENGTHS: &Units = &[("angstrom", 1.0), ("nanometer", 10.0), ("nm", 10.0)];
const VELOCITIES: &Units = &[
    ("angstrom/picosecond", 1.0),
    ("nanometer/picosecond", 10.0),
    ("angstrom/femtosecond", 1000.0),
    ("nanometer/femtosecond", 10_000.0),
    ("angstrom/ps", 1.0),
    ("nm/ps", 10.0),
    ("angstrom/fs", 1000.0),
];
const FORCES: &Units = &[
    ("kilocalorie/mole/angstrom", KILOCALORIE),
    ("kilojoule/mole/angstrom", 1.0),
    ("kilojoule/mole/nanometer", 0.1),
    ("amu*angstrom/picosecond^2", 0.01),
];
const TIMES: &Units =
    &[("picosecond", 1.0), ("ps", 1.0), ("femtosecond", 0.001), ("fs", 0.001), ("nanosecond", 1000.0), ("ns", 1000.0)];
const ANGLES: &Units = &[("degree", 1.0), ("radian", 180.0 / std::f64::consts::PI)];

impl Layout {
    /// `stated`: units that count more than those of the file.
    ///
    /// # Errors
    /// `Unsupported` for other conventions and types, `Corrupt` for shapes that no frame has.
    pub fn from_header(header: &Header, stated: &StatedUnits) -> Result<Self> {
        let conventions = text(&header.attributes, "Conventions").unwrap_or_default();
        let mut words = conventions.split([',', ' ']).map(str::trim);
        let restart = words.clone().any(|word| word == "AMBERRESTART");
        if !restart && !words.any(|word| word == "AMBER") {
            let what =
                "NetCDF of another convention, expected \"AMBER\" or \"AMBERRESTART\" in the attribute Conventions";
            let known = if header.variable("box_size_parameters").is_some() { " (it looks like MMTK's)" } else { "" };
            return Err(Error::new(ErrorKind::Unsupported, format!("{what}, found {conventions:?}{known}")));
        }
        let n_atoms =
            header.dimension("atom").ok_or_else(|| Error::new(ErrorKind::Corrupt, "no dimension \"atom\""))?;
        let n_atoms = u32::try_from(n_atoms)
            .map_err(|_| Error::corrupt("length of the dimension \"atom\"", "below 2^32", n_atoms))?;
        let mut left_out = Vec::new();
        let along = &["atom", "spatial"];
        let found = |name: &str, along: &[&str], units: &'static Units| column(header, name, along, units, restart);
        let unit_of = |found: &Option<Found>| found.as_ref().and_then(|found| found.unit).unwrap_or(1.0);
        let positions = found(VECTORS[0], along, LENGTHS)?;
        let mut own = Scales { length: unit_of(&positions), ..Scales::NATIVE };
        let positions = positions.map(|found| found.with(stated.length)).transpose().map_err(Unknown::error)?;
        let optional = |found: Option<Found>, stated: Option<f64>, dimension: &str, left_out: &mut Vec<String>| {
            found
                .and_then(|found| found.with(stated).map_err(|unknown| left_out.push(unknown.left_out(dimension))).ok())
        };
        // some programs give a trajectory one time for all frames, which is the time of none
        let one_time = |variable: &Variable| !restart && !header.is_record(variable);
        let time = match header.variable("time") {
            Some(variable) if one_time(variable) => None,
            _ => found("time", &[], TIMES)?,
        };
        own.time = unit_of(&time);
        let time = optional(time, stated.time, "time", &mut left_out);
        let derived = StatedUnits { velocity: None, force: None, ..*stated };
        let velocities = found(VECTORS[1], along, VELOCITIES)?.map(|found| {
            let by_both = stated.length.zip(stated.time).map(|(length, time)| length / time);
            let own = found.unit.map(|velocity| derived.replace(Scales { velocity, ..own }, 1.0).velocity);
            (found, stated.velocity.or(own).or(by_both))
        });
        let velocities = velocities.and_then(|(found, unit)| optional(Some(found), unit, "velocity", &mut left_out));
        let forces = found(VECTORS[2], along, FORCES)?.map(|found| {
            let own = found.unit.map(|force| derived.replace(Scales { force, ..own }, 1.0).force);
            (found, stated.force.or(own))
        });
        let forces = forces.and_then(|(found, unit)| optional(Some(found), unit, "force", &mut left_out));
        let vectors = [positions, velocities, forces];
        let lengths = found("cell_lengths", &["cell_spatial"], LENGTHS)?;
        let angles = found("cell_angles", &["cell_angular"], ANGLES)?;
        let has_cell = lengths.is_some() && angles.is_some();
        let lengths = optional(lengths, stated.length, "length", &mut left_out);
        let angles = optional(angles, None, "", &mut left_out);
        if vectors.iter().all(Option::is_none) {
            let what = "no variable of positions, velocities or forces along \"atom\" and \"spatial\"";
            let why = left_out.first().map_or(String::new(), |why| format!(": {why}"));
            return Err(Error::new(ErrorKind::Unsupported, format!("{what}{why}")));
        }
        let cell = lengths.zip(angles);
        let mut layout = Self {
            n_atoms,
            vectors,
            time,
            cell,
            unknown_cell: has_cell && cell.is_none(),
            first: u64::MAX,
            stride: if restart { 0 } else { header.record_len()? },
            frame_len: 0,
            restart,
            left_out,
        };
        layout.find_extent(header)?;
        Ok(layout)
    }

    /// Finds the bytes that all variables of records take in a record: a record counts only if all of them are there.
    fn find_extent(&mut self, header: &Header) -> Result<()> {
        let mut end = 0;
        let mut places = Vec::new();
        for variable in header.variables.iter().filter(|variable| self.restart || header.is_record(variable)) {
            let its_end = variable.begin.checked_add(header.size_of(variable)?).ok_or_else(|| {
                let what =
                    format!("variable {:?} begins at byte {}, and ends beyond 64 bits", variable.name, variable.begin);
                Error::new(ErrorKind::Corrupt, what)
            })?;
            self.first = self.first.min(variable.begin);
            end = end.max(its_end);
            places.push((variable.begin, its_end, &variable.name));
        }
        places.retain(|(begin, end, _)| begin < end);
        places.sort_unstable();
        for pair in places.windows(2) {
            if let [(_, end, one), (begin, _, other)] = pair
                && end > begin
            {
                let what = format!("variables {one:?} and {other:?} have bytes in common");
                return Err(Error::new(ErrorKind::Corrupt, what).with_byte(*begin));
            }
        }
        self.frame_len = end.saturating_sub(self.first);
        if self.first < header.len || self.frame_len > self.stride && !self.restart {
            let what = format!("variables begin at byte {}, within the header or other records", self.first);
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        Ok(())
    }

    /// The vectors that frames have.
    pub fn fields(&self) -> Fields {
        let there = Fields::VECTORS.into_iter().zip(&self.vectors).filter(|(_, column)| column.is_some());
        there.fold(Fields::NONE, |all, (field, _)| all | field)
    }
}

/// A variable whose unit is not decided yet.
struct Found {
    name: String,
    begin: u64,
    double: bool,
    /// Its scale factor.
    scale: f64,
    /// The factor of its unit; `None` if unknown.
    unit: Option<f64>,
    /// The unit in the file's words, and the known units.
    words: (String, &'static Units),
    fills: [f64; 3],
}

/// A variable of an unknown unit.
struct Unknown {
    name: String,
    words: (String, &'static Units),
}

impl Found {
    /// The column with the unit that counts: the stated one, or its own.
    fn with(self, stated: Option<f64>) -> std::result::Result<Column, Unknown> {
        let Self { name, begin, double, scale, unit, words, fills } = self;
        let unit = stated.or(unit).ok_or(Unknown { name, words })?;
        Ok(Column { begin, double, factor: scale * unit, fills })
    }
}

impl Unknown {
    fn what(&self) -> String {
        let known: Vec<&str> = self.words.1.iter().map(|(name, _)| *name).collect();
        format!("variable {:?}: units, expected {}, found {:?}", self.name, known.join(" or "), self.words.0)
    }

    fn error(self) -> Error {
        Error::new(ErrorKind::Unsupported, self.what())
    }

    /// The same as a note, with what helps: the name of a dimension whose unit can be stated.
    fn left_out(&self, dimension: &str) -> String {
        let example = match dimension {
            "length" => "nm",
            "time" => "ps",
            "velocity" => "angstrom/ps",
            "force" => "kcal/(mol angstrom)",
            _ => return format!("{}; it is left out", self.what()),
        };
        format!("{}; it is left out, unless units={{\"{dimension}\": \"{example}\"}} states it", self.what())
    }
}

/// The variable `name` along the dimension of frames and then `dimensions`; `None` if there is none.
fn column(
    header: &Header,
    name: &str,
    dimensions: &[&str],
    units: &'static Units,
    restart: bool,
) -> Result<Option<Found>> {
    let Some(variable) = header.variable(name) else { return Ok(None) };
    let wrong = |kind: ErrorKind, what: String| Err(Error::new(kind, format!("variable {name:?}: {what}")));
    let found = header.dimensions_of(variable);
    let own = if restart { &found[..] } else { found.get(1..).unwrap_or_default() };
    if own != dimensions || restart == header.is_record(variable) {
        let frames = if restart { "" } else { "frame, " };
        let expected = format!("({frames}{})", dimensions.join(", "));
        return wrong(ErrorKind::Unsupported, format!("dimensions, expected {expected}, found ({})", found.join(", ")));
    }
    let three = |name: &&str| *name != "atom" && header.dimension(name) != Some(3);
    if let Some(other) = dimensions.iter().find(|name| three(name)) {
        let found = header.dimension(other).unwrap_or(0);
        return wrong(ErrorKind::Unsupported, format!("length of {other:?}, expected 3, found {found}"));
    }
    let double = match variable.kind {
        Kind::Float => false,
        Kind::Double => true,
        other => return wrong(ErrorKind::Unsupported, format!("type, expected float or double, found {other:?}")),
    };
    let scale = match attribute(&variable.attributes, "scale_factor") {
        None => 1.0,
        Some(Value::Double(scale)) => *scale,
        Some(Value::Text(text)) => {
            return wrong(ErrorKind::Corrupt, format!("scale_factor, expected a number, found {text:?}"));
        }
    };
    if !scale.is_finite() || scale == 0.0 {
        return wrong(ErrorKind::Corrupt, format!("scale_factor, expected a number other than 0, found {scale}"));
    }
    let (unit, stored) = match unit(variable, units) {
        Ok(unit) => (Some(unit), String::new()),
        Err(stored) => (None, stored),
    };
    let stated = |name: &str| match attribute(&variable.attributes, name) {
        Some(Value::Double(fill)) => *fill,
        _ => FILL,
    };
    let narrow = |fill: f64| if double { fill } else { f64::from(fill as f32) };
    let fills = [FILL, stated("_FillValue"), stated("missing_value")].map(narrow);
    Ok(Some(Found { name: name.to_owned(), begin: variable.begin, double, scale, unit, words: (stored, units), fills }))
}

/// The factor of the unit; the convention's own, the first of `units`, if the variable names none.
fn unit(variable: &Variable, units: &Units) -> std::result::Result<f64, String> {
    let Some(named) = text(&variable.attributes, "units").filter(|named| !named.is_empty()) else {
        return Ok(units.first().map_or(1.0, |(_, factor)| *factor));
    };
    let plain = named.trim().to_ascii_lowercase();
    let same = |name: &str| plain == name || plain.strip_suffix('s') == Some(name);
    units.iter().find(|(name, _)| same(name)).map(|(_, factor)| *factor).ok_or_else(|| named.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::netcdf3::Header;
    use crate::source::MemorySource;

    /// A file of the seeds of the fuzz targets, in which the last variable, angles of the cell, begins elsewhere.
    fn moved(by: i32) -> Result<Layout> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/scan_netcdf/cdf1_f8");
        let mut bytes = std::fs::read(path).unwrap();
        let begin =
            Header::read(&MemorySource::new("seed", &bytes[..])).unwrap().variable("cell_angles").unwrap().begin;
        let (old, new) = ((begin as u32).to_be_bytes(), (begin as i32 + by).to_be_bytes());
        let at = (0..bytes.len() - 4).rfind(|&at| bytes[at..at + 4] == old && at < 1000).unwrap();
        bytes[at..at + 4].copy_from_slice(&new);
        Layout::from_header(&Header::read(&MemorySource::new("seed", &bytes[..])).unwrap(), &StatedUnits::default())
    }

    #[test]
    fn variables_that_share_bytes_are_refused() {
        assert!(moved(0).is_ok());
        for by in [-1, -23] {
            let error = moved(by).map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            let words = "variables \"cell_lengths\" and \"cell_angles\" have bytes in common";
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
