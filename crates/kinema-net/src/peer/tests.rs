//! Server and client together, over the loopback, with peers that lie, stall, flood or have another key.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use kinema_core::source::{Extent, MemorySource, Source};
use kinema_core::{Error, ErrorKind, Result};

use super::channel::Channel;
use super::{Client, Key, Limits, PIECE, Patience, Serve, Server};

static NEVER: AtomicBool = AtomicBool::new(false);

fn key(byte: u8) -> Key {
    Key::new(&[byte; 32]).unwrap()
}

fn patience(ms: u64) -> Patience<'static> {
    Patience { step: Duration::from_millis(ms), until: None, stop: &NEVER }
}

/// First bytes from each side: a version, and a message of the handshake.
const HELLO: usize = 8 + 48;
/// Bytes of a server's answer.
const ANSWERED: usize = 8 + 1 + 48;
/// Bytes of a message of one segment besides its content.
const AROUND: usize = 4 + 16 + 16;

/// A server's refusal.
fn refusal() -> Vec<u8> {
    [&b"KINEMAP3"[..], &[0; 49]].concat()
}

/// One source of some length, named "data"; "broken" fails when it is read.
struct Data(Vec<u8>);

struct Broken;

impl Source for Broken {
    fn path(&self) -> &Path {
        Path::new("broken")
    }
    fn len(&self) -> Result<u64> {
        Ok(100)
    }
    fn read_exact_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Err(Error::new(ErrorKind::Io, "the disk is broken"))
    }
}

impl Serve for Data {
    fn open(&self, name: &[u8]) -> Result<Option<Arc<dyn Source>>> {
        match name {
            b"data" => Ok(Some(Arc::new(MemorySource::new("data", self.0.clone())))),
            b"broken" => Ok(Some(Arc::new(Broken))),
            b"panic" => panic!("a defect"),
            b"refused" => Err(Error::new(ErrorKind::Io, "it may not be opened")),
            _ => Ok(None),
        }
    }
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 7 % 251) as u8).collect()
}

fn server(limits: Limits) -> Server {
    Server::start("127.0.0.1", 0, key(1), Arc::new(Data(content(3 * PIECE + 5))), limits).unwrap()
}

fn client(server: &Server) -> Client {
    Client::connect("127.0.0.1", server.address().port(), &key(1), &patience(5000)).unwrap()
}

fn read(client: &mut Client, name: &str, offset: u64, len: u64) -> Result<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    let size = client.read(name.as_bytes(), Extent { offset, len }, &patience(5000), |piece| {
        found.extend_from_slice(piece.bytes());
        Ok(())
    })?;
    Ok((size, found))
}

#[test]
fn ranges_come_as_they_are_and_one_connection_serves_several() {
    let server = server(Limits::default());
    let (mut client, whole) = (client(&server), content(3 * PIECE + 5));
    for (offset, len) in [(0, u64::MAX), (7, 0), (7, 1), (PIECE as u64 - 1, 2 * PIECE as u64), (5, 1 << 40)] {
        let (size, found) = read(&mut client, "data", offset, len).unwrap();
        let end = offset.saturating_add(len).min(size) as usize;
        assert!(found == whole[offset as usize..end], "{offset} {len}");
        assert_eq!(size, whole.len() as u64);
    }
    assert_eq!(read(&mut client, "data", 1 << 50, 10).unwrap().1, b"");
    assert_eq!(read(&mut client, "none", 0, 1).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(read(&mut client, "refused", 0, 1).unwrap_err().what().contains("it may not be opened"));
    // after these failures the connection continues; after a failure within the bytes it ends
    assert!(read(&mut client, "data", 0, 9).is_ok());
    assert_eq!(read(&mut client, "broken", 0, 9).unwrap_err().kind(), ErrorKind::Io);
    let mut other = self::client(&server);
    assert!(read(&mut other, "panic", 0, 9).is_err());
    assert!(read(&mut self::client(&server), "data", 0, 9).is_ok());
    let counts = server.counts();
    assert_eq!((counts.clients, counts.strangers, counts.requests), (3, 0, 9));
}

#[test]
fn another_key_gets_no_bytes_on_either_side() {
    let server = server(Limits::default());
    let port = server.address().port();
    let refused = Client::connect("127.0.0.1", port, &key(2), &patience(5000)).map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    assert!(refused.what().contains("refuses this user's key"), "{refused}");
    // a server that accepts everything it is given
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let liar = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.read_exact(&mut [0; HELLO]).unwrap();
        stream.write_all(&[&b"KINEMAP3"[..], &[1; 49]].concat()).unwrap();
    });
    let refused = Client::connect("127.0.0.1", port, &key(1), &patience(5000)).map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    liar.join().unwrap();
    while server.counts().strangers == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(server.counts().requests, 0);
}

