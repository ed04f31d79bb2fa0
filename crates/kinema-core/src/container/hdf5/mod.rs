//! HDF5 data sets: chunk addresses, filters and number types.
//!
//! Structure (groups, attributes, B-trees) is left to libhdf5, which Python calls.

pub mod array;
pub mod columns;
pub mod encode;
pub mod filters;
pub mod number;
pub mod stored_rows;

use crate::error::Result;
use crate::source::Source;

const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";

/// Whether a file that begins so is HDF5: after a user block, the signature stands at 512 or a larger power of two.
pub fn sniff(head: &[u8]) -> bool {
    [0, 512, 1024, 2048].into_iter().any(|at| head.get(at..).is_some_and(|head| head.starts_with(SIGNATURE)))
}

/// Whether a file is HDF5 without a user block.
///
/// # Errors
/// Errors of the source.
pub fn is_hdf5(source: &dyn Source) -> Result<bool> {
    let mut head = vec![0; source.len()?.min(SIGNATURE.len() as u64) as usize];
    source.read_exact_at(0, &mut head)?;
    Ok(sniff(&head))
}
