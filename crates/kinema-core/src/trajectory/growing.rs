//! Files that are being written: which of their frames are whole, and what was known of the files before they grew.
//!
//! A simulation may add a frame in pieces of any size, and may extend its file before it fills it. Everything after the
//! last whole frame is left out, with the reason in [`Part::truncation`]. Zeros that the format does not expect there
//! are not damage, as they may still be filled. The caller decides how long a file must be unchanged before its last
//! frame counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Part, TrajectoryFiles};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Decoder, Request, Scan, ScanOptions, Wanted};
use crate::frame::Scales;
use crate::index::{Index, TableBuilder};
use crate::selection::AtomSelection;
use crate::source::{Extent, FileStatus, Source};

/// Zeros at the end of a frame that prove nothing: padding, and numbers with few digits. In a file in which zeros were
/// seen in unwritten places they do count, unless the file has stood still for long.
const FEW_ZEROS: usize = 7;
/// Bytes of the longest text in a frame's header.
const LONGEST_VALUE: u64 = 32;
/// Bytes of a file that a system writes or shows as zeros at once.
const PAGE: u64 = 4096;
/// Most frames that are examined one by one; among more, the first incomplete frame is found by halving.
const FEW_FRAMES: u64 = 64;
/// Most bytes of frames that are examined one by one; of frames with heads, the last ones are examined.
const FEW_BYTES: u64 = 256 << 20;

/// The parts of a trajectory as they were when it was opened before.
#[derive(Default)]
pub(super) struct KnownParts {
    parts: BTreeMap<PathBuf, Part>,
    /// Whether they were opened as growing files, so that only whole frames count.
    growing: bool,
}

impl KnownParts {
    pub fn from_previous(previous: Option<&TrajectoryFiles>) -> Self {
        let parts =
            previous.and_then(TrajectoryFiles::scanned).map(|scanned| scanned.parts.as_slice()).unwrap_or_default();
        let growing = previous.is_some_and(|previous| previous.options.growing);
        Self { parts: parts.iter().map(|part| (part.path.clone(), part.clone())).collect(), growing }
    }

    /// How many zeros at the end of a frame of this file say nothing.
    pub fn few_zeros(&self, path: &Path, settled: bool) -> usize {
        if self.is_extended(path) && !settled { 0 } else { FEW_ZEROS }
    }

    /// Whether the file was seen with zeros where nothing was written yet.
    pub fn is_extended(&self, path: &Path) -> bool {
        self.parts.get(path).is_some_and(|part| part.extended)
    }

    /// A part that is unchanged, judged by its status alone.
    pub fn unchanged(&self, path: &Path) -> Option<&Part> {
        let part = self.parts.get(path).filter(|part| self.growing && !part.extended)?;
        let known = part.identity.status()?;
        FileStatus::from_path(path).is_ok_and(|now| known.is_unchanged(&now) && part.size == now.size).then_some(part)
    }

    /// The index of a part that has the same content as far as it was known.
    pub fn index(&self, path: &Path, source: &dyn Source) -> Result<Option<Index>> {
        let Some(part) = self.parts.get(path).filter(|part| part.damaged.is_empty() && part.index.n_frames() > 0)
        else {
            return Ok(None);
        };
        if source.len()? < part.identity.size {
            return Ok(None);
        }
        if !part.identity.has_same_content(source, Some(&part.index))? {
            return Ok(None);
        }
        Ok(if self.growing { Some(part.index.clone()) } else { drop_last(&part.index) })
    }
}

/// The reliable part of an index that was made as if nobody was writing to the file: all frames that are followed by
/// another. `None` if frames are found by arithmetic.
pub(super) fn drop_last(index: &Index) -> Option<Index> {
    let Index::Table(table) = index else { return None };
    let mut builder = TableBuilder::extend(table.clone());
    builder.pop();
    Some(Index::Table(builder.finish()))
}

