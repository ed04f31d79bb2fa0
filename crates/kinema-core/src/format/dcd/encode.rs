//! DCD encoder: the layout of CHARMM and NAMD, little-endian, with the cell as lengths and cosines.

use super::cell;
use super::header::{AKMA_PS, FIRST_RECORD};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{EncodeScratch, Encoder, Making, Marker, Placing};
use crate::frame::{BlockView, Cell, Fields, NO_CELL};
use crate::index::Spacing;

/// CHARMM's version in the header: with 24, cells are lengths and cosines, as NAMD writes them.
const VERSION: i32 = 24;
/// The same where cells are symmetric matrices.
const VERSION_OF_MATRICES: i32 = 36;

/// The line of the title: nothing in it depends on when or where the file was made.
const TITLE: &[u8] = b"REMARKS WRITTEN BY KINEMA";

/// Where the number of frames stands; first step, stride and number of steps follow.
const COUNTS: u64 = 8;

/// Records of 4-byte lengths: the largest payload.
const LONGEST: u64 = i32::MAX as u64;

/// Times that differ by no more than this share are rounded: the time step of the header is a float32.
const ROUNDING: f64 = 4.0 / (1 << 23) as f64;

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
    times: Times,
    losses: Vec<String>,
}

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
        if cells == CellKind::Turned {
            losses.push("cells are turned so that their first vector lies along x; positions are not".to_owned());
        }
        let times = Times::of(&making.steps, &making.times, &mut losses);
        Ok(Self { n_atoms: making.n_atoms, fields, cells, times, losses })
    }

    fn record_len(&self) -> u64 {
        let cell = if self.cells == CellKind::None { 0 } else { 8 + 48 };
        cell + 3 * (8 + 4 * u64::from(self.n_atoms))
    }

    /// The four counts for so many frames; beyond 32 bits they are the largest number, and readers go by the size.
    fn counts(&self, n_frames: u64) -> [i32; 4] {
        let most = |value: i128| value.clamp(i128::from(i32::MIN), i128::from(i32::MAX)) as i32;
        let (frames, stride) = (i128::from(n_frames), self.times.stride);
        [most(frames), self.times.first, stride, most(frames * i128::from(stride))]
    }

    fn cell(&self, stored: &Cell, frame: u64) -> Result<[f64; 6]> {
        let numbers = match self.cells {
            _ if *stored == NO_CELL => return Ok([0.0; 6]),
            CellKind::Matrix => [stored[0][0], stored[0][1], stored[1][1], stored[0][2], stored[1][2], stored[2][2]],
            CellKind::None | CellKind::Lengths | CellKind::Turned => lengths_and_cosines(stored),
        };
        let found = cell::cell(numbers, self.version()).filter(|found| *found != NO_CELL);
        let fits = found.is_some_and(|found| self.cells == CellKind::Turned || nearly_equal(&found, stored));
        if fits {
            return Ok(numbers);
        }
        let expected = match self.cells {
            CellKind::Matrix => "a symmetric matrix with a volume, as those of the other frames",
            _ => "a cell with a volume whose first vector lies along x and the second in the xy plane",
        };
        let what = format!("a cell that this DCD file cannot hold, expected {expected}, found {stored:?}");
        Err(Error::new(ErrorKind::Unsupported, what).at_frame(frame))
    }

    fn version(&self) -> i32 {
        if self.cells == CellKind::Matrix { VERSION_OF_MATRICES } else { VERSION }
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

    fn most_bytes(&self) -> u64 {
        self.record_len()
    }

    fn head(&self) -> Vec<u8> {
        let mut words = [0_i32; 20];
        words[..4].copy_from_slice(&self.counts(0));
        words[9] = self.times.delta.to_bits().cast_signed();
        words[10] = i32::from(self.cells != CellKind::None);
        words[19] = self.version();
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

    fn encode(&self, rows: &BlockView<'_>, first: u64, _: &mut EncodeScratch, out: &mut Vec<u8>) -> Result<()> {
        let width = 3 * rows.n_selected;
        let values = if self.fields == Fields::VELOCITIES { rows.velocities } else { rows.positions };
        if rows.n_selected != self.n_atoms as usize || values.len() != width * rows.rows() {
            return Err(Error::new(ErrorKind::Internal, "the block has other atoms or fields than the file"));
        }
        out.reserve(rows.rows() * self.record_len() as usize);
        for (row, (values, stamp)) in values.chunks_exact(width.max(1)).zip(rows.stamps).enumerate() {
            let frame = first + row as u64;
            self.times.check(stamp.step, stamp.time, frame)?;
            if self.cells != CellKind::None {
                let numbers = self.cell(&stamp.cell, frame)?;
                push_record(out, 48, |out| out.extend(numbers.iter().flat_map(|number| number.to_le_bytes())));
            }
            let atoms = values.as_chunks::<3>().0;
            for axis in 0..3 {
                push_record(out, 4 * atoms.len() as u64, |out| {
                    out.extend(atoms.iter().flat_map(|atom| atom[axis].to_le_bytes()));
                });
            }
        }
        Ok(())
    }

    fn marker(&self, committed: u64) -> Option<Marker> {
        let bytes = self.counts(committed).iter().flat_map(|count| count.to_le_bytes()).collect();
        Some(Marker { offset: COUNTS, bytes })
    }
}

/// A record of `len` bytes with its lengths.
fn push_record(out: &mut Vec<u8>, len: u64, payload: impl FnOnce(&mut Vec<u8>)) {
    let marker = (len as u32).to_le_bytes();
    out.extend_from_slice(&marker);
    payload(out);
    out.extend_from_slice(&marker);
}

/// The kind of cells that holds those of the frames that were looked at.
fn cell_kind(making: &Making) -> CellKind {
    if !making.held.contains(Fields::CELL) {
        return CellKind::None;
    }
    let mut there = making.cells.iter().filter(|cell| **cell != NO_CELL);
    let lower = |cell: &Cell| cell[0][1] == 0.0 && cell[0][2] == 0.0 && cell[1][2] == 0.0;
    let symmetric = |cell: &Cell| cell[0][1] == cell[1][0] && cell[0][2] == cell[2][0] && cell[1][2] == cell[2][1];
    if there.clone().all(lower) {
        CellKind::Lengths
    } else if there.all(symmetric) {
        CellKind::Matrix
    } else {
        CellKind::Turned
    }
}

fn nearly_equal(a: &Cell, b: &Cell) -> bool {
    let edge = b.iter().flatten().fold(0.0_f64, |most, value| most.max(value.abs()));
    a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| (a - b).abs() <= CELL_ROUNDING * edge)
}

