//! Orders in which the node will read: when each block is needed, and the position of the reading.

use std::collections::HashMap;
use std::fs::{DirBuilder, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use kinema_core::source::{Extent, SharedNumber, locked};
use kinema_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::Xxh3;

use super::block::described;
use super::key::{BlockKey, FileKey};
use super::space::Stored;
use super::{Shared, locks, named};

/// A block of a file that is read next after the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// Number of the file in the order.
    pub file: u32,
    /// Number of the block.
    pub number: u32,
    /// The first read that needs it.
    pub read: u32,
}

/// Reads in their order, as blocks; a block that several consecutive reads need occurs once.
pub(super) struct Order {
    pub files: Vec<PathBuf>,
    pub steps: Vec<Step>,
    /// For each block of a file, the steps at which it is needed, ascending; computed on request.
    uses: OnceLock<HashMap<(u32, u32), Vec<u32>>>,
    /// Reads that are done, known to all processes that read in this order.
    pub position: SharedNumber,
    /// Locked by all processes that read in this order; free when none is left.
    _members: File,
    pub leader: PathBuf,
}

/// Files and blocks of reads.
fn steps(reads: &[(PathBuf, Extent)], block: u64) -> Result<(Vec<PathBuf>, Vec<Step>)> {
    let too_many = |_| Error::new(ErrorKind::InvalidArgument, "too many reads in one order");
    let mut numbers: HashMap<&Path, u32> = HashMap::new();
    let (mut files, mut steps) = (Vec::new(), Vec::<Step>::new());
    for (i, (path, extent)) in reads.iter().enumerate() {
        let read = u32::try_from(i).map_err(too_many)?;
        let next = files.len() as u32;
        let file = *numbers.entry(path).or_insert_with(|| {
            files.push(named(path));
            next
        });
        if extent.len == 0 {
            continue;
        }
        for number in extent.offset / block..extent.end().div_ceil(block) {
            let number = u32::try_from(number).map_err(too_many)?;
            if steps.last().is_none_or(|last| (last.file, last.number) != (file, number)) {
                steps.push(Step { file, number, read });
            }
        }
    }
    Ok((files, steps))
}

/// The same for the same order in every process.
fn name(files: &[PathBuf], steps: &[Step], block: u64) -> String {
    let mut digest = Xxh3::new();
    digest.update(&block.to_le_bytes());
    for file in files {
        digest.update(file.as_os_str().as_bytes());
        digest.update(&[0]);
    }
    for step in steps {
        [step.file, step.number, step.read].iter().for_each(|word| digest.update(&word.to_le_bytes()));
    }
    format!("{:032x}", digest.digest128())
}

impl Order {
    /// Joins the processes that read in this order; the first of them starts it from the beginning.
    pub(super) fn join(shared: &Shared, reads: &[(PathBuf, Extent)]) -> Result<Self> {
        shared.remove_old_orders()?;
        let (files, steps) = steps(reads, shared.options.block)?;
        let folder = shared.root.orders.join(name(&files, &steps, shared.options.block));
        let (members, place) = (folder.join("members"), |error: std::io::Error| {
            Error::io("cannot join the order of reads", &error).with_path(&folder)
        });
        loop {
            match DirBuilder::new().mode(0o700).create(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(place(error)),
                _ => {}
            }
            let file = match locks::open(&members) {
                Ok(file) => file,
                // removed just now, as no process was left
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let first = file.try_lock().is_ok();
            if first {
                match SharedNumber::open(&folder.join("position")) {
                    Ok(position) => position.set(0),
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
            }
            file.lock_shared().map_err(place)?;
            let named = members.symlink_metadata().ok().map(|found| found.ino());
            if named != Some(file.metadata().map_err(place)?.ino()) {
                continue;
            }
            let position = SharedNumber::open(&folder.join("position"))?;
            let leader = folder.join("leader");
            return Ok(Self { files, steps, uses: OnceLock::new(), position, _members: file, leader });
        }
    }

    /// Number of reads until a block is needed; `None` if it is not needed.
    fn next_use(&self, file: u32, number: u32) -> Option<u64> {
        let uses = self.uses.get_or_init(|| {
            let mut uses: HashMap<_, Vec<u32>> = HashMap::new();
            for (i, step) in self.steps.iter().enumerate() {
                uses.entry((step.file, step.number)).or_default().push(i as u32);
            }
            uses
        });
        let position = self.position.get();
        let at = uses.get(&(file, number))?;
        // the block of the last step before it may still be read
        let current = self.steps.partition_point(|step| u64::from(step.read) <= position).saturating_sub(1) as u32;
        let next = at.get(at.partition_point(|&step| step < current))?;
        Some(u64::from(self.steps[*next as usize].read).saturating_sub(position))
    }
}

impl Shared {
    /// Number of reads until blocks are needed again, for the blocks of which this process knows it.
    pub(super) fn next_uses(&self, blocks: &[Stored]) -> HashMap<BlockKey, u64> {
        let mut found = HashMap::new();
        let orders: Vec<_> = {
            let mut orders = locked(&self.orders);
            orders.retain(|order| order.strong_count() > 0);
            orders.iter().filter_map(std::sync::Weak::upgrade).collect()
        };
        if orders.is_empty() {
            return found;
        }
        let mut paths: HashMap<FileKey, Option<PathBuf>> = HashMap::new();
        for order in orders {
            let numbers: HashMap<&Path, u32> =
                order.files.iter().enumerate().map(|(i, path)| (path.as_path(), i as u32)).collect();
            for block in blocks {
                let path = paths.entry(block.key.file).or_insert_with(|| described(&block.path));
                let file = path.as_deref().and_then(|path| numbers.get(path));
                let next = file.zip(u32::try_from(block.key.number).ok());
                if let Some(next) = next.and_then(|(file, number)| order.next_use(*file, number)) {
                    let least = found.entry(block.key).or_insert(next);
                    *least = next.min(*least);
                }
            }
        }
        found
    }

    /// Removes leftovers of orders that nobody follows.
    fn remove_old_orders(&self) -> Result<()> {
        let failed = |error: std::io::Error| Error::io("cannot list the folder", &error).with_path(&self.root.orders);
        for folder in std::fs::read_dir(&self.root.orders).map_err(failed)? {
            let folder = folder.map_err(failed)?.path();
            let members = folder.join("members");
            let Ok(file) = File::open(&members) else { continue };
            if file.try_lock().is_ok() {
                // a process that opened it earlier sees that the name is gone; leftovers are removed another time
                for name in ["position", "leader", "members"] {
                    let _ = std::fs::remove_file(folder.join(name));
                }
                let _ = std::fs::remove_dir(&folder);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_become_blocks_in_their_order() {
        let read = |path: &str, offset, len| (PathBuf::from(path), Extent { offset, len });
        let reads = [read("/a", 0, 10), read("/a", 10, 20), read("/b", 30, 40), read("/a", 63, 1), read("/a", 64, 0)];
        let (files, steps) = steps(&reads, 32).unwrap();
        assert_eq!(files, [PathBuf::from("/a"), PathBuf::from("/b")]);
        let found: Vec<_> = steps.iter().map(|step| (step.file, step.number, step.read)).collect();
        assert_eq!(found, [(0, 0, 0), (1, 0, 2), (1, 1, 2), (1, 2, 2), (0, 1, 3)]);
        assert_ne!(name(&files, &steps, 32), name(&files, &steps[1..], 32));
    }
}
