//! Bytes as what a peer says, to a server and to a client: before the key is proved, after it, and within sealed messages.
//!
//! The other side is written here once more, from the description in `peer/channel.rs`. Laws: no panic; a server serves on;
//! whoever has not proved the key hears nothing but nonces and refusals; a client gets no more than it asked for, no error
//! that blames Kinema, and an answer in time.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use aegis::aegis128x2::Aegis128X2;
use hmac::{Hmac, KeyInit, Mac};
use kinema_core::source::{Extent, MemorySource, Source};
use kinema_core::{ErrorKind, Result};
use kinema_net::peer::{Client, Key, Limits, NodeContent, Patience, PublishedFiles, Serve, Server};
use sha2::Sha256;

const KEY: [u8; 32] = [7; 32];
const MAGIC: &[u8; 8] = b"KINEMAP2";
const CODE: usize = 16;
/// For each step; no input needs it.
const STEP: Duration = Duration::from_millis(500);
/// How late an answer may be on a machine that does other things as well.
const LATE: Duration = Duration::from_secs(15);
/// What the server serves under the name "data".
const LENGTH: usize = 3000;
static NEVER: AtomicBool = AtomicBool::new(false);

/// Who has proved the key hears this and what a node without files answers.
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

fn derived(purpose: &[u8], nonces: &[u8]) -> [u8; 32] {
    let mut hmac = <Hmac<Sha256> as KeyInit>::new_from_slice(&KEY).expect("any length");
    hmac.update(purpose);
    hmac.update(&[0]);
    hmac.update(nonces);
    hmac.finalize().into_bytes().into()
}

/// One side of a connection that has said, or not said, what it has to.
struct Side {
    stream: TcpStream,
    /// Of messages that this side sends.
    direction: u8,
    nonces: Vec<u8>,
    sent: u64,
}

impl Side {
    fn new(stream: TcpStream, direction: u8) -> Self {
        stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, direction, nonces: Vec::new(), sent: 0 }
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

    /// A message, sealed as a peer with the key does it; `length` is what it says of its length.
    fn seal(&mut self, message: &[u8], length: u32) {
        let session = derived(b"session", &self.nonces);
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.sent.to_le_bytes());
        nonce[8] = self.direction;
        let mut bytes = message.to_vec();
        let head = length.to_le_bytes();
        let code = Aegis128X2::<CODE>::new(session.first_chunk().expect("32 bytes"), &nonce)
            .encrypt_in_place(&mut bytes, &head);
        self.sent += 1;
        self.say(&[&head[..], &bytes, &code].concat());
    }

    /// What the rest of an input says, act after act: a byte of what, one of how long, and as many bytes.
    fn act(&mut self, mut script: &[u8]) {
        while let [what, len, rest @ ..] = script {
            let (bytes, behind) = rest.split_at(rest.len().min(usize::from(*len)));
            match what % 5 {
                0 => self.say(bytes),
                // with more bytes behind it than the length says, or fewer
                1 => self.seal(bytes, u32::from(*what) << 8),
                2 => drop(self.hear(usize::from(*len))),
                3 => drop(self.stream.shutdown(if len % 2 == 0 { Shutdown::Write } else { Shutdown::Both })),
                _ => self.seal(bytes, bytes.len() as u32),
            }
            script = behind;
        }
    }
}

/// The first byte says who is asked, and how far the other side keeps to the protocol; the rest is what it does then.
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
    let mut side = Side::new(TcpStream::connect(("127.0.0.1", port)).expect("it listens"), 0);
    if how & 1 == 1 {
        let ours = [3; 32];
        side.say(&[&MAGIC[..], &ours].concat());
        let theirs = side.hear(MAGIC.len() + 32);
        side.nonces = [&ours[..], theirs.get(MAGIC.len()..).unwrap_or_default()].concat();
    }
    if how & 3 == 3 {
        side.say(&derived(b"client", &side.nonces));
        // on a machine that is busy the answer may be late
        let _ = side.hear(33);
    }
    side.act(script);
    let _ = side.stream.shutdown(Shutdown::Write);
    if how & 3 != 3 {
        let mut heard = Vec::new();
        let _ = side.stream.take(1000).read_to_end(&mut heard);
        assert!(heard.len() <= 40 + 33, "{} bytes for one who has not proved the key", heard.len());
    }
    if CALLS.fetch_add(1, Ordering::Relaxed).is_multiple_of(64) {
        honest(port);
    }
}

/// One who keeps to the protocol is served whatever others do.
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
            serve_as(&mut Side::new(stream, 1), how, script);
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
        let theirs = side.hear(MAGIC.len() + 32);
        let ours = [4; 32];
        side.say(&[&MAGIC[..], &ours].concat());
        side.nonces = [theirs.get(MAGIC.len()..).unwrap_or_default(), &ours].concat();
    }
    if how & 3 == 3 {
        let _ = side.hear(32);
        let proof = derived(b"server", &side.nonces);
        side.say(&[&[1][..], &proof].concat());
        // its request: 16 bytes, "data", and what is around a message
        let _ = side.hear(4 + 16 + 4 + CODE);
    }
    side.act(script);
}
