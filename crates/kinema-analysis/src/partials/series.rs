//! Partials of kernels that give one row of values for each frame: chunks of rows that merging moves and never copies.
//!
//! It keeps times and values only; the plan knows which frames they belong to.

use kinema_core::frame::Stamp;
use kinema_core::reduce::{Number, ResultArray};
use kinema_core::{Error, ErrorKind, Result};

use super::bytes::{Reader, Writer};

/// Rows of consecutive frames.
#[derive(Debug, Default, Clone, PartialEq)]
struct Chunk<T> {
    times: Vec<f64>,
    /// `times.len() * width` values
    values: Vec<T>,
}

/// All rows gathered so far, in the order of the frames.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Series<T> {
    chunks: Vec<Chunk<T>>,
}

impl<T: Number> Series<T> {
    /// Adds rows with these times; gives their values, which are zero.
    pub(crate) fn extend(&mut self, stamps: &[Stamp], width: usize) -> &mut [T] {
        if self.chunks.is_empty() {
            self.chunks.push(Chunk::default());
        }
        let last = self.chunks.len() - 1;
        let Chunk { times, values } = &mut self.chunks[last];
        times.extend(stamps.iter().map(|stamp| stamp.time));
        let before = values.len();
        values.resize(before + stamps.len() * width, T::default());
        &mut values[before..]
    }

    /// Moves the rows of later frames behind these.
    pub(crate) fn append(&mut self, mut later: Self) {
        if self.chunks.is_empty() {
            *self = later;
        } else {
            self.chunks.append(&mut later.chunks);
        }
    }

    fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.times.len()).sum()
    }

    /// "time" (n), ps, and "values" (n, `width`).
    ///
    /// # Errors
    /// `InvalidArgument` when there is no row.
    pub(crate) fn results(self, id: &str, width: usize) -> Result<Vec<ResultArray>> {
        let n = self.len();
        if n == 0 {
            return Err(nothing_gathered(id));
        }
        let mut chunks = self.chunks.into_iter();
        let Chunk { mut times, mut values } = chunks.next().unwrap_or_default();
        times.reserve(n - times.len());
        values.reserve((n * width).saturating_sub(values.len()));
        for chunk in chunks {
            times.extend_from_slice(&chunk.times);
            values.extend_from_slice(&chunk.values);
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
            writer.numbers(&chunk.times);
        }
        for chunk in &self.chunks {
            writer.numbers(&chunk.values);
        }
        writer.finish()
    }

    /// The rows back, as one chunk.
    ///
    /// # Errors
    /// `Corrupt` when the bytes are not of this kernel, version and width.
    pub(crate) fn from_bytes(id: &str, width: usize, bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(id, bytes)?;
        reader.same(width as u64, "number of columns")?;
        let rows = reader.u64("number of rows")?;
        let times = reader.numbers(rows, "times")?;
        let values = reader.numbers(rows.saturating_mul(width as u64), "values")?;
        reader.finish()?;
        Ok(if rows == 0 { Self::default() } else { Self { chunks: vec![Chunk { times, values }] } })
    }
}

/// What `finish` answers without a single frame.
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
        let address = right.chunks[0].values.as_ptr();
        left.append(right);
        assert_eq!(left.chunks[1].values.as_ptr(), address);
    }

    #[test]
    fn another_width_is_refused() {
        let bytes = series(&[1.0]).to_bytes("x/1", 2);
        assert_eq!(Series::<f64>::from_bytes("x/1", 3, &bytes).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(Series::<f64>::from_bytes("x/2", 2, &bytes).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
