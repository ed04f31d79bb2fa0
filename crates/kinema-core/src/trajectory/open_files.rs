//! Open files of a trajectory, bounded in number, shared by all threads.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;
use crate::source::{OpenSource, Source};

/// Open files, at most `most` between reads; the least recently used is closed first.
pub(super) struct Handles {
    most: usize,
    sources: Arc<dyn OpenSource>,
    open: Mutex<VecDeque<Handle>>,
}

/// Number of the part and of the file in it (0: the part itself), and the file, once it is open.
type Handle = ((usize, u32), Arc<Mutex<Option<Arc<dyn Source>>>>);

impl Handles {
    pub(super) fn new(most: usize, sources: Arc<dyn OpenSource>) -> Self {
        Self { most: most.max(1), sources, open: Mutex::new(VecDeque::new()) }
    }

    /// The file, opened if necessary. If several threads ask at once, one opens it and the others wait.
    pub(super) fn get(&self, part: (usize, u32), path: &Path) -> Result<Arc<dyn Source>> {
        let entry = self.entry(part);
        // opened outside the lock of all handles: on a parallel file system this can take long
        let mut opened = entry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = &*opened {
            return Ok(source.clone());
        }
        let source = self.sources.open(path)?;
        *opened = Some(source.clone());
        Ok(source)
    }

    /// The place of a file, which becomes the one that was used last.
    fn entry(&self, part: (usize, u32)) -> Arc<Mutex<Option<Arc<dyn Source>>>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = open.iter().position(|(number, _)| *number == part).and_then(|at| open.remove(at));
        let handle = known.unwrap_or_else(|| (part, Arc::default()));
        let entry = handle.1.clone();
        open.push_back(handle);
        if open.len() > self.most {
            open.pop_front();
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::source::ReadLog;

    #[test]
    fn threads_that_ask_at_once_open_a_file_once() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/golden/ca.dcd"));
        let log = ReadLog::default();
        let handles = Handles::new(4, Arc::new(log.clone()));
        for file in 0..50 {
            let barrier = Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        barrier.wait();
                        handles.get((0, file), path).map(drop).unwrap();
                    });
                }
            });
            assert_eq!(log.take_opens().len(), 1);
        }
        // the one used last stays
        handles.get((0, 49), path).map(drop).unwrap();
        handles.get((0, 1), path).map(drop).unwrap();
        assert_eq!(log.take_opens().len(), 1);
        assert!(handles.get((1, 0), Path::new("/nowhere")).is_err());
    }
}
