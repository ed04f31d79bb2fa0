//! Merge trees: order of merges, errors of partials, threads that insert at a time.

use super::*;
use crate::frame::{BlockView, Fields};
use crate::reduce::{Frames, Kernel, Needs, ResultArray};

/// Writes down how it was merged: "((0 1) 2)".
struct Trace;

/// A partial that cannot be merged with any other.
const BAD: &str = "bad";

impl Kernel for Trace {
    type Partial = String;
    type Scratch = ();
    fn id(&self) -> &'static str {
        "trace/1"
    }
    fn needs(&self) -> Needs {
        Needs { fields: Fields::NONE, atom_sets: Vec::new() }
    }
    fn empty(&self) -> String {
        String::new()
    }
    fn accumulate(&self, _: &mut String, _: &Frames<'_>, _: &mut ()) -> Result<()> {
        Ok(())
    }
    fn merge(&self, left: &mut String, right: String) -> Result<()> {
        if right == BAD {
            return Err(Error::new(ErrorKind::InvalidArgument, "cannot merge"));
        }
        *left = format!("({left} {right})");
        Ok(())
    }
    fn finish(&self, _: String) -> Result<Vec<ResultArray>> {
        Ok(Vec::new())
    }
    fn to_bytes(&self, partial: &String) -> Result<Vec<u8>> {
        Ok(partial.clone().into_bytes())
    }
    fn from_bytes(&self, bytes: &[u8]) -> Result<String> {
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Adds numbers; exact.
struct Sum;

impl Kernel for Sum {
    type Partial = u64;
    type Scratch = ();
    fn id(&self) -> &'static str {
        "sum/1"
    }
    fn needs(&self) -> Needs {
        Kernel::needs(&Trace)
    }
    fn empty(&self) -> u64 {
        0
    }
    fn is_exact(&self) -> bool {
        true
    }
    fn accumulate(&self, _: &mut u64, _: &Frames<'_>, _: &mut ()) -> Result<()> {
        Ok(())
    }
    fn merge(&self, left: &mut u64, right: u64) -> Result<()> {
        *left += right;
        Ok(())
    }
    fn finish(&self, _: u64) -> Result<Vec<ResultArray>> {
        Ok(Vec::new())
    }
    fn to_bytes(&self, partial: &u64) -> Result<Vec<u8>> {
        Ok(partial.to_le_bytes().to_vec())
    }
    fn from_bytes(&self, bytes: &[u8]) -> Result<u64> {
        Ok(bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
    }
}

/// Node of leaf `index`: a trace, and a number whose sum identifies the leaves.
fn pair(index: u64) -> Node {
    Node { level: 0, index, partials: vec![Box::new(index.to_string()), Box::new(1_u64 << index)] }
}

fn sums(nodes: &[Node]) -> Vec<u64> {
    nodes.iter().filter_map(|node| node.partials[1].downcast_ref().copied()).collect()
}

#[test]
fn exact_partials_of_all_leaves_are_one_sum_in_the_first_node() {
    let kernels: [&dyn AnyKernel; 2] = [&Trace, &Sum];
    let whole = merged(13, 0..13);
    let tree = MergeTree::new(13);
    [9, 2, 3, 12, 0].into_iter().for_each(|leaf| tree.insert(&kernels, pair(leaf)).unwrap());
    let nodes = tree.into_nodes(&kernels).unwrap();
    assert_eq!(sums(&nodes), [1 << 9 | 1 << 2 | 1 << 3 | 1 << 12 | 1, 0, 0, 0]);
    // these, and the rest of the leaves from another worker
    let (tree, other) = (MergeTree::new(13), MergeTree::new(13));
    [1, 4, 5, 6, 7, 8, 10, 11].into_iter().for_each(|leaf| other.insert(&kernels, pair(leaf)).unwrap());
    for node in nodes.into_iter().chain(other.into_nodes(&kernels).unwrap()) {
        tree.insert(&kernels, node).unwrap();
    }
    let root = tree.into_nodes(&kernels).unwrap();
    assert_eq!((root.len(), sums(&root)), (1, vec![(1 << 13) - 1]));
    assert_eq!(*root[0].partials[0].downcast_ref::<String>().unwrap(), whole);
}

#[test]
fn a_serialized_sum_is_that_of_the_serialized_nodes_while_threads_insert() {
    const N: u64 = 60;
    let kernels: [&dyn AnyKernel; 2] = [&Trace, &Sum];
    let tree = MergeTree::new(N);
    let next = std::sync::atomic::AtomicU64::new(0);
    let take = || next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    let sum_of = |covered: &[(u32, u64)]| -> u64 {
        let leaves = |&(level, index): &(u32, u64)| (index << level..((index + 1) << level).min(N)).map(|i| 1 << i);
        covered.iter().flat_map(leaves).sum()
    };
    let mut times = 0;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                // two leaves a piece; the first has the sum
                while let (first @ ..N, second @ ..N) = (take(), take()) {
                    std::thread::sleep(std::time::Duration::from_micros(200));
                    let (mut one, mut other) = (pair(first), pair(second));
                    one.partials[1] = Box::new(1_u64 << first | 1 << second);
                    other.partials[1] = Box::new(0_u64);
                    tree.insert_all(&kernels, vec![one, other]).unwrap();
                }
            });
        }
        loop {
            let (mut covered, mut sum) = (Vec::new(), 0);
            tree.serialize(&kernels, |level, index, bytes| {
                // pieces that come while the tree is serialized are in neither
                std::thread::sleep(std::time::Duration::from_micros(300));
                covered.push((level, index));
                sum += Kernel::from_bytes(&Sum, &bytes[1]).unwrap();
                Ok(())
            })
            .unwrap();
            assert_eq!(sum, sum_of(&covered));
            times += 1;
            if sum == (1 << N) - 1 {
                break;
            }
        }
    });
    assert!(times > 1);
    assert_eq!(sums(&tree.into_nodes(&kernels).unwrap()), [(1 << N) - 1]);
}

