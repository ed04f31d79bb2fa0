//! Structure factors of species of atoms, direct sums over the wave vectors of each frame's cell.
//!
//! `Re rho_a(k) rho_b(k)*` with `rho_a(k) = sum_j f_j exp(i k . r_j)` over the atoms j of species a, in bins of |k|. Sums over
//! frames are floating-point numbers, added in the order of frames.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Frames, Kernel, Needs, ResultArray};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use super::fourier_sums::{Powers, WaveVectors};
use crate::arguments::Arguments;
use crate::bins::Bins;
use crate::cpu::Cpu;
use crate::partials::bytes::{Reader, Writer};
use crate::partials::series::nothing_gathered;
use crate::registry::KernelInfo;
use crate::run_parts::RunParts;

/// Species at most: there are sums for each pair.
const MOST_SPECIES: usize = 128;
/// Fourier sums of all species that are held at a time: 64 MiB.
const HELD: usize = 1 << 22;

/// `atoms`; `factors`, one for each, 1 if left out; `species`, a number from 0 for each, 0 if left out. `least`, `most` and
/// `bins` of |k|, 1/angstrom. `blocks`: as [`RunParts`]. `expected`: number of wave vectors of a frame, for the memory of a
/// run; 0 if left out.
///
/// Results: "sums" (parts, pairs, bins) over wave vectors and frames, pairs of species 0 0, 0 1, ..., 1 1, ...; "wave_vectors"
/// (parts, bins), uint64, their number in all frames, k and -k; "n_frames" (1).
pub const KERNEL: KernelInfo = KernelInfo {
    id: ID,
    make: |arguments| Ok(Arc::new(StructureFactor::new(arguments)?)),
    examples: |n_atoms, _| {
        let all = Arguments::new(n_atoms).with("atoms", (0..n_atoms).rev().collect::<Vec<_>>());
        let all = all.with("most", 1.5).with("bins", 20_i64);
        let species: Vec<u32> = (0..n_atoms).map(|atom| u32::from(atom % 3 == 1)).collect();
        let factors: Vec<f64> = (0..n_atoms).map(|atom| f64::from(atom % 5) - 1.5).collect();
        let parts = all.clone().with("blocks", vec![0.0, 2.0]).with("expected", 1000_i64);
        vec![all.with("factors", factors), parts.with("least", 0.5).with("species", species)]
    },
};

const ID: &str = "structure_factor/2";

struct StructureFactor {
    cpu: Cpu,
    atoms: AtomSelection,
    /// Places of the atoms of each species, ascending, with their factors.
    species: Vec<Vec<(u32, f64)>>,
    bins: Bins,
    longest: f64,
    blocks: RunParts,
    expected: u64,
}

/// Sums over frames.
#[derive(Debug, Clone)]
struct FactorSums {
    n_frames: u64,
    /// Part by part of the run.
    wave_vectors: Vec<u64>,
    /// Part by part, pair by pair.
    sums: Vec<f64>,
}

/// Buffers of one worker.
#[derive(Debug, Default)]
struct Scratch {
    powers: Powers,
    /// Species by species.
    fourier: Vec<[f64; 2]>,
}

impl StructureFactor {
    fn new(arguments: &Arguments) -> Result<Self> {
        let atoms = arguments.unique_atoms("atoms")?;
        let n_atoms = atoms.len();
        let factors = match arguments.optional_numbers("factors")? {
            None => vec![1.0; n_atoms],
            Some(given) if given.len() == n_atoms && given.iter().all(|factor| factor.is_finite()) => {
                atoms.reorder_as_set(given, 1)?.into_owned()
            }
            Some(_) => return Err(arguments.wrong("factors", &format!("{n_atoms} finite numbers"))),
        };
        let mut numbers = vec![0.0; n_atoms];
        if arguments.has("species") {
            let given = arguments.index_rows::<1>("species")?.as_flattened();
            if given.len() != n_atoms || given.iter().any(|number| *number as usize >= MOST_SPECIES) {
                return Err(arguments.wrong("species", &format!("{n_atoms} numbers below {MOST_SPECIES}")));
            }
            let given: Vec<f64> = given.iter().map(|number| f64::from(*number)).collect();
            numbers = atoms.reorder_as_set(&given, 1)?.into_owned();
        }
        let n_species = numbers.iter().fold(0.0_f64, |most, number| most.max(*number)) as usize + 1;
        let mut species = vec![Vec::new(); n_species];
        for (place, (number, factor)) in numbers.iter().zip(factors).enumerate() {
            species[*number as usize].push((place as u32, factor));
        }
        let bins = Bins::from_arguments(arguments)?;
        let expected = if arguments.has("expected") { arguments.count("expected", 0)? as u64 } else { 0 };
        let (longest, blocks) = (arguments.positive("most")?, RunParts::from_arguments(arguments)?);
        Ok(Self { cpu: arguments.cpu(), atoms, species, bins, longest, blocks, expected })
    }

    fn n_pairs(&self) -> usize {
        self.species.len() * (self.species.len() + 1) / 2
    }

