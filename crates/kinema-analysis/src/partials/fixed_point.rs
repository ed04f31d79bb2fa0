//! Sums of weights in fixed point: whole multiples of a unit, which are exact in any order.
//!
//! A weight (a mass, a charge) is rounded once, to a multiple of a power of two. The unit is the smallest with which no
//! sum over all atoms and all frames overflows 64 bits; a sum over n atoms is therefore off by at most n / 2 units.

use kinema_core::{Error, ErrorKind, Result};

use super::bytes::{Reader, Writer};

/// Exponents of the largest and the smallest unit: values between are normal numbers.
const EXPONENTS: std::ops::RangeInclusive<i32> = -900..=900;
/// Bits of the largest weight that must be left: 5 decimal digits.
const LEAST_BITS: u32 = 17;

/// Weights as multiples of a unit, `2^exponent`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FixedPoint {
    exponent: i32,
    weights: Vec<i64>,
}

impl FixedPoint {
    /// The weights in the smallest unit with which the sum of all, in each of `n_frames` frames, fits into 64 bits.
    /// Errors: `InvalidArgument` for a weight that is not finite, and for so many frames that weights lose their
    /// digits.
    pub(crate) fn new(weights: &[f64], n_frames: u64) -> Result<Self> {
        let invalid = |what: String| Error::new(ErrorKind::InvalidArgument, what);
        if let Some((at, weight)) = weights.iter().enumerate().find(|(_, weight)| !weight.is_finite()) {
            return Err(invalid(format!("weight at index {at} must be finite, found {weight}")));
        }
        let largest = weights.iter().fold(0.0_f64, |most, weight| most.max(weight.abs()));
        if largest == 0.0 {
            return Ok(Self { exponent: 0, weights: vec![0; weights.len()] });
        }
        let too_many = || {
            let what = format!("weights of {} atoms in {n_frames} frames do not add up within 64 bits", weights.len());
            invalid(format!("{what}: take fewer frames, or weights that differ less"))
        };
        // powers of two above each factor; the sum may take 63 bits
        let bits = |count: u64| (u64::BITS - count.leading_zeros()) as i32;
        let most_bits = exponent_above(largest) + bits(weights.len() as u64) + bits(n_frames);
        // what the bounds leave unused, 3 bits at most, is tried
        let found = (most_bits - 66..=most_bits - 62).find_map(|exponent| {
            let units = in_units(weights, exponent)?;
            let sum: i128 = units.iter().map(|unit| i128::from(unit.unsigned_abs())).sum();
            (sum.checked_mul(i128::from(n_frames.max(1)))? <= i128::from(i64::MAX)).then_some((exponent, units))
        });
        let (exponent, weights) = found.filter(|(exponent, _)| EXPONENTS.contains(exponent)).ok_or_else(too_many)?;
        let most = weights.iter().map(|weight| weight.unsigned_abs()).max().unwrap_or(0);
        if most >> LEAST_BITS == 0 { Err(too_many()) } else { Ok(Self { exponent, weights }) }
    }

    /// The weights in units.
    pub(crate) fn weights(&self) -> &[i64] {
        &self.weights
    }

    /// The unit.
    pub(crate) fn unit(&self) -> f64 {
        2.0_f64.powi(self.exponent)
    }
}

/// The exponent of a power of two that is above a positive number.
fn exponent_above(value: f64) -> i32 {
    // a denormal number has fewer bits than its exponent says, which costs nothing
    ((value.to_bits() >> 52) & 0x7ff) as i32 - 1022
}

/// The nearest whole multiples of `2^exponent`, if they fit into 64 bits.
fn in_units(weights: &[f64], exponent: i32) -> Option<Vec<i64>> {
    // two exact steps, because a power of 1,024 or more is infinite
    let half = -exponent / 2;
    let factors = [2.0_f64.powi(half), 2.0_f64.powi(-exponent - half)];
    let in_unit = |weight: &f64| {
        let units = (weight * factors[0] * factors[1]).round_ties_even();
        (units.abs() < 9.2e18).then_some(units as i64)
    };
    weights.iter().map(in_unit).collect()
}

