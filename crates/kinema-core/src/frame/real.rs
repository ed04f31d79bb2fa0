//! Numbers that vectors are read into: float32 and float64, multiplied with the factor of a unit and rounded once.

use super::{RowsMut, VectorsMut};

/// The type that numbers are read into.
pub trait Real: Copy {
    /// The value in rows of a field that a frame lacks.
    const NAN: Self;
    /// Rows of these numbers.
    fn vectors(rows: RowsMut<'_, Self>) -> VectorsMut<'_>;

    /// `value * factor`, rounded once.
    fn scaled(value: f64, factor: f64) -> Self;
    /// The same for a value that float32 holds.
    fn scaled_f32(value: f32, factor: f64) -> Self;
    /// The same for a factor that float32 holds as well; the same bits, but no detour over float64.
    fn scaled_narrow(value: f32, factor: f32) -> Self;
}

impl Real for f32 {
    const NAN: Self = f32::NAN;

    fn vectors(rows: RowsMut<'_, Self>) -> VectorsMut<'_> {
        VectorsMut::F32(rows)
    }

    fn scaled(value: f64, factor: f64) -> Self {
        (value * factor) as f32
    }
    fn scaled_f32(value: f32, factor: f64) -> Self {
        // the product of two float32 is exact in float64, so it is rounded once here as well
        (f64::from(value) * factor) as f32
    }
    fn scaled_narrow(value: f32, factor: f32) -> Self {
        value * factor
    }
}

impl Real for f64 {
    const NAN: Self = f64::NAN;

    fn vectors(rows: RowsMut<'_, Self>) -> VectorsMut<'_> {
        VectorsMut::F64(rows)
    }

    fn scaled(value: f64, factor: f64) -> Self {
        value * factor
    }
    fn scaled_f32(value: f32, factor: f64) -> Self {
        f64::from(value) * factor
    }
    fn scaled_narrow(value: f32, factor: f32) -> Self {
        f64::from(value) * f64::from(factor)
    }
}
