//! The journal itself: its buffers, the state of its file, and its failures.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::buffer::{Buffer, GENERATION, hash_of, thread_id};
use super::lines::{Common, Lines, Text};
use super::output::Output;
use super::{ENABLED, fork, writer};
use crate::error::{Error, ErrorKind, Result};

/// Lines of Python's events that are gathered.
const TEXT_BYTES: usize = 64 << 10;

/// Options of a journal.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Folder of the files; it is created if it does not exist.
    pub folder: PathBuf,
    /// Whether files are compressed.
    pub compress: bool,
}

/// State of a journal.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Options of the journal; `None` if nothing is recorded.
    pub options: Option<Options>,
    /// Its file, once there is one.
    pub path: Option<PathBuf>,
    /// Events that are in the file.
    pub events: u64,
    /// Events that were recorded and could not be written.
    pub lost: u64,
    /// Why.
    pub failure: Option<String>,
}

/// All that the journal's lock guards.
#[derive(Default)]
pub(super) struct State {
    journal: Option<Journal>,
}

struct Journal {
    options: Options,
    generation: u64,
    common: Arc<Common>,
    /// Said of the process at the front of its file.
    labels: Vec<(String, String)>,
    output: Option<Output>,
    buffers: Vec<Arc<Buffer>>,
    /// Buffers whose threads have ended.
    free: Vec<Arc<Buffer>>,
    /// Names of files by their hashes.
    names: HashMap<u64, Vec<u8>>,
    defined: HashSet<u64>,
    /// Lines of Python, and how many.
    text: Vec<u8>,
    n_text: u64,
    /// Events that are not yet in the file.
    waiting: u64,
    status: Status,
}

static STATE: OnceLock<Mutex<State>> = OnceLock::new();
/// Number of the next event.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Reserves `n_events` numbers of events, and returns the first.
pub(super) fn next_ids(n_events: u64) -> u64 {
    NEXT_ID.fetch_add(n_events, Ordering::Relaxed)
}

pub(super) fn locked() -> MutexGuard<'static, State> {
    STATE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// A moment on both clocks: starts are counted from it, so that they do not jump when the system's clock is set.
fn base() -> (Instant, i64) {
    static BASE: OnceLock<(Instant, i64)> = OnceLock::new();
    *BASE.get_or_init(|| {
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), epoch.as_nanos() as i64)
    })
}

/// Nanoseconds from the base to a moment.
pub(super) fn nanoseconds_from_base(moment: Instant) -> i64 {
    let (base, _) = base();
    match moment.checked_duration_since(base) {
        Some(since) => since.as_nanos() as i64,
        None => -((base - moment).as_nanos() as i64),
    }
}

/// A moment as nanoseconds since the Unix epoch.
pub fn epoch_ns(moment: Instant) -> i64 {
    base().1 + nanoseconds_from_base(moment)
}

/// Begins to record into a folder. The file of this process is created with its first event.
///
/// # Errors
/// `InvalidArgument` if a trace is recorded already; errors of the system if the folder cannot be created or written.
pub fn start(options: &Options) -> Result<()> {
    let folder = &options.folder;
    let failed = |error: std::io::Error| Error::io("cannot record a trace in this folder", &error).with_path(folder);
    std::fs::create_dir_all(folder).map_err(failed)?;
    // runs may go to other folders later on
    let absolute = std::path::absolute(folder).map_err(failed)?;
    check_writeable(&absolute).map_err(failed)?;
    fork::register();
    let (_, base_ns) = base();
    let mut state = locked();
    if state.journal.is_some() {
        let what = "a trace is recorded already; there is one at a time";
        return Err(Error::new(ErrorKind::InvalidArgument, what).with_path(folder));
    }
    let options = Options { folder: absolute, ..options.clone() };
    let common = Common { pid: std::process::id(), host: hash_of(host().as_bytes()), base_ns };
    state.journal = Some(Journal::new(options, common));
    ENABLED.store(true, Ordering::Relaxed);
    Ok(())
}

/// Ends the journal: all that was recorded is in the file then.
pub fn stop() -> Status {
    ENABLED.store(false, Ordering::Relaxed);
    flush_buffers();
    writer::end_thread();
    let mut state = locked();
    let Some(mut journal) = state.journal.take() else { return Status::default() };
    GENERATION.fetch_add(1, Ordering::Release);
    journal.end();
    journal.status
}