/// Scans a file that is being written, up to its last whole frame. Also returns whether zeros were seen in a place that
/// is not written yet. Up to `few` zeros at the end of a frame prove nothing.
/// Errors as `scan` of the decoder.
pub(super) fn scan(
    decoder: &dyn Decoder,
    source: &dyn Source,
    options: &ScanOptions<'_>,
    few: usize,
) -> Result<(Scan, bool)> {
    let mut front = Front { inner: source, len: source.len()? };
    let known = options.previous.as_ref().map_or(0, Index::n_frames);
    let mut unfilled: Option<Error> = None;
    loop {
        let again = ScanOptions { previous: options.previous.clone(), ..*options };
        let mut scan = match decoder.scan(&front, &again) {
            Ok(scan) => scan,
            Err(error) => {
                let at = error.offset().filter(|&at| error.kind() == ErrorKind::Corrupt && at < front.len);
                let Some(at) = at.filter(|&at| is_unfilled(source, at).unwrap_or(false)) else { return Err(error) };
                unfilled = Some(not_filled(at, error.frame()));
                front.len = at;
                continue;
            }
        };
        let whole = whole_frames(decoder, source, &scan.index, known, few)?;
        if whole < scan.index.n_frames() {
            let at = scan.index.extent(whole).offset;
            let error = not_filled(at, Some(whole)).with_path(source.path());
            match &mut scan.index {
                Index::Chunked(chunked) => {
                    chunked.n_frames = whole;
                    return Ok((Scan { truncation: Some(error), ..scan }, true));
                }
                Index::Uniform(_) | Index::Table(_) if at < front.len => {
                    unfilled = Some(error);
                    front.len = at;
                    continue;
                }
                Index::Uniform(_) | Index::Table(_) => return Err(error),
            }
        }
        let seen = unfilled.is_some();
        if let Some(error) = unfilled {
            scan.truncation = Some(error.moved_to_frame(whole).with_path(source.path()));
        }
        return Ok((scan, seen));
    }
}

fn not_filled(at: u64, frame: Option<u64>) -> Error {
    let what = "the frame is not written yet, as far as its bytes show; the file is used up to it";
    let error = Error::new(ErrorKind::Truncated, what).with_byte(at);
    match frame {
        Some(frame) => error.with_frame(frame),
        None => error,
    }
}

/// Whether a wrong number or text at byte `at` may only lack its last bytes, which are not written yet.
fn is_unfilled(source: &dyn Source, at: u64) -> Result<bool> {
    let size = source.len()?;
    let start = at.saturating_add(LONGEST_VALUE - 1).min(size.saturating_sub(1));
    let mut bytes = vec![0; size.saturating_sub(start).min(PAGE) as usize];
    source.read_exact_at(start, &mut bytes)?;
    Ok(bytes.iter().all(|&byte| byte == 0))
}

/// Number of whole frames: all known ones, and those that follow up to the first incomplete one. Neither the head of a
/// frame nor bytes after it prove that it is whole, because files are filled in any order.
fn whole_frames(decoder: &dyn Decoder, source: &dyn Source, index: &Index, known: u64, few: usize) -> Result<u64> {
    let n = match index {
        Index::Uniform(_) => first_blank(decoder, source, index, known)?,
        Index::Table(_) | Index::Chunked(_) => index.n_frames(),
    };
    let is_whole = |frame: u64| match index {
        Index::Chunked(_) => is_stored(decoder, source, index, frame),
        Index::Uniform(_) | Index::Table(_) => is_filled(decoder, source, index, frame, few),
    };
    let few_frames = match index {
        Index::Uniform(uniform) => FEW_FRAMES.max(FEW_BYTES / uniform.stride.max(1)),
        Index::Table(_) | Index::Chunked(_) => FEW_FRAMES,
    };
    match index {
        // each frame but the last is followed by the head of another, and may be filled after it; of many, the last
        // ones are examined
        Index::Table(table) => {
            let near = table.end().saturating_sub(FEW_BYTES);
            for frame in known.min(n)..n {
                if (frame + 1 == n || table.extent(frame).offset >= near) && !is_whole(frame)? {
                    return Ok(frame);
                }
            }
            Ok(n)
        }
        Index::Uniform(_) | Index::Chunked(_) if n.saturating_sub(known) <= few_frames => {
            for frame in known.min(n)..n {
                if !is_whole(frame)? {
                    return Ok(frame);
                }
            }
            Ok(n)
        }
        Index::Uniform(_) | Index::Chunked(_) => {
            let (mut whole, mut end) = (known, n);
            // most files are whole
            let mut at = n - 1;
            while whole < end {
                if is_whole(at)? {
                    whole = at + 1;
                } else {
                    end = at;
                }
                at = whole + (end.saturating_sub(whole)) / 2;
            }
            Ok(whole)
        }
    }
}

