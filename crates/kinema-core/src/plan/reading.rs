//! Bytes that a plan reads and bytes that it uses, counted on some frames as the pipeline would read them; nothing is
//! read.

use crate::error::Result;
use crate::format::{Request, Wanted};
use crate::frame::{Fields, Scales};
use crate::selection::{AtomSelection, FrameSelection};
use crate::trajectory::Scanned;

/// Frames that are looked at, at most.
const MOST_FRAMES: u64 = 1024;

/// Bytes read from files for each byte (float32) of the vectors of `atoms` that are used, in the first frames that
/// share segments; 0 if no vectors are used.
pub(super) fn bytes_per_useful_byte(
    scanned: &Scanned,
    frames: &FrameSelection,
    read_atoms: &AtomSelection,
    atoms: &AtomSelection,
    fields: Fields,
    coupled: u64,
) -> Result<f64> {
    let vectors = Fields::VECTORS.into_iter().filter(|&field| fields.contains(field)).count() as u64;
    let span = scanned.concatenation.span_of(frames.get(0));
    let part = &scanned.parts[span.part];
    let own = |position| Some(frames.get(position)).filter(|frame| *frame >= span.first_frame);
    let ends = span.first_frame + (span.kept.end - span.kept.start);
    let chosen = (0..frames.len().min(coupled.clamp(1, MOST_FRAMES))).map_while(own).take_while(|frame| *frame < ends);
    let mut wanted: Vec<Wanted> =
        chosen.map(|frame| Wanted { frame: span.kept.start + (frame - span.first_frame), row: 0 }).collect();
    wanted.sort_unstable_by_key(|one| one.frame);
    let useful = wanted.len() as u64 * vectors * 12 * atoms.len() as u64;
    if useful == 0 {
        return Ok(0.0);
    }
    let request = Request { fields, atoms: read_atoms.clone(), scales: Scales::NATIVE };
    let bytes = part.bytes_to_read(&wanted, &request)?;
    Ok(bytes as f64 / useful as f64)
}
