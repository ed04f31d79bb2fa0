//! The kernel of all quantities that follow from the moments of each atom's position over frames.
//!
//! It knows no quantity: [`Quantity`] says which moments one needs and computes the results from them.

use std::marker::PhantomData;
use std::sync::Arc;

use kinema_core::Result;
use kinema_core::frame::Fields;
use kinema_core::reduce::{Frames, Kernel, Needs, ResultArray, Values};
use kinema_core::selection::AtomSelection;

use crate::arguments::Arguments;
use crate::cpu::Cpu;
use crate::partials::moments::{Moments, Order};
use crate::partials::series::nothing_gathered;
use crate::registry::KernelInfo;

/// A quantity that is read from moments.
pub trait Quantity: Send + Sync + 'static {
    /// Name and version of the partial's bytes.
    const ID: &'static str;
    /// The highest moment it needs.
    const ORDER: Order;
    /// The results for `n_atoms` atoms over at least one frame; the first dimension of each array is that of atoms.
    fn results(moments: &Moments, n_atoms: usize) -> Vec<ResultArray>;
}

/// Gathers the moments of `atoms` for a quantity.
#[derive(Debug)]
pub(super) struct MomentKernel<Q> {
    cpu: Cpu,
    atoms: AtomSelection,
    quantity: PhantomData<fn() -> Q>,
}

impl<Q: Quantity> MomentKernel<Q> {
    /// The declaration of the kernel.
    pub(super) const KERNEL: KernelInfo = KernelInfo {
        id: Q::ID,
        make: |arguments| {
            let (cpu, atoms) = (arguments.cpu(), arguments.atoms("atoms")?);
            Ok(Arc::new(Self { cpu, atoms, quantity: PhantomData }))
        },
        examples: |n_atoms, _| {
            let every = |step| Arguments::new(n_atoms).with("atoms", (0..n_atoms).step_by(step).collect::<Vec<_>>());
            vec![every(1), every(2)]
        },
    };
}

impl<Q: Quantity> Kernel for MomentKernel<Q> {
    type Partial = Moments;
    type Scratch = ();

    fn id(&self) -> &'static str {
        Q::ID
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.atoms.clone()] }
    }

    fn empty(&self) -> Moments {
        Moments::new(Q::ORDER)
    }

    fn partial_bytes(&self) -> u64 {
        let sums = match Q::ORDER {
            Order::First => 2,
            Order::Second => 3,
        };
        sums * size_of::<[f64; 3]>() as u64 * self.atoms.len() as u64
    }

    fn accumulate(&self, partial: &mut Moments, frames: &Frames<'_>, (): &mut ()) -> Result<()> {
        partial.add(self.cpu, frames, 0)
    }

    fn merge(&self, left: &mut Moments, right: Moments) -> Result<()> {
        left.merge(right);
        Ok(())
    }

    fn finish(&self, partial: Moments) -> Result<Vec<ResultArray>> {
        if partial.n_frames() == 0 {
            return Err(nothing_gathered(Q::ID));
        }
        let mut results = Q::results(&partial, self.atoms.len());
        for array in &mut results {
            let width = array.values.len() / self.atoms.len();
            let values = std::mem::replace(&mut array.values, Values::F64(Vec::new()));
            array.values = values.reorder_as_requested(&self.atoms, width);
            array.shape[0] = self.atoms.n_requested();
        }
        Ok(results)
    }

    fn to_bytes(&self, partial: &Moments) -> Result<Vec<u8>> {
        Ok(partial.to_bytes(Q::ID, self.atoms.len() * 3))
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Moments> {
        Moments::from_bytes(Q::ID, Q::ORDER, self.atoms.len() * 3, bytes)
    }
}