/// Whether all chunks of a frame have a place in the file.
fn is_stored(decoder: &dyn Decoder, source: &dyn Source, index: &Index, frame: u64) -> Result<bool> {
    let n_atoms = decoder.header().n_atoms;
    let scales = decoder.facts().scales.unwrap_or(Scales { length: 1.0, velocity: 1.0, force: 1.0, time: 1.0 });
    let request = Request { fields: decoder.header().fields, atoms: AtomSelection::all(n_atoms), scales };
    let mut segments = Vec::new();
    // a step or a time of 0 after the first frame is the value of a chunk that is not written
    let empty = |value: Option<f64>| frame > 0 && value == Some(0.0);
    if empty(index.step(frame).map(|step| step as f64)) || empty(index.time(frame)) {
        return Ok(false);
    }
    decoder.segments(index, &[Wanted { frame, row: 0 }], &request, &mut segments)?;
    let size = source.len()?;
    let one_file = decoder.facts().other_files.is_empty();
    let is_stored = decoder.chunked().is_none_or(|chunked| chunked.is_stored(frame));
    Ok(segments.iter().all(|segment| !one_file || segment.whole.end() <= size) && is_stored)
}

fn is_filled(decoder: &dyn Decoder, source: &dyn Source, index: &Index, frame: u64, few: usize) -> Result<bool> {
    let extent = index.extent(frame);
    let bytes = read(source, extent)?;
    if is_blank(decoder, &bytes) || !decoder.is_filled(frame, extent.offset, &bytes) {
        return Ok(false);
    }
    let unwritten = |bytes: &[u8]| decoder.unwritten_numbers(bytes).0;
    let (zeros, pages, numbers) = (zeros_at_end(&bytes), zero_pages(extent.offset, &bytes), unwritten(&bytes));
    if zeros <= few && pages == 0 && numbers == 0 {
        return Ok(true);
    }
    // some frames have zeros at their end, as forces on virtual sites: then the frame before has them too
    if let Some(before) = frame.checked_sub(1).map(|before| index.extent(before)) {
        let former = read(source, before)?;
        let usual = zeros <= few.max(zeros_at_end(&former)) && pages <= zero_pages(before.offset, &former);
        if usual && numbers <= unwritten(&former) {
            return Ok(true);
        }
    }
    // or a later frame has been begun
    if frame + 1 < index.n_frames() {
        let next = index.extent(frame + 1);
        return Ok(!is_blank(decoder, &read(source, next)?));
    }
    Ok(false)
}

/// Finds the first unwritten frame from `known` on, whatever follows it; the number of frames if all are written. A
/// program may create a file with its final size and frame count, and fill it in any order: such a frame is never taken
/// for one of zeros, however long it remains unwritten.
fn first_blank(decoder: &dyn Decoder, source: &dyn Source, index: &Index, known: u64) -> Result<u64> {
    let n = index.n_frames();
    for frame in known.min(n)..n {
        let extent = index.extent(frame);
        // the front of a frame shows whether it is written, unless it is filled in a different order
        let front = Extent { len: extent.len.min(PAGE), ..extent };
        if is_blank(decoder, &read(source, front)?) && is_blank(decoder, &read(source, extent)?) {
            return Ok(frame);
        }
    }
    Ok(n)
}

/// Whether bytes of a frame are zeros, or all of its numbers are fill values.
fn is_blank(decoder: &dyn Decoder, bytes: &[u8]) -> bool {
    let (unwritten, all) = decoder.unwritten_numbers(bytes);
    bytes.iter().all(|&byte| byte == 0) || all > 0 && unwritten == all
}

fn read(source: &dyn Source, extent: Extent) -> Result<Vec<u8>> {
    source.check(extent)?;
    let mut bytes = vec![0; extent.len as usize];
    source.read_exact_at(extent.offset, &mut bytes)?;
    Ok(bytes)
}

fn zeros_at_end(bytes: &[u8]) -> usize {
    bytes.iter().rev().take_while(|&&byte| byte == 0).count()
}

/// Pages of a file, of those that lie in these bytes whole, that are zeros.
fn zero_pages(offset: u64, bytes: &[u8]) -> usize {
    let first = (offset.next_multiple_of(PAGE) - offset).min(bytes.len() as u64);
    bytes[first as usize..].chunks_exact(PAGE as usize).filter(|page| page.iter().all(|&byte| byte == 0)).count()
}

/// The front of a file.
struct Front<'a> {
    inner: &'a dyn Source,
    len: u64,
}

impl Source for Front<'_> {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> Result<u64> {
        Ok(self.len.min(self.inner.len()?))
    }

    fn status(&self) -> Result<Option<FileStatus>> {
        self.inner.status()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read_exact_at(offset, buffer)
    }
}
