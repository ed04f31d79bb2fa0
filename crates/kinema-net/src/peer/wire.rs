//! Bytes through a socket within a time limit: a peer that sends one byte a second does not hold a thread for long.

use std::io::{ErrorKind as IoKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kinema_core::{Error, ErrorKind, Result};

/// Longest time that a system call waits before the clock and the wish to stop are checked.
pub(super) const TICK: Duration = Duration::from_millis(50);

/// How long to wait: for each step, in all, and until somebody asks to stop.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// For a step: a connection, a proof, a message.
    pub step: Duration,
    /// Limit for all steps together; `None` for ever.
    pub until: Option<Instant>,
    /// Set to stop.
    pub stop: &'a AtomicBool,
}

impl Patience<'_> {
    /// When the step that begins now is to be over.
    pub(super) fn deadline(&self) -> Instant {
        let step = Instant::now() + self.step;
        self.until.map_or(step, |until| until.min(step))
    }

    /// An error once the deadline is over, or somebody asks to stop.
    pub(super) fn check(&self, deadline: Instant, what: &str) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "stopped by the caller"));
        }
        if Instant::now() >= deadline {
            return Err(Error::new(ErrorKind::Io, format!("the peer was too slow: {what} did not come in time")));
        }
        Ok(())
    }
}

/// Has calls on a socket return after a tick, and small messages go at once.
pub(super) fn prepare(stream: &TcpStream) -> Result<()> {
    let prepared = stream
        .set_nonblocking(false)
        .and_then(|()| stream.set_read_timeout(Some(TICK)))
        .and_then(|()| stream.set_write_timeout(Some(TICK)))
        .and_then(|()| stream.set_nodelay(true));
    prepared.map_err(|error| Error::io("cannot set up the connection", &error))
}

/// Fills the buffer.
pub(super) fn read(stream: &mut TcpStream, buffer: &mut [u8], patience: &Patience<'_>, what: &str) -> Result<()> {
    let (deadline, mut filled) = (patience.deadline(), 0);
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Err(Error::new(ErrorKind::Io, format!("the peer closed the connection before {what}"))),
            Ok(n) => filled += n,
            Err(error) if waits(error.kind()) => {}
            Err(error) => return Err(Error::io("cannot read from the peer", &error)),
        }
        if filled < buffer.len() {
            patience.check(deadline, what)?;
        }
    }
    Ok(())
}

/// Sends all bytes.
pub(super) fn write(stream: &mut TcpStream, bytes: &[u8], patience: &Patience<'_>) -> Result<()> {
    let (deadline, mut sent) = (patience.deadline(), 0);
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(0) => return Err(Error::new(ErrorKind::Io, "the peer closed the connection")),
            Ok(n) => sent += n,
            Err(error) if waits(error.kind()) => {}
            Err(error) => return Err(Error::io("cannot write to the peer", &error)),
        }
        if sent < bytes.len() {
            patience.check(deadline, "room for what is sent")?;
        }
    }
    Ok(())
}

fn waits(kind: IoKind) -> bool {
    matches!(kind, IoKind::WouldBlock | IoKind::TimedOut | IoKind::Interrupted)
}
