//! The TRR frame header: parsed and checked; where the sections of a frame lie follows from it.

use crate::container::xdr;
use crate::error::{Error, ErrorKind};
use crate::format::scan::HeaderFault;
use crate::frame::Fields;

/// First word of a frame.
pub(super) const MAGIC: i32 = 1993;
/// The bytes after it: the length of the text with its end, as C counts it and as XDR does, and the text.
pub(super) const VERSION: &[u8; 20] = b"\0\0\0\x0d\0\0\0\x0cGMX_trn_file";
/// Where the sizes of the sections stand.
const SIZES_AT: usize = 4 + VERSION.len();
/// Bytes of a header with a time in single precision.
pub(super) const SHORTEST_HEADER: usize = SIZES_AT + 13 * 4 + 8;
/// Bytes that hold any header whole.
pub(super) const LONGEST_HEADER: usize = SHORTEST_HEADER + 8;

/// Sections of three numbers an atom, in the order of the file.
const VECTORS: [(Fields, &str); 3] =
    [(Fields::POSITIONS, "positions"), (Fields::VELOCITIES, "velocities"), (Fields::FORCES, "forces")];

/// Contents of the words before the sections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FrameHeader {
    pub n_atoms: u32,
    pub step: i32,
    /// Energies in old files; not used by any program.
    pub n_re: i32,
    /// ps
    pub time: f64,
    /// Coupling parameter of a free-energy calculation.
    pub lambda: f64,
    /// Whether numbers are float64.
    pub double: bool,
    /// Whether there are sections of cell, virial and pressure.
    pub matrices: [bool; 3],
    /// Positions, velocities, forces that the frame has.
    pub vectors: Fields,
}

impl FrameHeader {
    /// Parses the header at the start of `bytes`, which lie at `offset` in the file.
    ///
    /// With `expected_atoms`, a frame of another size is refused.
    pub fn parse(bytes: &[u8], offset: u64, expected_atoms: Option<u32>) -> std::result::Result<Self, HeaderFault> {
        let wrong = |error: Error, at: usize| HeaderFault::wrong(error, at, offset);
        let magic = xdr::int(bytes, 0).ok_or(HeaderFault::Short(SHORTEST_HEADER))?;
        if magic != MAGIC {
            return Err(wrong(foreign_magic(magic), 0));
        }
        let version = bytes.get(4..SIZES_AT).ok_or(HeaderFault::Short(SHORTEST_HEADER))?;
        if version != VERSION {
            let found = format!("{:?}", version.escape_ascii().to_string());
            let what = Error::corrupt("wrong text after the magic number", "GMX_trn_file", found);
            return Err(wrong(what, 4));
        }
        let words = xdr::ints::<13>(bytes, SIZES_AT).ok_or(HeaderFault::Short(SHORTEST_HEADER))?;
        let [ir, energies, cell, virial, pressure, topology, symmetry, x, v, f, n_atoms, step, n_re] = words;
        let word = |i: usize| SIZES_AT + 4 * i;
        for (i, size, name) in
            [(0, ir, "input record"), (1, energies, "energies"), (5, topology, "topology"), (6, symmetry, "symbols")]
        {
            if size != 0 {
                return Err(wrong(
                    Error::corrupt(&format!("size of the {name}, which no program writes"), 0, size),
                    word(i),
                ));
            }
        }
        let n_atoms = match (u32::try_from(n_atoms), expected_atoms) {
            (Ok(found), Some(expected)) if found != expected => {
                return Err(wrong(Error::corrupt("wrong atom count", expected, found), word(10)));
            }
            (Ok(found), _) => found,
            (Err(_), _) => return Err(wrong(Error::corrupt("wrong atom count", "0 or more", n_atoms), word(10))),
        };
        let double = precision(&[cell, virial, pressure], &[x, v, f], n_atoms).ok_or_else(|| {
            wrong(
                Error::new(ErrorKind::Corrupt, "a frame without cell and vectors, whose precision is not known"),
                word(2),
            )
        })?;
        let width = if double { 8 } else { 4 };
        let mut matrices = [false; 3];
        for (i, (has, (size, name))) in
            matrices.iter_mut().zip([(cell, "cell"), (virial, "virial"), (pressure, "pressure")]).enumerate()
        {
            *has = section(size, 9 * width, name).map_err(|error| wrong(error, word(2 + i)))?;
        }
        let mut vectors = Fields::NONE;
        for (i, ((field, name), size)) in VECTORS.into_iter().zip([x, v, f]).enumerate() {
            if section(size, 3 * width * i64::from(n_atoms), name).map_err(|error| wrong(error, word(7 + i)))? {
                vectors = vectors | field;
            }
        }
        let at = SIZES_AT + 13 * 4;
        let (time, lambda) = if double {
            (xdr::double(bytes, at), xdr::double(bytes, at + 8))
        } else {
            (xdr::float(bytes, at).map(f64::from), xdr::float(bytes, at + 4).map(f64::from))
        };
        let (Some(time), Some(lambda)) = (time, lambda) else { return Err(HeaderFault::Short(LONGEST_HEADER)) };
        Ok(Self { n_atoms, step, n_re, time, lambda, double, matrices, vectors })
    }

