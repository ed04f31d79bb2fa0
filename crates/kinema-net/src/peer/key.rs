//! The user's key, and the handshake by which two sides prove it to each other.

use kinema_core::{Error, ErrorKind, Result};
use snow::{Builder, HandshakeState};

/// `NNpsk0`: only key pairs of this connection, and the user's key before the first message.
const NOISE: &str = "Noise_NNpsk0_25519_AESGCM_BLAKE2s";

/// 32 secret bytes.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// Makes a key from its bytes.
    ///
    /// # Errors
    /// `InvalidArgument` unless there are 32 bytes.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let wrong = |_| {
            let what = format!("a key has 32 bytes, found {}", bytes.len());
            Error::new(ErrorKind::InvalidArgument, what)
        };
        bytes.try_into().map(Self).map_err(wrong)
    }

    /// One side of a handshake; both sides need the same prologue.
    pub(super) fn handshake(&self, is_client: bool, prologue: &[u8]) -> Result<HandshakeState> {
        let defect = |error| Error::new(ErrorKind::Internal, format!("no handshake can be made: {error}"));
        let builder = NOISE.parse().map(Builder::new).and_then(|it| it.psk(0, &self.0)?.prologue(prologue));
        let built = builder.and_then(|it| if is_client { it.build_initiator() } else { it.build_responder() });
        built.map_err(defect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_32_bytes() {
        assert!(Key::new(&[0; 32]).is_ok());
        for wrong in [0, 31, 33] {
            assert!(Key::new(&vec![0; wrong]).is_err());
        }
    }
}
