//! Bins of equal width on an axis.
//!
//! Bin i of n holds `least + i w <= x < least + (i + 1) w` with `w = (most - least) / n`, the last bin also `x = most`,
//! as `numpy.histogram`; other values are in no bin.

use kinema_core::Result;

use crate::arguments::Arguments;

/// Bins of equal width.
#[derive(Debug, Clone)]
pub(crate) struct Bins {
    least: f64,
    most: f64,
    n: usize,
    /// Width of a bin, and bins in a unit of length.
    width: f64,
    per_unit: f64,
}

impl Bins {
    /// `bins` of the range from `least`, by default 0, to `most`.
    ///
    /// # Errors
    /// `InvalidArgument` for a range that is empty or not finite, and for no bins or 2^32 and more.
    pub(crate) fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let least = if arguments.has("least") { arguments.number("least")? } else { 0.0 };
        let (most, n) = (arguments.number("most")?, arguments.count("bins", 1)?);
        if !((most - least).is_finite() && most > least) {
            return Err(arguments.wrong("most", &format!("above {least}")));
        }
        if u32::try_from(n).is_err() {
            return Err(arguments.wrong("bins", "below 2^32"));
        }
        Ok(Self::new(least, most, n))
    }

    /// `n` bins, at least one, of a finite range that is not empty.
    pub(crate) fn new(least: f64, most: f64, n: usize) -> Self {
        let width = (most - least) / n as f64;
        Self { least, most, n, width, per_unit: n as f64 / (most - least) }
    }

    /// Number of bins.
    pub(crate) fn len(&self) -> usize {
        self.n
    }

    /// All edges, one more than bins.
    pub(crate) fn edges(&self) -> Vec<f64> {
        (0..=self.n).map(|i| self.edge(i)).collect()
    }

    /// The lower edge of bin `i`, which is the upper edge of the bin before it.
    pub(crate) fn edge(&self, i: usize) -> f64 {
        if i == self.n { self.most } else { i as f64 * self.width + self.least }
    }

    /// The bin of a value; `None` if the value is outside all bins.
    #[inline]
    pub(crate) fn number(&self, value: f64) -> Option<u32> {
        if !(value >= self.least && value <= self.most) {
            return None;
        }
        let guess = (value - self.least) * self.per_unit;
        let mut bin = (guess as usize).min(self.n - 1);
        // rounding may give a neighbour
        if value < self.edge(bin) {
            bin -= 1;
        } else if bin + 1 < self.n && value >= self.edge(bin + 1) {
            bin += 1;
        }
        Some(bin as u32)
    }
}
