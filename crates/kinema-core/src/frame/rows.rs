//! RowsMut that decoders fill: neighbours in one array of the caller, or anywhere in it.

use super::Real;
use crate::error::{Error, ErrorKind, Result};

/// RowsMut of the caller, all of one width.
#[derive(Debug)]
pub enum RowsMut<'a, T> {
    /// Consecutive rows, with this many values each.
    Adjacent(&'a mut [T], usize),
    /// Each by itself.
    Scattered(Vec<&'a mut [T]>),
}

impl<'a, T> RowsMut<'a, T> {
    /// The first `len` values of a row.
    ///
    /// # Errors
    /// `Internal` if there is no such row, or it is shorter.
    pub fn row(&mut self, row: usize, len: usize) -> Result<&mut [T]> {
        let values = match self {
            Self::Adjacent(values, width) => row.checked_mul(*width).and_then(|from| values.get_mut(from..)),
            Self::Scattered(rows) => rows.get_mut(row).map(|values| &mut **values),
        };
        let values = values.and_then(|values| values.get_mut(..len));
        values.ok_or_else(|| Error::new(ErrorKind::Internal, format!("the block has no row {row} of {len} values")))
    }

    /// The values of `n` neighbouring rows of `len` values each, where they lie one after the other without gaps.
    pub fn run(&mut self, first: usize, n: usize, len: usize) -> Option<&mut [T]> {
        match self {
            Self::Adjacent(values, width) if *width == len => values.get_mut(first * len..)?.get_mut(..n * len),
            Self::Scattered(rows) if n == 1 => rows.get_mut(first)?.get_mut(..len),
            _ => None,
        }
    }

    /// The rows in another order: row `i` was row `order[i]`. Each number occurs once in `order`.
    pub(super) fn into_order(self, order: &[usize]) -> Self {
        let mut rows: Vec<&'a mut [T]> = match self {
            Self::Adjacent(values, width) => values.chunks_exact_mut(width.max(1)).collect(),
            Self::Scattered(rows) => rows,
        };
        let taken = |&row: &usize| rows.get_mut(row).map(std::mem::take).unwrap_or_default();
        Self::Scattered(order.iter().map(taken).collect())
    }

    /// The rows in runs of these lengths.
    pub(super) fn split(self, lengths: &[usize]) -> Vec<Self> {
        match self {
            Self::Adjacent(mut values, width) => {
                let mut front = |&rows: &usize| {
                    let (front, rest) = std::mem::take(&mut values).split_at_mut(rows * width);
                    values = rest;
                    Self::Adjacent(front, width)
                };
                lengths.iter().map(&mut front).collect()
            }
            Self::Scattered(rows) => {
                let mut rows = rows.into_iter();
                lengths.iter().map(|&length| Self::Scattered(rows.by_ref().take(length).collect())).collect()
            }
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Adjacent(values, _) => values.len(),
            Self::Scattered(rows) => rows.iter().map(|row| row.len()).sum(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// RowsMut of 3-vectors, or nothing if the field is not wanted.
#[derive(Debug, Default)]
pub enum VectorsMut<'a> {
    /// Not wanted.
    #[default]
    Absent,
    /// As most formats have them.
    F32(RowsMut<'a, f32>),
    /// Widened before they are scaled.
    F64(RowsMut<'a, f64>),
}

impl<'a> VectorsMut<'a> {
    /// RowsMut of a float32 array; absent if the array is empty.
    pub fn from_f32(values: &'a mut [f32], width: usize) -> Self {
        if values.is_empty() { Self::Absent } else { Self::F32(RowsMut::Adjacent(values, width)) }
    }

    pub(super) fn into_order(self, order: &[usize]) -> Self {
        match self {
            Self::Absent => Self::Absent,
            Self::F32(rows) => Self::F32(rows.into_order(order)),
            Self::F64(rows) => Self::F64(rows.into_order(order)),
        }
    }

    pub(super) fn split(self, lengths: &[usize]) -> Vec<Self> {
        match self {
            Self::Absent => lengths.iter().map(|_| Self::Absent).collect(),
            Self::F32(rows) => rows.split(lengths).into_iter().map(Self::F32).collect(),
            Self::F64(rows) => rows.split(lengths).into_iter().map(Self::F64).collect(),
        }
    }

    /// Number of values; `None` if they are not wanted.
    pub fn len(&self) -> Option<usize> {
        match self {
            Self::Absent => None,
            Self::F32(rows) => Some(rows.len()),
            Self::F64(rows) => Some(rows.len()),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len().is_none_or(|len| len == 0)
    }

    /// Puts float32 vectors, multiplied by `factor` and rounded once, into a row, starting at atom `first`.
    ///
    /// # Errors
    /// As [`RowsMut::row`].
    pub fn put(&mut self, row: usize, first: usize, factor: f64, vectors: &[[f32; 3]]) -> Result<()> {
        fn scaled<R: Real>(
            rows: &mut RowsMut<'_, R>,
            row: usize,
            first: usize,
            factor: f64,
            vectors: &[[f32; 3]],
        ) -> Result<()> {
            let places = &mut rows.row(row, 3 * (first + vectors.len()))?[3 * first..];
            places.iter_mut().zip(vectors.as_flattened()).for_each(|(to, &from)| *to = R::scaled_f32(from, factor));
            Ok(())
        }
        match self {
            Self::Absent => Ok(()),
            Self::F32(rows) => scaled(rows, row, first, factor, vectors),
            Self::F64(rows) => scaled(rows, row, first, factor, vectors),
        }
    }

    /// Fills the first `len` values of a row with NaN: the frame lacks the field.
    ///
    /// # Errors
    /// As [`RowsMut::row`].
    pub fn set_absent(&mut self, row: usize, len: usize) -> Result<()> {
        match self {
            Self::Absent => Ok(()),
            Self::F32(rows) => rows.row(row, len).map(|values| values.fill(Real::NAN)),
            Self::F64(rows) => rows.row(row, len).map(|values| values.fill(Real::NAN)),
        }
    }
}
