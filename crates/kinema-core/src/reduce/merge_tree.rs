//! The fixed binary tree on which the partials of leaves are merged.
//!
//! Node (level, i) covers the leaves `i << level .. (i + 1) << level`; a node without a right sibling moves up
//! unchanged. The shape depends only on the number of leaves, so the bits of the result do not depend on who finished
//! when.
//!
//! Nodes do not keep the sums of exact kernels ([`AnyKernel::take_sum`]): all are added to one sum, which is in the first
//! of the nodes when they are taken. A sum and the nodes that it includes are always seen together.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::{AnyKernel, AnyPartial};
use crate::error::{Error, ErrorKind, Result};

/// The partials of several kernels for the same leaves.
pub type Partials = Vec<AnyPartial>;

/// A node of the tree with its partials.
pub struct Node {
    /// 0 for a leaf.
    pub level: u32,
    /// Position within the level.
    pub index: u64,
    /// One partial a kernel.
    pub partials: Partials,
}

/// Merges neighbours as soon as both are present; callable from all workers.
pub struct MergeTree {
    n_leaves: u64,
    state: Mutex<State>,
    /// For each exact kernel, the sum over the nodes that are in the tree.
    sums: Mutex<Vec<Option<AnyPartial>>>,
    /// Notified when the last running merge has ended.
    idle: Condvar,
}

#[derive(Default)]
struct State {
    waiting: HashMap<(u32, u64), Partials>,
    /// Workers that hold nodes which are not in `waiting`.
    merging: usize,
    /// While the tree is serialized, nodes are added and not merged.
    paused: bool,
    /// A merge has failed: sums hold leaves that are not in the tree any more.
    failed: bool,
}

/// A worker that is merging; it counts until its node is in the tree, or lost to an error or a panic.
struct Merging<'a>(&'a MergeTree);

impl Drop for Merging<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.merging -= 1;
        if state.merging == 0 {
            self.0.idle.notify_all();
        }
    }
}

