//! Bytes as the partial of a kernel: refused as corrupt, or the partial whose bytes they are.
//!
//! It checks no value: a partial may hold any numbers.

use kinema_analysis::KERNELS;
use kinema_core::reduce::{AnyKernel, AnyPartial};
use kinema_core::{Error, ErrorKind};

/// Atoms of each kernel.
const ATOMS: u32 = 3;
/// Bit of the first byte: the kernel's name is put before the rest.
const NAMED: u8 = 0x80;

/// A byte of flags and then a partial, for every example of every kernel.
pub fn load(data: &[u8]) {
    let Some((&flags, bytes)) = data.split_first() else { return };
    for info in KERNELS {
        for arguments in (info.examples)(ATOMS, &[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 0.5]]) {
            check(&*info.kernel(&arguments).expect("a sound example"), flags & NAMED != 0, bytes);
        }
    }
}

fn check(kernel: &dyn AnyKernel, named: bool, bytes: &[u8]) {
    let id = kernel.id();
    let name = [&[id.len() as u8], id.as_bytes()].concat();
    let bytes = if named { [&name, bytes].concat() } else { bytes.to_vec() };
    let partial = match kernel.from_bytes(&bytes) {
        Ok(partial) => partial,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            return;
        }
    };
    let packed = |partial: &AnyPartial| kernel.to_bytes(partial).expect("it only copies");
    assert_eq!(packed(&partial), bytes, "{id}: other bytes than it was made of");
    let again = || kernel.from_bytes(&bytes).expect("it was accepted before");
    let merge = |left: &mut AnyPartial, right| kernel.merge(left, right).expect("one of them is empty");
    let refused =
        |error: Error| assert!([ErrorKind::Corrupt, ErrorKind::InvalidArgument].contains(&error.kind()), "{error}");
    let mut left = kernel.empty();
    merge(&mut left, again());
    assert_eq!(packed(&left), bytes, "{id}: the empty partial is not neutral on the left");
    merge(&mut left, kernel.empty());
    assert_eq!(packed(&left), bytes, "{id}: the empty partial is not neutral on the right");
    // in kernels of steps, frames may be such that no step leads from the last to the first
    let merged = kernel.merge(&mut left, again()).map_err(refused);
    for partial in [Some(partial), merged.ok().map(|()| left)].into_iter().flatten() {
        match kernel.finish(partial) {
            Ok(results) => {
                for array in results {
                    assert_eq!(array.shape.iter().product::<usize>(), array.values.len(), "{id}: {}", array.name);
                }
            }
            Err(error) => refused(error),
        }
    }
}
