//! In how many frames pairs of residues are in contact, and the mean of their least distances.
//!
//! The least distance of two residues is that of [`super::residue_distances`]; a contact is one of at most a cutoff.
//! Counts are exact in any order of frames, and so are sums of distances: whole multiples of 2^-24 angstrom.

use std::borrow::Cow;
use std::sync::Arc;

use kinema_core::Result;
use kinema_core::reduce::{Frame, Frames, Needs, ResultArray};

use super::residue_contacts::{Residues, example_ends};
use crate::analyses::sum_per_frame::{SumPerFrame, Sums};
use crate::arguments::{Arguments, GroupedAtoms};
use crate::geometry::{
    COUNT, ContactSums, LeastScratch, MOST_TOGETHER, Measured, PARTS, PairRuns, RunScratch, least_distances,
};
use crate::partials::bytes::{Reader, Writer};
use crate::registry::KernelInfo;

/// Results: "counts" (pairs), uint64; "distances" (pairs), sums over frames in angstrom; "time"; "values" (frames, 1), the
/// number of contacts. `pairs` (n, 2), `atoms`, `ends` and `minimum_image` are those of "residue_distances"; `cutoff`,
/// angstrom. Without `distances` there are none.
pub const KERNEL: KernelInfo = KernelInfo {
    id: ContactMap::ID,
    make: |arguments| {
        let residues = Residues::from_arguments(arguments)?;
        let (pairs, n) = (arguments.index_rows::<2>("pairs")?.to_vec(), residues.groups.len());
        if pairs.is_empty() || pairs.as_flattened().iter().any(|residue| *residue as usize >= n) {
            return Err(arguments.wrong("pairs", &format!("numbers below {n}, (n, 2), at least one row")));
        }
        let GroupedAtoms { places, ends, .. } = arguments.groups("atoms", "ends")?;
        let runs = (places.len() == ends.len()).then(|| PairRuns::new(places, &pairs));
        let measured =
            Measured { cutoff: arguments.positive("cutoff")?, distances: arguments.flag("distances", true)? };
        Ok(Arc::new(Sums(ContactMap { residues, pairs, runs, measured })))
    },
    examples: |n_atoms, _| {
        let ends = example_ends(n_atoms);
        let n = ends.len() as u32;
        let atoms: Vec<u32> = (0..n_atoms).rev().collect();
        let pairs: Vec<[u32; 2]> = (0..n).map(|i| [i, (5 * i + 2) % n]).collect();
        let all = Arguments::new(n_atoms).with("atoms", atoms).with("ends", ends).with("pairs", pairs);
        let each = Arguments::new(n_atoms)
            .with("atoms", (0..n_atoms).rev().collect::<Vec<u32>>())
            .with("ends", (1..=n_atoms).collect::<Vec<u32>>())
            .with("pairs", (0..n_atoms).map(|i| [i, (3 * i + 1) % n_atoms]).collect::<Vec<_>>());
        let far = all.clone().with("minimum_image", false).with("cutoff", 20.0);
        let open = each.clone().with("minimum_image", false).with("cutoff", 7.0);
        let [of_residues, of_atoms] = [&all, &open].map(|of| of.clone().with("cutoff", 8.0).with("distances", false));
        vec![all.with("cutoff", 6.0), far, each.with("cutoff", 9.0), open, of_residues, of_atoms]
    },
};

struct ContactMap {
    residues: Residues,
    pairs: Vec<[u32; 2]>,
    /// The pairs as those of atoms, if all residues have one.
    runs: Option<PairRuns>,
    measured: Measured,
}

/// Sums over frames, one a pair; empty as long as there is no frame.
#[derive(Debug, Default, Clone)]
pub struct PairSums {
    counts: Vec<u64>,
    distances: Vec<u64>,
    /// Both in one number instead, as [`PairRuns::add_together`] adds them, and the number of their frames.
    together: Vec<u64>,
    n_together: u64,
}

