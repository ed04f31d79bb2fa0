//! Partials of kernels that give one row of values for each frame: chunks of rows that merging moves and never copies.
//!
//! It keeps times and values only; the plan knows their frames. If all results stay in memory, a chunk is a place in
//! one buffer for all of them, so that the result is complete with the last row.

use std::ops::Range;
use std::sync::Arc;

use kinema_core::frame::Stamp;
use kinema_core::reduce::{Number, ResultArray, RowBuffer, RowSlice};
use kinema_core::{Error, ErrorKind, Result};

use super::bytes::{Reader, Writer};

/// Rows of consecutive frames: times, and `times.len() * width` values.
#[derive(Debug)]
enum Chunk<T: Number> {
    Own(Vec<f64>, Vec<T>),
    InBuffer(RowSlice<T>),
}

impl<T: Number> Chunk<T> {
    /// Whether there is no room for `n_rows` more rows.
    fn is_full(&self, n_rows: usize) -> bool {
        matches!(self, Self::InBuffer(slice) if slice.left() < n_rows)
    }

    fn rows(&self) -> (&[f64], &[T]) {
        match self {
            Self::Own(times, values) => (times, values),
            Self::InBuffer(slice) => slice.rows(),
        }
    }

    fn times(&self) -> &[f64] {
        self.rows().0
    }

    /// Adds a chunk that follows this one in the buffer; gives back any other.
    fn join(&mut self, later: Self) -> Option<Self> {
        match (self, later) {
            (Self::InBuffer(slice), Self::InBuffer(later)) => slice.join(later).err().map(Self::InBuffer),
            (_, later) => Some(later),
        }
    }
}

/// All rows gathered so far, in the order of the frames.
#[derive(Debug)]
pub struct Series<T: Number> {
    chunks: Vec<Chunk<T>>,
}

impl<T: Number> Default for Series<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T: Number> Series<T> {
    /// No rows yet; the rows of the frames at these places are written into the buffer.
    pub(crate) fn in_buffer(buffer: &Arc<RowBuffer<T>>, rows: Range<usize>) -> Self {
        Self { chunks: buffer.slice(rows).map(Chunk::InBuffer).into_iter().collect() }
    }

    /// Adds rows with these times; gives their values, which are zero.
    pub(crate) fn extend(&mut self, stamps: &[Stamp], width: usize) -> &mut [T] {
        if self.chunks.last().is_none_or(|chunk| chunk.is_full(stamps.len())) {
            self.chunks.push(Chunk::Own(Vec::new(), Vec::new()));
        }
        let last = self.chunks.len() - 1;
        match &mut self.chunks[last] {
            Chunk::Own(times, values) => {
                times.extend(stamps.iter().map(|stamp| stamp.time));
                let before = values.len();
                values.resize(before + stamps.len() * width, T::default());
                &mut values[before..]
            }
            Chunk::InBuffer(slice) => {
                let (times, values) = slice.extend(stamps.len());
                times.iter_mut().zip(stamps).for_each(|(time, stamp)| *time = stamp.time);
                values
            }
        }
    }

    /// Appends the rows of later frames.
    pub(crate) fn append(&mut self, later: Self) {
        for chunk in later.chunks {
            let apart = match self.chunks.last_mut() {
                Some(last) => last.join(chunk),
                None => Some(chunk),
            };
            self.chunks.extend(apart);
        }
    }

    fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.times().len()).sum()
    }

    /// "time" (n), ps, and "values" (n, `width`).
    /// Errors: `InvalidArgument` when there is no row.
    pub(crate) fn results(self, id: &str, width: usize) -> Result<Vec<ResultArray>> {
        let n = self.len();
        if n == 0 {
            return Err(nothing_gathered(id));
        }
        let mut chunks = self.chunks.into_iter().filter(|chunk| !chunk.times().is_empty());
        let (mut times, mut values) = match chunks.next() {
            Some(Chunk::InBuffer(slice)) => slice.into_vecs(),
            Some(Chunk::Own(times, values)) => (times, values),
            None => (Vec::new(), Vec::new()),
        };
        times.reserve_exact(n - times.len());
        values.reserve_exact((n * width).saturating_sub(values.len()));
        for chunk in chunks {
            times.extend_from_slice(chunk.rows().0);
            values.extend_from_slice(chunk.rows().1);
        }
        Ok(vec![
            ResultArray::new("time", vec![n], times),
            ResultArray::new("values", vec![n, width], T::values(values)),
        ])
    }

    /// Width, number of rows, all times, all values.
    pub(crate) fn to_bytes(&self, id: &str, width: usize) -> Vec<u8> {
        let mut writer = Writer::new(id);
        writer.u64(width as u64);
        writer.u64(self.len() as u64);
        for chunk in &self.chunks {
            writer.numbers(chunk.times());
        }
        for chunk in &self.chunks {
            writer.numbers(chunk.rows().1);
        }
        writer.finish()
    }

    /// Restores the rows, as one chunk.
    /// Errors: `Corrupt` if the bytes are not of this kernel, version and width.
    pub(crate) fn from_bytes(id: &str, width: usize, bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(id, bytes)?;
        reader.same(width as u64, "number of columns")?;
        let rows = reader.u64("number of rows")?;
        let times = reader.numbers(rows, "times")?;
        let values = reader.numbers(rows.saturating_mul(width as u64), "values")?;
        reader.finish()?;
        Ok(if rows == 0 { Self::default() } else { Self { chunks: vec![Chunk::Own(times, values)] } })
    }
}

/// The error of `finish` if there was no frame.
pub(crate) fn nothing_gathered(id: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("{id} has no frames to compute results from"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(times: &[f64]) -> Series<f64> {
        let mut series = Series::default();
        let stamps: Vec<Stamp> = times.iter().map(|&time| Stamp { time, ..Stamp::default() }).collect();
        let rows = series.extend(&stamps, 2).as_chunks_mut::<2>().0;
        for (row, time) in rows.iter_mut().zip(times) {
            *row = [time * 10.0, time * 100.0];
        }
        series
    }

    #[test]
    fn merged_rows_stand_in_the_order_of_frames() {
        let mut left = series(&[1.0, 2.0]);
        left.append(series(&[3.0]));
        left.append(Series::default());
        assert_eq!(left.to_bytes("x/1", 2), series(&[1.0, 2.0, 3.0]).to_bytes("x/1", 2));
        let results = left.results("x/1", 2).unwrap();
        assert_eq!(results[0].values, vec![1.0, 2.0, 3.0].into());
        assert_eq!(results[1].shape, [3, 2]);
        assert_eq!(results[1].values, vec![10.0, 100.0, 20.0, 200.0, 30.0, 300.0].into());
    }

    #[test]
    fn numbers_keep_their_type() {
        let mut rows = Series::<u32>::default();
        rows.extend(&[Stamp::default()], 2).copy_from_slice(&[7, u32::MAX]);
        let bytes = rows.to_bytes("x/1", 2);
        let again = Series::<u32>::from_bytes("x/1", 2, &bytes).unwrap();
        assert_eq!(again.results("x/1", 2).unwrap()[1].values, vec![7, u32::MAX].into());
        assert_eq!(Series::<f64>::from_bytes("x/1", 2, &bytes).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn merging_moves_the_rows() {
        let (mut left, right) = (series(&[1.0]), series(&[2.0]));
        let address = right.chunks[0].rows().1.as_ptr();
        left.append(right);
        assert_eq!(left.chunks[1].rows().1.as_ptr(), address);
    }

    #[test]
    fn another_width_is_refused() {
        let bytes = series(&[1.0]).to_bytes("x/1", 2);
        assert_eq!(Series::<f64>::from_bytes("x/1", 3, &bytes).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(Series::<f64>::from_bytes("x/2", 2, &bytes).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
