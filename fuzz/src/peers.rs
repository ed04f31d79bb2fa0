//! Bytes as the words of a peer, to a server and to a client: before the key is proved, after it, and within sealed
//! messages.
//!
//! The other side is implemented here again, from the description in `peer/channel.rs`. Laws: no panic; a server
//! continues to serve; a peer that has not proved the key receives only one message of the handshake, or a refusal; a
//! client gets no more than it requested, no error that blames Kinema, and an answer in time.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kinema_core::source::{Extent, MemorySource, Source};
use kinema_core::{ErrorKind, Result};
use kinema_net::peer::{Client, Key, Limits, NodeContent, Patience, PublishedFiles, Serve, Server};
use snow::{HandshakeState, TransportState};

const KEY: [u8; 32] = [7; 32];
const MAGIC: &[u8; 8] = b"KINEMAP3";
const CODE: usize = 16;
/// A message of the handshake.
const HANDSHAKE: usize = 32 + CODE;
/// Bytes of a server's answer to a hello.
const ANSWERED: usize = MAGIC.len() + 1 + HANDSHAKE;
/// Around the bytes of a message of one segment.
const AROUND: usize = 4 + 2 * CODE;
/// For each step; no input needs it.
const STEP: Duration = Duration::from_millis(500);
/// How late an answer may be on a machine that does other things as well.
const LATE: Duration = Duration::from_secs(15);
/// Length of the source that the server serves under the name "data".
const LENGTH: usize = 3000;
static NEVER: AtomicBool = AtomicBool::new(false);

/// Content for peers that have proved the key: "data", and the answers of a node without files.
struct Content(NodeContent);

impl Serve for Content {
    fn open(&self, name: &[u8]) -> Result<Option<Arc<dyn Source>>> {
        match name {
            b"data" => Ok(Some(Arc::new(MemorySource::new("data", vec![5; LENGTH])))),
            name => self.0.open(name),
        }
    }
}

fn patience() -> Patience<'static> {
    Patience { step: STEP, until: None, stop: &NEVER }
}

fn key() -> Key {
    Key::new(&KEY).expect("32 bytes")
}

fn handshake(is_client: bool) -> HandshakeState {
    let name = "Noise_NNpsk0_25519_AESGCM_BLAKE2s".parse().expect("a name of the protocol");
    let builder =
        snow::Builder::new(name).psk(0, &KEY).and_then(|it| it.prologue(MAGIC)).expect("one key, one prologue");
    let built = if is_client { builder.build_initiator() } else { builder.build_responder() };
    built.expect("all that it needs")
}

/// One side of a connection, which may or may not have said what the protocol asks for.
struct Side {
    stream: TcpStream,
    handshake: Option<HandshakeState>,
    /// Once both sides have proved the key.
    session: Option<TransportState>,
}

impl Side {
    fn new(stream: TcpStream, is_client: bool) -> Self {
        stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, handshake: Some(handshake(is_client)), session: None }
    }

    /// The other side may have gone.
    fn say(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    fn hear(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        match self.stream.read_exact(&mut bytes) {
            Ok(()) => bytes,
            Err(_) => Vec::new(),
        }
    }

    /// The next message of the handshake; empty if the other side has not sent its own.
    fn prove(&mut self, head: &[u8]) {
        let mut message = [0; HANDSHAKE];
        if let Some(handshake) = &mut self.handshake
            && handshake.write_message(&[], &mut message).is_ok()
        {
            self.say(&[head, &message].concat());
        }
    }

    /// Takes a message of the handshake.
    fn check(&mut self, message: &[u8]) {
        if let Some(handshake) = &mut self.handshake {
            // on a machine that is busy it may be late, and empty
            let _ = handshake.read_message(message, &mut []);
        }
    }

    fn begin_session(&mut self) {
        self.session = self.handshake.take().and_then(|it| it.into_transport_mode().ok());
    }

    /// Sends a message sealed as by a peer with the key; `length` is its stated length.
    fn seal(&mut self, message: &[u8], length: u32) {
        let mut bytes = vec![0; AROUND + message.len()];
        if let Some(session) = &mut self.session {
            let mut end = session.write_message(&length.to_le_bytes(), &mut bytes).expect("room");
            if !message.is_empty() {
                end += session.write_message(message, &mut bytes[end..]).expect("room");
            }
            bytes.truncate(end);
        }
        self.say(&bytes);
    }

    /// Performs the acts in the rest of an input, one after another: a byte for the kind, a byte for the length, and
    /// the bytes.
    fn act(&mut self, mut script: &[u8]) {
        while let [what, len, rest @ ..] = script {
            let (bytes, behind) = rest.split_at(rest.len().min(usize::from(*len)));
            match what % 5 {
                0 => self.say(bytes),
                // with more bytes after it than the length says, or fewer
                1 => self.seal(bytes, u32::from(*what) << 8),
                2 => drop(self.hear(usize::from(*len))),
                3 => drop(self.stream.shutdown(if len % 2 == 0 { Shutdown::Write } else { Shutdown::Both })),
                _ => self.seal(bytes, bytes.len() as u32),
            }
            script = behind;
        }
    }
}

