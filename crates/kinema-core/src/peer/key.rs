//! The user's key, and what is derived from it: proofs, keys of a session, codes of messages.

use std::fs::File;
use std::io::Read;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::error::{Error, ErrorKind, Result};

/// Bytes of the code of a message.
pub(super) const CODE: usize = 16;
/// Messages of no more bytes have a cryptographic code.
const LONGEST_PROVED: usize = 8 << 10;

/// 32 secret bytes.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// Of bytes.
    ///
    /// # Errors
    /// `InvalidArgument` for any other number of bytes than 32.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let wrong = |_| {
            let what = format!("a key has 32 bytes, found {}", bytes.len());
            Error::new(ErrorKind::InvalidArgument, what)
        };
        bytes.try_into().map(Self).map_err(wrong)
    }

    /// HMAC-SHA256 of the parts for a purpose; the parts are of fixed lengths.
    pub(super) fn derive(&self, purpose: &[u8], parts: &[&[u8]]) -> [u8; 32] {
        self.hmac(purpose, parts).finalize().into_bytes().into()
    }

    /// Whether `proof` is what `derive` gives, in a time that does not depend on where they differ.
    pub(super) fn holds(&self, purpose: &[u8], parts: &[&[u8]], proof: &[u8]) -> bool {
        self.hmac(purpose, parts).verify_slice(proof).is_ok()
    }

    /// The key of a session between two sides that gave these nonces.
    pub(super) fn session(&self, nonces: &[u8]) -> Self {
        Self(self.derive(b"session", &[nonces]))
    }

    /// Code of message `number` in one direction. Of short ones, as all requests and answers are, HMAC-SHA256; of bytes of
    /// files XXH3-128 with a secret seed that is used once, ten times as fast: it finds what was damaged or put in by
    /// somebody who does not know the key, and is no proven code against one who changes chosen bits on the way.
    pub(super) fn code(&self, direction: u8, number: u64, message: &[u8]) -> [u8; CODE] {
        let place = [&[direction][..], &number.to_le_bytes()].concat();
        if message.len() <= LONGEST_PROVED {
            let proof = self.derive(b"short message", &[&place, message]);
            return *proof.first_chunk().unwrap_or(&[0; CODE]);
        }
        let once = self.derive(b"message", &[&place]);
        let seed = once.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        xxh3_128_with_seed(message, seed).to_le_bytes()
    }

    fn hmac(&self, purpose: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut hmac = <Hmac<Sha256> as KeyInit>::new(&self.block());
        hmac.update(purpose);
        hmac.update(&[0]);
        parts.iter().for_each(|part| hmac.update(part));
        hmac
    }

    /// The key as a block of SHA-256, filled up with zeros as HMAC has it.
    fn block(&self) -> hmac::digest::Key<Hmac<Sha256>> {
        let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
        block[..32].copy_from_slice(&self.0);
        block
    }
}

/// Whether two codes are equal, in a time that does not depend on where they differ.
pub(super) fn equal(a: &[u8; CODE], b: &[u8]) -> bool {
    b.len() == CODE && std::hint::black_box(a.iter().zip(b).fold(0, |found, (a, b)| found | (a ^ b))) == 0
}

/// 32 bytes that nobody can foresee.
pub(super) fn nonce() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| Error::io("cannot read random bytes", &error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_is_that_of_the_standard() {
        // RFC 4231, test case 2 has a key of 4 bytes; zeros behind it do not change HMAC
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(b"Jefe");
        let key = Key::new(&bytes).unwrap();
        let mut hmac = <Hmac<Sha256> as KeyInit>::new(&key.block());
        hmac.update(b"what do ya want for nothing?");
        let found = hmac.finalize().into_bytes();
        assert_eq!(found[..8], [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e]);
    }

    #[test]
    fn codes_differ_by_key_direction_number_and_message() {
        let key = Key::new(&[1; 32]).unwrap();
        let long = vec![5; LONGEST_PROVED + 1];
        let mut changed = long.clone();
        changed[7000] = 6;
        let code = key.code(0, 7, &long);
        assert!(equal(&code, &key.code(0, 7, &long)));
        let others =
            [key.code(0, 7, &changed), key.code(1, 7, &long), key.code(0, 8, &long), key.code(0, 7, &long[1..])];
        assert!(others.iter().all(|other| !equal(&code, other)));
        let code = key.code(0, 7, b"message");
        assert!(equal(&code, &key.code(0, 7, b"message")));
        let others = [
            Key::new(&[2; 32]).unwrap().code(0, 7, b"message"),
            key.code(1, 7, b"message"),
            key.code(0, 8, b"message"),
            key.code(0, 7, b"messagf"),
            key.code(0, 7, b"message\0"),
            key.session(&[0; 64]).code(0, 7, b"message"),
        ];
        assert!(others.iter().all(|other| !equal(&code, other)));
        assert!(!equal(&code, &code[..15]));
        assert!(key.holds(b"a", &[b"b"], &key.derive(b"a", &[b"b"])));
        assert!(!key.holds(b"a", &[b"b"], &key.derive(b"ab", &[b""])));
        assert!(Key::new(&[0; 31]).is_err());
    }
}
