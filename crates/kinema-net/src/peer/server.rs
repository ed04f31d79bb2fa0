//! The server: a thread that accepts connections, and a thread for each connection, bounded in number and memory.
//!
//! A client that has not yet proved the key is a stranger. There are few places for strangers; when another arrives,
//! the one waiting longest is dropped. A crowd of strangers therefore cannot keep out a client that proves the key at
//! once.

use std::collections::VecDeque;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use kinema_core::error::catch_panics;
use kinema_core::{Error, ErrorKind, Result};

use super::channel::Channel;
use super::client::{ABSENT, FAILED, GIVEN, MOST_WORDS, REQUEST};
use super::key::Key;
use super::places::Places;
use super::wire::Patience;
use super::{PIECE, Serve};

/// Limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections that have not yet proved the key.
    pub strangers: usize,
    /// Connections that have proved the key; when another arrives, the one idle longest is closed.
    pub clients: usize,
    /// For a proof, and for each message to be taken.
    pub step: Duration,
    /// Between two requests of a client.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { strangers: 32, clients: 32, step: Duration::from_secs(10), idle: Duration::from_secs(30) }
    }
}

/// Counts of a server's work.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ServerCounts {
    /// Connections that proved the key.
    pub clients: u64,
    /// Connections that did not, were sent away or were too slow.
    pub strangers: u64,
    /// Requests for what there is.
    pub requests: u64,
    /// Bytes of files and blocks that were sent.
    pub bytes: u64,
    /// Requests that were not, or not wholly, answered.
    pub failures: u64,
}

#[derive(Default)]
struct Counters {
    clients: AtomicU64,
    strangers: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
    failures: AtomicU64,
}

struct Shared {
    key: Key,
    limits: Limits,
    serve: Arc<dyn Serve>,
    stop: AtomicBool,
    counters: Counters,
    strangers: Mutex<VecDeque<(u64, TcpStream)>>,
    threads: AtomicUsize,
    places: Places,
}

/// A server that runs until it is stopped or dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    listener: i32,
    thread: Option<JoinHandle<()>>,
}

/// Bytes of the stack of a connection's thread: the thread keeps little on it.
const STACK: usize = 256 << 10;
/// How long the acceptor waits before it looks whether to stop.
const TICK_MS: libc::c_int = 50;

impl Server {
    /// Listens on an address; port 0 means any port.
    ///
    /// # Errors
    /// `Io` if the server cannot listen on the address.
    pub fn start(host: &str, port: u16, key: Key, serve: Arc<dyn Serve>, limits: Limits) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Io, format!("cannot listen on address {host}, port {port}: {error}"))
        };
        let listener = TcpListener::bind((host, port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let descriptor = listener.as_raw_fd();
        let shared = Arc::new(Shared {
            key,
            limits,
            serve,
            stop: AtomicBool::new(false),
            counters: Counters::default(),
            strangers: Mutex::default(),
            threads: AtomicUsize::new(0),
            places: Places::new(limits.clients),
        });
        let of_thread = Arc::clone(&shared);
        let thread = Builder::new().name("kinema-peers".into()).spawn(move || accept(&listener, &of_thread));
        Ok(Self { shared, address, listener: descriptor, thread: Some(thread.map_err(failed)?) })
    }

    /// Address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Counts of the work so far.
    pub fn counts(&self) -> ServerCounts {
        let Counters { clients, strangers, requests, bytes, failures } = &self.shared.counters;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServerCounts {
            clients: load(clients),
            strangers: load(strangers),
            requests: load(requests),
            bytes: load(bytes),
            failures: load(failures),
        }
    }

    /// Stops listening and sending; returns when the acceptor has ended. A second call does nothing.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // it catches panics, and has nothing to say
            let _ = thread.join();
        }
    }

    /// For a forked child, which has none of the threads: closes its descriptor of the listener, so that the port is
    /// free when the parent ends; waits for nothing.
    pub fn abandon(mut self) {
        // SAFETY: the descriptor is open, as the thread that would close it is not in this process, and nothing here uses it
        unsafe { libc::close(self.listener) };
        std::mem::forget(self.thread.take());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut number = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        let mut waiting = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one element, which lives while the call lasts
        if unsafe { libc::poll(&mut waiting, 1, TICK_MS) } <= 0 {
            continue;
        }
        match listener.accept() {
            Ok((stream, _)) => {
                number += 1;
                welcome(stream, number, shared);
            }
            // no descriptors are left, or the peer has gone: do not retry at full speed
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(_) => {}
        }
    }
}

