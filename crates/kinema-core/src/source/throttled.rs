//! A source of limited speed, for tests and benchmarks: what a shared file system gives a node, with local files.

use std::io::IoSliceMut;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::shared_number::SharedNumber;
use super::{Extent, FileStatus, OpenSource, Source};
use crate::error::{Error, ErrorKind, Result};

/// Bytes that would arrive within this time while nobody asks are available at once, ns: a system reads ahead while the
/// reader does other things.
const AHEAD: u64 = 100_000_000;

/// A limit in bytes a second, for all processes together that name the same file.
#[derive(Debug)]
pub struct Throttle {
    rate: u64,
    /// When all that was asked for is through, ns since 1970.
    free: SharedNumber,
}

impl Throttle {
    /// `rate` bytes a second for all who share the file `state`, which is made if needed.
    ///
    /// # Errors
    /// `InvalidArgument` for 0 bytes; errors of the file.
    pub fn new(rate: u64, state: &Path) -> Result<Self> {
        if rate == 0 {
            return Err(Error::new(ErrorKind::InvalidArgument, "a source of 0 bytes a second gives nothing"));
        }
        Ok(Self { rate, free: SharedNumber::open(state)? })
    }

    /// The time until `bytes` bytes would have passed, which nobody else uses. The caller sleeps for it.
    pub fn reserve(&self, bytes: u64) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let takes = (u128::from(bytes) * 1_000_000_000 / u128::from(self.rate)) as u64;
        let free = self.free.update(|free| free.max(now.saturating_sub(AHEAD)).saturating_add(takes));
        Duration::from_nanos(free.saturating_sub(now))
    }

    /// Returns when `bytes` bytes would have arrived.
    fn pass(&self, bytes: u64) {
        std::thread::sleep(self.reserve(bytes));
    }
}

/// Opens through another `OpenSource`, and passes bytes no faster than a [`Throttle`] allows.
#[derive(Clone)]
pub struct Throttled {
    inner: Arc<dyn OpenSource>,
    throttle: Arc<Throttle>,
}

impl Throttled {
    /// Around `inner`.
    pub fn new(inner: Arc<dyn OpenSource>, throttle: Arc<Throttle>) -> Self {
        Self { inner, throttle }
    }
}

impl OpenSource for Throttled {
    fn open(&self, path: &Path) -> Result<Arc<dyn Source>> {
        let inner = self.inner.open(path)?;
        Ok(Arc::new(ThrottledSource { inner, throttle: self.throttle.clone() }))
    }
}

struct ThrottledSource {
    inner: Arc<dyn Source>,
    throttle: Arc<Throttle>,
}

impl Source for ThrottledSource {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn status(&self) -> Result<Option<FileStatus>> {
        self.inner.status()
    }

    fn not_needed(&self, extent: Extent) {
        self.inner.not_needed(extent);
    }

    fn end_of_hole(&self, offset: u64) -> u64 {
        self.inner.end_of_hole(offset)
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.inner.read_exact_at(offset, buffer)?;
        self.throttle.pass(buffer.len() as u64);
        Ok(())
    }

    fn read_scattered_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> Result<()> {
        let bytes = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        self.inner.read_scattered_at(offset, buffers)?;
        self.throttle.pass(bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::source::Files;

    #[test]
    fn two_handles_together_are_no_faster_than_the_rate() {
        let folder = std::env::temp_dir().join(format!("kinema-throttled-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("data");
        std::fs::write(&path, vec![5; 1 << 20]).unwrap();
        let open = || {
            let throttle = Arc::new(Throttle::new(10 << 20, &folder.join("rate")).unwrap());
            Throttled::new(Arc::new(Files), throttle).open(&path).unwrap()
        };
        let (one, two) = (open(), open());
        let began = Instant::now();
        let mut bytes = vec![0; 1 << 20];
        for _ in 0..2 {
            one.read_exact_at(0, &mut bytes).unwrap();
            two.read_scattered_at(0, &mut [IoSliceMut::new(&mut bytes)]).unwrap();
        }
        // 4 MiB at 10 MiB a second; 1 MiB of it was read ahead; it can only take longer
        assert!(began.elapsed() >= Duration::from_millis(290));
        assert!(bytes.iter().all(|&byte| byte == 5) && one.len().unwrap() == 1 << 20);
        assert!(Throttle::new(0, &folder.join("rate")).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
