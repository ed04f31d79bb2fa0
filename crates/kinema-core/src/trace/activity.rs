//! Kinds of events: names and categories that readers of traces know, and names of their numbers.

/// A kind of event.
#[derive(Debug, PartialEq, Eq)]
pub struct Activity {
    /// Name of the function or step.
    pub name: &'static str,
    /// Class of such names.
    pub category: &'static str,
    /// Names of the numbers of [`super::Event::values`]; a number without a name is not written.
    pub numbers: [&'static str; 3],
}

impl Activity {
    /// A kind of event.
    pub const fn new(category: &'static str, name: &'static str, numbers: [&'static str; 3]) -> Self {
        Self { name, category, numbers }
    }
}

const fn posix(name: &'static str) -> Activity {
    Activity::new("POSIX", name, ["", "", "ret"])
}

const fn posix_bytes(name: &'static str) -> Activity {
    Activity::new("POSIX", name, ["offset", "count", "ret"])
}

/// A system call.
pub static OPEN64: Activity = posix("open64");
/// A system call.
pub static CLOSE: Activity = posix("close");
/// A system call.
pub static FSTAT: Activity = posix("fstat");
/// A system call.
pub static STAT: Activity = posix("stat");
/// A system call.
pub static FSYNC: Activity = posix("fsync");
/// A system call; its numbers but the last are 0.
pub static FDATASYNC: Activity = posix("fdatasync");
/// A system call.
pub static RENAME: Activity = posix("rename");
/// A system call.
pub static UNLINK: Activity = posix("unlink");
/// A system call; `count` is the new length.
pub static FTRUNCATE64: Activity = posix_bytes("ftruncate64");
/// A system call.
pub static READ: Activity = posix_bytes("read");
/// A system call.
pub static WRITE: Activity = posix_bytes("write");
/// A system call.
pub static PREAD64: Activity = posix_bytes("pread64");
/// A system call.
pub static PREADV64: Activity = posix_bytes("preadv64");
/// A system call.
pub static PWRITE64: Activity = posix_bytes("pwrite64");
/// A system call.
pub static POSIX_FADVISE: Activity = posix_bytes("posix_fadvise");
/// A system call.
pub static SYNC_FILE_RANGE: Activity = posix_bytes("sync_file_range");

const fn step(category: &'static str, name: &'static str) -> Activity {
    Activity::new(category, name, ["offset", "size", "frames"])
}

const fn cache(name: &'static str) -> Activity {
    Activity::new("cache", name, ["offset", "size", ""])
}

/// A read of a file from a block of the node cache.
pub static CACHE_HIT: Activity = cache("cache.hit");
/// A read for which a block had to be fetched, or that went directly to the file.
pub static CACHE_MISS: Activity = cache("cache.miss");
/// A block copied from a file into the node cache.
pub static CACHE_FETCH: Activity = cache("cache.fetch");
/// A block removed from the node cache to make room.
pub static CACHE_EVICT: Activity = cache("cache.evict");

/// Getting at a file that is to be read, by a worker.
pub static OPENING: Activity = step("reader", "open");
/// Opening a trajectory: status and header of its first file.
pub static HEADER: Activity = step("reader", "header");
/// Finding the frames of a file.
pub static SCAN: Activity = step("reader", "scan");
/// Reading bytes of frames or rows.
pub static READING: Activity = step("reader", "read");
/// Decoding them.
pub static DECODE: Activity = Activity::new("decode", "decode", ["", "size", "frames"]);
/// Changing frames before a kernel sees them.
pub static TRANSFORM: Activity = Activity::new("compute", "transform", ["", "", "frames"]);
/// A kernel.
pub static COMPUTE: Activity = Activity::new("compute", "compute", ["", "", "frames"]);
/// Finishing leaves and merging them.
pub static MERGE: Activity = Activity::new("compute", "merge", ["", "", "frames"]);
/// Making records of frames.
pub static ENCODE: Activity = Activity::new("writer", "encode", ["", "size", "frames"]);
/// Writing them, and waiting until it is their turn.
pub static WRITING: Activity = step("writer", "write");
/// Syncing records, and writing their count.
pub static COMMIT: Activity = Activity::new("writer", "commit", ["", "size", "frames"]);
/// Waiting for others; the third number is the thread that waits, 0 for the recording thread.
pub static WAIT: Activity = Activity::new("wait", "wait", ["", "", ""]);
