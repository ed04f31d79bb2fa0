//! Positions that are made in memory from a seed and the number of the frame, shared by all workers of a process.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{Fields, Stamp};
use crate::error::{Error, ErrorKind, Result};

/// Edge of the cube that atoms lie in, and largest shift of an atom from frame to frame along an axis, angstrom.
const EDGE: f32 = 30.0;
const SHIFT: f32 = 0.5;

/// Positions to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Making {
    /// Decides all positions, with the number of the frame.
    pub seed: u64,
    /// Number of atoms.
    pub n_atoms: u32,
    /// Number of frames.
    pub n_frames: u64,
    /// Frames that are kept in memory: frame `i` is frame `i % kept`.
    pub kept: u64,
}

impl Making {
    /// # Errors
    /// `InvalidArgument` unless there are atoms and frames, of which some are kept.
    pub fn check(self) -> Result<Self> {
        if self.n_atoms == 0 || self.n_frames == 0 || self.kept == 0 || self.kept > self.n_frames {
            let what = format!(
                "positions are made of at least one atom and frame, of which some are kept, found {} atoms, {} frames, \
                 {} kept",
                self.n_atoms, self.n_frames, self.kept
            );
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        Ok(self)
    }
}

/// A number from 0 to 1 for each counter.
fn uniform(counter: u64) -> f32 {
    // the finalizer of MurmurHash3 with the constants of SplitMix64
    let mut bits = counter.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((bits ^ (bits >> 31)) >> 40) as f32 / (1 << 24) as f32
}

/// Positions in memory.
#[derive(Debug)]
pub struct MadePositions {
    making: Making,
    /// `kept` rows.
    rows: Vec<f32>,
}

/// All that the process holds: files of the same head share one.
static HELD: Mutex<Vec<Weak<MadePositions>>> = Mutex::new(Vec::new());

impl MadePositions {
    /// The positions, which are made unless the process holds them.
    ///
    /// # Errors
    /// `MemoryLimit` if the system does not have the memory.
    pub fn get(making: Making) -> Result<Arc<Self>> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|one| one.strong_count() > 0);
        if let Some(found) = held.iter().filter_map(Weak::upgrade).find(|one| one.making == making) {
            return Ok(found);
        }
        let made = Arc::new(Self::new(making)?);
        held.push(Arc::downgrade(&made));
        Ok(made)
    }

    fn new(making: Making) -> Result<Self> {
        let width = 3 * making.n_atoms as usize;
        let room = usize::try_from(making.kept).ok().and_then(|kept| kept.checked_mul(width));
        let mut rows = Vec::new();
        room.and_then(|room| rows.try_reserve_exact(room).ok()).ok_or_else(|| {
            let what = format!("the system has no memory for {} frames of {} atoms", making.kept, making.n_atoms);
            Error::new(ErrorKind::MemoryLimit, what)
        })?;
        for frame in 0..making.kept {
            let (places, shifts) = (making.seed << 40, making.seed.wrapping_add(1 + frame) << 40);
            rows.extend((0..width as u64).map(|number| {
                EDGE * (uniform(places ^ number) - 0.5) + SHIFT * (2.0 * uniform(!(shifts ^ number)) - 1.0)
            }));
        }
        Ok(Self { making, rows })
    }

    /// How many of these frames, from the first on, lie one after the other in memory.
    pub fn neighbours(&self, frames: impl IntoIterator<Item = u64>) -> u64 {
        let mut expected = None;
        let is_next = |frame: &u64| {
            let row = *frame % self.making.kept;
            let next = expected.is_none_or(|expected| expected == row);
            expected = Some(row + 1);
            next
        };
        frames.into_iter().take_while(is_next).count() as u64
    }

    /// The positions of some frames that lie one after the other.
    pub fn rows(&self, first_frame: u64, n_frames: usize) -> &[f32] {
        let width = 3 * self.making.n_atoms as usize;
        let first = (first_frame % self.making.kept) as usize;
        &self.rows[first * width..(first + n_frames) * width]
    }

    /// Number of atoms and frames, and seed.
    pub fn making(&self) -> Making {
        self.making
    }

    /// Step and time (ps) of a frame are its number.
    pub fn stamp(frame: u64) -> Stamp {
        Stamp { step: frame as i64, time: frame as f64, present: Fields::POSITIONS, ..Stamp::default() }
    }
}
