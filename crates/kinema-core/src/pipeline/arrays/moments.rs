//! Moments of numbers in rows: count, mean, sum of squared deviations, least and largest of each column.
//!
//! Sums are float64. Rows are taken in blocks, whose number of rows depends on the number of columns alone: the mean of a
//! block, then the deviations from it, which are merged with those before (Chan, Golub and LeVeque 1979). Columns do not
//! depend on each other, so that wide instructions give the same bits. The moments of runs of rows merge in the order of
//! the rows.

use crate::error::{Error, ErrorKind, Result};

/// Number of columns that are read twice while they are in the processor's cache.
const TILE: usize = 512;
/// Narrower rows are joined to rows of at least this many columns.
const WIDE: usize = 64;
/// Rows that are gone through together, so that sums stay in registers.
const TOGETHER: usize = 8;
/// Least number of rows in a block of wide rows, and the size of a block of other rows in values.
const LEAST_ROWS: usize = 16;
const BLOCK_VALUES: usize = 1 << 15;

/// Types of numbers, in this machine's byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say all")]
pub enum NumberType {
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

impl NumberType {
    /// By NumPy's name.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "float32" => Self::F32,
            "float64" => Self::F64,
            "int8" => Self::I8,
            "int16" => Self::I16,
            "int32" => Self::I32,
            "int64" => Self::I64,
            "uint8" => Self::U8,
            "uint16" => Self::U16,
            "uint32" => Self::U32,
            "uint64" => Self::U64,
            _ => return Err(Error::new(ErrorKind::InvalidArgument, format!("there are no moments of {name}"))),
        })
    }

    /// Bytes of a number.
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }
}

/// Moments of the columns of some rows; all columns have the same number of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// Number of rows.
    pub count: u64,
    /// Mean of each column.
    pub mean: Vec<f64>,
    /// Sum of the squared deviations from it.
    pub squares: Vec<f64>,
    /// Least value; infinity if there are no values.
    pub least: Vec<f64>,
    /// Largest value; minus infinity if there are no values.
    pub largest: Vec<f64>,
}

impl Moments {
    /// Moments of no rows.
    pub fn new(columns: usize) -> Self {
        Self {
            count: 0,
            mean: vec![0.0; columns],
            squares: vec![0.0; columns],
            least: vec![f64::INFINITY; columns],
            largest: vec![f64::NEG_INFINITY; columns],
        }
    }

    /// Adds the moments of `other`, whose rows are the later ones.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let count = self.count + other.count;
        let share = other.count as f64 / count as f64;
        let weight = self.count as f64 * share;
        for i in 0..self.mean.len() {
            let delta = other.mean[i] - self.mean[i];
            self.mean[i] += delta * share;
            self.squares[i] += other.squares[i] + delta * delta * weight;
            self.least[i] = lesser(other.least[i], self.least[i]);
            self.largest[i] = larger(other.largest[i], self.largest[i]);
        }
        self.count = count;
    }

    /// For columns that repeat every `columns`: the moments of each column over all repetitions.
    fn folded(&self, columns: usize) -> Self {
        let mut all = Self::new(columns);
        for first in (0..self.mean.len()).step_by(columns) {
            let part = first..first + columns;
            all.merge(&Self {
                count: self.count,
                mean: self.mean[part.clone()].to_vec(),
                squares: self.squares[part.clone()].to_vec(),
                least: self.least[part.clone()].to_vec(),
                largest: self.largest[part].to_vec(),
            });
        }
        all
    }

    /// Adds the moments of a block of rows, through a buffer of the sums of a tile.
    #[inline(always)]
    fn add_block<const N: usize>(&mut self, values: &[[u8; N]], number: impl Fn([u8; N]) -> f64 + Copy) {
        let columns = self.mean.len();
        let rows = values.len() / columns;
        let count = self.count + rows as u64;
        let (inverse, share) = (1.0 / rows as f64, rows as f64 / count as f64);
        let weight = self.count as f64 * share;
        let mut sums = [0.0f64; TILE];
        for first in (0..columns).step_by(TILE) {
            let width = TILE.min(columns - first);
            let sums = &mut sums[..width];
            sums.fill(0.0);
            let (least, largest) = (&mut self.least[first..first + width], &mut self.largest[first..first + width]);
            let mut several = values.chunks_exact(TOGETHER * columns);
            for rows in several.by_ref() {
                let rows: [&[[u8; N]]; TOGETHER] = std::array::from_fn(|row| &rows[row * columns + first..][..width]);
                for i in 0..width {
                    let (mut sum, mut low, mut high) = (sums[i], least[i], largest[i]);
                    for row in rows {
                        let value = number(row[i]);
                        sum += value;
                        low = lesser(value, low);
                        high = larger(value, high);
                    }
                    (sums[i], least[i], largest[i]) = (sum, low, high);
                }
            }
            for row in several.remainder().chunks_exact(columns) {
                let row = &row[first..][..width];
                for i in 0..width {
                    let value = number(row[i]);
                    sums[i] += value;
                    least[i] = lesser(value, least[i]);
                    largest[i] = larger(value, largest[i]);
                }
            }
            sums.iter_mut().for_each(|sum| *sum *= inverse);
            let squares = &mut self.squares[first..first + width];
            let mut several = values.chunks_exact(TOGETHER * columns);
            for rows in several.by_ref() {
                let rows: [&[[u8; N]]; TOGETHER] = std::array::from_fn(|row| &rows[row * columns + first..][..width]);
                for i in 0..width {
                    let (mut sum, mean) = (squares[i], sums[i]);
                    for row in rows {
                        let delta = number(row[i]) - mean;
                        sum += delta * delta;
                    }
                    squares[i] = sum;
                }
            }
            for row in several.remainder().chunks_exact(columns) {
                let row = &row[first..][..width];
                for i in 0..width {
                    let delta = number(row[i]) - sums[i];
                    squares[i] += delta * delta;
                }
            }
            let mean = &mut self.mean[first..first + width];
            for i in 0..width {
                let delta = sums[i] - mean[i];
                mean[i] += delta * share;
                squares[i] += delta * delta * weight;
            }
        }
        self.count = count;
    }
}

