//! Partials of kernels that give any number of rows for each frame: chunks that merging moves and never copies.
//!
//! It keeps times, numbers of rows, and columns of one type each; the plan knows their frames.

use kinema_core::frame::Stamp;
use kinema_core::reduce::{Number, ResultArray, Values};
use kinema_core::{Result, with_numbers};

use super::bytes::{Reader, Writer};
use super::series::nothing_gathered;

/// A column of the rows: its name in results, and an empty array of its type.
pub type ListColumn = (&'static str, Values);

/// Rows of consecutive frames.
#[derive(Debug, Default, Clone)]
pub struct ListChunk {
    times: Vec<f64>,
    /// Rows of each frame.
    counts: Vec<u64>,
    columns: Vec<Values>,
}

impl ListChunk {
    /// The numbers of a column, one for each row; more can be added.
    ///
    /// # Panics
    /// For a column that does not exist, or has a different type.
    #[expect(clippy::expect_used, reason = "a kernel that asks for another type is a defect, caught at the border")]
    pub fn column<T: Number>(&mut self, at: usize) -> &mut Vec<T> {
        T::of_mut(&mut self.columns[at]).expect("a column of this type")
    }

    /// Number of rows.
    fn len(&self) -> usize {
        self.columns.first().map_or(0, Values::len)
    }
}

/// All rows gathered so far, in the order of the frames.
#[derive(Debug, Default, Clone)]
pub struct Lists {
    chunks: Vec<ListChunk>,
}

impl Lists {
    /// Adds the rows of a frame: `add` appends them to the columns, the same number to each.
    /// Errors of `add`.
    pub(crate) fn add_frame(
        &mut self,
        columns: &[ListColumn],
        stamp: &Stamp,
        add: impl FnOnce(&mut ListChunk) -> Result<()>,
    ) -> Result<()> {
        if self.chunks.is_empty() {
            self.chunks.push(empty_chunk(columns));
        }
        let last = self.chunks.len() - 1;
        let chunk = &mut self.chunks[last];
        let before = chunk.len();
        add(chunk)?;
        debug_assert!(chunk.columns.iter().all(|column| column.len() == chunk.len()));
        chunk.times.push(stamp.time);
        chunk.counts.push((chunk.len() - before) as u64);
        Ok(())
    }

    /// Bytes of all rows, times and numbers of rows.
    pub(crate) fn bytes(&self) -> u64 {
        let of = |chunk: &ListChunk| {
            let columns =
                chunk.columns.iter().map(|column| with_numbers!(column, numbers => size_of_val(&numbers[..])));
            columns.sum::<usize>() + 16 * chunk.times.len()
        };
        self.chunks.iter().map(of).sum::<usize>() as u64
    }

    /// Appends the rows of later frames.
    pub(crate) fn append(&mut self, mut later: Self) {
        if self.chunks.is_empty() {
            *self = later;
        } else {
            self.chunks.append(&mut later.chunks);
        }
    }

    /// "time" (n), ps; "first_row" (n + 1): frame i has the rows `first_row[i]..first_row[i + 1]`; and the columns.
    /// Errors: `InvalidArgument` if there is no frame.
    pub(crate) fn results(self, id: &str, columns: &[ListColumn]) -> Result<Vec<ResultArray>> {
        let times: Vec<f64> = self.chunks.iter().flat_map(|chunk| chunk.times.iter().copied()).collect();
        if times.is_empty() {
            return Err(nothing_gathered(id));
        }
        let mut first_row = Vec::with_capacity(times.len() + 1);
        let mut rows = 0_i64;
        first_row.push(rows);
        for count in self.chunks.iter().flat_map(|chunk| &chunk.counts) {
            rows += *count as i64;
            first_row.push(rows);
        }
        let whole = self.whole(columns);
        let mut results = vec![
            ResultArray::new("time", vec![times.len()], times),
            ResultArray::new("first_row", vec![first_row.len()], first_row),
        ];
        for ((name, _), values) in columns.iter().zip(whole.columns) {
            results.push(ResultArray::new(name, vec![values.len()], values));
        }
        Ok(results)
    }

    /// All columns, and nothing else.
    fn whole(self, columns: &[ListColumn]) -> ListChunk {
        let n_rows: usize = self.chunks.iter().map(ListChunk::len).sum();
        let mut chunks = self.chunks.into_iter();
        let mut whole = chunks.next().unwrap_or_else(|| empty_chunk(columns));
        for column in &mut whole.columns {
            with_numbers!(column, numbers => numbers.reserve_exact(n_rows - numbers.len()));
        }
        for chunk in chunks {
            for (column, more) in whole.columns.iter_mut().zip(&chunk.columns) {
                with_numbers!(column, numbers => append(numbers, more));
            }
        }
        whole
    }

    /// Number of frames and rows, times, numbers of rows, and the columns.
    pub(crate) fn to_bytes(&self, id: &str, columns: &[ListColumn]) -> Vec<u8> {
        let mut writer = Writer::new(id);
        writer.u64(columns.len() as u64);
        writer.u64(self.chunks.iter().map(|chunk| chunk.times.len() as u64).sum());
        self.chunks.iter().for_each(|chunk| writer.numbers(&chunk.times));
        self.chunks.iter().for_each(|chunk| writer.numbers(&chunk.counts));
        for at in 0..columns.len() {
            for chunk in &self.chunks {
                with_numbers!(&chunk.columns[at], numbers => writer.numbers(numbers));
            }
        }
        writer.finish()
    }

    /// Restores the rows, as one chunk.
    /// Errors: `Corrupt` if the bytes are not of this kernel, version and columns.
    pub(crate) fn from_bytes(id: &str, columns: &[ListColumn], bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(id, bytes)?;
        reader.same(columns.len() as u64, "number of columns")?;
        let n_frames = reader.u64("number of frames")?;
        let times = reader.numbers(n_frames, "times")?;
        let counts: Vec<u64> = reader.numbers(n_frames, "numbers of rows")?;
        let Some(rows) = counts.iter().try_fold(0_u64, |sum, count| sum.checked_add(*count)) else {
            return Err(reader.wrong("number of rows", "a length in memory", "more"));
        };
        let mut chunk = ListChunk { times, counts, ..empty_chunk(columns) };
        for (column, (name, _)) in chunk.columns.iter_mut().zip(columns) {
            with_numbers!(column, numbers => *numbers = reader.numbers(rows, name)?);
        }
        reader.finish()?;
        Ok(if n_frames == 0 { Self::default() } else { Self { chunks: vec![chunk] } })
    }
}

fn empty_chunk(columns: &[ListColumn]) -> ListChunk {
    ListChunk { columns: columns.iter().map(|(_, empty)| empty.clone()).collect(), ..ListChunk::default() }
}

fn append<T: Number>(numbers: &mut Vec<T>, more: &Values) {
    numbers.extend_from_slice(T::of(more).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> [ListColumn; 2] {
        [("pair", Values::U32(Vec::new())), ("distance", Values::F64(Vec::new()))]
    }

    fn of(frames: &[u32]) -> Lists {
        let mut lists = Lists::default();
        for &n_rows in frames {
            let stamp = Stamp { time: f64::from(n_rows), ..Stamp::default() };
            lists
                .add_frame(&columns(), &stamp, |chunk| {
                    chunk.column::<u32>(0).extend(0..n_rows);
                    chunk.column::<f64>(1).extend((0..n_rows).map(|row| f64::from(row) * 0.5));
                    Ok(())
                })
                .unwrap();
        }
        lists
    }

    #[test]
    fn rows_stand_in_the_order_of_frames_with_the_first_of_each() {
        let mut left = of(&[2, 0]);
        left.append(Lists::default());
        left.append(of(&[3]));
        let bytes = left.to_bytes("x/1", &columns());
        assert_eq!(bytes, of(&[2, 0, 3]).to_bytes("x/1", &columns()));
        assert_eq!(left.bytes(), 5 * 12 + 3 * 16);
        let results = Lists::from_bytes("x/1", &columns(), &bytes).unwrap().results("x/1", &columns()).unwrap();
        assert_eq!(results, left.results("x/1", &columns()).unwrap());
        let found: Vec<_> = results.into_iter().map(|array| (array.name, array.shape, array.values)).collect();
        let expected = [
            ("time", vec![3], vec![2.0, 0.0, 3.0].into()),
            ("first_row", vec![4], vec![0_i64, 2, 2, 5].into()),
            ("pair", vec![5], vec![0_u32, 1, 0, 1, 2].into()),
            ("distance", vec![5], vec![0.0, 0.5, 0.0, 0.5, 1.0].into()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn numbers_of_rows_that_nothing_can_hold_are_refused() {
        let mut bytes = of(&[1, 1]).to_bytes("x/1", &columns());
        assert!(Lists::from_bytes("x/1", &columns(), &bytes).is_ok());
        let counts = 4 + 16 + 16;
        for count in [u64::MAX, 1 << 61] {
            bytes[counts..counts + 8].copy_from_slice(&count.to_le_bytes());
            assert!(Lists::from_bytes("x/1", &columns(), &bytes).is_err());
        }
    }
}
