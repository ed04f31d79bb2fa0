//! The arrays of results, and the types of their numbers.

use crate::selection::AtomSelection;

/// The numbers of an array.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// float64
    F64(Vec<f64>),
    /// float32
    F32(Vec<f32>),
    /// int64
    I64(Vec<i64>),
    /// uint64
    U64(Vec<u64>),
    /// uint32
    U32(Vec<u32>),
    /// uint8
    U8(Vec<u8>),
}

/// A type of numbers that arrays of results hold.
pub trait Number: Copy + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    /// Bytes of one.
    const BYTES: usize;
    /// An array of them.
    fn values(numbers: Vec<Self>) -> Values;
    /// The numbers of an array of this type.
    fn of(values: &Values) -> Option<&[Self]>;
    /// The same, to be added to.
    fn of_mut(values: &mut Values) -> Option<&mut Vec<Self>>;
    /// Adds its bytes, little-endian.
    fn append_to(self, bytes: &mut Vec<u8>);
    /// Decodes little-endian bytes of this type's size; zero if the size differs.
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($number:ty => $kind:ident;)*) => {
        $(impl Number for $number {
            const BYTES: usize = size_of::<Self>();
            fn values(numbers: Vec<Self>) -> Values {
                Values::$kind(numbers)
            }
            fn of(values: &Values) -> Option<&[Self]> {
                if let Values::$kind(numbers) = values { Some(numbers) } else { None }
            }
            fn of_mut(values: &mut Values) -> Option<&mut Vec<Self>> {
                if let Values::$kind(numbers) = values { Some(numbers) } else { None }
            }
            #[inline]
            fn append_to(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn from_bytes(bytes: &[u8]) -> Self {
                bytes.first_chunk().map_or(Self::default(), |bytes| Self::from_le_bytes(*bytes))
            }
        }

        impl From<Vec<$number>> for Values {
            fn from(numbers: Vec<$number>) -> Self {
                Self::$kind(numbers)
            }
        })*
    };
}

numbers! {
    f64 => F64;
    f32 => F32;
    i64 => I64;
    u64 => U64;
    u32 => U32;
    u8 => U8;
}

/// Calls a generic expression with the numbers of an array, whatever their type.
#[macro_export]
macro_rules! with_numbers {
    ($values:expr, $numbers:ident => $result:expr) => {
        match $values {
            $crate::reduce::Values::F64($numbers) => $result,
            $crate::reduce::Values::F32($numbers) => $result,
            $crate::reduce::Values::I64($numbers) => $result,
            $crate::reduce::Values::U64($numbers) => $result,
            $crate::reduce::Values::U32($numbers) => $result,
            $crate::reduce::Values::U8($numbers) => $result,
        }
    };
}

impl Values {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        with_numbers!(self, numbers => numbers.len())
    }

    /// Whether there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers, if they have that type.
    pub fn of<T: Number>(&self) -> Option<&[T]> {
        T::of(self)
    }

    /// Rows of `width` numbers, one for each atom of the set, in the requested order.
    #[must_use]
    pub fn reorder_as_requested(self, atoms: &AtomSelection, width: usize) -> Self {
        with_numbers!(self, numbers => atoms.reorder_as_requested(numbers, width).into())
    }
}

/// One named array of results, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultArray {
    /// Name, as `results.<name>` in Python.
    pub name: &'static str,
    /// Dimensions.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub values: Values,
}

impl ResultArray {
    /// An array with a name, dimensions and numbers of any type.
    pub fn new(name: &'static str, shape: Vec<usize>, values: impl Into<Values>) -> Self {
        Self { name, shape, values: values.into() }
    }
}
