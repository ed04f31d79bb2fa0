//! Root mean square fluctuation of each atom about its mean position.
//!
//! It does not superpose: frames are used as they are, aligned beforehand by [`crate::transforms::superpose`] if
//! wanted. The formula is `sqrt(<|x - <x>|^2>)`, angstrom, over n frames (not n - 1), as in
//! MDAnalysis.analysis.rms.RMSF.

use kinema_core::reduce::ResultArray;

use super::moment_kernel::{MomentKernel, Quantity};
use crate::partials::moments::{Moments, Order};
use crate::registry::KernelInfo;

/// The fluctuation of each atom. Results, angstrom: "rmsf" (atoms), "mean_positions" (atoms, 3).
pub const KERNEL: KernelInfo = MomentKernel::<Fluctuation>::KERNEL;

/// Computes the results from moments.
enum Fluctuation {}

impl Quantity for Fluctuation {
    const ID: &'static str = "rmsf/1";
    const ORDER: Order = Order::Second;

    fn results(moments: &Moments, n_atoms: usize) -> Vec<ResultArray> {
        let variances = moments.variances();
        let rmsf: Vec<f64> = variances.as_chunks::<3>().0.iter().map(|[x, y, z]| (x + y + z).sqrt()).collect();
        vec![
            ResultArray::new("rmsf", vec![n_atoms], rmsf),
            ResultArray::new("mean_positions", vec![n_atoms, 3], moments.means()),
        ]
    }
}