impl PairSums {
    /// The sums of `n` pairs.
    fn of(&mut self, n: usize) -> ContactSums<'_> {
        let together = std::mem::take(&mut self.together);
        self.n_together = 0;
        self.counts.resize(n, 0);
        self.distances.resize(n, 0);
        self.add(&together);
        ContactSums { counts: &mut self.counts, distances: &mut self.distances }
    }

    /// Adds sums of both in one number.
    fn add(&mut self, together: &[u64]) {
        for ((count, distance), sum) in self.counts.iter_mut().zip(&mut self.distances).zip(together) {
            *count = count.wrapping_add(sum / COUNT);
            *distance = distance.wrapping_add(sum % COUNT);
        }
    }

    /// Adds the sums of other frames.
    fn merge(&mut self, right: Self, n: usize) {
        if self.counts.is_empty() && self.together.is_empty() {
            *self = right;
            return;
        }
        let sums = self.of(n);
        add_all(sums.counts, &right.counts);
        add_all(sums.distances, &right.distances);
        self.add(&right.together);
    }
}

fn add_all(left: &mut [u64], right: &[u64]) {
    left.iter_mut().zip(right).for_each(|(left, right)| *left = left.wrapping_add(*right));
}

/// Frames of which a few pairs are added together.
const AT_A_TIME: usize = 8;

impl ContactMap {
    /// Adds frames without a cell, if [`PairRuns::add_together`] can; returns whether they were added.
    fn add_together(
        &self,
        frames: &[Frame<'_>],
        scratch: &mut RunScratch,
        sum: &mut PairSums,
        rows: &mut [f64],
    ) -> Result<bool> {
        let Some(runs) = &self.runs else { return Ok(false) };
        for frame in frames {
            if !self.residues.lattice(frame).map_err(|error| error.with_frame(frame.number))?.is_open() {
                return Ok(false);
            }
        }
        if !sum.counts.is_empty() || sum.n_together + frames.len() as u64 > MOST_TOGETHER {
            return Ok(false);
        }
        sum.together.resize(self.pairs.len(), 0);
        let (positions, mut contacts) = (frames.iter().map(|frame| frame.positions(0)), [0; AT_A_TIME]);
        let positions: Vec<&[f32]> = positions.collect();
        let contacts = &mut contacts[..positions.len()];
        let is_added =
            runs.add_together(self.residues.cpu, &positions, self.measured, scratch, (&mut sum.together, contacts));
        if is_added {
            sum.n_together += frames.len() as u64;
            rows.iter_mut().zip(contacts).for_each(|(row, contacts)| *row = *contacts as f64);
        }
        Ok(is_added)
    }
}

impl SumPerFrame for ContactMap {
    const ID: &'static str = "contact_map/1";
    type Sum = PairSums;
    type Scratch = (LeastScratch, RunScratch, Vec<f64>);

    fn needs(&self) -> Needs {
        self.residues.needs()
    }

    fn empty(&self) -> PairSums {
        PairSums::default()
    }

    fn sum_bytes(&self) -> u64 {
        (2 * size_of::<u64>() * self.pairs.len()) as u64
    }

    fn width(&self) -> usize {
        1
    }

    fn add(
        &self,
        frame: &Frame<'_>,
        (scratch, of_runs, distances): &mut Self::Scratch,
        sum: &mut PairSums,
        row: &mut [f64],
    ) -> Result<()> {
        let (Residues { cpu, groups, .. }, n) = (&self.residues, self.pairs.len());
        let mut sums = sum.of(n);
        if let Some(runs) = &self.runs {
            return self.residues.see(frame, |atoms, lattice| {
                let contacts = runs.add(*cpu, (atoms, lattice), self.measured, of_runs, &mut sums)?;
                row[0] = contacts.unwrap_or_default() as f64;
                Ok(contacts.is_some())
            });
        }
        distances.resize(n, 0.0);
        self.residues.see(frame, |atoms, lattice| {
            least_distances(*cpu, (groups, atoms), &self.pairs, lattice, scratch, distances)
        })?;
        let mut n_contacts = 0_u64;
        for ((distance, count), total) in distances.iter().zip(sums.counts).zip(sums.distances) {
            let contact = u64::from(*distance <= self.measured.cutoff);
            n_contacts += contact;
            *count += contact;
            if self.measured.distances {
                // to the nearest part; distances are positive and finite
                *total = total.wrapping_add((distance * PARTS + 0.5) as u64);
            }
        }
        row[0] = n_contacts as f64;
        Ok(())
    }

