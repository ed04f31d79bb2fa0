//! Writing of blocks: bytes are written to a new file, read again and compared, while the next ones are fetched.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kinema_core::error::catch_panics;
use kinema_core::source::locked;
use kinema_core::trace::activity::{PREAD64, PWRITE64};
use kinema_core::trace::system_call;
use xxhash_rust::xxh3::xxh3_64;

use super::block::PIECE;
use super::forks;
use super::locks::Lock;

/// A thread that has nothing to write for so long ends.
const IDLE: Duration = Duration::from_secs(1);

/// A new file.
pub(super) struct NewFile {
    /// Shows other processes that this file is being written.
    pub lock: Lock,
    pub path: PathBuf,
}

impl NewFile {
    pub(super) fn file(&self) -> &File {
        self.lock.file()
    }

    /// Writes all of the bytes, or fails.
    pub(super) fn write(&self, mut bytes: &[u8], mut at: u64) -> std::io::Result<()> {
        while !bytes.is_empty() {
            let asked = (at, bytes.len() as u64);
            let call = || self.file().write_at(bytes, at).map(|written| written as u64);
            match system_call(&PWRITE64, &self.path, asked, call) {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(written) => (bytes, at) = (&bytes[written as usize..], at + written),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes whole pieces of a block (the last piece of the block may be shorter) and reads them again. Returns their
    /// checksums, or an error if the bytes in the file differ from those given.
    pub(super) fn write_pieces(&self, bytes: &[u8], at: u64) -> std::io::Result<Vec<u64>> {
        let sums: Vec<u64> = bytes.chunks(PIECE).map(xxh3_64).collect();
        self.write(bytes, at)?;
        let mut again = vec![0; PIECE.min(bytes.len())];
        for (i, (piece, sum)) in bytes.chunks(PIECE).zip(&sums).enumerate() {
            let (place, again) = (at + (i * PIECE) as u64, &mut again[..piece.len()]);
            let call = || self.file().read_exact_at(again, place).map(|()| piece.len() as u64);
            system_call(&PREAD64, &self.path, (place, piece.len() as u64), call)?;
            if xxh3_64(again) != *sum {
                return Err(std::io::Error::other(format!("byte {place} of its file is not what was written")));
            }
        }
        Ok(sums)
    }
}

/// Bytes for a file.
pub(super) struct Job {
    pub file: Arc<NewFile>,
    pub at: u64,
    pub bytes: Vec<u8>,
}

/// Checksums of the pieces that were written, and the buffer.
pub(super) struct Written {
    pub sums: Vec<u64>,
    pub bytes: Vec<u8>,
}

impl Job {
    /// Writes them, in this thread.
    pub(super) fn write(self) -> std::io::Result<Written> {
        let sums = self.file.write_pieces(&self.bytes, self.at)?;
        Ok(Written { sums, bytes: self.bytes })
    }
}

/// The two ends of a thread.
struct Ends {
    jobs: Sender<Job>,
    written: Receiver<std::io::Result<Written>>,
}

impl Ends {
    fn start() -> std::io::Result<Self> {
        let ((jobs, its), (done, written)) = (channel::<Job>(), channel());
        let run = move || {
            loop {
                match its.recv_timeout(IDLE) {
                    Ok(job) => {
                        let outcome = catch_panics(|| Ok(job.write()));
                        let outcome = outcome.unwrap_or_else(|error| Err(std::io::Error::other(error.to_string())));
                        if done.send(outcome).is_err() {
                            return;
                        }
                    }
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        std::thread::Builder::new().name("kinema-cache-write".to_owned()).spawn(run)?;
        Ok(Self { jobs, written })
    }
}

/// A thread that writes while the calling thread reads.
pub(super) struct Writer {
    ends: Option<Ends>,
    under_way: bool,
    /// Identifies the process that has the thread.
    generation: u32,
}

impl Writer {
    /// Begins to write; returns the result of the job before, once that is done.
    pub(super) fn exchange(&mut self, job: Job) -> std::io::Result<Option<Written>> {
        let before = self.last()?;
        let unsent = match &self.ends {
            Some(ends) => ends.jobs.send(job).err(),
            None => Some(SendError(job)),
        };
        if let Some(SendError(job)) = unsent {
            // it has ended, as there was nothing to do
            let ends = Ends::start()?;
            ends.jobs.send(job).map_err(|_| died())?;
            self.ends = Some(ends);
        }
        self.under_way = true;
        Ok(before)
    }

    /// The job given last, once it is written; `None` if no job is left.
    pub(super) fn last(&mut self) -> std::io::Result<Option<Written>> {
        match &self.ends {
            Some(ends) if std::mem::take(&mut self.under_way) => ends.written.recv().map_err(|_| died())?.map(Some),
            _ => Ok(None),
        }
    }
}

fn died() -> std::io::Error {
    std::io::Error::other("the thread that writes it has died")
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.generation != forks::generation() {
            // a forked child: the thread is the parent's, and may have held a lock of the channel
            std::mem::forget(self.ends.take());
        }
    }
}

/// Writers that nobody uses now.
#[derive(Default)]
pub(super) struct Writers(Mutex<Vec<Writer>>);

impl Writers {
    pub(super) fn take(&self) -> Writer {
        let generation = forks::generation();
        loop {
            match locked(&self.0).pop() {
                Some(writer) if writer.generation != generation => {}
                Some(writer) => return writer,
                None => return Writer { ends: None, under_way: false, generation },
            }
        }
    }

    /// Takes back a writer whose work is done.
    pub(super) fn give(&self, writer: Writer) {
        locked(&self.0).push(writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_comes_back_in_sequence_and_a_failure_is_not_lost() {
        let folder = std::env::temp_dir().join(format!("kinema-writer-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let new = |name: &str, readable: bool| {
            let path = folder.join(name);
            let file = File::options().read(readable).write(true).create(true).truncate(true).open(&path).unwrap();
            Arc::new(NewFile { lock: Lock::acquire(file).unwrap().unwrap(), path })
        };
        let file = new("block", true);
        let job = |i: usize| Job { file: file.clone(), at: (i * PIECE) as u64, bytes: vec![i as u8; PIECE] };
        let writers = Writers::default();
        let mut writer = writers.take();
        let mut sums = Vec::new();
        for i in 0..5 {
            let before = writer.exchange(job(i)).unwrap();
            assert_eq!(before.is_some(), i > 0);
            sums.extend(before.into_iter().flat_map(|before| before.sums));
        }
        sums.extend(writer.last().unwrap().unwrap().sums);
        assert!(writer.last().unwrap().is_none());
        let bytes = std::fs::read(&file.path).unwrap();
        assert_eq!(sums, bytes.chunks(PIECE).map(xxh3_64).collect::<Vec<_>>());
        assert!((0..5).all(|i| bytes[i * PIECE..(i + 1) * PIECE].iter().all(|&byte| byte == i as u8)));
        writers.give(writer);
        // a thread that has ended meanwhile is started again
        std::thread::sleep(IDLE + Duration::from_millis(300));
        let mut writer = writers.take();
        assert!(writer.exchange(job(1)).unwrap().is_none());
        assert_eq!(writer.last().unwrap().unwrap().bytes, vec![1; PIECE]);
        // what cannot be read again was not stored
        let unreadable = Job { file: new("other", false), at: 0, bytes: vec![0; PIECE] };
        assert!(writer.exchange(unreadable).unwrap().is_none());
        assert!(writer.exchange(job(0)).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
