//! Mean position of each atom over frames, for example as the reference of a second pass that aligns to it.
//!
//! It does not superpose: frames are used as they are, aligned by [`crate::transforms::superpose`] if wanted.

use kinema_core::reduce::ResultArray;

use super::moment_kernel::{MomentKernel, Quantity};
use crate::partials::moments::{Moments, Order};
use crate::registry::KernelInfo;

/// The mean positions. Results: "mean_positions" (atoms, 3), angstrom.
pub const KERNEL: KernelInfo = MomentKernel::<Mean>::KERNEL;

/// Computes the results from moments.
enum Mean {}

impl Quantity for Mean {
    const ID: &'static str = "average/1";
    const ORDER: Order = Order::First;

    fn results(moments: &Moments, n_atoms: usize) -> Vec<ResultArray> {
        vec![ResultArray::new("mean_positions", vec![n_atoms, 3], moments.means())]
    }
}
