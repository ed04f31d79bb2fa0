//! Bins of equal width on an axis.
//!
//! Bin i of n holds `least + i w <= x < least + (i + 1) w` with `w = (most - least) / n`, the last bin also `x = most`,
//! as `numpy.histogram`; other values are in no bin.

use kinema_core::Result;

use crate::arguments::Arguments;
use crate::lanes::Sixteen;

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
    single: Single,
}

/// Numbers for estimates in single precision: bins in a unit of length, the middle of the first bin in bins, negated, and
/// the distance from the middle of a bin up to which an estimate is right.
#[derive(Debug, Clone)]
struct Single {
    per_unit: f32,
    shift: f32,
    sure: f32,
}

/// Added to a number from -1 to 2^32, it rounds it to a whole number, which is then in the low bits.
const WHOLE: f64 = 1.5 * (1_u64 << 52) as f64;
/// The same in single precision, for numbers from -1 to 2^22.
const WHOLE_SINGLE: f32 = 1.5 * (1_u32 << 23) as f32;
/// Bins in a unit of length with which nothing overflows or is denormal in single precision.
const SINGLES: std::ops::Range<f64> = 1e-20..1e20;

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
        // four roundings of numbers up to that of the first or the last edge in bins, and a factor of 4
        let in_bins = n as f64 + per_unit * (least.abs() + most.abs());
        let of_single = if SINGLES.contains(&per_unit) { 8.0 * f64::from(f32::EPSILON) * in_bins } else { 1.0 };
        let single = Single {
            per_unit: per_unit as f32,
            shift: (-per_unit * least - 0.5) as f32,
            sure: (0.5 - of_single) as f32,
        };
        Self { least, most, n, width, per_unit, error, single }
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

    /// Bins of values, estimated in single precision, and how far they are from the middles of these bins. A bin is right
    /// if its number is one of a bin and the distance is below [`Bins::sure_distance`].
    #[inline(always)]
    pub(crate) fn estimates<S: Sixteen>(&self, values: S) -> ([u32; 16], S) {
        let at = values.multiply_add(S::all(self.single.per_unit), S::all(self.single.shift));
        let rounded = at.add(S::all(WHOLE_SINGLE));
        let distances = at.subtract(rounded.subtract(S::all(WHOLE_SINGLE))).magnitude();
        (rounded.store().map(|value| value.to_bits().wrapping_sub(WHOLE_SINGLE.to_bits())), distances)
    }

    /// Estimates that are nearer than this to the middle of their bin, in bins, are right; negative if none are.
    pub(crate) fn sure_distance(&self) -> f32 {
        self.single.sure
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
    use crate::cpu::{Cpu, dispatch};
    use crate::lanes::Quad;

    #[inline(always)]
    fn of_single<Q: Quad>(bins: &Bins, value: f32) -> (u32, f32) {
        let (places, distances) = bins.estimates(Q::Sixteen::all(value));
        (places[7], distances.store()[7])
    }

    #[test]
    fn estimates_in_single_precision_are_the_bins_wherever_they_are_sure() {
        let ranges = [(0.0, 78.0, 78), (-3.7, 1e-3, 1), (1000.0, 1001.0, 10), (-20.0, 58.0, 30_000)];
        for (least, most, n) in ranges {
            let bins = Bins::new(least, most, n);
            let width = (most - least) / n as f64;
            let mut n_sure = 0;
            for i in -200..20_000_i64 {
                let near_an_edge = bins.edge((i.unsigned_abs() as usize * 7919) % (n + 1)) as f32;
                let middle = (least + (i as f64 + 0.5) * width) as f32;
                let inside = (least + i as f64 * width / 37.0) as f32;
                for value in [inside, middle, near_an_edge, near_an_edge.next_up(), near_an_edge.next_down()] {
                    for cpu in [Cpu::detect(), Cpu::baseline()] {
                        let (bin, far) =
                            dispatch!(cpu, (u32, f32), of_single, (bins: &Bins = &bins, value: f32 = value));
                        let is_sure = (bin as usize) < n && far < bins.sure_distance();
                        n_sure += u32::from(is_sure);
                        assert!(!is_sure || bins.number(f64::from(value)) == Some(bin), "{value} of {bins:?}");
                    }
                }
            }
            assert!(n_sure > 50, "{n_sure} of {bins:?}");
        }
        let bins = Bins::new(0.0, 1.0, 10);
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, f32::MAX, 4e5, -4e5, 1e7, -1e7] {
            for cpu in [Cpu::detect(), Cpu::baseline()] {
                let (bin, _) = dispatch!(cpu, (u32, f32), of_single, (bins: &Bins = &bins, value: f32 = value));
                assert!(bin >= 10, "{value}");
            }
        }
        // in single precision nothing is sure
        for bins in [Bins::new(0.0, 1.0, 1 << 31), Bins::new(1e9, 1e9 + 1.0, 9), Bins::new(-1e30, 1e30, 5)] {
            assert!(bins.sure_distance() < 0.0, "{bins:?}");
        }
    }

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
                }
            }
            assert!(n_sure > 20, "{n_sure} of {bins:?}");
        }
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300] {
            assert!(!Bins::new(0.0, 1.0, 10).estimate(value).1);
        }
    }
}
