//! The fixed binary tree on which the partials of leaves are merged.
//!
//! Node (level, i) covers the leaves `i << level .. (i + 1) << level`; a node without a right sibling moves up as it
//! is. The shape depends on the number of leaves only, so the bits of the result do not depend on who finished when.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::kernel::{AnyKernel, AnyPartial};

/// The partials of several kernels for the same leaves.
pub type Bundle = Vec<AnyPartial>;

/// A node of the tree with what it has gathered.
pub struct Node {
    /// 0 for a leaf.
    pub level: u32,
    /// Position within the level.
    pub index: u64,
    /// One partial a kernel.
    pub bundle: Bundle,
}

/// Merges neighbours as soon as both are there; callable from all workers.
pub struct MergeTree {
    n_leaves: u64,
    waiting: Mutex<HashMap<(u32, u64), Bundle>>,
}

impl MergeTree {
    /// The tree over `n_leaves` leaves.
    pub fn new(n_leaves: u64) -> Self {
        Self { n_leaves, waiting: Mutex::new(HashMap::new()) }
    }

    /// Adds a node and merges upwards as far as siblings are there.
    ///
    /// # Errors
    /// Those of [`AnyKernel::merge`].
    pub fn insert(&self, kernels: &[&dyn AnyKernel], node: Node) -> Result<()> {
        let Node { mut level, mut index, mut bundle } = node;
        loop {
            if level >= 63 || (self.n_leaves - 1) >> level == 0 {
                break; // the root
            }
            let sibling = index ^ 1;
            let exists = sibling << level < self.n_leaves;
            if exists {
                let found = {
                    let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    match waiting.remove(&(level, sibling)) {
                        Some(found) => found,
                        None => {
                            waiting.insert((level, index), bundle);
                            return Ok(());
                        }
                    }
                };
                let (mut left, right) = if index < sibling { (bundle, found) } else { (found, bundle) };
                for ((kernel, left), right) in kernels.iter().zip(&mut left).zip(right) {
                    kernel.merge(left, right)?;
                }
                bundle = left;
            }
            level += 1;
            index >>= 1;
        }
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert((level, index), bundle);
        Ok(())
    }

    /// What has not been merged: the root alone when all leaves were inserted. Ordered by the leaves covered.
    pub fn into_nodes(self) -> Vec<Node> {
        let waiting = self.waiting.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut nodes: Vec<Node> =
            waiting.into_iter().map(|((level, index), bundle)| Node { level, index, bundle }).collect();
        nodes.sort_by_key(|node| (node.index << node.level, node.level));
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{BlockView, Fields};
    use crate::kernel::{AtomMap, Buffers, Kernel, Needs, ResultArray};

    /// Writes down how it was merged: "((0 1) 2)".
    struct Trace;

    impl Kernel for Trace {
        type Partial = String;
        fn id(&self) -> &'static str {
            "trace/1"
        }
        fn needs(&self) -> Needs {
            Needs { fields: Fields::NONE, atom_sets: Vec::new() }
        }
        fn empty(&self) -> String {
            String::new()
        }
        fn accumulate(&self, _: &mut String, _: &BlockView<'_>, _: &[AtomMap], _: &mut Buffers) -> Result<()> {
            Ok(())
        }
        fn merge(&self, left: &mut String, right: String) {
            *left = format!("({left} {right})");
        }
        fn finish(&self, _: String) -> Result<Vec<ResultArray>> {
            Ok(Vec::new())
        }
        fn to_bytes(&self, partial: &String) -> Vec<u8> {
            partial.clone().into_bytes()
        }
        fn from_bytes(&self, bytes: &[u8]) -> Result<String> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }

    fn merged(n_leaves: u64, order: impl Iterator<Item = u64>) -> String {
        let tree = MergeTree::new(n_leaves);
        for leaf in order {
            tree.insert(&[&Trace], Node { level: 0, index: leaf, bundle: vec![Box::new(leaf.to_string())] }).unwrap();
        }
        let mut nodes = tree.into_nodes();
        assert_eq!(nodes.len(), 1);
        *nodes.pop().unwrap().bundle.pop().unwrap().downcast::<String>().unwrap()
    }

    #[test]
    fn the_shape_depends_on_the_number_of_leaves_only() {
        assert_eq!(merged(1, 0..1), "0");
        assert_eq!(merged(5, 0..5), "(((0 1) (2 3)) 4)");
        for n in 1..40 {
            let forward = merged(n, 0..n);
            assert_eq!(forward, merged(n, (0..n).rev()));
            // 41 is prime, so multiples of 7 visit every leaf once
            assert_eq!(forward, merged(n, (0..41).map(|i| i * 7 % 41).filter(|&leaf| leaf < n)));
        }
    }

    #[test]
    fn part_of_the_leaves_leaves_nodes_that_complete_the_tree_elsewhere() {
        let whole = merged(11, 0..11);
        let (first, second) = (MergeTree::new(11), MergeTree::new(11));
        for leaf in 0..11_u64 {
            let tree = if leaf < 5 { &first } else { &second };
            tree.insert(&[&Trace], Node { level: 0, index: leaf, bundle: vec![Box::new(leaf.to_string())] }).unwrap();
        }
        let tree = MergeTree::new(11);
        for node in first.into_nodes().into_iter().chain(second.into_nodes()) {
            tree.insert(&[&Trace], node).unwrap();
        }
        let root = tree.into_nodes().pop().unwrap().bundle.pop().unwrap();
        assert_eq!(*root.downcast::<String>().unwrap(), whole);
    }
}
