//! `Trajectory`: a handle on opened files, with the transforms that every reader of its frames applies.

use std::any::Any;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::{OpenOptions, TrajectoryFiles};
use crate::error::Result;
use crate::frame::MadePositions;
use crate::reduce::{Grouping, Stack};

/// A trajectory of one or more files, and the transforms of each of its frames. Handles on the same files share their
/// index, open files and threads.
#[derive(Clone)]
pub struct Trajectory {
    files: Arc<TrajectoryFiles>,
    stack: Stack,
    /// State kept from readers that have ended.
    kept: Arc<Mutex<Vec<KeptState>>>,
}

/// State of the stack that readers keep from call to call; only readers know its type.
pub(crate) type KeptState = Box<dyn Any + Send>;

/// Most states that are kept: one for each of some threads.
const MOST_KEPT: usize = 16;

impl Trajectory {
    /// As [`TrajectoryFiles::open`].
    ///
    /// # Errors
    /// As there.
    pub fn open(paths: Vec<PathBuf>, options: OpenOptions) -> Result<Self> {
        TrajectoryFiles::open(paths, options).map(Self::from_files)
    }

    /// As [`TrajectoryFiles::open_again`].
    ///
    /// # Errors
    /// As there.
    pub fn open_again(paths: Vec<PathBuf>, options: OpenOptions, previous: Option<&Self>) -> Result<Self> {
        TrajectoryFiles::open_again(paths, options, previous.map(|previous| &*previous.files)).map(Self::from_files)
    }

    /// As [`TrajectoryFiles::from_snapshot`].
    ///
    /// # Errors
    /// As there.
    pub fn from_snapshot(paths: Vec<PathBuf>, options: OpenOptions, snapshot: &[u8]) -> Result<Self> {
        TrajectoryFiles::from_snapshot(paths, options, snapshot).map(Self::from_files)
    }

    fn from_files(files: TrajectoryFiles) -> Self {
        Self { files: Arc::new(files), stack: Stack::default(), kept: Arc::default() }
    }

    /// The same files, with these transforms in place of its own.
    #[must_use]
    pub fn with_stack(&self, stack: Stack) -> Self {
        Self { files: self.files.clone(), stack, kept: Arc::default() }
    }

    /// Takes the state of a reader that has ended, if one fits.
    pub(crate) fn take_kept(&self, fits: impl Fn(&KeptState) -> bool) -> Option<KeptState> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().rposition(fits)?;
        Some(kept.remove(place))
    }

    /// Keeps it for the next reader.
    pub(crate) fn keep(&self, state: KeptState) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MOST_KEPT {
            kept.remove(0);
        }
        kept.push(state);
    }

    /// Transforms applied to each frame that is read.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Number of positions in every frame: of atoms, the same in all parts, or of groups of atoms if the stack computes
    /// these.
    pub fn n_atoms(&self) -> u32 {
        self.stack.grouping().map_or_else(|| self.files.n_atoms(), Grouping::n_groups)
    }

    /// The positions of all frames if they are in memory and no transform changes them; `None` if frames are read.
    pub fn made_positions(&self) -> Option<&MadePositions> {
        match &self.scanned()?.parts[..] {
            [part] if self.stack.is_empty() => part.decoder.made_positions(),
            _ => None,
        }
    }

    /// Whether both give the same frames: from the same opened files, with the same transforms.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.files, &other.files) && self.stack == other.stack
    }
}

impl Deref for Trajectory {
    type Target = TrajectoryFiles;

    fn deref(&self) -> &TrajectoryFiles {
        &self.files
    }
}
