//! What AMBER's conventions say of a NetCDF header: where values of frames lie, and their units.
//!
//! Source: AMBER NetCDF trajectory and restart conventions, version 1.0, revision C.

use crate::container::netcdf3::{Header, Kind, Value, Variable, attribute, text};
use crate::error::{Error, ErrorKind, Result};
use crate::frame::Fields;

/// kJ in a kcal.
pub(super) const KILOCALORIE: f64 = 4.184;

/// Names of the variables of positions, velocities and forces.
pub(super) const VECTORS: [&str; 3] = ["coordinates", "velocities", "forces"];

/// Values of one variable in each frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Column {
    /// Where it lies in the first frame.
    pub begin: u64,
    pub double: bool,
    /// From the numbers to angstrom, ps and kJ/mol.
    pub factor: f64,
}

impl Column {
    /// Bytes of a number.
    pub fn width(&self) -> u64 {
        if self.double { 8 } else { 4 }
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
    /// Where the first frame begins.
    pub first: u64,
    /// Bytes from frame to frame.
    pub stride: u64,
    /// Bytes of a frame that must be there.
    pub frame_len: u64,
    /// A restart: one frame in variables without records.
    pub restart: bool,
}

impl Layout {
    /// # Errors
    /// `Unsupported` for other conventions and types, `Corrupt` for shapes that no frame has.
    pub fn of(header: &Header) -> Result<Self> {
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
        let vector = |name: &str, units: &[(&str, f64)]| column(header, name, &["atom", "spatial"], units, restart);
        let lengths = &[("angstrom", 1.0), ("nanometer", 10.0), ("nm", 10.0)];
        let vectors = [
            vector(VECTORS[0], lengths)?,
            vector(VECTORS[1], &[("angstrom/picosecond", 1.0), ("nanometer/picosecond", 10.0)])?,
            vector(
                VECTORS[2],
                &[
                    ("kilocalorie/mole/angstrom", KILOCALORIE),
                    ("kilojoule/mole/angstrom", 1.0),
                    ("kilojoule/mole/nanometer", 0.1),
                    ("amu*angstrom/picosecond^2", 0.01),
                ],
            )?,
        ];
        let times = &[("picosecond", 1.0), ("ps", 1.0), ("femtosecond", 0.001), ("nanosecond", 1000.0)];
        // some programs give a trajectory one time for all frames, which says the time of none
        let one_time = |variable: &Variable| !restart && !header.is_record(variable);
        let time = match header.variable("time") {
            Some(variable) if one_time(variable) => None,
            _ => column(header, "time", &[], times, restart)?,
        };
        let lengths = column(header, "cell_lengths", &["cell_spatial"], lengths, restart)?;
        let degrees = &[("degree", 1.0), ("radian", 180.0 / std::f64::consts::PI)];
        let angles = column(header, "cell_angles", &["cell_angular"], degrees, restart)?;
        if vectors.iter().all(Option::is_none) {
            let what = "no variable of positions, velocities or forces along \"atom\" and \"spatial\"";
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let mut layout = Self {
            n_atoms,
            vectors,
            time,
            cell: lengths.zip(angles),
            first: u64::MAX,
            stride: if restart { 0 } else { header.record_len()? },
            frame_len: 0,
            restart,
        };
        layout.find_extent(header)?;
        Ok(layout)
    }

    /// Of all variables of records: a record is there when all of it is.
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
                return Err(Error::new(ErrorKind::Corrupt, what).at_byte(*begin));
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

/// A variable along these dimensions, behind that of frames; `None` where there is none.
fn column(
    header: &Header,
    name: &str,
    dimensions: &[&str],
    units: &[(&str, f64)],
    restart: bool,
) -> Result<Option<Column>> {
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
    let unit = match unit(variable, units) {
        Ok(unit) => unit,
        Err(found) => {
            let known: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
            return wrong(ErrorKind::Unsupported, format!("units, expected {}, found {found:?}", known.join(" or ")));
        }
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
    Ok(Some(Column { begin: variable.begin, double, factor: scale * unit }))
}

/// The factor of the unit; the convention's own, the first of `units`, where the variable names none.
fn unit(variable: &Variable, units: &[(&str, f64)]) -> std::result::Result<f64, String> {
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
        Layout::of(&Header::read(&MemorySource::new("seed", &bytes[..])).unwrap())
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
