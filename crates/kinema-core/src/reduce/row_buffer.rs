//! A buffer for the rows of a whole result: workers write the rows of frames into their places, and nothing is copied
//! at the end.
//!
//! Each row is handed out once. The owner of its slice alone reads and writes there, until slices are joined.

use std::any::Any;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{AnyKernel, AnyPartial, Number};

/// A buffer of a type that its kernel knows, shared by the workers of a run.
pub type AnyRowBuffer = Arc<dyn Any + Send + Sync>;

/// Above this many bytes, the system is asked for large pages: on a virtual machine the first touch of small pages
/// costs ten times as much per byte.
const LARGE_BYTES: usize = 4 << 20;
/// Bytes of a large page.
const LARGE_PAGE: usize = 2 << 20;
/// Bytes of a small one.
#[cfg(target_os = "linux")]
const PAGE: usize = 4 << 10;

/// Numbers that several threads use, each its own range; all zero at first.
#[derive(Debug)]
struct Shared<T> {
    begin: *mut T,
    len: usize,
    capacity: usize,
    pages: Pages,
}

impl<T: Number> Shared<T> {
    /// `None` if there is not enough memory. Pages that are never touched use none.
    fn new(len: usize) -> Option<Self> {
        // without enough memory, a vector of zeros would abort the process
        Vec::<T>::new().try_reserve_exact(len).ok()?;
        let mut numbers = ManuallyDrop::new(vec![T::default(); len]);
        let pages = Pages::of(&mut numbers);
        Some(Self { begin: numbers.as_mut_ptr(), len, capacity: numbers.capacity(), pages })
    }

    /// # Safety
    /// No slice of these numbers that can be written to may exist.
    unsafe fn slice(&self, range: Range<usize>) -> &[T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: within the vector; the caller knows of all slices.
        unsafe { std::slice::from_raw_parts(self.begin.add(range.start), range.len()) }
    }

    /// # Safety
    /// No other slice of these numbers may exist.
    #[expect(clippy::mut_from_ref, reason = "whoever calls it has the range alone")]
    unsafe fn slice_mut(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len);
        // SAFETY: within the vector; the caller knows of all slices.
        unsafe { std::slice::from_raw_parts_mut(self.begin.add(range.start), range.len()) }
    }

    fn into_vec(self) -> Vec<T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: parts of the vector in `new`, which nothing else takes or frees.
        unsafe { Vec::from_raw_parts(this.begin, this.len, this.capacity) }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: parts of the vector in `new`, whose numbers need not be dropped one by one.
        drop(unsafe { Vec::from_raw_parts(self.begin, 0, self.capacity) });
    }
}

/// The pages of a large vector. Large pages are requested, and created before they are used: if two workers touch a new
/// page at the same time, the system would clear two, and discard one.
#[derive(Debug)]
struct Pages {
    /// Address of the first byte whose page is not created yet; 0 if pages are created when they are touched.
    made: AtomicUsize,
    /// Address of the end of the last whole page.
    end: usize,
}

impl Pages {
    #[cfg(target_os = "linux")]
    fn of<T>(numbers: &mut [T]) -> Self {
        let bytes = size_of_val(numbers);
        let begin = numbers.as_mut_ptr() as usize;
        let (first, end) = (begin.next_multiple_of(PAGE), (begin + bytes) / PAGE * PAGE);
        if bytes < LARGE_BYTES {
            return Self { made: AtomicUsize::new(0), end };
        }
        // SAFETY: whole pages within the vector; the advice changes no byte. If it is refused, pages are small.
        let large = unsafe { libc::madvise(first as *mut _, end - first, libc::MADV_HUGEPAGE) } == 0;
        Self { made: AtomicUsize::new(if large { first } else { 0 }), end }
    }

    #[cfg(not(target_os = "linux"))]
    fn of<T>(_: &mut [T]) -> Self {
        Self { made: AtomicUsize::new(0), end: 0 }
    }

