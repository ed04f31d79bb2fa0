//! A connection on which both sides have proved the key: numbered messages, sealed, of bounded length.
//!
//! ```text
//! client: "KINEMAP2", 32 random bytes          server: "KINEMAP2", 32 random bytes
//! client: HMAC(key, "client", both nonces)     server: 1, HMAC(key, "server", both nonces); 0 and zeros for a refusal
//! then messages: length (uint32), sealed bytes, code (16 bytes); the session's key is HMAC(key, "session", both nonces)
//! ```

use std::net::{TcpStream, ToSocketAddrs};

use kinema_core::{Error, ErrorKind, Result};

use super::key::{CODE, Key, Session, nonce};
use super::wire::{Patience, prepare, read, write};

const MAGIC: &[u8; 8] = b"KINEMAP2";
const NONCE: usize = 32;
/// Bytes before those of a message.
const LENGTH: usize = 4;

/// One side of a connection.
pub(super) struct Channel {
    stream: TcpStream,
    session: Session,
    /// Of messages that this side sends: 0 of the client, 1 of the server.
    direction: u8,
    sent: u64,
    received: u64,
    /// A message with its length and code, used again.
    message: Message,
}

impl Channel {
    /// A connection to a server, which has proved the key.
    ///
    /// # Errors
    /// `Io` where there is no answer in time, or none of a server of this kind; `PermissionDenied` where the keys differ.
    pub(super) fn connect(host: &str, port: u16, key: &Key, patience: &Patience<'_>) -> Result<Self> {
        let mut stream = connected(host, port, patience)?;
        let ours = nonce()?;
        write(&mut stream, &[&MAGIC[..], &ours].concat(), patience)?;
        let theirs = hello(&mut stream, patience)?;
        let nonces = [ours, theirs].concat();
        write(&mut stream, &key.derive(b"client", &[&nonces]), patience)?;
        let mut answer = [0; 1 + NONCE];
        read(&mut stream, &mut answer, patience, "its proof of the key")?;
        if answer[0] != 1 {
            let what = "the peer refuses this user's key; both sides need the same key file";
            return Err(Error::new(ErrorKind::PermissionDenied, what));
        }
        if !key.holds(b"server", &[&nonces], &answer[1..]) {
            return Err(Error::new(ErrorKind::PermissionDenied, "the peer does not prove the user's key"));
        }
        Ok(Self::new(stream, key.session(&nonces), 0))
    }

    /// A connection from a client, which has proved the key; `None` where it has another one.
    ///
    /// # Errors
    /// `Io` where it says nothing in time, or something else.
    pub(super) fn accept(mut stream: TcpStream, key: &Key, patience: &Patience<'_>) -> Result<Option<Self>> {
        prepare(&stream)?;
        let theirs = hello(&mut stream, patience)?;
        let ours = nonce()?;
        write(&mut stream, &[&MAGIC[..], &ours].concat(), patience)?;
        let nonces = [theirs, ours].concat();
        let mut proof = [0; NONCE];
        read(&mut stream, &mut proof, patience, "its proof of the key")?;
        if !key.holds(b"client", &[&nonces], &proof) {
            write(&mut stream, &[0; 1 + NONCE], patience)?;
            return Ok(None);
        }
        let answer = [&[1][..], &key.derive(b"server", &[&nonces])].concat();
        write(&mut stream, &answer, patience)?;
        Ok(Some(Self::new(stream, key.session(&nonces), 1)))
    }

    fn new(stream: TcpStream, session: Session, direction: u8) -> Self {
        Self { stream, session, direction, sent: 0, received: 0, message: Message(Vec::new()) }
    }

    /// The connection, for whoever may close it.
    pub(super) fn connection(&self) -> Option<TcpStream> {
        self.stream.try_clone().ok()
    }

