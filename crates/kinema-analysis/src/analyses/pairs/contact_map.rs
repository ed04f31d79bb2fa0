//! In how many frames pairs of residues are in contact, and the mean of their least distances.
//!
//! The least distance of two residues is that of [`super::residue_distances`]; a contact is one of at most a cutoff.
//! Counts are exact in any order of frames, and so are sums of distances: whole multiples of 2^-24 angstrom.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::reduce::{Frame, Needs, ResultArray};

use super::residue_contacts::{Residues, example_ends};
use crate::analyses::sum_per_frame::{SumPerFrame, Sums};
use crate::arguments::Arguments;
use crate::geometry::{LeastScratch, least_distances};
use crate::partials::bytes::{Reader, Writer};
use crate::registry::KernelInfo;

/// Results: "counts" (pairs), uint64; "distances" (pairs), sums over frames in angstrom; "time"; "values" (frames, 1), the
/// number of contacts. `pairs` (n, 2), `atoms`, `ends` and `minimum_image` are those of "residue_distances"; `cutoff`,
/// angstrom.
pub const KERNEL: KernelInfo = KernelInfo {
    id: ContactMap::ID,
    make: |arguments| {
        let residues = Residues::from_arguments(arguments)?;
        let (pairs, n) = (arguments.index_rows::<2>("pairs")?.to_vec(), residues.groups.len());
        if pairs.is_empty() || pairs.as_flattened().iter().any(|residue| *residue as usize >= n) {
            return Err(arguments.wrong("pairs", &format!("numbers below {n}, (n, 2), at least one row")));
        }
        Ok(Arc::new(Sums(ContactMap { residues, pairs, cutoff: arguments.positive("cutoff")? })))
    },
    examples: |n_atoms, _| {
        let ends = example_ends(n_atoms);
        let n = ends.len() as u32;
        let atoms: Vec<u32> = (0..n_atoms).rev().collect();
        let pairs: Vec<[u32; 2]> = (0..n).map(|i| [i, (5 * i + 2) % n]).collect();
        let all = Arguments::new(n_atoms).with("atoms", atoms).with("ends", ends).with("pairs", pairs);
        vec![all.clone().with("cutoff", 6.0), all.with("minimum_image", false).with("cutoff", 20.0)]
    },
};

/// Parts of an angstrom in which distances add up: 10^8 frames of 10^3 angstrom fit into 64 bits.
const PARTS: f64 = (1 << 24) as f64;

struct ContactMap {
    residues: Residues,
    pairs: Vec<[u32; 2]>,
    cutoff: f64,
}

/// Sums over frames, one a pair; empty as long as there is no frame.
#[derive(Debug, Default, Clone)]
pub struct PairSums {
    counts: Vec<u64>,
    distances: Vec<u64>,
}

fn add_all(left: &mut [u64], right: &[u64]) {
    left.iter_mut().zip(right).for_each(|(left, right)| *left = left.wrapping_add(*right));
}

impl SumPerFrame for ContactMap {
    const ID: &'static str = "contact_map/1";
    type Sum = PairSums;
    type Scratch = (LeastScratch, Vec<f64>);

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
        (scratch, distances): &mut Self::Scratch,
        sum: &mut PairSums,
        row: &mut [f64],
    ) -> Result<()> {
        let (Residues { cpu, groups, .. }, n) = (&self.residues, self.pairs.len());
        distances.resize(n, 0.0);
        self.residues.see(frame, |row, lattice| {
            least_distances(*cpu, (groups, row), &self.pairs, lattice, scratch, distances)
        })?;
        sum.counts.resize(n, 0);
        sum.distances.resize(n, 0);
        let mut n_contacts = 0_u64;
        for ((distance, count), total) in distances.iter().zip(&mut sum.counts).zip(&mut sum.distances) {
            let contact = u64::from(*distance <= self.cutoff);
            n_contacts += contact;
            *count += contact;
            // to the nearest part; distances are positive and finite
            *total = total.wrapping_add((distance * PARTS + 0.5) as u64);
        }
        row[0] = n_contacts as f64;
        Ok(())
    }

    fn merge(&self, left: &mut PairSums, right: PairSums) {
        if left.counts.is_empty() {
            *left = right;
        } else {
            add_all(&mut left.counts, &right.counts);
            add_all(&mut left.distances, &right.distances);
        }
    }

    fn results(&self, mut sum: PairSums) -> Vec<ResultArray> {
        let n = self.pairs.len();
        sum.counts.resize(n, 0);
        sum.distances.resize(n, 0);
        let distances: Vec<f64> = sum.distances.iter().map(|total| *total as f64 / PARTS).collect();
        vec![ResultArray::new("counts", vec![n], sum.counts), ResultArray::new("distances", vec![n], distances)]
    }

    fn to_bytes(&self, sum: &PairSums) -> Vec<u8> {
        let mut writer = Writer::new(Self::ID);
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
        Ok(PairSums { counts, distances })
    }
}
