//! A number that processes of a machine share: eight bytes of a file, mapped by each of them.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

const BYTES: usize = size_of::<u64>();

/// A number in a file that is never cut. Forked children share it too.
#[derive(Debug)]
pub struct SharedNumber(NonNull<AtomicU64>);

// SAFETY: the mapping is shared memory that is reached as an atomic number only
unsafe impl Send for SharedNumber {}
// SAFETY: as above
unsafe impl Sync for SharedNumber {}

impl SharedNumber {
    /// Maps the number in a file, which is made if there is none; 0 in a new one.
    ///
    /// # Errors
    /// The operating system's error; a symbolic link is refused.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| Error::io("cannot map the file", &error).with_path(path);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)
            .map_err(failed)?;
        if file.metadata().map_err(failed)?.len() < BYTES as u64 {
            // of several processes that do this at once none changes what another has written
            file.set_len(BYTES as u64).map_err(failed)?;
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that is as long; no memory of this process is replaced
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            return Err(failed(std::io::Error::last_os_error()));
        }
        NonNull::new(address.cast()).map(Self).ok_or_else(|| failed(std::io::ErrorKind::OutOfMemory.into()))
    }

    fn number(&self) -> &AtomicU64 {
        // SAFETY: mapped for as long as `self` lives, aligned to a page, and reached as an atomic number by all processes
        unsafe { self.0.as_ref() }
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.number().load(Ordering::Acquire)
    }

    /// Replaces the number.
    pub fn set(&self, value: u64) {
        self.number().store(value, Ordering::Release);
    }

    /// Raises the number to `value` if it is less.
    pub fn raise(&self, value: u64) {
        self.number().fetch_max(value, Ordering::AcqRel);
    }

    /// Changes it by `change`, which may be called several times; returns what it has become.
    pub fn update(&self, mut change: impl FnMut(u64) -> u64) -> u64 {
        let mut before = self.get();
        loop {
            let after = change(before);
            match self.number().compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return after,
                Err(now) => before = now,
            }
        }
    }
}

impl Drop for SharedNumber {
    fn drop(&mut self) {
        // SAFETY: this object's own mapping, to which no reference is left
        unsafe { libc::munmap(self.0.as_ptr().cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_a_file_are_one_number() {
        let path = std::env::temp_dir().join(format!("kinema-number-{}", std::process::id()));
        let (one, two) = (SharedNumber::open(&path).unwrap(), SharedNumber::open(&path).unwrap());
        assert_eq!(one.get(), 0);
        one.set(7);
        assert_eq!(two.get(), 7);
        two.raise(5);
        two.raise(9);
        assert_eq!(one.update(|before| before * 2), 18);
        drop(two);
        assert_eq!(SharedNumber::open(&path).unwrap().get(), 18);
        std::fs::remove_file(&path).unwrap();
        assert!(SharedNumber::open(Path::new("/nowhere/number")).is_err());
    }
}