    /// Sends a message.
    ///
    /// # Errors
    /// `Io` where the other side does not take it in time.
    pub(super) fn send(&mut self, message: &[u8], patience: &Patience<'_>) -> Result<()> {
        self.send_filled(message.len(), patience, |place| {
            place.copy_from_slice(message);
            Ok(())
        })
    }

    /// Sends a message of `len` bytes that `fill` writes.
    ///
    /// # Errors
    /// Those of `fill`, before anything is sent; as [`Channel::send`].
    pub(super) fn send_filled(
        &mut self,
        len: usize,
        patience: &Patience<'_>,
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let length = u32::try_from(len).map_err(|_| Error::new(ErrorKind::Internal, "a message is too long"))?;
        let buffer = &mut self.message.0;
        buffer.resize(LENGTH + len + CODE, 0);
        buffer[..LENGTH].copy_from_slice(&length.to_le_bytes());
        fill(&mut buffer[LENGTH..LENGTH + len])?;
        let (head, rest) = buffer.split_at_mut(LENGTH);
        let (bytes, code) = rest.split_at_mut(len);
        code.copy_from_slice(&self.session.seal(self.direction, self.sent, head, bytes));
        self.sent += 1;
        write(&mut self.stream, buffer, patience)
    }

    /// The next message, of at most `most` bytes.
    ///
    /// # Errors
    /// `Io` where it does not come in time; `Corrupt` where its length or its code is wrong.
    pub(super) fn receive(&mut self, most: usize, patience: &Patience<'_>, what: &str) -> Result<&mut Message> {
        let mut length = [0; LENGTH];
        read(&mut self.stream, &mut length, patience, what)?;
        let len = u32::from_le_bytes(length) as usize;
        if len > most {
            return Err(Error::corrupt("a message of the peer is too long", format!("at most {most} bytes"), len));
        }
        let buffer = &mut self.message.0;
        buffer.resize(LENGTH + len + CODE, 0);
        buffer[..LENGTH].copy_from_slice(&length);
        read(&mut self.stream, &mut buffer[LENGTH..], patience, what)?;
        let (bytes, code) = buffer[LENGTH..].split_at_mut(len);
        if !self.session.open(1 - self.direction, self.received, &length, bytes, code) {
            return Err(Error::new(ErrorKind::Corrupt, "the code of a message of the peer is wrong; it was changed"));
        }
        self.received += 1;
        Ok(&mut self.message)
    }
}

/// A message as it was received, in a buffer that may be kept if another one is given for it.
pub struct Message(pub(super) Vec<u8>);

impl Message {
    /// What it says.
    pub fn bytes(&self) -> &[u8] {
        self.0.get(LENGTH..self.0.len().saturating_sub(CODE)).unwrap_or_default()
    }
}

/// The nonce of the other side.
fn hello(stream: &mut TcpStream, patience: &Patience<'_>) -> Result<[u8; NONCE]> {
    let mut bytes = [0; MAGIC.len() + NONCE];
    read(stream, &mut bytes, patience, "its first bytes")?;
    let (magic, nonce) = bytes.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(Error::new(ErrorKind::Io, "the peer is no server of Kinema, or of another version"));
    }
    Ok(nonce.try_into().unwrap_or_default())
}

fn connected(host: &str, port: u16, patience: &Patience<'_>) -> Result<TcpStream> {
    let addresses = (host, port).to_socket_addrs().map_err(|error| Error::io("cannot find the peer", &error))?;
    let mut failure = Error::new(ErrorKind::Io, "the peer has no address");
    for address in addresses {
        let deadline = patience.deadline();
        patience.check(deadline, "a connection")?;
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        match TcpStream::connect_timeout(&address, left.max(std::time::Duration::from_millis(1))) {
            Ok(stream) => {
                prepare(&stream)?;
                return Ok(stream);
            }
            Err(error) => failure = Error::io("cannot connect to the peer", &error),
        }
    }
    // whatever it is, it is the network's: no file is missing
    Err(Error::new(ErrorKind::Io, failure.what()))
}
