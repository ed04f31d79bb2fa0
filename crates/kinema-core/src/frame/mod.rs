//! Frames: fields, cells, units, and the blocks of frames that decoders fill and kernels read.
//!
//! Units are those of the public API (angstrom, ps) once a decoder has applied [`Scales`].

mod atom_gather;
mod block;
mod cells;
pub mod kept;
pub mod lattice;
mod made;
mod real;
mod rows;
mod stated_units;

use std::ops::{BitOr, Sub};

pub use self::atom_gather::{AtomGather, GatherRoom};
pub use self::block::{Block, BlockMut, BlockView};
pub use self::cells::{NOT_A_CELL, is_lower, is_mirrored_by_lengths};
pub use self::lattice::Lattice;
pub use self::made::{MadePositions, Making};
pub use self::real::Real;
pub use self::rows::{RowsMut, VectorsMut};
pub use self::stated_units::StatedUnits;
use crate::named::Named;

/// A set of the fields that a frame may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Fields(u8);

impl Fields {
    /// No field.
    pub const NONE: Self = Self(0);
    /// Positions, angstrom.
    pub const POSITIONS: Self = Self(1);
    /// Velocities, angstrom/ps.
    pub const VELOCITIES: Self = Self(2);
    /// Forces, kJ/(mol angstrom).
    pub const FORCES: Self = Self(4);
    /// Periodic cell, 3x3 matrix of row vectors, angstrom.
    pub const CELL: Self = Self(8);
    /// Integration step.
    pub const STEP: Self = Self(16);
    /// Time, ps.
    pub const TIME: Self = Self(32);

    /// All fields.
    pub const ALL: Self = Self(63);
    /// The fields of a 3-vector an atom, in the order in which blocks hold them.
    pub const VECTORS: [Self; 3] = [Self::POSITIONS, Self::VELOCITIES, Self::FORCES];

    const NAMES: [(Self, &'static str); 6] = [
        (Self::POSITIONS, "positions"),
        (Self::VELOCITIES, "velocities"),
        (Self::FORCES, "forces"),
        (Self::CELL, "cell"),
        (Self::STEP, "step"),
        (Self::TIME, "time"),
    ];

    /// Whether all of `other` is in this set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// The union of both sets, as `|`, for constants.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// The names of the fields in this set.
    pub fn names(self) -> Vec<&'static str> {
        Self::NAMES.iter().filter(|(f, _)| self.contains(*f)).map(|(_, n)| *n).collect()
    }
    /// The field of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, n)| *n == name).map(|(f, _)| *f)
    }
}

impl BitOr for Fields {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Sub for Fields {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Floating-point type of arrays that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// As the formats have it.
    Float32,
    /// Widened before it is scaled.
    Float64,
}

impl Named for Precision {
    const OPTION: &'static str = "dtype";
    const ALL: &'static [(&'static str, Self)] = &[("float32", Self::Float32), ("float64", Self::Float64)];
}

/// A periodic cell as three row vectors; all zero if there is none.
pub type Cell = [[f64; 3]; 3];

/// The cell of a frame that has none.
pub const NO_CELL: Cell = [[0.0; 3]; 3];

/// A frame's own step, time and cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stamp {
    /// Its cell.
    pub cell: Cell,
    /// The edges of the cell along which it is periodic, none of which is zero; without meaning if there is no cell.
    pub periodic: [bool; 3],
    /// Its step.
    pub step: i64,
    /// Its time; NaN if the file has none.
    pub time: f64,
    /// The vectors and cells that it has, of those requested: a file may have others in other frames.
    pub present: Fields,
}

impl Default for Stamp {
    fn default() -> Self {
        Self { cell: NO_CELL, periodic: [true; 3], step: 0, time: f64::NAN, present: Fields::NONE }
    }
}

/// Factors from the file's units to those wanted; 1 keeps the file's values bit for bit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scales {
    /// For positions and cells.
    pub length: f64,
    /// For velocities.
    pub velocity: f64,
    /// For forces.
    pub force: f64,
    /// For times.
    pub time: f64,
}

impl Scales {
    /// The file's own units.
    pub const NATIVE: Self = Self { length: 1.0, velocity: 1.0, force: 1.0, time: 1.0 };

    /// Factors to the units of `target` instead of angstrom and ps: exactly 1 if both are equal.
    #[must_use]
    pub fn to_units_of(self, target: Self) -> Self {
        let factor = |own: f64, wanted: f64| if own == wanted { 1.0 } else { own / wanted };
        Self {
            length: factor(self.length, target.length),
            velocity: factor(self.velocity, target.velocity),
            force: factor(self.force, target.force),
            time: factor(self.time, target.time),
        }
    }
}

/// Units that vectors, cells and times are read in.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Units {
    /// Angstrom and ps, and times as the user has stated them.
    #[default]
    Public,
    /// The file's own: values and times bit for bit.
    Native,
    /// The units with these factors to angstrom and ps, and times as the user has stated them: values between equal
    /// units are kept bit for bit.
    Of(Scales),
}