/// Holds up every merge until it is let go.
struct Held<'a> {
    begun: &'a std::sync::Barrier,
    let_go: &'a std::sync::Barrier,
}

impl Kernel for Held<'_> {
    type Partial = String;
    type Scratch = ();
    fn id(&self) -> &'static str {
        "held/1"
    }
    fn needs(&self) -> Needs {
        Kernel::needs(&Trace)
    }
    fn empty(&self) -> String {
        String::new()
    }
    fn accumulate(&self, _: &mut String, _: &Frames<'_>, _: &mut ()) -> Result<()> {
        Ok(())
    }
    fn merge(&self, left: &mut String, right: String) -> Result<()> {
        self.begun.wait();
        self.let_go.wait();
        Kernel::merge(&Trace, left, right)
    }
    fn finish(&self, _: String) -> Result<Vec<ResultArray>> {
        Ok(Vec::new())
    }
    fn to_bytes(&self, partial: &String) -> Result<Vec<u8>> {
        Kernel::to_bytes(&Trace, partial)
    }
    fn from_bytes(&self, bytes: &[u8]) -> Result<String> {
        Kernel::from_bytes(&Trace, bytes)
    }
}

#[test]
fn a_leaf_that_comes_while_serializing_waits_for_a_merge_is_in_the_sum_too() {
    let (begun, let_go) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    let kernels: [&dyn AnyKernel; 2] = [&Held { begun: &begun, let_go: &let_go }, &Sum];
    let tree = MergeTree::new(8);
    tree.insert(&kernels, pair(2)).unwrap();
    let (mut leaves, mut sum) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| tree.insert(&kernels, pair(3)).unwrap());
        begun.wait();
        scope.spawn(|| {
            tree.serialize(&kernels, |level, index, bytes| {
                leaves.push((level, index));
                sum += Kernel::from_bytes(&Sum, &bytes[1]).unwrap();
                Ok(())
            })
            .unwrap();
        });
        while !tree.lock().paused {
            std::thread::yield_now();
        }
        // the first of the nodes, which has the sum
        tree.insert(&kernels, pair(0)).unwrap();
        let_go.wait();
    });
    assert_eq!((leaves, sum), (vec![(0, 0), (1, 1)], 0b1101));
}