#[inline(always)]
fn lesser(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The moments of a run of rows that come one after the other, of one type.
#[derive(Debug)]
pub struct Accumulator {
    number: NumberType,
    columns: usize,
    /// Rows that are one row of `wide`.
    fold: usize,
    /// Rows of a block, a multiple of `fold`.
    block: usize,
    wide: Moments,
    /// Moments of the rows after the last whole block.
    rest: Moments,
    has_avx2: bool,
}

impl Accumulator {
    /// Moments of no rows.
    pub fn new(number: NumberType, columns: usize) -> Self {
        let fold = if columns < WIDE { WIDE.div_ceil(columns.max(1)) } else { 1 };
        let block = fold * (BLOCK_VALUES / (columns.max(1) * fold)).max(LEAST_ROWS);
        #[cfg(target_arch = "x86_64")]
        let has_avx2 = std::arch::is_x86_feature_detected!("avx2");
        #[cfg(not(target_arch = "x86_64"))]
        let has_avx2 = false;
        let (wide, rest) = (Moments::new(columns * fold), Moments::new(columns));
        Self { number, columns, fold, block, wide, rest, has_avx2 }
    }

    /// Rows of a block: runs of rows that are given to `add` must be whole blocks, except the last run.
    pub fn block_rows(&self) -> usize {
        self.block
    }

    /// Adds whole rows; whole blocks of them, unless these are the last ones.
    pub fn add(&mut self, bytes: &[u8]) {
        match self.number {
            NumberType::F32 => self.add_all::<4>(bytes, |bytes| f64::from(f32::from_ne_bytes(bytes))),
            NumberType::F64 => self.add_all::<8>(bytes, f64::from_ne_bytes),
            NumberType::I8 => self.add_all::<1>(bytes, |bytes| f64::from(i8::from_ne_bytes(bytes))),
            NumberType::I16 => self.add_all::<2>(bytes, |bytes| f64::from(i16::from_ne_bytes(bytes))),
            NumberType::I32 => self.add_all::<4>(bytes, |bytes| f64::from(i32::from_ne_bytes(bytes))),
            NumberType::I64 => self.add_all::<8>(bytes, |bytes| i64::from_ne_bytes(bytes) as f64),
            NumberType::U8 => self.add_all::<1>(bytes, |bytes| f64::from(bytes[0])),
            NumberType::U16 => self.add_all::<2>(bytes, |bytes| f64::from(u16::from_ne_bytes(bytes))),
            NumberType::U32 => self.add_all::<4>(bytes, |bytes| f64::from(u32::from_ne_bytes(bytes))),
            NumberType::U64 => self.add_all::<8>(bytes, |bytes| u64::from_ne_bytes(bytes) as f64),
        }
    }

    fn add_all<const N: usize>(&mut self, bytes: &[u8], number: impl Fn([u8; N]) -> f64 + Copy) {
        let values = bytes.as_chunks::<N>().0;
        #[cfg(target_arch = "x86_64")]
        if self.has_avx2 {
            // SAFETY: the processor has AVX2, as was asked when this was made.
            unsafe { self.add_avx2(values, number) };
            return;
        }
        self.add_blocks(values, number);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn add_avx2<const N: usize>(&mut self, values: &[[u8; N]], number: impl Fn([u8; N]) -> f64 + Copy) {
        self.add_blocks(values, number);
    }

    #[inline(always)]
    fn add_blocks<const N: usize>(&mut self, values: &[[u8; N]], number: impl Fn([u8; N]) -> f64 + Copy) {
        for block in values.chunks(self.block * self.columns) {
            let whole = block.len() / self.wide.mean.len() * self.wide.mean.len();
            let (folded, rest) = block.split_at(whole);
            if !folded.is_empty() {
                self.wide.add_block(folded, number);
            }
            if !rest.is_empty() {
                self.rest.add_block(rest, number);
            }
        }
    }

    /// The moments of all rows.
    pub fn finish(self) -> Moments {
        let mut all = if self.fold == 1 { self.wide } else { self.wide.folded(self.columns) };
        all.merge(&self.rest);
        all
    }
}

/// The moments of the vectors of each group; `groups` says to which group each row belongs.
///
/// # Errors
/// `InvalidArgument` for arrays that do not match, and groups that do not exist.
pub fn measure_groups<R: Copy + Into<f64>>(values: &[[R; 3]], groups: &[u8], n_groups: usize) -> Result<Vec<Moments>> {
    if values.len() != groups.len() || groups.iter().any(|&group| usize::from(group) >= n_groups) {
        return Err(Error::new(ErrorKind::InvalidArgument, "the groups are not those of the rows"));
    }
    let mut all: Vec<Moments> = (0..n_groups).map(|_| Moments::new(3)).collect();
    for (value, &group) in values.iter().zip(groups) {
        let value: [f64; 3] = value.map(Into::into);
        let one = &mut all[usize::from(group)];
        one.count += 1;
        for (i, &number) in value.iter().enumerate() {
            one.mean[i] += number;
            one.least[i] = lesser(number, one.least[i]);
            one.largest[i] = larger(number, one.largest[i]);
        }
    }
    for one in all.iter_mut().filter(|one| one.count > 0) {
        one.mean.iter_mut().for_each(|sum| *sum /= one.count as f64);
    }
    for (value, &group) in values.iter().zip(groups) {
        let value: [f64; 3] = value.map(Into::into);
        let one = &mut all[usize::from(group)];
        for (i, &number) in value.iter().enumerate() {
            let delta = number - one.mean[i];
            one.squares[i] += delta * delta;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: NumberType, columns: usize, bytes: &[u8], wide: bool) -> Moments {
        let mut all = Accumulator::new(number, columns);
        all.has_avx2 &= wide;
        all.add(bytes);
        all.finish()
    }

    #[test]
    fn moments_are_those_of_the_columns_with_and_without_wide_instructions() {
        for (columns, rows) in [(1, 1), (1, 100_003), (7, 5000), (63, 777), (64, 513), (700, 130)] {
            let values: Vec<f64> =
                (0..columns * rows).map(|i| 1e6 + ((i * 7919) % 1013) as f64 * 0.25 - (i % columns) as f64).collect();
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
            let found = of(NumberType::F64, columns, &bytes, true);
            assert_eq!(found, of(NumberType::F64, columns, &bytes, false));
            assert_eq!(found.count, rows as u64);
            for column in 0..columns {
                let own: Vec<f64> = values.iter().skip(column).step_by(columns).copied().collect();
                let mean = own.iter().map(|value| value - 1e6).sum::<f64>() / rows as f64 + 1e6;
                let squares: f64 = own.iter().map(|value| (value - mean) * (value - mean)).sum();
                assert!((found.mean[column] - mean).abs() <= 1e-14 * mean.abs());
                assert!((found.squares[column] - squares).abs() <= 1e-9 * squares.max(1.0));
                assert_eq!(found.least[column], own.iter().copied().fold(f64::INFINITY, f64::min));
                assert_eq!(found.largest[column], own.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            }
        }
    }

    #[test]
    fn whole_blocks_in_several_calls_give_the_bits_of_one() {
        let values: Vec<f32> = (0..300_000).map(|i| ((i * 31) % 977) as f32).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let mut parts = Accumulator::new(NumberType::F32, 3);
        let step = parts.block_rows() * 3 * 4;
        bytes.chunks(step).for_each(|part| parts.add(part));
        assert_eq!(parts.finish(), of(NumberType::F32, 3, &bytes, true));
    }

    #[test]
    fn every_type_is_read_as_it_is() {
        let check = |name: &str, bytes: &[u8], expected: f64| {
            let number = NumberType::named(name).unwrap();
            assert_eq!(number.size(), bytes.len());
            assert_eq!(of(number, 1, bytes, true).mean, [expected], "{name}");
        };
        check("int8", &(-3i8).to_ne_bytes(), -3.0);
        check("int16", &(-300i16).to_ne_bytes(), -300.0);
        check("int32", &(-70_000i32).to_ne_bytes(), -70_000.0);
        check("int64", &(-(1i64 << 40)).to_ne_bytes(), -((1u64 << 40) as f64));
        check("uint8", &[200], 200.0);
        check("uint16", &60_000u16.to_ne_bytes(), 60_000.0);
        check("uint32", &4_000_000_000u32.to_ne_bytes(), 4e9);
        check("uint64", &(1u64 << 60).to_ne_bytes(), (1u64 << 60) as f64);
        check("float32", &1.5f32.to_ne_bytes(), 1.5);
        assert!(NumberType::named("complex64").is_err());
    }

    #[test]
    fn groups_have_their_own_moments() {
        let values = [[1.0, 2.0, 3.0], [5.0, 5.0, 5.0], [3.0, 2.0, -3.0]];
        let found = measure_groups(&values, &[0, 2, 0], 3).unwrap();
        assert_eq!(found[0].mean, [2.0, 2.0, 0.0]);
        assert_eq!(found[0].squares, [2.0, 0.0, 18.0]);
        assert_eq!((found[1].count, found[2].count), (0, 1));
        assert!(measure_groups(&values, &[0, 3, 0], 3).is_err());
    }
}
