//! Bins of equal width on an axis.
//!
//! Bin i of n holds `least + i w <= x < least + (i + 1) w` with `w = (most - least) / n`, the last bin also `x = most`,
//! as `numpy.histogram`; other values are in no bin.

use kinema_core::Result;

use crate::arguments::Arguments;
use crate::lanes::Quad;

/// Bins of equal width.
#[derive(Debug, Clone)]
pub(crate) struct Bins {
    least: f64,
    most: f64,
    n: usize,
    /// Width of a bin, and bins in a unit of length.
    width: f64,
    per_unit: f64,
    /// An estimate, in bins, that is farther than this from each edge is in the right bin.
    error: f64,
}

/// Added to a number from -1 to 2^32, it rounds it to a whole number, which is then in the low bits.
const WHOLE: f64 = 1.5 * (1_u64 << 52) as f64;

impl Bins {
    /// `bins` of the range from `least`, by default 0, to `most`.
    /// Errors: `InvalidArgument` for a range that is empty or not finite, and for no bins or 2^32 and more.
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
        let per_unit = n as f64 / (most - least);
        let error = 8.0 * f64::EPSILON * (n as f64 + per_unit * (least.abs() + most.abs()));
        Self { least, most, n, width, per_unit, error }
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

    /// The bin of a value without a branch, and whether it is sure; if not, [`Bins::number`] decides.
    #[inline(always)]
    pub(crate) fn estimate(&self, value: f64) -> (u32, bool) {
        let at = (value - self.least) * self.per_unit;
        let whole = (at - 0.5) + WHOLE;
        let part = at - (whole - WHOLE);
        let is_sure = (at > 0.0) & (at < self.n as f64) & (part > self.error) & (part < 1.0 - self.error);
        (whole.to_bits() as u32, is_sure)
    }

    /// The same of four values, for fewer than 2^31 bins; -1 if it is not sure.
    #[inline(always)]
    pub(crate) fn estimates<Q: Quad>(&self, values: Q) -> [i32; 4] {
        let [nothing, whole] = [0.0, WHOLE].map(Q::all);
        let at = values.subtract(Q::all(self.least)).multiply(Q::all(self.per_unit));
        let place = at.subtract(Q::all(0.5)).add(whole).subtract(whole);
        let part = at.subtract(place);
        let unsure = Q::all(-1.0);
        let place = Q::select(nothing.less(at), place, unsure);
        let place = Q::select(at.less(Q::all(self.n as f64)), place, unsure);
        let place = Q::select(Q::all(self.error).less(part), place, unsure);
        Q::select(part.less(Q::all(1.0 - self.error)), place, unsure).store_whole()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Plain;

    #[test]
    fn estimates_are_the_bins_wherever_they_are_sure() {
        for (least, most, n) in [(0.0, 15.0, 75), (-3.7, 1e-3, 1), (1e6, 1e6 + 1.0, 1000), (-20.0, 58.0, 1 << 31)] {
            let bins = Bins::new(least, most, n);
            let width = (most - least) / n as f64;
            let mut n_sure = 0;
            for i in -200..20_000_i64 {
                let near_an_edge = bins.edge((i.unsigned_abs() as usize * 7919) % (n + 1));
                for value in
                    [least + i as f64 * width / 37.0, near_an_edge, near_an_edge.next_up(), near_an_edge.next_down()]
                {
                    let (bin, is_sure) = bins.estimate(value);
                    n_sure += u32::from(is_sure);
                    assert!(!is_sure || bins.number(value) == Some(bin), "{value} of {bins:?}");
                    if n < 1 << 31 {
                        let expected = if is_sure { bin as i32 } else { -1 };
                        assert_eq!(bins.estimates(Plain::all(value)), [expected; 4], "{value} of {bins:?}");
                    }
                }
            }
            assert!(n_sure > 20, "{n_sure} of {bins:?}");
        }
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300] {
            assert!(!Bins::new(0.0, 1.0, 10).estimate(value).1);
        }
    }
}