/// Writes all that was recorded so far.
pub fn flush() {
    if !super::enabled() {
        return;
    }
    flush_buffers();
    if let Some(journal) = &mut locked().journal {
        journal.flush();
    }
}

/// State of the journal, including all events that are in the file by now.
pub fn status() -> Status {
    locked().journal.as_ref().map(|journal| journal.status.clone()).unwrap_or_default()
}

/// Labels the process, with its rank or its runner. A file that exists already does not get the label.
pub fn describe(label: &str, value: &str) {
    if let Some(journal) = &mut locked().journal {
        journal.labels.retain(|(known, _)| known != label);
        journal.labels.push((label.to_owned(), value.to_owned()));
    }
}

fn flush_buffers() {
    // not while the journal is locked: a thread that flushes its buffer waits for the journal
    let buffers = locked().journal.as_ref().map(|journal| journal.buffers.clone()).unwrap_or_default();
    buffers.iter().for_each(|buffer| buffer.flush());
    writer::drain();
}

/// A buffer for this thread; `None` if its journal has ended.
pub(super) fn begin_thread(generation: u64) -> Option<Arc<Buffer>> {
    let mut state = locked();
    let journal = state.journal.as_mut().filter(|journal| journal.generation == generation)?;
    if let Some(buffer) = journal.free.pop() {
        return Some(buffer);
    }
    let buffer = Arc::new(Buffer::new(generation, journal.common.clone()));
    journal.buffers.push(buffer.clone());
    Some(buffer)
}

/// Keeps the buffer of a thread that ends, with its events, for the next thread. Otherwise calls that start a thread
/// each, as small reads do, would write a few lines each.
pub(super) fn end_thread(generation: u64, buffer: &Arc<Buffer>) {
    let mut state = locked();
    if let Some(journal) = state.journal.as_mut().filter(|journal| journal.generation == generation) {
        journal.free.push(buffer.clone());
    }
}

/// Has the journal know the name of a file.
pub(super) fn name_file(hash: u64, name: &[u8]) {
    if let Some(journal) = &mut locked().journal {
        journal.names.entry(hash).or_insert_with(|| name.to_vec());
    }
}

/// Adds the lines of events of a thread.
pub(super) fn add_lines(generation: u64, lines: &Lines, n_events: u64) {
    let thread = thread_id();
    let mut state = locked();
    let Some(journal) = state.journal.as_mut().filter(|journal| journal.generation == generation) else { return };
    let mut definitions = Vec::new();
    lines.files.iter().for_each(|&file| journal.define(file, thread, &mut definitions));
    journal.write(thread, &definitions, 0);
    journal.write(thread, &lines.text, n_events);
}

/// Adds an event of Python.
pub(super) fn add_text(text: &Text<'_>) {
    use std::os::unix::ffi::OsStrExt;

    let mut state = locked();
    let Some(journal) = &mut state.journal else { return };
    let thread = thread_id();
    let name = text.file.map(|path| path.as_os_str().as_bytes());
    let file = name.map_or(0, hash_of);
    let mut lines = std::mem::take(&mut journal.text);
    if let Some(name) = name {
        journal.names.entry(file).or_insert_with(|| name.to_vec());
        journal.define(file, thread, &mut lines);
    }
    journal.common.push_text(&mut lines, next_ids(1), thread, text, file);
    journal.n_text += 1;
    if lines.len() >= TEXT_BYTES {
        let n_events = std::mem::take(&mut journal.n_text);
        journal.write(thread, &lines, n_events);
        lines.clear();
    }
    journal.text = lines;
}

impl State {
    /// For a forked child: a new journal, without the events of the parent.
    pub(super) fn begin_in_child(&mut self) {
        if let Some(parents) = self.journal.take() {
            GENERATION.fetch_add(1, Ordering::Release);
            let common = Common { pid: std::process::id(), ..*parents.common };
            if parents.status.failure.is_none() {
                self.journal = Some(Journal { labels: parents.labels, ..Journal::new(parents.options, common) });
            }
        }
    }
}