#[test]
fn sums_of_a_tree_that_has_lost_leaves_are_never_serialized() {
    let kernels: [&dyn AnyKernel; 2] = [&Trace, &Sum];
    let tree = MergeTree::new(4);
    tree.insert_all(&kernels, vec![pair(0), pair(2)]).unwrap();
    let bad = Node { partials: vec![Box::new(BAD.to_owned()), Box::new(2_u64)], ..pair(1) };
    assert!(tree.insert_all(&kernels, vec![bad]).is_err());
    tree.insert(&kernels, pair(3)).unwrap();
    let mut emitted = 0;
    tree.serialize(&kernels, |_, _, _| {
        emitted += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(emitted, 0);
}

fn merged(n_leaves: u64, order: impl Iterator<Item = u64>) -> String {
    let tree = MergeTree::new(n_leaves);
    for leaf in order {
        tree.insert(&[&Trace], Node { level: 0, index: leaf, partials: vec![Box::new(leaf.to_string())] }).unwrap();
    }
    let mut nodes = tree.into_nodes(&[&Trace]).unwrap();
    assert_eq!(nodes.len(), 1);
    *nodes.pop().unwrap().partials.pop().unwrap().downcast::<String>().unwrap()
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
fn part_of_the_leaves_leaves_nodes_that_complete_another_tree() {
    let whole = merged(11, 0..11);
    let (first, second) = (MergeTree::new(11), MergeTree::new(11));
    for leaf in 0..11_u64 {
        let tree = if leaf < 5 { &first } else { &second };
        tree.insert(&[&Trace], Node { level: 0, index: leaf, partials: vec![Box::new(leaf.to_string())] }).unwrap();
    }
    let tree = MergeTree::new(11);
    for node in first.into_nodes(&[&Trace]).unwrap().into_iter().chain(second.into_nodes(&[&Trace]).unwrap()) {
        tree.insert(&[&Trace], node).unwrap();
    }
    let root = tree.into_nodes(&[&Trace]).unwrap().pop().unwrap().partials.pop().unwrap();
    assert_eq!(*root.downcast::<String>().unwrap(), whole);
}

fn leaf(index: u64) -> Node {
    Node { level: 0, index, partials: vec![Box::new(index.to_string())] }
}

#[test]
fn a_serialized_tree_completes_another_tree_to_the_same_root() {
    let whole = merged(13, 0..13);
    for done in 0..=13 {
        let tree = MergeTree::new(13);
        (0..done).for_each(|index| tree.insert(&[&Trace], leaf(index)).unwrap());
        let again = MergeTree::new(13);
        tree.serialize(&[&Trace], |level, index, serialized| {
            // a leaf that is done while the tree is serialized
            if done < 13 && index == 0 {
                tree.insert(&[&Trace], leaf(done)).unwrap();
            }
            let partials: Partials = vec![Box::new(String::from_utf8(serialized[0].clone()).unwrap())];
            again.insert(&[&Trace], Node { level, index, partials })
        })
        .unwrap();
        (done..13).for_each(|index| again.insert(&[&Trace], leaf(index)).unwrap());
        let rest = if done == 0 { done } else { done + 1 };
        (rest..13).for_each(|index| tree.insert(&[&Trace], leaf(index)).unwrap());
        for tree in [tree, again] {
            let mut nodes = tree.into_nodes(&[&Trace]).unwrap();
            assert_eq!(nodes.len(), 1, "{done}");
            let root = nodes.pop().unwrap().partials.pop().unwrap();
            assert_eq!(*root.downcast::<String>().unwrap(), whole);
        }
    }
}

#[test]
fn serializing_while_many_threads_insert_misses_no_finished_leaf() {
    const N: u64 = 3000;
    let whole = merged(N, 0..N);
    let tree = MergeTree::new(N);
    let next = std::sync::atomic::AtomicU64::new(0);
    let finished = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    if index >= N {
                        return;
                    }
                    tree.insert(&[&Trace], leaf(index)).unwrap();
                    finished.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            });
        }
        loop {
            let before = finished.load(std::sync::atomic::Ordering::SeqCst);
            let mut covered = 0;
            tree.serialize(&[&Trace], |level, index, _| {
                covered += (((index + 1) << level).min(N)) - (index << level);
                Ok(())
            })
            .unwrap();
            assert!(covered >= before, "{covered} of {before}");
            if before == N {
                break;
            }
        }
    });
    let root = tree.into_nodes(&[&Trace]).unwrap().pop().unwrap().partials.pop().unwrap();
    assert_eq!(*root.downcast::<String>().unwrap(), whole);
}