/// Starts a thread for a connection; closes the connection if there are too many.
fn welcome(stream: TcpStream, number: u64, shared: &Arc<Shared>) {
    let limits = shared.limits;
    // dropped connections need a moment to end
    let most = 2 * limits.strangers + limits.clients;
    let Some(other) = (shared.threads.load(Ordering::Relaxed) < most).then(|| stream.try_clone().ok()).flatten() else {
        shared.counters.strangers.fetch_add(1, Ordering::Relaxed);
        return;
    };
    {
        let mut strangers = shared.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        if strangers.len() >= limits.strangers
            && let Some((_, oldest)) = strangers.pop_front()
        {
            // it may have gone by itself
            let _ = oldest.shutdown(Shutdown::Both);
        }
        strangers.push_back((number, other));
    }
    shared.threads.fetch_add(1, Ordering::Relaxed);
    let of_thread = Arc::clone(shared);
    let started = Builder::new().name("kinema-peer".into()).stack_size(STACK).spawn(move || {
        // what goes wrong with a peer ends its connection, and is counted
        let _ = catch_panics(|| {
            attend(stream, number, &of_thread);
            Ok(())
        });
        of_thread.threads.fetch_sub(1, Ordering::Relaxed);
    });
    if started.is_err() {
        shared.threads.fetch_sub(1, Ordering::Relaxed);
        shared.forget(number);
    }
}

fn attend(stream: TcpStream, number: u64, shared: &Shared) {
    let limits = shared.limits;
    let until = Some(std::time::Instant::now() + limits.step);
    let found = Channel::accept(stream, &shared.key, &Patience { step: limits.step, until, stop: &shared.stop });
    shared.forget(number);
    let Ok(Some(mut channel)) = found else {
        shared.counters.strangers.fetch_add(1, Ordering::Relaxed);
        return;
    };
    shared.counters.clients.fetch_add(1, Ordering::Relaxed);
    // an answer before the client's own patience ends
    if shared.places.enter(limits.step / 2) {
        let mut served = true;
        // a defect ends the connection, and its place is free
        let _ = catch_panics(|| serve(&mut channel, number, shared, &mut served));
        if served {
            shared.places.leave();
        }
    } else {
        let patience = Patience { step: limits.step, until: None, stop: &shared.stop };
        // the request is read first, that the answer be one to it
        let busy = [&[FAILED], &b"it serves as many clients as it may; try again"[..]].concat();
        let _ = channel.receive(REQUEST, &patience, "a request").map(|_| ());
        let _ = channel.send(&busy, &patience);
    }
}

/// Serves one request after another; `served` says whether the client has its place as one being served.
fn serve(channel: &mut Channel, number: u64, shared: &Shared, served: &mut bool) -> Result<()> {
    let patience = Patience { step: shared.limits.step, until: None, stop: &shared.stop };
    let idle = Patience { step: shared.limits.idle, ..patience };
    let mut request = channel.receive(REQUEST, &patience, "a request")?.bytes().to_vec();
    loop {
        answer(channel, shared, &request, &patience)?;
        let Some(connection) = channel.connection() else { return Ok(()) };
        shared.places.rest(number, connection);
        *served = false;
        let next = channel.receive(REQUEST, &idle, "a request").map(|next| next.bytes().to_vec());
        // without its place the connection is closed already
        *served = shared.places.wake(number);
        if !*served {
            return Ok(());
        }
        request = next?;
    }
}

/// Answers one request; after an error the client can ask no more.
fn answer(channel: &mut Channel, shared: &Shared, request: &[u8], patience: &Patience<'_>) -> Result<()> {
    let (Some(offset), Some(length), Some(name)) = (word(request, 0), word(request, 8), request.get(16..)) else {
        return Err(Error::new(ErrorKind::Corrupt, "a request is malformed"));
    };
    let opened = shared.serve.open(name).and_then(|found| found.map(|it| it.len().map(|size| (it, size))).transpose());
    let (source, size) = match opened {
        Ok(Some(found)) => found,
        Ok(None) => {
            shared.counters.failures.fetch_add(1, Ordering::Relaxed);
            return channel.send(&[ABSENT], patience);
        }
        Err(error) => {
            shared.counters.failures.fetch_add(1, Ordering::Relaxed);
            let words = error.to_string();
            let words = &words.as_bytes()[..words.len().min(MOST_WORDS)];
            return channel.send(&[&[FAILED], words].concat(), patience);
        }
    };
    let follow = size.saturating_sub(offset).min(length);
    shared.counters.requests.fetch_add(1, Ordering::Relaxed);
    channel.send(&[&[GIVEN][..], &size.to_le_bytes(), &follow.to_le_bytes()].concat(), patience)?;
    let mut at = offset;
    while at < offset + follow {
        let len = (offset + follow - at).min(PIECE as u64) as usize;
        let sent = channel.send_filled(len, patience, |from, place| source.read_exact_at(at + from as u64, place));
        sent.inspect_err(|_| _ = shared.counters.failures.fetch_add(1, Ordering::Relaxed))?;
        at += len as u64;
        shared.counters.bytes.fetch_add(len as u64, Ordering::Relaxed);
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

impl Shared {
    /// Removes a connection from the strangers.
    fn forget(&self, number: u64) {
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        strangers.retain(|(other, _)| *other != number);
    }
}
