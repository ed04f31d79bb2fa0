//! A connection on which both sides have proved the key: messages of bounded length, sealed by the Noise protocol.
//!
//! ```text
//! client: "KINEMAP3", Noise message 1 (48 bytes)
//! server: "KINEMAP3", 1, Noise message 2 (48 bytes); 0 and zeros for a refusal
//! client: an empty message
//! then messages: a sealed length (uint32), and the bytes, sealed in segments of 65,519 bytes, the last one shorter
//! ```
//!
//! Message 1 can be repeated by whoever has overheard it. The first sealed message cannot: with it the client has proved the
//! key. The first eight bytes are the prologue of the handshake, so that nobody can change the version.

use std::net::{TcpStream, ToSocketAddrs};

use kinema_core::{Error, ErrorKind, Result};
use snow::{HandshakeState, TransportState};

use super::key::Key;
use super::wire::{Patience, prepare, read, write};

/// First bytes from both sides; the last byte is the version of the protocol.
const MAGIC: &[u8; 8] = b"KINEMAP3";
/// Length of the first message of peers of the version before, which they also wait for; no version has less.
const OLDER_HELLO: usize = 40;
/// A message of the handshake: an ephemeral key and a code.
const HANDSHAKE: usize = 32 + CODE;
/// Bytes of the code of each segment.
const CODE: usize = 16;
/// Bytes of a message that are sealed at once: a Noise message has at most 65,535.
const SEGMENT: usize = 65535 - CODE;
/// Bytes of the length of a message.
const LENGTH: usize = 4;

/// One side of a connection.
pub(super) struct Channel {
    stream: TcpStream,
    session: TransportState,
    /// The last message received, or a segment of a message being sent; the buffer is reused.
    message: Message,
    /// A message being sent, or a segment being received, as it goes through the connection.
    sealed: Vec<u8>,
}

impl Channel {
    /// Connects to a server; both sides have proved the key.
    /// Errors: `Io` if no server of this version answers in time; `PermissionDenied` if the keys differ.
    pub(super) fn connect(host: &str, port: u16, key: &Key, patience: &Patience<'_>) -> Result<Self> {
        let mut stream = connected(host, port, patience)?;
        let mut handshake = key.handshake(true, MAGIC)?;
        let hello = [&MAGIC[..], &said(&mut handshake)?].concat();
        write(&mut stream, &hello, patience)?;
        let mut magic = [0; MAGIC.len()];
        // a server of the version before says nothing, and closes the connection
        let unclear = |error: Error| match error.kind() {
            ErrorKind::Io => {
                Error::new(ErrorKind::Io, format!("{}; it may be of another version of Kinema", error.what()))
            }
            _ => error,
        };
        read(&mut stream, &mut magic, patience, "its first bytes").map_err(unclear)?;
        if magic != *MAGIC {
            return Err(other_version(magic));
        }
        let mut answer = [0; 1 + HANDSHAKE];
        read(&mut stream, &mut answer, patience, "its proof of the key")?;
        if answer[0] != 1 {
            let what = "the peer refuses this user's key; both sides need the same key file";
            return Err(Error::new(ErrorKind::PermissionDenied, what));
        }
        if handshake.read_message(&answer[1..], &mut []).is_err() {
            return Err(Error::new(ErrorKind::PermissionDenied, "the peer does not prove the user's key"));
        }
        let mut channel = Self::new(stream, handshake)?;
        channel.send(&[], patience)?;
        Ok(channel)
    }

    /// Accepts a client that proves the key; `None` if its key differs.
    /// Errors: `Io` if it sends nothing in time, or something unexpected; `Corrupt` if it only repeats overheard bytes.
    pub(super) fn accept(mut stream: TcpStream, key: &Key, patience: &Patience<'_>) -> Result<Option<Self>> {
        prepare(&stream)?;
        let mut hello = [0; MAGIC.len() + HANDSHAKE];
        let (first, rest) = hello.split_at_mut(OLDER_HELLO);
        read(&mut stream, first, patience, "its first bytes")?;
        let refusal = [&MAGIC[..], &[0; 1 + HANDSHAKE]].concat();
        match first.first_chunk::<8>() {
            Some(MAGIC) => {}
            Some(&magic) => {
                if magic.starts_with(&MAGIC[..MAGIC.len() - 1]) {
                    // it reads the version
                    write(&mut stream, &refusal, patience)?;
                }
                return Err(other_version(magic));
            }
            None => return Err(Error::new(ErrorKind::Internal, "a hello is too short")),
        }
        read(&mut stream, rest, patience, "its proof of the key")?;
        let mut handshake = key.handshake(false, MAGIC)?;
        if handshake.read_message(&hello[MAGIC.len()..], &mut []).is_err() {
            write(&mut stream, &refusal, patience)?;
            return Ok(None);
        }
        let answer = [&MAGIC[..], &[1], &said(&mut handshake)?].concat();
        write(&mut stream, &answer, patience)?;
        let mut channel = Self::new(stream, handshake)?;
        channel.receive(0, patience, "its proof of the key")?;
        Ok(Some(channel))
    }

