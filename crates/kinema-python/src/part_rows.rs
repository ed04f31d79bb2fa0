//! Parts of a trajectory and the gaps between them, as rows that Python reads.

use kinema_core::format::{Decoder, Format};
use kinema_core::named::Named;
use kinema_core::trajectory::Scanned;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// A row for each part.
pub(crate) fn parts<'py>(py: Python<'py>, scanned: &Scanned) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for (number, part) in scanned.parts.iter().enumerate() {
        let row = PyDict::new(py);
        let header = part.header();
        let n_frames = part.index.n_frames();
        let ends = (n_frames > 0).then(|| (0, n_frames - 1));
        let step = |frame| part.index.step(frame);
        let time = |frame| scanned.time(number, frame);
        let span = scanned.concatenation.spans.iter().find(|span| span.part == number);
        row.set_item("path", part.path.as_os_str())?;
        row.set_item("format", part.format.info().name)?;
        row.set_item("hdf5", is_hdf5(part.format, &*part.decoder))?;
        row.set_item("variant", &header.variant)?;
        row.set_item("remarks", &header.remarks)?;
        row.set_item("warnings", header.warnings.iter().chain(&part.wrong_index).collect::<Vec<_>>())?;
        row.set_item("assumptions", scanned.assumption(number).into_iter().collect::<Vec<_>>())?;
        row.set_item("size", part.size)?;
        row.set_item("fields", header.fields.names())?;
        row.set_item("wide_fields", part.decoder.facts().wide_fields.names())?;
        row.set_item("extras", &part.decoder.facts().extras)?;
        let scales = part.scales;
        row.set_item("scales", (scales.length, scales.velocity, scales.force, scales.time))?;
        row.set_item("file_frames", n_frames)?;
        row.set_item("kept", span.map_or((0, 0), |span| (span.kept.start, span.kept.end)))?;
        row.set_item("first_frame", span.map_or(0, |span| span.first_frame))?;
        row.set_item("first_step", ends.and_then(|(first, _)| step(first)))?;
        row.set_item("last_step", ends.and_then(|(_, last)| step(last)))?;
        row.set_item("first_time", ends.and_then(|(first, _)| time(first)))?;
        row.set_item("last_time", ends.and_then(|(_, last)| time(last)))?;
        row.set_item("fingerprint", part.identity.fingerprint())?;
        row.set_item("index", part.origin.name())?;
        row.set_item("index_path", part.index_path.as_ref().map(|path| path.as_os_str()))?;
        row.set_item("index_note", &part.index_note)?;
        row.set_item("atom_checkpoints", part.index.atoms_per_checkpoint())?;
        let damaged = part.damaged.iter().map(|&frame| {
            let extent = part.index.extent(frame);
            (frame, extent.offset, extent.end() - 1)
        });
        row.set_item("damaged", damaged.collect::<Vec<_>>())?;
        row.set_item("truncation", part.truncation.as_ref().map(ToString::to_string))?;
        list.append(row)?;
    }
    Ok(list)
}

/// A row for each gap.
pub(crate) fn gaps<'py>(py: Python<'py>, scanned: &Scanned) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for gap in &scanned.concatenation.gaps {
        let row = PyDict::new(py);
        let ((before, last), (after, first)) = (gap.before, gap.after);
        let times = scanned.time(before, last).zip(scanned.time(after, first));
        let steps = scanned.parts[before].index.step(last).zip(scanned.parts[after].index.step(first));
        row.set_item("part", gap.part)?;
        row.set_item("frame", gap.frame)?;
        row.set_item("time_before", times.map(|(before, _)| before))?;
        row.set_item("time_after", times.map(|(_, after)| after))?;
        row.set_item("step_before", steps.map(|(before, _)| before))?;
        row.set_item("step_after", steps.map(|(_, after)| after))?;
        list.append(row)?;
    }
    Ok(list)
}

/// Whether a file is HDF5, whatever its format.
pub(crate) fn is_hdf5(format: &dyn Format, decoder: &dyn Decoder) -> bool {
    !format.is_external() && decoder.facts().stored_format.is_some()
}