#[test]
fn a_server_that_repeats_what_it_hears_proves_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mirror = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut hello = [0; HELLO];
        stream.read_exact(&mut hello).unwrap();
        stream.write_all(&[&hello[..8], &[1], &hello[8..]].concat()).unwrap();
    });
    let refused = Client::connect("127.0.0.1", port, &key(1), &patience(5000)).map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    assert!(refused.what().contains("does not prove"), "{refused}");
    mirror.join().unwrap();
}

#[test]
fn peers_of_other_versions_are_told_so() {
    let server = server(Limits::default());
    // a client of the version before, which waits for 40 bytes and compares the first eight
    for (hello, expected) in [(b"KINEMAP2", refusal()), (b"KINEMAP4", refusal()), (b"GET / HT", Vec::new())] {
        let mut stream = TcpStream::connect(("127.0.0.1", server.address().port())).unwrap();
        stream.write_all(&[&hello[..], &[3; 32]].concat()).unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, expected);
    }
    // servers of another version: one that names it, and one of the version before, which closes the connection
    for (answer, words) in [(&b"KINEMAP4"[..], "protocol 4, this one protocol 3"), (b"", "another version of Kinema")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let other = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            stream.read_exact(&mut [0; 40]).unwrap();
            stream.write_all(answer).unwrap();
        });
        let error = Client::connect("127.0.0.1", port, &key(1), &patience(5000)).map(|_| ()).unwrap_err();
        other.join().unwrap();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.what().contains(words), "{error}");
    }
}

/// A man in the middle, who passes on all messages and keeps them.
#[test]
fn what_was_overheard_cannot_be_said_again_or_be_read() {
    let server = server(Limits::default());
    let to = server.address().port();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let between = std::thread::spawn(move || {
        let mut client = listener.accept().unwrap().0;
        let mut server = TcpStream::connect(("127.0.0.1", to)).unwrap();
        let mut pass = |from_client: bool, len: usize| {
            let mut bytes = vec![0; len];
            let (from, into) = if from_client { (&mut client, &mut server) } else { (&mut server, &mut client) };
            from.read_exact(&mut bytes).unwrap();
            into.write_all(&bytes).unwrap();
            bytes
        };
        let hello = pass(true, HELLO);
        pass(false, ANSWERED);
        let proof = pass(true, 4 + 16);
        let request = pass(true, 16 + 4 + AROUND);
        // the answer, and 1000 bytes of the file
        let answer = [pass(false, 17 + AROUND), pass(false, 1000 + AROUND)].concat();
        // the same request once more on the same connection
        server.write_all(&request).unwrap();
        let (mut end, mut again) = (Vec::new(), Vec::new());
        let _ = server.read_to_end(&mut end);
        // all of it once more on a new one
        let mut server = TcpStream::connect(("127.0.0.1", to)).unwrap();
        server.write_all(&[&hello[..], &proof, &request].concat()).unwrap();
        let _ = server.read_to_end(&mut again);
        (answer, end, again)
    });
    let mut client = Client::connect("127.0.0.1", port, &key(1), &patience(5000)).unwrap();
    assert_eq!(read(&mut client, "data", 0, 1000).unwrap().1, content(1000));
    let (answer, end, again) = between.join().unwrap();
    assert!(!answer.windows(32).any(|some| content(1000).windows(32).any(|plain| plain == some)));
    assert_eq!(end, b"");
    // a message of the handshake that can be repeated, and nothing after it
    assert!(again.len() <= ANSWERED, "{again:?}");
    let counts = server.counts();
    assert_eq!((counts.clients, counts.requests), (1, 1));
}

