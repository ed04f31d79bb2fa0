//! DL_POLY's files: trajectories (HISTORY, of text or unformatted) and configurations (CONFIG, REVCON, CFGMIN).
//!
//! The origin lies in the centre of the cell; positions are given as they are in the file.

pub mod atoms;
mod classic;
mod config;
mod encode;
mod encode_config;
mod encode_history;
mod fixed;
mod free;
mod history;
mod layout;
mod records;
mod timestep;
mod unformatted;

pub use self::config::Config;
pub use self::history::{Head, History};

use crate::frame::{Fields, Scales};

/// Angstrom, ps, angstrom/ps, and Da angstrom/ps^2; 100 of the last are a kJ/(mol angstrom).
const SCALES: Scales = Scales { length: 1.0, velocity: 1.0, force: 0.01, time: 1.0 };

const TIME_UNIT: &str = "ps (velocities are in angstrom/ps, forces in Da angstrom/ps^2)";

const VECTORS: Fields = Fields::POSITIONS.union(Fields::VELOCITIES).union(Fields::FORCES);

/// The vectors of a file with `levels` levels: positions, then velocities, then forces.
fn fields_of(levels: usize) -> Fields {
    Fields::VECTORS.into_iter().take(levels).fold(Fields::NONE, |all, field| all | field)
}

/// A warning about `imcon`, the shape of the periodic cell, if the user must know one.
fn warning_of(imcon: i64) -> Option<String> {
    let shape = match imcon {
        4 => "a truncated octahedron",
        5 => "a rhombic dodecahedron",
        7 => "a hexagonal prism",
        6 => {
            return Some(
                "imcon 6: the system is periodic in x and y alone; nearest images and transforms leave z as it is"
                    .to_owned(),
            );
        }
        _ => return None,
    };
    Some(format!(
        "imcon {imcon}: the cell is {shape}, and the vectors of the file, which are given, are those of the box around it: \
         they are not its lattice"
    ))
}

/// Along which edges of its cell a system is periodic.
fn periodic_of(imcon: i64) -> [bool; 3] {
    [true, true, imcon != 6]
}

/// The name of a shape, for `kinema info`.
fn shape_of(imcon: i64) -> &'static str {
    match imcon {
        0 => "no cell",
        1 => "cubic cell",
        2 => "orthorhombic cell",
        3 => "parallelepiped cell",
        4 => "truncated octahedral cell",
        5 => "rhombic dodecahedral cell",
        6 => "slab, periodic in x and y",
        _ => "hexagonal prism cell",
    }
}

/// Bytes of a record for messages, at most one line.
fn shown(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(72)];
    let end = bytes.iter().rposition(|byte| !byte.is_ascii_whitespace()).map_or(0, |last| last + 1);
    format!("\"{}\"", bytes[..end].escape_ascii())
}