/// `A, cos gamma, B, cos beta, cos alpha, C` of which reading gives the cell back, to the last bit where there are such
/// numbers within two steps of those that are computed.
fn lengths_and_cosines(cell: &Cell) -> [f64; 6] {
    let dot = |u: &[f64; 3], v: &[f64; 3]| u.iter().zip(v).map(|(u, v)| u * v).sum::<f64>();
    // exact for vectors along an axis, which a square root of a square is not
    let length = |v: &[f64; 3]| match v.iter().filter(|value| **value != 0.0).count() {
        0 | 1 => v.iter().map(|value| value.abs()).sum(),
        _ => dot(v, v).sqrt(),
    };
    let [a, b, c] = [0, 1, 2].map(|i| length(&cell[i]));
    let cosine = |u: usize, v: usize, lengths: f64| match dot(&cell[u], &cell[v]) {
        0.0 => 0.0,
        dot => (dot / lengths).clamp(-1.0, 1.0),
    };
    let (alpha, beta, gamma) = (cosine(1, 2, b * c), cosine(0, 2, a * c), cosine(0, 1, a * b));
    let exact =
        |numbers: &[f64; 6], row: usize| cell::cell(*numbers, VERSION).is_some_and(|found| found[row] == cell[row]);
    let numbers = [a, gamma, b, beta, alpha, c];
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

/// Steps and times as the header says them.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Times {
    first: i32,
    stride: i32,
    delta: f32,
    /// Whether steps are those of the source.
    steps_kept: bool,
    /// The most by which times differ from those of the source, ps; infinite where not all have one.
    error: f64,
}

impl Times {
    /// Those that are nearest to what the frames have. Steps are kept where times follow from them, as the format has it;
    /// else times are, where a first step can be chosen that gives them.
    fn of(steps: &[i64], times: &[f64], losses: &mut Vec<String>) -> Self {
        let own = evenly_spaced(steps);
        let known = times.iter().filter(|time| time.is_finite()).count();
        let (start, end) = (times.first().copied().unwrap_or(0.0), times.last().copied().unwrap_or(0.0));
        let between = if times.len() > 1 { (end - start) / (times.len() - 1) as f64 } else { 0.0 };
        let tolerance = ROUNDING * start.abs().max(end.abs());
        let by_steps = own.map(|(first, stride)| Self::nearest(first, stride, times));
        let good = |candidate: &Self| known == 0 || candidate.error <= tolerance;
        let chosen = by_steps.filter(good).or_else(|| {
            let stride = own.map_or(1, |(_, stride)| stride);
            let first = (start / between * f64::from(stride)).round();
            let fits = first.is_finite() && first.abs() <= f64::from(i32::MAX);
            fits.then(|| Self::nearest(first as i32, stride, times)).filter(good)
        });
        let chosen = chosen.or(by_steps).unwrap_or_else(|| Self::nearest(0, 1, times));
        let chosen = Self { steps_kept: steps.iter().enumerate().all(|(i, &step)| chosen.step(i) == step), ..chosen };
        chosen.note(steps, times, known, tolerance, losses);
        chosen
    }

