//! HDF5 number types: integers and floats of any width and byte order, converted to float32 or float64.

use crate::error::{Error, ErrorKind, Result};

/// Kind and width of a stored number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// IEEE 754 binary16.
    F16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
}

/// A stored number: its kind and byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    /// Kind and width.
    pub kind: Kind,
    /// Most significant byte first.
    pub big_endian: bool,
}

impl Number {
    /// From NumPy's name of a type, as `<f4`, `>i8` or `|u1`.
    ///
    /// # Errors
    /// `Unsupported` for anything but integers of 1 to 8 bytes and floats of 2 to 8.
    pub fn from_name(name: &str) -> Result<Self> {
        let kind = match name.get(1..) {
            Some("f2") => Kind::F16,
            Some("f4") => Kind::F32,
            Some("f8") => Kind::F64,
            Some("i1") => Kind::I8,
            Some("i2") => Kind::I16,
            Some("i4") => Kind::I32,
            Some("i8") => Kind::I64,
            Some("u1") => Kind::U8,
            Some("u2") => Kind::U16,
            Some("u4") => Kind::U32,
            Some("u8") => Kind::U64,
            _ => {
                let what = format!("numbers of type {name} are not read, expected integers or floats of 1 to 8 bytes");
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
        };
        Ok(Self { kind, big_endian: name.starts_with('>') })
    }

    /// Bytes of one number.
    pub fn size(self) -> usize {
        match self.kind {
            Kind::I8 | Kind::U8 => 1,
            Kind::F16 | Kind::I16 | Kind::U16 => 2,
            Kind::F32 | Kind::I32 | Kind::U32 => 4,
            Kind::F64 | Kind::I64 | Kind::U64 => 8,
        }
    }
}

/// IEEE 754 binary16, for which Rust has no stable type.
pub fn half(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let mantissa = f32::from(bits & 0x3ff);
    sign * match exponent {
        0 => mantissa * 2_f32.powi(-24),
        31 if mantissa == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + mantissa) * 2_f32.powi(exponent - 25),
    }
}

/// Calls `$body` with `$load`, a function from the bytes of one number (an array of `$size`) to `$real`.
macro_rules! with_loader {
    ($number:expr, $factor:expr, $real:ty, |$load:ident| $body:expr) => {{
        use $crate::container::hdf5::number::{Kind, half};
        let factor: f64 = $factor;
        macro_rules! integer {
            ($kind:ty, $big:expr) => {
                if $big {
                    let $load = |bytes| <$real>::scaled(<$kind>::from_be_bytes(bytes) as f64, factor);
                    $body
                } else {
                    let $load = |bytes| <$real>::scaled(<$kind>::from_le_bytes(bytes) as f64, factor);
                    $body
                }
            };
        }
        let big = $number.big_endian;
        match $number.kind {
            Kind::F16 if big => {
                let $load = |bytes| <$real>::scaled_f32(half(u16::from_be_bytes(bytes)), factor);
                $body
            }
            Kind::F16 => {
                let $load = |bytes| <$real>::scaled_f32(half(u16::from_le_bytes(bytes)), factor);
                $body
            }
            Kind::F32 if big => {
                let $load = |bytes| <$real>::scaled_f32(f32::from_be_bytes(bytes), factor);
                $body
            }
            Kind::F32 if f64::from(factor as f32) == factor => {
                let narrow = factor as f32;
                let $load = |bytes| <$real>::scaled_narrow(f32::from_le_bytes(bytes), narrow);
                $body
            }
            Kind::F32 => {
                let $load = |bytes| <$real>::scaled_f32(f32::from_le_bytes(bytes), factor);
                $body
            }
            Kind::F64 => integer!(f64, big),
            Kind::I8 => integer!(i8, big),
            Kind::I16 => integer!(i16, big),
            Kind::I32 => integer!(i32, big),
            Kind::I64 => integer!(i64, big),
            Kind::U8 => integer!(u8, big),
            Kind::U16 => integer!(u16, big),
            Kind::U32 => integer!(u32, big),
            Kind::U64 => integer!(u64, big),
        }
    }};
}
pub(crate) use with_loader;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_numpy_are_understood_and_others_refused() {
        assert_eq!(Number::from_name(">f4").unwrap(), Number { kind: Kind::F32, big_endian: true });
        assert_eq!(Number::from_name("|u1").unwrap().size(), 1);
        for name in ["<c8", "<f16", "", "f", "é4"] {
            assert!(Number::from_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn halves_are_read() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x0000, 0.0),
            (0x3555, 0.333_251_95),
        ] {
            assert_eq!(half(bits), value);
        }
        assert_eq!(half(0x7c00), f32::INFINITY);
        assert!(half(0x7c01).is_nan());
    }
}