    fn add(&self, frame: &Frame<'_>, scratch: &mut Scratch, partial: &mut FactorSums) -> Result<()> {
        let lattice = frame.lattice()?;
        if lattice.basis().contains(&[0.0; 3]) {
            let what = "the frame is not periodic in three dimensions, which wave vectors need";
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        let positions = frame.finite_positions(0)?.as_chunks::<3>().0;
        let (n_bins, part) = (self.bins.len(), self.blocks.of(frame.number));
        let numbers = &mut partial.wave_vectors[part * n_bins..][..n_bins];
        let sums = &mut partial.sums[part * n_bins * self.n_pairs()..][..n_bins * self.n_pairs()];
        for vectors in WaveVectors::new(&lattice, self.longest)?.in_parts(HELD / self.species.len()) {
            self.add_part(&vectors, positions, scratch, numbers, sums);
        }
        partial.n_frames = partial.n_frames.saturating_add(1);
        Ok(())
    }

    fn add_part(
        &self,
        vectors: &WaveVectors,
        positions: &[[f32; 3]],
        scratch: &mut Scratch,
        numbers: &mut [u64],
        of_bins: &mut [f64],
    ) {
        let n = vectors.len();
        scratch.fourier.clear();
        scratch.fourier.resize(n * self.species.len(), [0.0; 2]);
        for (atoms, sums) in self.species.iter().zip(scratch.fourier.chunks_exact_mut(n)) {
            let points = atoms.iter().map(|&(place, factor)| (positions[place as usize], factor));
            vectors.add(self.cpu, points, &mut scratch.powers, sums);
        }
        let of = |species: usize, at: usize| scratch.fourier[species * n + at];
        let n_bins = self.bins.len();
        for (at, length) in vectors.lengths().enumerate() {
            let Some(bin) = self.bins.number(length) else { continue };
            let bin = bin as usize;
            // k and -k
            numbers[bin] = numbers[bin].saturating_add(2);
            let mut pair = 0;
            for first in 0..self.species.len() {
                let a = of(first, at);
                for second in first..self.species.len() {
                    let b = of(second, at);
                    of_bins[pair * n_bins + bin] += 2.0 * (a[0] * b[0] + a[1] * b[1]);
                    pair += 1;
                }
            }
        }
    }
}

impl Kernel for StructureFactor {
    type Partial = FactorSums;
    type Scratch = Scratch;

    fn id(&self) -> &'static str {
        ID
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets: vec![self.atoms.clone()] }
    }

    fn empty(&self) -> FactorSums {
        let n_bins = self.bins.len() * self.blocks.len();
        FactorSums { n_frames: 0, wave_vectors: vec![0; n_bins], sums: vec![0.0; n_bins * self.n_pairs()] }
    }

    fn partial_bytes(&self) -> u64 {
        8 * (self.blocks.len() * self.bins.len() * (1 + self.n_pairs())) as u64
    }

    fn scratch_bytes(&self) -> u64 {
        // of half of the wave vectors; powers of the points of a chunk take less
        let fourier = (self.expected / 2).saturating_mul(self.species.len() as u64).min(HELD as u64);
        size_of::<[f64; 2]>() as u64 * fourier
    }

    fn accumulate(&self, partial: &mut FactorSums, frames: &Frames<'_>, scratch: &mut Scratch) -> Result<()> {
        for frame in frames.iter() {
            self.add(&frame, scratch, partial).map_err(|error| error.with_frame(frame.number))?;
        }
        Ok(())
    }

    fn merge(&self, left: &mut FactorSums, right: FactorSums) -> Result<()> {
        left.n_frames = left.n_frames.saturating_add(right.n_frames);
        left.wave_vectors.iter_mut().zip(right.wave_vectors).for_each(|(n, right)| *n = n.saturating_add(right));
        left.sums.iter_mut().zip(right.sums).for_each(|(sum, right)| *sum += right);
        Ok(())
    }

    fn finish(&self, partial: FactorSums) -> Result<Vec<ResultArray>> {
        if partial.n_frames == 0 {
            return Err(nothing_gathered(ID));
        }
        let (n_bins, n_parts) = (self.bins.len(), self.blocks.len());
        Ok(vec![
            ResultArray::new("sums", vec![n_parts, self.n_pairs(), n_bins], partial.sums),
            ResultArray::new("wave_vectors", vec![n_parts, n_bins], partial.wave_vectors),
            ResultArray::new("n_frames", vec![1], vec![partial.n_frames]),
        ])
    }

    fn to_bytes(&self, partial: &FactorSums) -> Result<Vec<u8>> {
        let mut writer = Writer::new(ID);
        writer.u64(partial.wave_vectors.len() as u64);
        writer.u64(partial.sums.len() as u64);
        writer.u64(partial.n_frames);
        writer.numbers(&partial.wave_vectors);
        writer.numbers(&partial.sums);
        Ok(writer.finish())
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<FactorSums> {
        let (n_bins, n_pairs) = (self.bins.len() * self.blocks.len(), self.n_pairs());
        let mut reader = Reader::new(ID, bytes)?;
        reader.same(n_bins as u64, "number of bins")?;
        reader.same((n_bins * n_pairs) as u64, "number of sums")?;
        let n_frames = reader.u64("number of frames")?;
        let wave_vectors = reader.numbers(n_bins as u64, "numbers of wave vectors")?;
        let sums = reader.numbers((n_bins * n_pairs) as u64, "sums")?;
        reader.finish()?;
        Ok(FactorSums { n_frames, wave_vectors, sums })
    }
}