    fn new(stream: TcpStream, handshake: HandshakeState) -> Result<Self> {
        let session = handshake.into_transport_mode().map_err(|error| defect(&error))?;
        Ok(Self { stream, session, message: Message(Vec::new()), sealed: Vec::new() })
    }

    /// The connection, for callers that may close it.
    pub(super) fn connection(&self) -> Option<TcpStream> {
        self.stream.try_clone().ok()
    }

    /// Sends a message.
    /// Errors: `Io` if the other side does not take it in time.
    pub(super) fn send(&mut self, message: &[u8], patience: &Patience<'_>) -> Result<()> {
        self.send_filled(message.len(), patience, |at, place| {
            place.copy_from_slice(&message[at..at + place.len()]);
            Ok(())
        })
    }

    /// Sends a message of `len` bytes. `fill` is called with an offset and a buffer, and fills the buffer with the
    /// message's bytes from that offset on.
    /// Errors of `fill` before anything is sent, after which the channel can send no more; as
    /// [`Channel::send`].
    pub(super) fn send_filled(
        &mut self,
        len: usize,
        patience: &Patience<'_>,
        mut fill: impl FnMut(usize, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let length = u32::try_from(len).map_err(|_| Error::new(ErrorKind::Internal, "a message is too long"))?;
        let Self { stream, session, message: Message(segment), sealed } = self;
        sealed.resize(LENGTH + CODE + sealed_len(len), 0);
        let mut end = session.write_message(&length.to_le_bytes(), sealed).map_err(|error| defect(&error))?;
        for at in (0..len).step_by(SEGMENT) {
            segment.resize(SEGMENT.min(len - at), 0);
            fill(at, segment)?;
            end += session.write_message(segment, &mut sealed[end..]).map_err(|error| defect(&error))?;
        }
        write(stream, &sealed[..end], patience)
    }

    /// Receives the next message, of at most `most` bytes.
    /// Errors: `Io` if it does not come in time; `Corrupt` if it is longer, or is not as it was sealed.
    pub(super) fn receive(&mut self, most: usize, patience: &Patience<'_>, what: &str) -> Result<&mut Message> {
        let changed = |_| Error::new(ErrorKind::Corrupt, "the code of a message of the peer is wrong; it was changed");
        let Self { stream, session, message: Message(bytes), sealed } = self;
        let (mut head, mut length) = ([0; LENGTH + CODE], [0; LENGTH]);
        read(stream, &mut head, patience, what)?;
        session.read_message(&head, &mut length).map_err(changed)?;
        let len = u32::from_le_bytes(length) as usize;
        if len > most {
            return Err(Error::corrupt("a message of the peer is too long", format!("at most {most} bytes"), len));
        }
        // one step for all segments; each is opened while it is in the processor's cache
        let patience = Patience { until: Some(patience.deadline()), ..*patience };
        sealed.resize(SEGMENT + CODE, 0);
        // the cipher works in place if there is room for the code of a segment as well
        bytes.resize(len + CODE, 0);
        let mut end = 0;
        while end < len {
            let segment = &mut sealed[..SEGMENT.min(len - end) + CODE];
            read(stream, segment, &patience, what)?;
            end += session.read_message(segment, &mut bytes[end..]).map_err(changed)?;
        }
        bytes.truncate(end);
        Ok(&mut self.message)
    }
}

/// Bytes of a message of `len` bytes with the codes of its segments.
fn sealed_len(len: usize) -> usize {
    len + len.div_ceil(SEGMENT) * CODE
}

/// A received message, in a buffer that may be kept if another buffer is given for it.
pub struct Message(pub(super) Vec<u8>);

impl Message {
    /// Bytes of the message.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The next message of a handshake, which carries nothing.
fn said(handshake: &mut HandshakeState) -> Result<[u8; HANDSHAKE]> {
    let mut message = [0; HANDSHAKE];
    handshake.write_message(&[], &mut message).map_err(|error| defect(&error))?;
    Ok(message)
}

fn defect(error: &snow::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("a message cannot be sealed: {error}"))
}

/// The error for a peer whose first bytes differ.
fn other_version(found: [u8; MAGIC.len()]) -> Error {
    let ours = char::from(MAGIC[MAGIC.len() - 1]);
    let what = match found.strip_prefix(&MAGIC[..MAGIC.len() - 1]) {
        Some(&[theirs]) => format!(
            "the peer is of another version of Kinema: it speaks protocol {}, this one protocol {ours}",
            char::from(theirs).escape_default()
        ),
        _ => "the peer is not a Kinema server or client".to_owned(),
    };
    Error::new(ErrorKind::Io, what)
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
    // any such failure is the network's: no file is missing
    Err(Error::new(ErrorKind::Io, failure.what()))
}