impl Journal {
    fn new(options: Options, common: Common) -> Self {
        let status = Status { options: Some(options.clone()), ..Status::default() };
        Self {
            options,
            generation: GENERATION.load(Ordering::Acquire),
            common: Arc::new(common),
            labels: Vec::new(),
            output: None,
            buffers: Vec::new(),
            free: Vec::new(),
            names: HashMap::new(),
            defined: HashSet::new(),
            text: Vec::new(),
            n_text: 0,
            waiting: 0,
            status,
        }
    }

    /// The line that says a file's name, before the first event of the file.
    fn define(&mut self, file: u64, thread: i32, lines: &mut Vec<u8>) {
        if file != 0 && self.defined.insert(file) {
            let name = self.names.get(&file).map_or(&b""[..], Vec::as_slice);
            self.common.push_name(lines, "FH", thread, name, file);
        }
    }

    /// Adds whole lines to the file. After an error nothing more is recorded.
    fn write(&mut self, thread: i32, lines: &[u8], n_events: u64) {
        if self.status.failure.is_some() {
            self.status.lost += n_events;
            return;
        }
        if lines.is_empty() {
            return;
        }
        let written = match &mut self.output {
            Some(output) => output.add(lines),
            None => self.create(thread).and_then(|output| self.output.insert(output).add(lines)),
        };
        self.waiting += n_events;
        self.count(written);
    }

    /// Writes what waits to be compressed.
    fn write_member(&mut self) {
        if let Some(output) = self.output.as_mut().filter(|_| self.status.failure.is_none()) {
            let written = output.flush();
            self.count(written);
        }
    }

    fn count(&mut self, written: std::io::Result<()>) {
        self.status.path = self.output.as_ref().map(|output| output.path.clone());
        if let Err(error) = written {
            ENABLED.store(false, Ordering::Relaxed);
            self.status.failure = Some(error.to_string());
            self.status.lost += std::mem::take(&mut self.waiting);
        } else if self.output.as_ref().is_none_or(|output| !output.waits()) {
            self.status.events += std::mem::take(&mut self.waiting);
        }
    }

    /// The file, with what stands at its front.
    fn create(&self, thread: i32) -> std::io::Result<Output> {
        let host = host();
        let plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-');
        let name: String = host.chars().map(|one| if plain(one) { one } else { '_' }).collect();
        let stem = format!("kinema-{name}-{}", self.common.pid);
        let mut output = Output::create(&self.options.folder, &stem, self.options.compress)?;
        let mut front = b"[\n".to_vec();
        self.common.push_name(&mut front, "HH", thread, host.as_bytes(), self.common.host);
        let mut said =
            vec![("command".to_owned(), command()), ("version".to_owned(), env!("CARGO_PKG_VERSION").into())];
        said.extend(self.labels.iter().cloned());
        if !self.labels.iter().any(|(label, _)| label == "rank") {
            said.extend(rank().map(|rank| ("rank".to_owned(), rank)));
        }
        self.common.push_process(&mut front, thread, &said);
        output.add(&front)?;
        Ok(output)
    }

    /// Writes the lines of Python, and what waits to be compressed.
    fn flush(&mut self) {
        let (text, n_text) = (std::mem::take(&mut self.text), std::mem::take(&mut self.n_text));
        self.write(thread_id(), &text, n_text);
        self.write_member();
    }

    fn end(&mut self) {
        self.flush();
        if self.output.is_some() {
            self.write(thread_id(), b"]\n", 0);
            self.write_member();
        }
    }
}

fn host() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer has the length that is said, and lives across the call
    let status = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    if status == 0 && len > 0 { String::from_utf8_lossy(&name[..len]).into_owned() } else { "localhost".to_owned() }
}

/// The command line of this process.
fn command() -> String {
    let line = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    line.collect::<Vec<_>>().join(" ")
}

/// The MPI rank of this process, as launchers say it.
fn rank() -> Option<String> {
    ["PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"].iter().find_map(|name| std::env::var(name).ok())
}

fn check_writeable(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::ffi::OsStrExt;

    let path = std::ffi::CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: the path is a string that ends with 0 and lives across the call
    match unsafe { libc::access(path.as_ptr(), libc::W_OK | libc::X_OK) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