    /// Those with the time step that is nearest.
    fn nearest(first: i32, stride: i32, times: &[f64]) -> Self {
        let none = Self { first, stride, delta: 0.0, steps_kept: false, error: f64::INFINITY };
        let (Some(&start), Some(&end)) = (times.first(), times.last()) else { return none };
        let (unit, last) = (f64::from(stride) * AKMA_PS, none.spacing().spacings(times.len() as u64 - 1));
        // from the distance between frames, and from step 0 to the last frame
        let mut guesses = vec![end / last / unit];
        if times.len() > 1 {
            guesses.push((end - start) / (times.len() - 1) as f64 / unit);
        } else if end == 0.0 && last == 0.0 {
            // any time step gives it: one of 1 ps
            guesses.push(1.0 / unit);
        }
        let candidates =
            guesses.into_iter().map(|delta| delta as f32).filter(|delta| delta.is_finite() && *delta > 0.0);
        let candidates = candidates.flat_map(|delta| [delta, delta.next_down(), delta.next_up()]);
        let all = candidates.map(|delta| {
            let made = Self { delta, ..none };
            Self { error: made.largest_error(times), ..made }
        });
        all.min_by(|a, b| a.error.total_cmp(&b.error)).unwrap_or(none)
    }

    /// As the reader has it.
    fn spacing(&self) -> Spacing {
        let time = f64::from(self.delta) * f64::from(self.stride) * AKMA_PS;
        let time = Some(time).filter(|time| time.is_finite() && *time > 0.0);
        Spacing { first_step: i64::from(self.first), steps: i64::from(self.stride), time }
    }

    fn step(&self, frame: usize) -> i64 {
        self.spacing().step(frame as u64)
    }

    fn largest_error(&self, times: &[f64]) -> f64 {
        let spacing = self.spacing();
        let error = |(frame, time): (usize, &f64)| match spacing.time(frame as u64) {
            Some(found) => (found - time).abs(),
            None => f64::INFINITY,
        };
        // NaN is none
        times.iter().enumerate().map(error).fold(0.0, |most, error| if error <= most { most } else { error })
    }

    fn note(&self, steps: &[i64], times: &[f64], known: usize, tolerance: f64, losses: &mut Vec<String>) {
        let n_frames = steps.len();
        if !self.steps_kept {
            let end = n_frames.saturating_sub(1);
            losses.push(format!(
                "steps are not kept, a DCD file has evenly spaced ones from which times follow: {} to {} instead of {} to {}",
                self.step(0),
                self.step(end),
                steps.first().copied().unwrap_or(0),
                steps.last().copied().unwrap_or(0)
            ));
        }
        if known == 0 {
            return;
        }
        let lost = "times are not kept, a DCD file has evenly spaced ones that follow from steps";
        if self.spacing().time.is_none() {
            losses.push(format!("{lost}: it will have none"));
        } else if known < n_frames {
            losses.push(format!("{lost}: {} of {n_frames} frames have none in the source", times.len() - known));
        } else if self.error > tolerance {
            losses.push(format!("{lost}: they differ by up to {} ps", self.error));
        } else if self.error > 0.0 {
            let error = self.error;
            losses.push(format!("times are rounded by up to {error:.2e} ps: the time step of a DCD file is a float32"));
        }
    }

    /// Frames must be those of which steps and times were known before.
    fn check(&self, step: i64, time: f64, frame: u64) -> Result<()> {
        let spacing = self.spacing();
        let (own_step, own_time) = (spacing.step(frame), spacing.time(frame));
        let other_step = self.steps_kept && step != own_step;
        let other_time = self.error.is_finite() && own_time.is_some_and(|own| (own - time).abs() > self.error);
        if other_step || other_time {
            let what = format!(
                "step and time are others than when the frames were found, expected {own_step} and {} ps, found {step} \
                 and {time} ps",
                own_time.unwrap_or(f64::NAN)
            );
            return Err(Error::new(ErrorKind::Corrupt, what).at_frame(frame));
        }
        Ok(())
    }
}

/// First step and stride, where they fit and all steps follow from them.
fn evenly_spaced(steps: &[i64]) -> Option<(i32, i32)> {
    let first = i32::try_from(*steps.first()?).ok()?;
    let stride = match steps {
        [one, two, ..] => i32::try_from(two.checked_sub(*one)?).ok().filter(|stride| *stride > 0)?,
        _ => 1,
    };
    let spacing = Spacing { first_step: i64::from(first), steps: i64::from(stride), time: None };
    steps.iter().enumerate().all(|(i, &step)| spacing.step(i as u64) == step).then_some((first, stride))
}