/// Sums in units, over frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FixedSums {
    sums: Vec<i64>,
}

impl FixedSums {
    /// `n` sums of nothing.
    pub(crate) fn new(n: usize) -> Self {
        Self { sums: vec![0; n] }
    }

    /// The sums. [`FixedPoint::new`] has checked that adding its weights, each once a frame, overflows none.
    pub(crate) fn get(&self) -> &[i64] {
        &self.sums
    }

    /// The same, to add to.
    pub(crate) fn get_mut(&mut self) -> &mut [i64] {
        &mut self.sums
    }

    /// Adds the sums of other frames.
    pub(crate) fn merge(&mut self, right: &Self) {
        for (sum, right) in self.sums.iter_mut().zip(&right.sums) {
            // bytes may hold any sums; sums over frames never overflow
            *sum = sum.saturating_add(*right);
        }
    }

    /// Appends the sums to bytes.
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.numbers(&self.sums);
    }

    /// Restores `n` sums.
    /// Errors: `Corrupt` if the bytes are too few.
    pub(crate) fn read(reader: &mut Reader<'_>, n: usize) -> Result<Self> {
        Ok(Self { sums: reader.numbers(n as u64, "sums in fixed point")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sum_overflows_and_no_bit_is_given_away() {
        for (n, n_frames) in [(1, 1), (1, u64::from(u32::MAX)), (1000, 1), (47_681, 1_000_000), (3, 12_345)] {
            for largest in [1.0, 0.834, 65.38, 3e-200, 2e200] {
                let weights: Vec<f64> = (0..n).map(|i| if i % 3 == 0 { largest } else { -largest / 7.0 }).collect();
                let fixed = FixedPoint::new(&weights, n_frames).unwrap();
                let sum: i128 = fixed.weights().iter().map(|unit| i128::from(unit.abs())).sum();
                let total = sum * i128::from(n_frames);
                assert!(total <= i128::from(i64::MAX) && total > i128::from(i64::MAX) / 5, "{n} {n_frames} {largest}");
                for (weight, units) in weights.iter().zip(fixed.weights()) {
                    assert!((*units as f64 * fixed.unit() - weight).abs() <= 0.5 * fixed.unit() + 1e-15 * weight.abs());
                }
            }
        }
        assert_eq!(FixedPoint::new(&[0.0, -0.0], 7).unwrap().weights(), [0, 0]);
        assert!(FixedPoint::new(&[], 7).unwrap().weights().is_empty());
    }

    #[test]
    fn weights_without_sums_are_refused() {
        for (weights, n_frames) in [
            (&[1.0, f64::NAN][..], 1),
            (&[f64::INFINITY], 1),
            (&[1.0], 1 << 60),
            (&[1e-308], 1),
            (&[f64::MAX, f64::MAX], 1),
        ] {
            let error = FixedPoint::new(weights, n_frames).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{weights:?}");
        }
    }

    #[test]
    fn sums_are_exact_in_any_order() {
        let weights: Vec<f64> = (0..500).map(|i| f64::from(i * 7919 % 1013) / 97.0 - 5.0).collect();
        let fixed = FixedPoint::new(&weights, 3).unwrap();
        let of = |order: &mut dyn Iterator<Item = usize>| {
            let mut sums = FixedSums::new(4);
            order.for_each(|at| sums.get_mut()[at % 4] += fixed.weights()[at]);
            sums
        };
        let forward = of(&mut (0..500));
        assert_eq!(forward, of(&mut (0..500).rev()));
        let (mut left, right) = (of(&mut (0..200)), of(&mut (200..500)));
        left.merge(&right);
        assert_eq!(left, forward);
        let mut writer = Writer::new("x/1");
        left.write(&mut writer);
        let bytes = writer.finish();
        let mut reader = Reader::new("x/1", &bytes).unwrap();
        assert_eq!(FixedSums::read(&mut reader, 4).unwrap(), forward);
        assert!(FixedSums::read(&mut reader, 1).is_err());
    }
}
