//! Histogram of the distances between given pairs of atoms, over all frames.
//!
//! Bin i of n holds `least + i w <= d < least + (i + 1) w` with `w = (most - least) / n`, the last bin also `d = most`,
//! as `numpy.histogram`; other distances are not counted. It divides by no volume: a pair distribution function does.

use std::sync::Arc;

use kinema_core::Result;
use kinema_core::reduce::{Frames, Kernel, Needs, ResultArray};

use crate::analyses::geometry::distances::PairDistances;
use crate::arguments::Arguments;
use crate::partials::counts::Counts;
use crate::partials::series::nothing_gathered;
use crate::registry::KernelInfo;

/// Results: "counts" (bins), uint64; "edges" (bins + 1), angstrom; "n_frames" (1), uint64. Distances are those between
/// `pairs`, atom indices (n, 2), with the nearest images unless `minimum_image` is false.
pub const KERNEL: KernelInfo = KernelInfo {
    id: ID,
    make: |arguments| {
        let pairs = PairDistances::from_arguments(arguments)?;
        let least = if arguments.has("least") { arguments.number("least")? } else { 0.0 };
        let (most, n_bins) = (arguments.number("most")?, arguments.count("bins", 1)?);
        if !((most - least).is_finite() && most > least) {
            return Err(arguments.wrong("most", &format!("above {least}")));
        }
        if u32::try_from(n_bins).is_err() {
            return Err(arguments.wrong("bins", "below 2^32"));
        }
        Ok(Arc::new(DistanceHistogram { pairs, bins: Bins { least, most, n: n_bins } }))
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

/// Bins of equal width.
#[derive(Debug)]
struct Bins {
    least: f64,
    most: f64,
    n: usize,
}

impl Bins {
    /// The lower edge of bin `i`, which is the upper edge of the bin before it.
    fn edge(&self, i: usize) -> f64 {
        if i == self.n { self.most } else { i as f64 * ((self.most - self.least) / self.n as f64) + self.least }
    }

    /// The bin of a value; `None` if the value is outside all bins.
    #[inline]
    fn number(&self, value: f64) -> Option<u32> {
        if !(value >= self.least && value <= self.most) {
            return None;
        }
        let guess = (value - self.least) / (self.most - self.least) * self.n as f64;
        let mut bin = (guess as usize).min(self.n - 1);
        // rounding may give a neighbour
        if value < self.edge(bin) {
            bin -= 1;
        } else if bin + 1 < self.n && value >= self.edge(bin + 1) {
            bin += 1;
        }
        Some(bin as u32)
    }
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
        size_of::<u64>() as u64 * self.bins.n as u64
    }

    fn accumulate(&self, partial: &mut Counts, frames: &Frames<'_>, scratch: &mut Self::Scratch) -> Result<()> {
        let (distances, hits) = scratch;
        for frame in frames.iter() {
            distances.resize(self.pairs.len(), 0.0);
            self.pairs.numbers(&frame, distances).map_err(|error| error.with_frame(frame.number))?;
            hits.clear();
            hits.extend(distances.iter().filter_map(|&distance| self.bins.number(distance)));
            partial.add_frame(self.bins.n, hits);
        }
        Ok(())
    }

    fn merge(&self, left: &mut Counts, right: Counts) -> Result<()> {
        left.merge(self.bins.n, right);
        Ok(())
    }

    fn finish(&self, partial: Counts) -> Result<Vec<ResultArray>> {
        let (n_frames, counts) = partial.into_counts(self.bins.n);
        if n_frames == 0 {
            return Err(nothing_gathered(ID));
        }
        let edges: Vec<f64> = (0..=self.bins.n).map(|i| self.bins.edge(i)).collect();
        Ok(vec![
            ResultArray::new("counts", vec![self.bins.n], counts),
            ResultArray::new("edges", vec![edges.len()], edges),
            ResultArray::new("n_frames", vec![1], vec![n_frames]),
        ])
    }

    fn to_bytes(&self, partial: &Counts) -> Result<Vec<u8>> {
        Ok(partial.to_bytes(ID, self.bins.n))
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Counts> {
        Counts::from_bytes(ID, self.bins.n, bytes)
    }
}