/// All that a server sends to a client that proves the key for this version, and then says nothing more.
fn answer_to_first_message(server: &Server, version: &[u8]) -> Vec<u8> {
    let mut handshake = key(1).handshake(true, version).unwrap();
    let mut message = [0; 48];
    handshake.write_message(&[], &mut message).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", server.address().port())).unwrap();
    stream.write_all(&[&b"KINEMAP3"[..], &message].concat()).unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).unwrap();
    heard
}

#[test]
fn a_client_that_says_nothing_sealed_stays_a_stranger() {
    let server = server(Limits { step: Duration::from_millis(300), ..Limits::default() });
    let heard = answer_to_first_message(&server, b"KINEMAP3");
    assert_eq!(heard.len(), ANSWERED);
    while server.counts().strangers == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(server.counts().clients, 0);
}

#[test]
fn the_version_is_part_of_the_proof() {
    let server = server(Limits::default());
    let heard = answer_to_first_message(&server, b"KINEMAP2");
    assert_eq!(heard, refusal());
}

/// Both sides of a connection, with a man in the middle who changes the client's first message of `len` bytes.
fn channels(len: usize, change: impl FnOnce(&mut [u8]) + Send + 'static) -> (Channel, Channel) {
    let (of_server, of_middle) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (to_server, to_middle) = (of_server.local_addr().unwrap(), of_middle.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut client, mut server) = (of_middle.accept().unwrap().0, TcpStream::connect(to_server).unwrap());
        let mut bytes = [0; ANSWERED];
        client.read_exact(&mut bytes[..HELLO]).unwrap();
        server.write_all(&bytes[..HELLO]).unwrap();
        server.read_exact(&mut bytes).unwrap();
        client.write_all(&bytes).unwrap();
        let sealed = if len > 0 { 20 + len + len.div_ceil(65_519) * 16 } else { 0 };
        let mut first = vec![0; 20 + sealed];
        client.read_exact(&mut first).unwrap();
        change(&mut first[20..]);
        server.write_all(&first).unwrap();
        // the rest as it comes
        let _ = std::io::copy(&mut client, &mut server);
    });
    let server = std::thread::spawn(move || {
        let stream = of_server.accept().unwrap().0;
        Channel::accept(stream, &key(1), &patience(5000)).unwrap().unwrap()
    });
    let mut client = Channel::connect("127.0.0.1", to_middle.port(), &key(1), &patience(5000)).unwrap();
    if len > 0 {
        client.send(&content(len), &patience(5000)).unwrap();
    }
    (client, server.join().unwrap())
}

#[test]
fn messages_of_any_length_come_as_they_are() {
    let (mut client, mut server) = channels(0, |_| ());
    const SEGMENT: usize = 65_519;
    for len in [0, 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT, PIECE, 7] {
        std::thread::scope(|scope| {
            scope.spawn(|| client.send(&content(len), &patience(5000)).unwrap());
            let message = server.receive(len, &patience(5000), "a message").unwrap();
            assert!(message.bytes() == content(len), "{len}");
        });
    }
}