    /// Appends the header as it stands in a file.
    pub fn push(&self, out: &mut Vec<u8>) {
        let mut word = |value: i32| out.extend_from_slice(&value.to_be_bytes());
        word(MAGIC);
        out.extend_from_slice(VERSION);
        let mut word = |value: i32| out.extend_from_slice(&value.to_be_bytes());
        let matrix = |has: bool| if has { 9 * self.width() as i32 } else { 0 };
        // below 2^31: checked when the encoder is made
        let vector = |field: Fields| if self.vectors.contains(field) { self.vector_len() as i32 } else { 0 };
        let [cell, virial, pressure] = self.matrices.map(matrix);
        let [x, v, f] = Fields::VECTORS.map(vector);
        for value in [0, 0, cell, virial, pressure, 0, 0, x, v, f, self.n_atoms as i32, self.step, self.n_re] {
            word(value);
        }
        for value in [self.time, self.lambda] {
            self.push_number(value, out);
        }
    }

    /// Appends a number in the precision of the frame.
    pub fn push_number(&self, value: f64, out: &mut Vec<u8>) {
        if self.double {
            out.extend_from_slice(&value.to_be_bytes());
        } else {
            out.extend_from_slice(&(value as f32).to_be_bytes());
        }
    }

    /// Bytes of a number.
    pub fn width(&self) -> usize {
        if self.double { 8 } else { 4 }
    }

    /// Bytes of a section of vectors.
    pub fn vector_len(&self) -> u64 {
        3 * self.width() as u64 * u64::from(self.n_atoms)
    }

    /// Bytes from the start of the frame to its first section.
    pub fn len(&self) -> usize {
        if self.double { LONGEST_HEADER } else { SHORTEST_HEADER }
    }

    /// Bytes from the start of the frame to its first section of vectors.
    pub fn vectors_at(&self) -> u64 {
        let matrices = self.matrices.iter().filter(|has| **has).count();
        (self.len() + 9 * self.width() * matrices) as u64
    }

    /// Bytes from the start of the frame to a section of vectors that it has.
    pub fn section_at(&self, field: Fields) -> u64 {
        let before = Fields::VECTORS.into_iter().take_while(|&one| one != field);
        let n_before = before.filter(|&one| self.vectors.contains(one)).count() as u64;
        self.vectors_at() + n_before * self.vector_len()
    }

    /// Bytes of the whole frame.
    pub fn frame_len(&self) -> u64 {
        let sections = Fields::VECTORS.into_iter().filter(|&one| self.vectors.contains(one)).count() as u64;
        self.vectors_at() + sections * self.vector_len()
    }

    /// The fields of the frame.
    pub fn fields(&self) -> Fields {
        let cell = if self.matrices[0] { Fields::CELL } else { Fields::NONE };
        self.vectors | cell | Fields::STEP | Fields::TIME
    }
}

/// Whether numbers are float64, by the size of any section, as GROMACS decides it; `None` if there is no section.
fn precision(matrices: &[i32; 3], vectors: &[i32; 3], n_atoms: u32) -> Option<bool> {
    let matrix = matrices.iter().find(|&&size| size != 0).map(|&size| size == 9 * 8);
    let vector = || vectors.iter().find(|&&size| size != 0).map(|&size| i64::from(size) == 3 * 8 * i64::from(n_atoms));
    matrix.or_else(vector)
}

/// Whether there is a section of `size` bytes that has `whole` or none.
fn section(size: i32, whole: i64, name: &str) -> Result<bool, Error> {
    if size == 0 || i64::from(size) == whole {
        return Ok(size != 0);
    }
    Err(Error::corrupt(&format!("wrong size of the {name}"), format!("0 or {whole}"), size))
}

fn foreign_magic(magic: i32) -> Error {
    if matches!(magic, 1995 | 2023) {
        return Error::new(ErrorKind::Corrupt, "the magic number is that of an XTC frame, expected 1993");
    }
    if magic.swap_bytes() == MAGIC {
        return Error::new(
            ErrorKind::Unsupported,
            "little-endian TRR, which no known program writes, expected big-endian words",
        );
    }
    Error::corrupt("wrong magic number", MAGIC, magic)
}
