//! The first bytes of what a file compressed by zstd holds.

use std::io::Read;

use crate::{Error, ErrorKind, Result};

/// Decodes at most `most` bytes of a zstd frame, given its first bytes; fewer if the given bytes end before.
///
/// # Errors
/// `Corrupt` for bytes that are not a zstd frame.
pub fn first_bytes(encoded: &[u8], most: usize) -> Result<Vec<u8>> {
    let wrong = |error| Error::new(ErrorKind::Corrupt, format!("the zstd frame is damaged: {error}"));
    let mut decoder = zstd::stream::read::Decoder::with_buffer(encoded).map_err(wrong)?.take(most as u64);
    let mut bytes = Vec::new();
    match decoder.read_to_end(&mut bytes) {
        // the rest of the frame was not given
        Err(error) if bytes.is_empty() => Err(wrong(error)),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_are_those_that_were_compressed() {
        let plain: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let encoded = zstd::bulk::compress(&plain, 3).unwrap();
        assert_eq!(first_bytes(&encoded, 2056).unwrap(), plain[..2056]);
        let cut = first_bytes(&encoded[..encoded.len() / 2], plain.len()).unwrap();
        assert!(!cut.is_empty() && plain.starts_with(&cut));
        assert_eq!(first_bytes(b"no frame", 10).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
