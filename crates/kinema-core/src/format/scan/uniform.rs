//! Scan of files whose frames have one size: arithmetic finds them. Step and time are read from each frame that states
//! them, one by one, or together if frames are small.

use super::{Scan, ScanOptions};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Index, UniformIndex};
use crate::source::Source;

/// Frames of which all bytes are read.
const SMALL_FRAME: u64 = 4 << 10;
/// Bytes that are read at once then.
const WINDOW: u64 = 1 << 20;
/// Frames between two reports of progress.
const REPORT_EVERY: u64 = 4096;

/// Facts of a file whose frames have one size; the scan does the rest.
pub trait UniformFrames {
    /// The format, for messages.
    fn name(&self) -> &'static str;

    /// The whole frames of the file at its present length, and where and why they end before the file does. Steps and
    /// times are the ones that the file states once.
    ///
    /// # Errors
    /// Errors of the source; `Corrupt` if the file is not the one that was opened.
    fn places(&self, source: &dyn Source) -> Result<(UniformIndex, Option<Error>)>;

    /// Where each frame states its step and time; `None` if no frame does.
    fn stamps(&self) -> Option<FrameStamps<'_>> {
        None
    }
}

/// The bytes in which each frame states its step or time.
pub struct FrameStamps<'a> {
    /// Bytes from the start of a frame to them.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// Whether they state the step as well as the time.
    pub has_steps: bool,
    /// Reads a stamp from these bytes.
    pub read: Box<ReadStamp<'a>>,
}

/// Reads a frame's stamp from its bytes, which lie at this place in the file.
pub type ReadStamp<'a> = dyn Fn(&[u8], u64) -> Result<FrameStamp> + 'a;

/// A frame's own step and time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameStamp {
    /// Its step, if the file has steps.
    pub step: i64,
    /// Its time in the file's own unit; NaN if none was written.
    pub time: f64,
    /// Whether the time was written.
    pub is_written: bool,
}

/// Finds all frames. Reads nothing of frames that are known from a shorter file.
pub(in crate::format) fn scan(
    frames: &dyn UniformFrames,
    source: &dyn Source,
    options: &ScanOptions<'_>,
) -> Result<Scan> {
    let place = |error: Error| error.with_format(frames.name()).with_path(source.path());
    let (mut index, truncation) = frames.places(source).map_err(place)?;
    let mut found = StampList::default();
    if let Some(stamps) = frames.stamps() {
        found = StampList::known(options.previous.as_ref(), &index);
        found.read(&stamps, &index, source, options).map_err(place)?;
        index.steps = stamps.has_steps.then(|| found.steps.into());
        index.times = Some(found.times.into());
        (options.progress)(source.len()?)?;
    }
    let (damaged, without_time) = (found.damaged, found.without_time);
    Ok(Scan { index: Index::Uniform(index), truncation: truncation.map(place), damaged, without_time })
}

/// Steps and times of the first frames of a file.
#[derive(Default)]
struct StampList {
    steps: Vec<i64>,
    times: Vec<f64>,
    damaged: Vec<u64>,
    without_time: Option<u64>,
}

impl StampList {
    /// The stamps in an index of the same file when it was shorter.
    fn known(previous: Option<&Index>, index: &UniformIndex) -> Self {
        let Some(Index::Uniform(known)) = previous else { return Self::default() };
        if (known.first, known.stride) != (index.first, index.stride) {
            return Self::default();
        }
        let n = known.n_frames.min(index.n_frames) as usize;
        let steps = known.steps.as_ref().map_or(Vec::new(), |steps| steps[..n].to_vec());
        let times = known.times.as_ref().map_or(Vec::new(), |times| times[..n].to_vec());
        Self { steps, times, ..Self::default() }
    }

    /// Adds the stamps of all further frames of `index`.
    fn read(
        &mut self,
        stamps: &FrameStamps<'_>,
        index: &UniformIndex,
        source: &dyn Source,
        options: &ScanOptions<'_>,
    ) -> Result<()> {
        let (n, stride, known) = (index.n_frames, index.stride, self.times.len() as u64);
        let first = index.first.offset.saturating_add(stamps.offset);
        let at_once = if stride <= SMALL_FRAME { (WINDOW / stride.max(1)).max(1) } else { 1 };
        let mut bytes = Vec::new();
        let (mut frame, mut reported) = (known, known);
        while frame < n {
            let some = at_once.min(n - frame);
            let offset = first.saturating_add(frame.saturating_mul(stride));
            bytes.resize(((some - 1) * stride + stamps.len) as usize, 0);
            source.read_exact_at(offset, &mut bytes)?;
            for i in 0..some {
                let start = (i * stride) as usize;
                let stamp = (stamps.read)(&bytes[start..start + stamps.len as usize], offset + i * stride);
                self.add(frame + i, stamp, stamps.has_steps, options)?;
            }
            if frame == known {
                self.reserve(n - known - some, n)?;
            }
            frame += some;
            if frame - reported >= REPORT_EVERY {
                reported = frame;
                (options.progress)(offset)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, frame: u64, stamp: Result<FrameStamp>, has_steps: bool, options: &ScanOptions<'_>) -> Result<()> {
        let FrameStamp { step, time, is_written } = match stamp {
            Ok(stamp) => stamp,
            Err(_) if options.skip_damaged => {
                self.damaged.push(frame);
                FrameStamp { step: self.steps.last().copied().unwrap_or(0), time: f64::NAN, is_written: true }
            }
            Err(error) => return Err(error.with_frame(frame)),
        };
        if has_steps {
            self.steps.push(step);
        }
        self.times.push(time);
        self.without_time = self.without_time.or((!is_written).then_some(frame));
        Ok(())
    }

    /// Room for further frames, of `n` in all: a file with holes may claim any number of them.
    fn reserve(&mut self, further: u64, n: u64) -> Result<()> {
        let room = usize::try_from(further).unwrap_or(usize::MAX);
        self.times.try_reserve_exact(room).map_err(|_| {
            Error::new(ErrorKind::MemoryLimit, format!("the system has no memory for the times of {n} frames"))
        })
    }
}

/// A file that ends within frame `n_frames`, which begins at byte `at`.
pub(in crate::format) fn incomplete(n_frames: u64, at: u64, expected: u64, found: u64) -> Error {
    let what = format!("the last frame is incomplete, expected {expected} bytes, found {found}");
    Error::new(ErrorKind::Truncated, what).with_frame(n_frames).with_byte(at)
}

/// A file that ends before the frames that its head counts (`None`: it counts none): after `there` whole ones, at byte
/// `at`, and `rest` bytes.
pub(in crate::format) fn lacks_frames(counted: Option<u64>, there: u64, at: u64, rest: u64) -> Error {
    let expected = counted.map_or_else(|| "whole frames".to_owned(), |counted| format!("{counted} frames"));
    let what = format!("the file ends early, expected {expected}, found {there} and {rest} bytes");
    Error::new(ErrorKind::Truncated, what).with_frame(there).with_byte(at)
}
