//! The user's key, and what is derived from it: proofs of it, and the sessions that seal messages.

use std::fs::File;
use std::io::Read;

use aegis::aegis128x2::Aegis128X2;
use hmac::{Hmac, KeyInit, Mac};
use kinema_core::{Error, ErrorKind, Result};
use sha2::Sha256;

/// Bytes of the code of a message.
pub(super) const CODE: usize = 16;

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

    /// The session between two sides that gave these nonces.
    pub(super) fn session(&self, nonces: &[u8]) -> Session {
        let key = self.derive(b"session", &[nonces]);
        Session(*key.first_chunk().unwrap_or(&[0; 16]))
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

/// Seals the messages of one connection: they are encrypted, and whoever does not know the key can change, add, repeat or
/// reorder none of them unseen.
///
/// Source: AEGIS-128X2, draft-irtf-cfrg-aegis-aead; the key is of this connection alone, the nonce of one message.
pub(super) struct Session([u8; 16]);

impl Session {
    fn cipher(&self, direction: u8, number: u64) -> Aegis128X2<CODE> {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        nonce[8] = direction;
        Aegis128X2::new(&self.0, &nonce)
    }

    /// Encrypts message `number` of a direction, and returns its code.
    pub(super) fn seal(&self, direction: u8, number: u64, length: &[u8], message: &mut [u8]) -> [u8; CODE] {
        self.cipher(direction, number).encrypt_in_place(message, length)
    }

    /// Decrypts it; `false`, and no bytes, where it is not as it was sealed.
    pub(super) fn open(&self, direction: u8, number: u64, length: &[u8], message: &mut [u8], code: &[u8]) -> bool {
        let Ok(code) = code.try_into() else { return false };
        self.cipher(direction, number).decrypt_in_place(message, code, length).is_ok()
    }
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
    fn what_is_sealed_is_opened_as_it_was_and_no_other_way() {
        let key = Key::new(&[1; 32]).unwrap();
        let session = key.session(&[0; 64]);
        for len in [0_usize, 1, 17, 100_000] {
            let whole: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let mut sealed = whole.clone();
            let code = session.seal(0, 7, b"long", &mut sealed);
            assert!(len < 17 || whole != sealed);
            let opened = |it: &Session, direction, number, length: &[u8], bytes: &[u8], code: &[u8]| {
                let mut bytes = bytes.to_vec();
                it.open(direction, number, length, &mut bytes, code).then_some(bytes)
            };
            assert_eq!(opened(&session, 0, 7, b"long", &sealed, &code), Some(whole));
            assert_eq!(opened(&session, 1, 7, b"long", &sealed, &code), None);
            assert_eq!(opened(&session, 0, 8, b"long", &sealed, &code), None);
            assert_eq!(opened(&session, 0, 7, b"lonh", &sealed, &code), None);
            assert_eq!(opened(&session, 0, 7, b"long", &sealed, &code[..15]), None);
            assert_eq!(opened(&key.session(&[1; 64]), 0, 7, b"long", &sealed, &code), None);
            let another = Key::new(&[2; 32]).unwrap().session(&[0; 64]);
            assert_eq!(opened(&another, 0, 7, b"long", &sealed, &code), None);
            // each bit of the code, and bits of the message
            for bit in 0..8 * CODE {
                let mut changed = code;
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(opened(&session, 0, 7, b"long", &sealed, &changed), None);
            }
            for place in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|place| *place < len) {
                let mut changed = sealed.clone();
                changed[place] ^= 0x10;
                assert_eq!(opened(&session, 0, 7, b"long", &changed, &code), None);
            }
        }
    }

    #[test]
    fn the_cipher_is_that_of_the_draft() {
        // test vector 1 of AEGIS-128X2 with a tag of 128 bits: no message, no associated data
        let bytes: [u8; 16] = std::array::from_fn(|i| i as u8);
        let nonce: [u8; 16] = std::array::from_fn(|i| 0x10 + i as u8);
        let tag = Aegis128X2::<16>::new(&bytes, &nonce).encrypt_in_place(&mut [], &[]);
        assert_eq!(format!("{:032x}", u128::from_be_bytes(tag)), "63117dc57756e402819a82e13eca8379");
    }

    #[test]
    fn a_proof_for_one_purpose_is_none_for_another() {
        let key = Key::new(&[1; 32]).unwrap();
        assert!(key.holds(b"a", &[b"b"], &key.derive(b"a", &[b"b"])));
        assert!(!key.holds(b"a", &[b"b"], &key.derive(b"ab", &[b""])));
        assert!(Key::new(&[0; 31]).is_err());
    }
}