    /// Creates pages up to a little beyond an address of the vector that is about to be written.
    fn make_beyond(&self, address: usize) {
        if self.made.load(Ordering::Relaxed) == 0 {
            return;
        }
        let until = (address.next_multiple_of(LARGE_PAGE) + LARGE_PAGE).min(self.end);
        let made = self.made.fetch_max(until, Ordering::Relaxed);
        // but not the pages before a place that is far ahead of the others
        let from = made.max(until.saturating_sub(2 * LARGE_PAGE));
        #[cfg(target_os = "linux")]
        if from < until {
            // SAFETY: whole pages within the vector; no byte changes. If the system does not know this advice, pages
            // are created when touched.
            unsafe { libc::madvise(from as *mut _, until - from, libc::MADV_POPULATE_WRITE) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = from;
    }
}

/// The rows of consecutive frames: a time and `width` numbers each.
#[derive(Debug)]
pub struct RowBuffer<T: Number> {
    times: Shared<f64>,
    values: Shared<T>,
    width: usize,
    /// Rows that were handed out: start and end of runs that do not touch each other.
    taken: Mutex<BTreeMap<usize, usize>>,
}

// SAFETY: it owns its numbers, which may be sent.
unsafe impl<T: Number> Send for RowBuffer<T> {}
// SAFETY: numbers are read and written through slices alone, and no two slices have a row in common.
unsafe impl<T: Number> Sync for RowBuffer<T> {}

impl<T: Number> RowBuffer<T> {
    /// A buffer for `n_rows` rows of `width` numbers; `None` if there is not enough memory.
    pub fn new(n_rows: usize, width: usize) -> Option<Arc<Self>> {
        let values = Shared::new(n_rows.checked_mul(width)?)?;
        Some(Arc::new(Self { times: Shared::new(n_rows)?, values, width, taken: Mutex::default() }))
    }

    /// The slice of these rows; `None` if one of them was handed out before, or does not exist.
    pub fn slice(self: &Arc<Self>, rows: Range<usize>) -> Option<RowSlice<T>> {
        if rows.is_empty() || rows.end > self.times.len {
            return None;
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut start, mut end) = (rows.start, rows.end);
        if let Some((&before, &until)) = taken.range(..rows.end).next_back() {
            if until > rows.start {
                return None;
            }
            if until == rows.start {
                start = before;
            }
        }
        if let Some(until) = taken.remove(&rows.end) {
            end = until;
        }
        taken.insert(start, end);
        drop(taken);
        self.values.pages.make_beyond(self.values.begin as usize + rows.end * self.width * size_of::<T>());
        Some(RowSlice { buffer: self.clone(), start: rows.start, filled: rows.start, end: rows.end })
    }
}

/// The rows of a buffer that one partial has, filled from its first row on.
#[derive(Debug)]
pub struct RowSlice<T: Number> {
    buffer: Arc<RowBuffer<T>>,
    start: usize,
    filled: usize,
    end: usize,
}

impl<T: Number> RowSlice<T> {
    /// How many more rows fit into it.
    pub fn left(&self) -> usize {
        self.end - self.filled
    }

    /// The times and values of the next rows, all zero.
    ///
    /// # Panics
    /// For more rows than are left.
    pub fn extend(&mut self, n_rows: usize) -> (&mut [f64], &mut [T]) {
        assert!(n_rows <= self.left(), "more rows than there is a place for");
        let rows = self.filled..self.filled + n_rows;
        self.filled = rows.end;
        let RowBuffer { times, values, width, .. } = &*self.buffer;
        let numbers = rows.start * width..rows.end * width;
        // SAFETY: these rows are this slice's alone, which is borrowed as long as the slices.
        unsafe { (times.slice_mut(rows), values.slice_mut(numbers)) }
    }

    /// Times and values of the rows that are filled.
    pub fn rows(&self) -> (&[f64], &[T]) {
        let (start, filled, width) = (self.start, self.filled, self.buffer.width);
        // SAFETY: these rows are this slice's alone, which is borrowed as long as the slices.
        unsafe { (self.buffer.times.slice(start..filled), self.buffer.values.slice(start * width..filled * width)) }
    }

    /// Appends the slice that follows this one.
    ///
    /// # Errors
    /// Returns `later` if its rows do not follow, or if this slice is not full.
    pub fn join(&mut self, later: Self) -> Result<(), Self> {
        if !Arc::ptr_eq(&self.buffer, &later.buffer) || self.filled != self.end || later.start != self.end {
            return Err(later);
        }
        (self.filled, self.end) = (later.filled, later.end);
        Ok(())
    }

    /// Times and values. They are not copied if the slice has all rows of the buffer and nobody else has the buffer.
    pub fn into_vecs(self) -> (Vec<f64>, Vec<T>) {
        if self.filled - self.start < self.buffer.times.len {
            let (times, values) = self.rows();
            return (times.to_vec(), values.to_vec());
        }
        let Self { buffer, start, filled, end } = self;
        match Arc::try_unwrap(buffer) {
            Ok(RowBuffer { times, values, .. }) => (times.into_vec(), values.into_vec()),
            Err(buffer) => {
                let slice = Self { buffer, start, filled, end };
                let (times, values) = slice.rows();
                (times.to_vec(), values.to_vec())
            }
        }
    }
}

/// The buffer of one kernel for the frames of a run, if it has any.
pub(crate) struct RunBuffer {
    buffer: Option<AnyRowBuffer>,
    /// Position of its first frame in the selection.
    first: u64,
}

impl RunBuffer {
    /// For frames at these positions of the selection.
    pub(crate) fn new(kernel: &dyn AnyKernel, positions: &Range<u64>) -> Self {
        let n_frames = usize::try_from(positions.end.saturating_sub(positions.start)).ok();
        Self { buffer: n_frames.and_then(|n_frames| kernel.row_buffer(n_frames)), first: positions.start }
    }

    /// For a run whose results do not stay in memory.
    pub(crate) fn none() -> Self {
        Self { buffer: None, first: 0 }
    }

    /// The neutral partial of frames at these positions.
    pub(crate) fn empty(&self, kernel: &dyn AnyKernel, positions: Range<u64>) -> AnyPartial {
        let place = |position: u64| position.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        match (&self.buffer, place(positions.start), place(positions.end)) {
            (Some(buffer), Some(start), Some(end)) => kernel.empty_in(buffer, start..end),
            _ => kernel.empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::frame::Fields;
    use crate::reduce::{Frames, Kernel, Needs, ResultArray};

    #[test]
    fn rows_are_handed_out_once() {
        let buffer = RowBuffer::<u32>::new(100, 3).unwrap();
        let mut slices = Vec::new();
        for (rows, free) in [
            (10..20, true),
            (15..16, false),
            (5..11, false),
            (0..100, false),
            (19..30, false),
            (20..30, true),
            (0..10, true),
            (40..50, true),
            (29..41, false),
            (30..40, true),
            (0..1, false),
            (49..50, false),
            (50..100, true),
            (99..101, false),
            (100..101, false),
        ] {
            let slice = buffer.slice(rows.clone());
            assert_eq!(slice.is_some(), free, "{rows:?}");
            slices.extend(slice);
        }
        assert_eq!(*buffer.taken.lock().unwrap(), BTreeMap::from([(0, 100)]));
        // a slice that was given up is not handed out again: it may hold numbers
        drop(slices);
        assert!(buffer.slice(0..1).is_none());
    }

    #[test]
    fn slices_that_threads_have_filled_are_joined_to_the_buffer_itself() {
        // large pages, too
        const WIDTH: usize = 200;
        let buffer = RowBuffer::<u64>::new(4000, WIDTH).unwrap();
        let address = buffer.values.begin.cast_const();
        let fill = |first: usize| {
            let mut slice = buffer.slice(first..first + 1000).unwrap();
            for part in 0..10 {
                let at = first + 100 * part;
                let (times, values) = slice.extend(100);
                assert!(times.iter().all(|&time| time == 0.0) && values.iter().all(|&value| value == 0));
                times.iter_mut().zip(at..).for_each(|(time, row)| *time = row as f64);
                values.iter_mut().zip(at * WIDTH..).for_each(|(value, at)| *value = at as u64);
            }
            assert_eq!(slice.left(), 0);
            slice
        };
        let mut slices: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|i| scope.spawn(move || fill(1000 * i))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        drop(buffer);
        let last = slices.pop().unwrap();
        let mut whole = slices.remove(0);
        // not the next one
        let last = whole.join(last).unwrap_err();
        for slice in slices.into_iter().chain([last]) {
            whole.join(slice).unwrap();
        }
        let (times, values) = whole.into_vecs();
        assert!(times.into_iter().eq((0..4000).map(f64::from)));
        assert_eq!(values.as_ptr(), address);
        assert!(values.into_iter().eq(0..4000 * WIDTH as u64));
    }

    #[test]
    fn what_is_not_the_whole_buffer_is_copied() {
        let buffer = RowBuffer::<f64>::new(4, 1).unwrap();
        let (mut left, mut right) = (buffer.slice(0..2).unwrap(), buffer.slice(2..4).unwrap());
        let put = |slice: &mut RowSlice<f64>, value: f64| {
            let (times, values) = slice.extend(1);
            (times[0], values[0]) = (10.0 * value, value);
        };
        put(&mut left, 1.5);
        // there is a gap
        right = left.join(right).unwrap_err();
        assert_eq!(left.rows(), (&[15.0][..], &[1.5][..]));
        put(&mut left, 2.5);
        put(&mut right, 3.5);
        put(&mut right, 4.5);
        assert!(left.join(RowBuffer::new(4, 1).unwrap().slice(2..4).unwrap()).is_err());
        left.join(right).unwrap();
        // somebody else has the buffer
        assert_eq!(left.into_vecs().1, [1.5, 2.5, 3.5, 4.5]);
        drop(buffer);
        let mut part = RowBuffer::<f64>::new(3, 1).unwrap().slice(1..2).unwrap();
        put(&mut part, 5.5);
        assert_eq!(part.into_vecs(), (vec![55.0], vec![5.5]));
        assert!(RowBuffer::<f64>::new(1 << 40, 1 << 20).is_none() && RowBuffer::<f64>::new(usize::MAX, 2).is_none());
        let empty = RowBuffer::<f64>::new(2, 0).unwrap();
        assert_eq!(empty.slice(0..2).unwrap().extend(2).1, [0.0_f64; 0]);
    }

    /// One number for each frame, in a buffer if there is one.
    struct Rows;

    impl Kernel for Rows {
        type Partial = Option<RowSlice<f64>>;
        type Scratch = ();
        fn id(&self) -> &'static str {
            "rows/1"
        }
        fn needs(&self) -> Needs {
            Needs { fields: Fields::NONE, atom_sets: Vec::new() }
        }
        fn empty(&self) -> Self::Partial {
            None
        }
        fn row_buffer(&self, n_frames: usize) -> Option<AnyRowBuffer> {
            RowBuffer::<f64>::new(n_frames, 1).map(|buffer| buffer as AnyRowBuffer)
        }
        fn empty_in(&self, buffer: &AnyRowBuffer, frames: Range<usize>) -> Self::Partial {
            buffer.clone().downcast::<RowBuffer<f64>>().ok()?.slice(frames)
        }
        fn accumulate(&self, _: &mut Self::Partial, _: &Frames<'_>, (): &mut ()) -> Result<()> {
            Ok(())
        }
        fn merge(&self, _: &mut Self::Partial, _: Self::Partial) -> Result<()> {
            Ok(())
        }
        fn finish(&self, _: Self::Partial) -> Result<Vec<ResultArray>> {
            Ok(Vec::new())
        }
        fn to_bytes(&self, _: &Self::Partial) -> Result<Vec<u8>> {
            Ok(Vec::new())
        }
        fn from_bytes(&self, _: &[u8]) -> Result<Self::Partial> {
            Ok(None)
        }
    }

    #[test]
    fn a_run_hands_out_the_places_of_its_frames_from_its_first_one_on() {
        let rows = |run: &RunBuffer, positions: Range<u64>| {
            let partial = run.empty(&Rows, positions).downcast::<Option<RowSlice<f64>>>().unwrap();
            partial.map(|slice| slice.start..slice.end)
        };
        let run = RunBuffer::new(&Rows, &(10..20));
        assert_eq!(rows(&run, 10..13), Some(0..3));
        assert_eq!(rows(&run, 15..20), Some(5..10));
        // before the run, or after it
        assert_eq!((rows(&run, 9..11), rows(&run, 20..21)), (None, None));
        assert_eq!(rows(&RunBuffer::none(), 0..1), None);
    }
}