impl MergeTree {
    /// The tree over `n_leaves` leaves.
    pub fn new(n_leaves: u64) -> Self {
        Self { n_leaves, state: Mutex::default(), sums: Mutex::default(), idle: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the exact parts of a node's partials into their sums.
    fn sum_up(&self, kernels: &[&dyn AnyKernel], partials: &mut [AnyPartial]) -> Result<()> {
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.resize_with(kernels.len(), || None);
        for ((kernel, partial), sum) in kernels.iter().zip(partials).zip(sums.iter_mut()) {
            if kernel.is_exact() {
                let taken = kernel.take_sum(partial)?;
                match sum {
                    Some(sum) => kernel.merge(sum, taken)?,
                    None => *sum = Some(taken),
                }
            }
        }
        Ok(())
    }

    /// Adds the nodes of a piece of work. Serialization sees either all of them or none.
    ///
    /// # Errors
    /// Errors of [`MergeTree::insert`].
    pub fn insert_all(&self, kernels: &[&dyn AnyKernel], nodes: Vec<Node>) -> Result<()> {
        let mut state = self.lock();
        if state.paused {
            state.waiting.extend(nodes.into_iter().map(|node| ((node.level, node.index), node.partials)));
            return Ok(());
        }
        state.merging += 1;
        drop(state);
        let _merging = Merging(self);
        nodes.into_iter().try_for_each(|node| self.insert(kernels, node))
    }

    /// Adds a node and merges upwards as far as siblings exist.
    ///
    /// # Errors
    /// Errors of [`AnyKernel::merge`]; the tree then lacks the leaves of the two nodes.
    pub fn insert(&self, kernels: &[&dyn AnyKernel], node: Node) -> Result<()> {
        let inserted = self.insert_and_merge(kernels, node);
        if inserted.is_err() {
            self.lock().failed = true;
        }
        inserted
    }

    fn insert_and_merge(&self, kernels: &[&dyn AnyKernel], node: Node) -> Result<()> {
        let Node { mut level, mut index, mut partials } = node;
        let mut merging = None;
        if kernels.iter().any(|kernel| kernel.is_exact()) {
            let mut state = self.lock();
            if state.paused {
                // summed up when the tree has been serialized
                state.waiting.insert((level, index), partials);
                return Ok(());
            }
            state.merging += 1;
            drop(state);
            merging = Some(Merging(self));
            self.sum_up(kernels, &mut partials)?;
        }
        loop {
            let sibling = index ^ 1;
            let found = {
                let mut state = self.lock();
                let is_root = level >= 63 || self.n_leaves.saturating_sub(1) >> level == 0;
                if is_root || state.paused {
                    state.waiting.insert((level, index), partials);
                    return Ok(());
                }
                if sibling << level < self.n_leaves {
                    let Some(found) = state.waiting.remove(&(level, sibling)) else {
                        state.waiting.insert((level, index), partials);
                        return Ok(());
                    };
                    merging.get_or_insert_with(|| {
                        state.merging += 1;
                        Merging(self)
                    });
                    Some(found)
                } else {
                    None
                }
            };
            if let Some(found) = found {
                let (mut left, right) = if index < sibling { (partials, found) } else { (found, partials) };
                for ((kernel, left), right) in kernels.iter().zip(&mut left).zip(right) {
                    kernel.merge(left, right)?;
                }
                partials = left;
            }
            level += 1;
            index >>= 1;
        }
    }

    /// Serializes all present nodes, one at a time (bytes for each kernel), while workers continue. Nodes that they
    /// insert meanwhile are merged afterwards and not emitted. Emits nothing if a merge has failed and sums include the
    /// lost nodes.
    ///
    /// # Errors
    /// Errors of [`AnyKernel::to_bytes`], [`AnyKernel::merge`] and `emit`; `Internal` if the tree is being serialized
    /// already.
    pub fn serialize(
        &self,
        kernels: &[&dyn AnyKernel],
        mut emit: impl FnMut(u32, u64, Vec<Vec<u8>>) -> Result<()>,
    ) -> Result<()> {
        let mut keys: Vec<(u32, u64)> = {
            let mut state = self.lock();
            if state.paused {
                return Err(Error::new(ErrorKind::Internal, "the merge tree is being serialized already"));
            }
            state.paused = true;
            while state.merging > 0 {
                state = self.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let lost = state.failed && kernels.iter().any(|kernel| kernel.is_exact());
            if lost { Vec::new() } else { state.waiting.keys().copied().collect() }
        };
        keys.sort_by_key(|&(level, index)| index << level);
        let outcome = self.sum_up_waiting(kernels, &keys);
        let outcome = outcome.and(keys.into_iter().try_for_each(|(level, index)| {
            // taken out, so that no worker waits while it is serialized
            let Some(mut partials) = self.lock().waiting.remove(&(level, index)) else { return Ok(()) };
            // the first node has the sums; when it is inserted again, they are taken out of it
            let serialized = self.add_sums(kernels, &mut partials).and_then(|()| to_bytes(kernels, &partials));
            self.lock().waiting.insert((level, index), partials);
            emit(level, index, serialized?)
        }));
        let nodes: Vec<_> = {
            let mut state = self.lock();
            state.paused = false;
            state.waiting.drain().collect()
        };
        // all of them, whatever went wrong: nodes that are not in the tree are lost
        nodes.into_iter().fold(outcome, |outcome, ((level, index), partials)| {
            let inserted = self.insert(kernels, Node { level, index, partials });
            outcome.and(inserted)
        })
    }

    /// The same for nodes that came while the tree was paused.
    fn sum_up_waiting(&self, kernels: &[&dyn AnyKernel], keys: &[(u32, u64)]) -> Result<()> {
        if !kernels.iter().any(|kernel| kernel.is_exact()) {
            return Ok(());
        }
        for key in keys {
            let Some(mut partials) = self.lock().waiting.remove(key) else { continue };
            let summed = self.sum_up(kernels, &mut partials);
            self.lock().waiting.insert(*key, partials);
            summed?;
        }
        Ok(())
    }

    /// Adds the sums to the partials of a node; there are none afterwards.
    fn add_sums(&self, kernels: &[&dyn AnyKernel], partials: &mut [AnyPartial]) -> Result<()> {
        // kernels that call other code, which may wait for other threads, have no sums
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        for ((kernel, partial), sum) in kernels.iter().zip(partials).zip(sums.iter_mut()) {
            if let Some(sum) = sum.take() {
                kernel.merge(partial, sum)?;
            }
        }
        Ok(())
    }

    /// The nodes that have not been merged: the root alone if all leaves were inserted. They are ordered by the leaves
    /// that they cover; the first holds the sums of exact kernels.
    ///
    /// # Errors
    /// Errors of [`AnyKernel::merge`] of exact kernels.
    pub fn into_nodes(self, kernels: &[&dyn AnyKernel]) -> Result<Vec<Node>> {
        let waiting = std::mem::take(&mut self.lock().waiting);
        let mut nodes: Vec<Node> =
            waiting.into_iter().map(|((level, index), partials)| Node { level, index, partials }).collect();
        nodes.sort_by_key(|node| (node.index << node.level, node.level));
        if let Some(first) = nodes.first_mut() {
            self.add_sums(kernels, &mut first.partials)?;
        }
        Ok(nodes)
    }
}

/// The partials of a node as bytes.
fn to_bytes(kernels: &[&dyn AnyKernel], partials: &[AnyPartial]) -> Result<Vec<Vec<u8>>> {
    kernels.iter().zip(partials).map(|(kernel, partial)| kernel.to_bytes(partial)).collect()
}

#[cfg(test)]
mod tests;