#[test]
fn a_changed_bit_of_length_bytes_or_codes_is_found() {
    for at in [0, 3, 4, 19, 20, 29, 30, 45] {
        let (_client, mut server) = channels(10, move |sealed| sealed[at] ^= 4);
        let error = server.receive(100, &patience(5000), "a message").map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{at}: {error}");
        assert!(error.what().contains("the code of a message"), "{at}: {error}");
    }
    // segments that have changed places
    let swapped = |sealed: &mut [u8]| {
        let (one, other) = sealed[20..].split_at_mut(65_535);
        one.swap_with_slice(other);
    };
    let (_client, mut server) = channels(2 * 65_519, swapped);
    assert_eq!(server.receive(PIECE, &patience(5000), "a message").map(|_| ()).unwrap_err().kind(), ErrorKind::Corrupt);
}

/// A connection whose server side is the function.
fn with_peer(act: impl FnOnce(Channel, TcpStream) + Send + 'static) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let stream = listener.accept().unwrap().0;
        let raw = stream.try_clone().unwrap();
        let mut channel = Channel::accept(stream, &key(1), &patience(5000)).unwrap().unwrap();
        channel.receive(2000, &patience(5000), "a request").map(|_| ()).unwrap();
        act(channel, raw);
    });
    Client::connect("127.0.0.1", port, &key(1), &patience(5000)).unwrap()
}

fn given(size: u64, follow: u64) -> Vec<u8> {
    [&[0][..], &size.to_le_bytes(), &follow.to_le_bytes()].concat()
}

#[test]
fn peers_that_lie_are_errors() {
    let corrupt = |act: fn(Channel, TcpStream), words: &str| {
        let error = read(&mut with_peer(act), "data", 0, 10).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.what().contains(words), "{error}");
    };
    corrupt(|mut it, _| it.send(&given(10, 11), &patience(5000)).unwrap(), "other bytes than were asked for");
    corrupt(|mut it, _| it.send(&[3; 17], &patience(5000)).unwrap(), "malformed");
    corrupt(|mut it, _| it.send(&[], &patience(5000)).unwrap(), "malformed");
    corrupt(|mut it, _| it.send(&[0; 16], &patience(5000)).unwrap(), "malformed");
    corrupt(
        |mut it, _| {
            it.send(&given(10, 10), &patience(5000)).unwrap();
            it.send(&[5; 9], &patience(5000)).unwrap();
        },
        "wrong length",
    );
    // bytes that were changed on the way: the code does not fit
    corrupt(
        |mut it, mut raw| {
            it.send(&given(10, 10), &patience(5000)).unwrap();
            raw.write_all(&[5; 10 + AROUND]).unwrap();
        },
        "the code of a message",
    );
    corrupt(|mut it, _| it.send(&[0; 600], &patience(5000)).unwrap(), "too long, expected at most");
}