/// The first byte chooses the side that is tested, and how far the other side keeps to the protocol; the rest is what
/// that side does then.
pub fn speak(data: &[u8]) {
    let Some((&how, script)) = data.split_first() else { return };
    if how & 1 == 0 { to_server(how >> 1, script) } else { to_client(how >> 1, script) }
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let limits = Limits { step: STEP, idle: STEP, ..Limits::default() };
        let content = Content(NodeContent::new(PublishedFiles::new("/nowhere/of/fuzz".into()), None));
        Server::start("127.0.0.1", 0, key(), Arc::new(content), limits).expect("a port of the loopback")
    })
}

fn to_server(how: u8, script: &[u8]) {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let port = server().address().port();
    let mut side = Side::new(TcpStream::connect(("127.0.0.1", port)).expect("it listens"), true);
    if how & 1 == 1 {
        side.prove(MAGIC);
    }
    if how & 3 == 3 {
        // on a machine that is busy the answer may be late
        let answer = side.hear(ANSWERED);
        side.check(answer.get(MAGIC.len() + 1..).unwrap_or_default());
        side.begin_session();
        side.seal(&[], 0);
    }
    side.act(script);
    let _ = side.stream.shutdown(Shutdown::Write);
    if how & 3 != 3 {
        let mut heard = Vec::new();
        let _ = side.stream.take(1000).read_to_end(&mut heard);
        assert!(heard.len() <= ANSWERED, "{} bytes for one who has not proved the key", heard.len());
    }
    if CALLS.fetch_add(1, Ordering::Relaxed).is_multiple_of(64) {
        honest(port);
    }
}

/// A client that keeps to the protocol is served whatever others do.
fn honest(port: u16) {
    let began = Instant::now();
    while began.elapsed() < LATE {
        let Ok(mut client) = Client::connect("127.0.0.1", port, &key(), &patience()) else { continue };
        let mut found = 0;
        let read = client.read(b"data", Extent { offset: 1, len: u64::MAX }, &patience(), |piece| {
            found += piece.bytes().len();
            Ok(())
        });
        if read.is_ok() {
            assert_eq!(found, LENGTH - 1);
            return;
        }
    }
    panic!("a client with the key is not served");
}

fn to_client(how: u8, script: &[u8]) {
    static LISTENER: OnceLock<TcpListener> = OnceLock::new();
    let listener = LISTENER.get_or_init(|| TcpListener::bind("127.0.0.1:0").expect("a port of the loopback"));
    let port = listener.local_addr().expect("it listens").port();
    let extent = Extent { offset: u64::from(how >> 2), len: 1000 };
    let began = Instant::now();
    let mut found = 0;
    let read = std::thread::scope(|scope| {
        scope.spawn(|| {
            let Ok((stream, _)) = listener.accept() else { return };
            serve_as(&mut Side::new(stream, false), how, script);
        });
        Client::connect("127.0.0.1", port, &key(), &patience()).and_then(|mut client| {
            client.read(b"data", extent, &patience(), |piece| {
                found += piece.bytes().len() as u64;
                Ok(())
            })
        })
    });
    assert!(began.elapsed() < LATE, "a client waited {:?}", began.elapsed());
    assert!(found <= extent.len, "{found} bytes");
    if let Err(error) = read {
        let of_the_peer = [ErrorKind::Io, ErrorKind::Corrupt, ErrorKind::NotFound, ErrorKind::PermissionDenied];
        assert!(of_the_peer.contains(&error.kind()), "{error}");
    } else {
        assert!(how & 3 == 3, "a server that has not proved the key was read");
    }
}

fn serve_as(side: &mut Side, how: u8, script: &[u8]) {
    if how & 1 == 1 {
        let hello = side.hear(MAGIC.len() + HANDSHAKE);
        side.check(hello.get(MAGIC.len()..).unwrap_or_default());
    }
    if how & 3 == 3 {
        side.prove(&[&MAGIC[..], &[1]].concat());
        side.begin_session();
        // its first message, and its request: 16 bytes, and "data"
        let _ = side.hear(4 + CODE + 16 + 4 + AROUND);
    }
    side.act(script);
}
