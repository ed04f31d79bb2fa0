//! Histogram of the distances between given pairs of atoms, over all frames.
//!
//! It divides by no volume: a radial distribution function does.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::reduce::{Frames, Kernel, Needs, ResultArray};

use crate::analyses::geometry::distances::PairDistances;
use crate::arguments::Arguments;
use crate::bins::Bins;
use crate::partials::counts::Counts;
use crate::partials::series::nothing_gathered;
use crate::registry::KernelInfo;

/// Results: "counts" (bins), uint64; "edges" (bins + 1), angstrom; "n_frames" (1), uint64. Distances are those between
/// `pairs`, atom indices (n, 2), with the nearest images unless `minimum_image` is false.
pub const KERNEL: KernelInfo = KernelInfo {
    id: ID,
    make: |arguments| {
        let pairs = PairDistances::from_arguments(arguments)?;
        Ok(Arc::new(DistanceHistogram { pairs, bins: Bins::from_arguments(arguments)? }))
    },
    examples: |n_atoms, _| {
        let pairs: Vec<_> = (0..n_atoms).map(|atom| [atom, (3 * atom + 1) % n_atoms]).collect();
        let of = |most: f64, bins: i64| {
            Arguments::new(n_atoms).with("pairs", pairs.clone()).with("most", most).with("bins", bins)
        };
        vec![of(25.0, 40), of(9.0, 100_000).with("least", 2.0).with("minimum_image", false)]
    },
};

const ID: &str = "distance_histogram/1";

struct DistanceHistogram {
    pairs: PairDistances,
    bins: Bins,
}

impl Kernel for DistanceHistogram {
    type Partial = Counts;
    /// Distances and bins of a frame.
    type Scratch = (Vec<f64>, Vec<u32>);

    fn id(&self) -> &'static str {
        ID
    }

    fn needs(&self) -> Needs {
        self.pairs.needs()
    }

    fn empty(&self) -> Counts {
        Counts::default()
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn partial_bytes(&self) -> u64 {
        size_of::<u64>() as u64 * self.bins.len() as u64
    }

    fn accumulate(&self, partial: &mut Counts, frames: &Frames<'_>, scratch: &mut Self::Scratch) -> Result<()> {
        let (distances, hits) = scratch;
        for frame in frames.iter() {
            distances.resize(self.pairs.len(), 0.0);
            self.pairs.numbers(&frame, distances).map_err(|error| error.with_frame(frame.number))?;
            hits.clear();
            hits.extend(distances.iter().filter_map(|&distance| self.bins.number(distance)));
            partial.add_frame(self.bins.len(), hits, &[]);
        }
        Ok(())
    }

    fn merge(&self, left: &mut Counts, right: Counts) -> Result<()> {
        left.merge(self.bins.len(), right);
        Ok(())
    }

    fn finish(&self, partial: Counts) -> Result<Vec<ResultArray>> {
        let (n_frames, counts) = partial.into_counts(self.bins.len());
        if n_frames == 0 {
            return Err(nothing_gathered(ID));
        }
        let edges = self.bins.edges();
        Ok(vec![
            ResultArray::new("counts", vec![self.bins.len()], counts),
            ResultArray::new("edges", vec![edges.len()], edges),
            ResultArray::new("n_frames", vec![1], vec![n_frames]),
        ])
    }

    fn to_bytes(&self, partial: &Counts) -> Result<Vec<u8>> {
        Ok(partial.to_bytes(ID, self.bins.len()))
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Counts> {
        Counts::from_bytes(ID, self.bins.len(), bytes)
    }
}