    fn add_all(
        &self,
        frames: &Frames<'_>,
        scratch: &mut Self::Scratch,
        sum: &mut PairSums,
        rows: &mut [f64],
    ) -> Result<()> {
        let all: Vec<Frame<'_>> = frames.iter().collect();
        for (frames, rows) in all.chunks(AT_A_TIME).zip(rows.chunks_mut(AT_A_TIME)) {
            if self.add_together(frames, &mut scratch.1, sum, rows)? {
                continue;
            }
            for (frame, row) in frames.iter().zip(rows.chunks_mut(1)) {
                self.add(frame, scratch, sum, row).map_err(|error| error.with_frame(frame.number))?;
            }
        }
        Ok(())
    }

    fn merge(&self, left: &mut PairSums, right: PairSums) {
        left.merge(right, self.pairs.len());
    }

    fn results(&self, mut sum: PairSums) -> Vec<ResultArray> {
        let n = self.pairs.len();
        sum.of(n);
        let mut results = vec![ResultArray::new("counts", vec![n], sum.counts)];
        if self.measured.distances {
            let distances: Vec<f64> = sum.distances.iter().map(|total| *total as f64 / PARTS).collect();
            results.push(ResultArray::new("distances", vec![n], distances));
        }
        results
    }

    fn to_bytes(&self, sum: &PairSums) -> Vec<u8> {
        let mut spread = Cow::Borrowed(sum);
        if !sum.together.is_empty() {
            spread.to_mut().of(self.pairs.len());
        }
        let (sum, mut writer) = (&*spread, Writer::new(Self::ID));
        writer.u64(sum.counts.len() as u64);
        writer.numbers(&sum.counts);
        writer.numbers(&sum.distances);
        writer.finish()
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<PairSums> {
        let mut reader = Reader::new(Self::ID, bytes)?;
        let n = reader.u64("number of pairs")?;
        if n != 0 && n != self.pairs.len() as u64 {
            return Err(reader.wrong("number of pairs", self.pairs.len() as u64, n));
        }
        let counts = reader.numbers(n, "counts")?;
        let distances = reader.numbers(n, "sums of distances")?;
        reader.finish()?;
        Ok(PairSums { counts, distances, ..PairSums::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_in_one_number_and_in_two_are_the_same() {
        let two = |counts: [u64; 2], distances: [u64; 2]| PairSums {
            counts: counts.to_vec(),
            distances: distances.to_vec(),
            ..PairSums::default()
        };
        let one = |sums: [u64; 2]| PairSums { together: sums.to_vec(), n_together: 3, ..PairSums::default() };
        let (left, right) = (one([2 * COUNT + 5, COUNT - 1]), two([1, 0], [10, 20]));
        let both = (one([COUNT + 5, COUNT - 1]), one([2 * COUNT + 10, 20]));
        for (mut left, right) in [(left.clone(), right.clone()), (right, left), both] {
            left.merge(right, 2);
            assert_eq!((left.counts, left.distances), (vec![3, 0], vec![15, COUNT + 19]));
        }
        let mut sum = PairSums::default();
        sum.merge(one([7, COUNT]), 2);
        sum.of(2);
        assert_eq!((sum.counts, sum.distances, sum.together, sum.n_together), (vec![0, 1], vec![7, 0], vec![], 0));
    }
}
