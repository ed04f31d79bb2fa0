//! Partials as little-endian bytes: written and read back field by field, every length checked before it is used.
//!
//! It knows no kernel: each kernel defines its fields and their order.

use kinema_core::reduce::Number;
use kinema_core::{Error, ErrorKind, Result};

/// Writes the bytes of a partial, beginning with the kernel's name and version.
#[derive(Debug)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// The length of `id` in one byte, then `id`.
    pub(crate) fn new(id: &str) -> Self {
        let name = id.as_bytes();
        let mut bytes = Vec::with_capacity(name.len() + 1);
        bytes.push(name.len() as u8);
        bytes.extend_from_slice(name);
        Self(bytes)
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn numbers<T: Number>(&mut self, numbers: &[T]) {
        self.0.reserve(numbers.len() * T::BYTES);
        for number in numbers {
            number.append_to(&mut self.0);
        }
    }

    /// The bytes of a part, after their number.
    pub(crate) fn part(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads what [`Writer`] has written; every failure is `Corrupt` and says at which byte.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Checks the kernel's name and version.
    pub(crate) fn new(id: &str, bytes: &'a [u8]) -> Result<Self> {
        let mut reader = Self { bytes, at: 0 };
        let length = reader.take(1, "length of the kernel's name")?.first().copied().unwrap_or_default();
        let found = reader.take(usize::from(length), "name of the kernel")?;
        if found != id.as_bytes() {
            return Err(Error::corrupt("wrong kernel of a partial", id, String::from_utf8_lossy(found)).with_byte(1));
        }
        Ok(reader)
    }

    fn take(&mut self, length: usize, what: &str) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(taken) = rest.get(..length) else {
            let what = format!("partial is too short for its {what}");
            return Err(Error::corrupt(&what, length, rest.len()).with_byte(self.at as u64));
        };
        self.at += length;
        Ok(taken)
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64> {
        let bytes = self.take(8, what)?;
        bytes.first_chunk::<8>().map(|b| u64::from_le_bytes(*b)).ok_or_else(|| self.wrong(what, 8, bytes.len()))
    }

    /// `count` numbers; nothing is allocated unless all their bytes are present.
    pub(crate) fn numbers<T: Number>(&mut self, count: u64, what: &str) -> Result<Vec<T>> {
        let length = usize::try_from(count).ok().and_then(|count| count.checked_mul(T::BYTES));
        let Some(length) = length else {
            return Err(self.wrong(what, "a length in memory", count));
        };
        Ok(self.take(length, what)?.chunks_exact(T::BYTES).map(T::from_bytes).collect())
    }

    /// The bytes of a part, as [`Writer::part`] writes them.
    pub(crate) fn part(&mut self, what: &str) -> Result<&'a [u8]> {
        let length = self.u64(what)?;
        let length = usize::try_from(length).map_err(|_| self.wrong(what, "a length in memory", length))?;
        self.take(length, what)
    }

    /// A number that must be the kernel's own, such as its number of atoms.
    pub(crate) fn same(&mut self, expected: u64, what: &str) -> Result<()> {
        let found = self.u64(what)?;
        if found == expected { Ok(()) } else { Err(self.wrong(what, expected, found)) }
    }

    pub(crate) fn wrong(&self, what: &str, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> Error {
        Error::corrupt(&format!("wrong {what} of a partial"), expected, found).with_byte(self.at as u64)
    }

    /// Checks that nothing is left.
    pub(crate) fn finish(self) -> Result<()> {
        if self.at == self.bytes.len() {
            return Ok(());
        }
        let what = format!("{} bytes are left over at the end of a partial", self.bytes.len() - self.at);
        Err(Error::new(ErrorKind::Corrupt, what).with_byte(self.at as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let mut writer = Writer::new("x/1");
        writer.u64(2);
        writer.numbers(&[1.5, -2.0]);
        let bytes = writer.finish();
        let read = |bytes: &[u8]| -> Result<Vec<f64>> {
            let mut reader = Reader::new("x/1", bytes)?;
            let count = reader.u64("count")?;
            let values = reader.numbers(count, "values")?;
            reader.finish()?;
            Ok(values)
        };
        assert_eq!(read(&bytes).unwrap(), [1.5, -2.0]);
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]).unwrap_err().kind(), ErrorKind::Corrupt, "{end}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(read(&longer).unwrap_err().kind(), ErrorKind::Corrupt);
        let mut huge = bytes;
        huge[4..12].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(read(&huge).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