#[test]
fn a_peer_that_stalls_is_given_up_in_time() {
    let began = Instant::now();
    let mut silent = with_peer(|channel, _| {
        std::thread::sleep(Duration::from_secs(2));
        drop(channel);
    });
    let waited = silent.read(b"data", Extent { offset: 0, len: 10 }, &patience(150), |_| Ok(())).unwrap_err();
    assert!(waited.what().contains("its answer did not come in time"), "{waited}");
    // one byte after the other, each in time
    let mut slow = with_peer(|_, mut raw| {
        while raw.write_all(&[0]).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let waited = slow.read(b"data", Extent { offset: 0, len: 10 }, &patience(150), |_| Ok(())).unwrap_err();
    assert!(waited.what().contains("did not come in time"), "{waited}");
    // nobody accepts
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    assert!(Client::connect("127.0.0.1", port, &key(1), &patience(150)).is_err());
    let stopped = AtomicBool::new(true);
    let stops = Patience { step: Duration::from_secs(50), until: None, stop: &stopped };
    let cancelled = Client::connect("127.0.0.1", port, &key(1), &stops).map(|_| ()).unwrap_err();
    assert_eq!(cancelled.kind(), ErrorKind::Cancelled);
    assert!(began.elapsed() < Duration::from_secs(40));
}

#[test]
fn strangers_keep_nobody_out_and_are_sent_away() {
    let limits = Limits { strangers: 4, clients: 2, step: Duration::from_millis(400), ..Limits::default() };
    let mut server = server(limits);
    let port = server.address().port();
    // they say nothing, or anything
    let mut crowd: Vec<_> = (0..40)
        .filter_map(|i| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
            if i % 2 == 1 {
                // it may have been sent away already
                let _ = stream.write_all(&[i; 100]);
            }
            Some(stream)
        })
        .collect();
    let mut found = None;
    for _ in 0..100 {
        found = Client::connect("127.0.0.1", port, &key(1), &patience(5000)).ok();
        if found.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(read(found.as_mut().unwrap(), "data", 0, 9).unwrap().1, content(9));
    for stream in &mut crowd {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // it is the end, or a reset
        let mut bytes = Vec::new();
        let ended = stream.read_to_end(&mut bytes);
        assert!(ended.is_ok() || ended.unwrap_err().kind() == std::io::ErrorKind::ConnectionReset);
        assert_eq!(bytes, b"");
    }
    server.stop();
    server.stop();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn a_client_that_asks_for_nothing_makes_room_and_one_that_is_served_does_not() {
    let server = server(Limits { clients: 2, step: Duration::from_secs(5), ..Limits::default() });
    let first: Vec<_> = (0..2).map(|_| client(&server)).collect();
    // both may send requests at any moment, once their threads have taken their places
    let refused = (0..100).find_map(|_| read(&mut client(&server), "data", 0, 9).err()).unwrap();
    assert!(refused.what().contains("as many clients as it may"), "{refused}");
    drop(first);
    let mut all: Vec<_> = (0..2).map(|_| client(&server)).collect();
    for client in &mut all {
        assert!(read(client, "data", 0, 9).is_ok());
    }
    for _ in 0..4 {
        assert_eq!(read(&mut client(&server), "data", 0, 9).unwrap().1, content(9));
    }
    // a connection that rested was closed for those
    assert!(all.iter_mut().any(|client| read(client, "data", 0, 9).is_err()));
    // more threads than places, each with connections of its own: all are served
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(read(&mut client(&server), "data", 0, 99).unwrap().1, content(99));
                }
            });
        }
    });
}

#[test]
fn a_request_of_a_client_with_the_key_is_bounded_too() {
    let server = server(Limits::default());
    for request in [&[][..], &[0; 15], &[0; 5000]] {
        let stream = (0..1).map(|_| Channel::connect("127.0.0.1", server.address().port(), &key(1), &patience(5000)));
        for mut channel in stream.map(Result::unwrap) {
            channel.send(request, &patience(5000)).unwrap();
            assert!(channel.receive(1 << 20, &patience(5000), "an answer").is_err());
        }
    }
    assert_eq!(server.counts().requests, 0);
}

#[test]
fn who_sends_byte_after_byte_is_sent_away_before_and_behind_the_proof() {
    let server = server(Limits { step: Duration::from_millis(300), ..Limits::default() });
    let address = ("127.0.0.1", server.address().port());
    let stranger = TcpStream::connect(address).unwrap();
    let client = Channel::connect(address.0, address.1, &key(1), &patience(5000)).unwrap();
    // parts of a hello, and of the length of a request
    for (mut stream, slow) in [(stranger, b"KINEMAP3"), (client.connection().unwrap(), &[20, 0, 0, 0, 0, 0, 0, 0])] {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let trickle = std::thread::spawn(move || {
            for byte in slow.iter().copied().chain([0; 400]) {
                if writer.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let mut heard = Vec::new();
        let ended = stream.read_to_end(&mut heard);
        assert!(ended.is_ok() || ended.unwrap_err().kind() == std::io::ErrorKind::ConnectionReset);
        assert_eq!(heard, b"", "neither has said anything whole");
        stream.shutdown(std::net::Shutdown::Both).unwrap_or_default();
        trickle.join().unwrap();
    }
    assert_eq!(server.counts().requests, 0);
}