#[test]
fn leaves_that_are_merged_within_a_longer_leaf_are_merged_as_the_tree_would() {
    use crate::frame::Block;
    use crate::reduce::LeafPartial;
    let whole = |n_leaves: u64, several: u64| {
        let tree = MergeTree::new(n_leaves.div_ceil(several));
        for index in 0..n_leaves.div_ceil(several) {
            let mut partial = LeafPartial::default();
            let mut next = index * several;
            let end = n_leaves.min(next + several);
            // three frames a leaf, in blocks of five; the last leaf has two
            let frames = (3 * (end - next)) as usize - usize::from(end == n_leaves);
            for first in (0..frames).step_by(5) {
                let mut block = Block::default();
                let rows = first..frames.min(first + 5);
                block.reset(rows.map(|row| row as u64), 0, Fields::NONE);
                let add = |partial: &mut AnyPartial, rows: &BlockView<'_>| {
                    if rows.frames.first().is_some_and(|frame| frame % 3 == 0) {
                        *partial = Box::new(next.to_string());
                        next += 1;
                    }
                    Ok(())
                };
                partial.accumulate(&Trace, &block.view(), first, 3, |_| AnyKernel::empty(&Trace), add).unwrap();
            }
            let partials = vec![partial.finish(&Trace).unwrap()];
            tree.insert(&[&Trace], Node { level: 0, index, partials }).unwrap();
        }
        *tree.into_nodes(&[&Trace]).unwrap().pop().unwrap().partials.pop().unwrap().downcast::<String>().unwrap()
    };
    assert_eq!(whole(7, 1), "(((0 1) (2 3)) ((4 5) 6))");
    for n_leaves in 1..40 {
        for several in [2, 4, 8, 64] {
            assert_eq!(whole(n_leaves, several), whole(n_leaves, 1), "{n_leaves} {several}");
        }
    }
}

#[test]
fn a_failure_to_merge_is_an_error_and_costs_the_two_nodes() {
    let bad = || Node { level: 0, index: 1, partials: vec![Box::new(BAD.to_owned())] };
    let kept =
        |tree: MergeTree| -> Vec<u64> { tree.into_nodes(&[&Trace]).unwrap().iter().map(|node| node.index).collect() };
    let tree = MergeTree::new(4);
    [0, 2].into_iter().for_each(|index| tree.insert(&[&Trace], leaf(index)).unwrap());
    assert_eq!(tree.insert(&[&Trace], bad()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(kept(tree), [2]);
    // also if neighbours arrive while the tree is serialized, and are merged at its end
    let tree = MergeTree::new(8);
    [0, 3, 5].into_iter().for_each(|index| tree.insert(&[&Trace], leaf(index)).unwrap());
    let serialized =
        tree.serialize(&[&Trace], |_, index, _| if index == 0 { tree.insert(&[&Trace], bad()) } else { Ok(()) });
    assert_eq!(serialized.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(kept(tree), [3, 5]);
}

#[test]
fn a_failure_while_serializing_loses_nothing() {
    let tree = MergeTree::new(4);
    (0..3).for_each(|index| tree.insert(&[&Trace], leaf(index)).unwrap());
    let full = || Error::new(ErrorKind::Io, "no space left");
    assert_eq!(tree.serialize(&[&Trace], |_, _, _| Err(full())).unwrap_err().kind(), ErrorKind::Io);
    tree.insert(&[&Trace], leaf(3)).unwrap();
    let root = tree.into_nodes(&[&Trace]).unwrap().pop().unwrap().partials.pop().unwrap();
    assert_eq!(*root.downcast::<String>().unwrap(), "((0 1) (2 3))");
}
