//! `MergeTree`: the merge tree of a pass; serialized for checkpoints, rows emitted for results files.
//!
//! It writes no file: bytes and rows go to Python functions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kinema_core::reduce::{AnyKernel, AnyPartial};
use kinema_core::reduce::{MergeTree, Node};
use kinema_core::{Error, ErrorKind, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::callback::{PythonCallback, or_raised};
use crate::errors::{invalid, to_python};
use crate::kernels::{PyKernel, PyPartial};

/// Level, index, one partial a kernel.
pub type PyNode = (u32, u64, Vec<PyPartial>);

/// A node as Python sees it.
pub fn to_python_node(kernels: &[Arc<dyn AnyKernel>], node: Node) -> PyNode {
    let partials = kernels.iter().cloned().zip(node.partials);
    (node.level, node.index, partials.map(|(kernel, partial)| PyPartial::new(kernel, partial)).collect())
}

/// The fixed tree on which the partials of a plan's leaves are merged.
#[pyclass(name = "MergeTree", module = "kinema._core", frozen)]
pub struct PyMergeTree {
    tree: Mutex<Option<Arc<MergeTree>>>,
    kernels: Vec<Arc<dyn AnyKernel>>,
    adapters: Vec<Arc<PythonCallback>>,
    rows: Option<PythonCallback>,
    /// Bytes that rows of lists may take; 0: any.
    memory: u64,
    /// Bytes of rows of lists in the tree.
    lists: AtomicU64,
}

impl PyMergeTree {
    fn tree(&self) -> PyResult<Arc<MergeTree>> {
        let tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        tree.clone().ok_or_else(|| invalid("this tree was used up by take_nodes"))
    }

    /// Whether delivered leaves stay in memory until the end.
    pub fn keeps_results(&self) -> bool {
        self.rows.is_none()
    }

    /// Adds a node from any thread; with `rows` its results go there first.
    pub fn deliver(&self) -> PyResult<impl Fn(Node) -> Result<()> + Sync + '_> {
        let tree = self.tree()?;
        let kernels: Vec<&dyn AnyKernel> = self.kernels.iter().map(|kernel| &**kernel).collect();
        Ok(move |mut node: Node| {
            self.receive(&mut node)?;
            tree.insert(&kernels, node)
        })
    }

    /// Emits the results of a node with `rows`; else counts its rows of lists, which stay in memory.
    fn receive(&self, node: &mut Node) -> Result<()> {
        if let Some(rows) = &self.rows {
            return self.emit_rows(rows, node);
        }
        let (list, all) = self.count_lists(node);
        if list.is_some() && self.memory > 0 && all > self.memory {
            let what = format!(
                "rows of {} take more than the {} bytes that memory allows; out= writes them to a file during the run, \
                 or raise memory=, or take fewer frames or atoms",
                list.unwrap_or_default(),
                self.memory
            );
            return Err(Error::new(ErrorKind::MemoryLimit, what));
        }
        Ok(())
    }

    /// Adds the bytes of a node's rows of lists; the kernel that has most of them, and the bytes of all nodes.
    fn count_lists(&self, node: &Node) -> (Option<&'static str>, u64) {
        let of_kernel =
            |(kernel, partial): (&Arc<dyn AnyKernel>, &AnyPartial)| (kernel.list_bytes(partial), kernel.id());
        let lists: Vec<_> = self.kernels.iter().zip(&node.partials).map(of_kernel).collect();
        let bytes: u64 = lists.iter().map(|(bytes, _)| bytes).sum();
        let all = self.lists.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let most = lists.iter().filter(|(bytes, _)| *bytes > 0).max_by_key(|(bytes, _)| *bytes);
        (most.and_then(|(_, id)| id.split('/').next()), all)
    }

    /// Emits the results of a node, so that nothing of it stays in memory.
    fn emit_rows(&self, rows: &PythonCallback, node: &mut Node) -> Result<()> {
        rows.call(|py, function| {
            let results = PyList::empty(py);
            for (kernel, partial) in self.kernels.iter().zip(&mut node.partials) {
                let gathered = std::mem::replace(partial, kernel.empty());
                results.append(PyPartial::new(kernel.clone(), gathered).finish(py)?)?;
            }
            function.call1((node.index << node.level, results))?;
            Ok(())
        })
    }

    /// The result of the work, or the exception that Python raised in any of the calls.
    pub fn or_raised<T>(&self, outcome: PyResult<T>) -> PyResult<T> {
        or_raised(self.adapters.iter().map(|adapter| &**adapter).chain(&self.rows), outcome)
    }

    fn node(&self, level: u32, index: u64, partials: &[PyRef<'_, PyPartial>]) -> PyResult<Node> {
        if partials.len() != self.kernels.len() {
            return Err(invalid(format!("expected {} partials a node, found {}", self.kernels.len(), partials.len())));
        }
        let partials = partials.iter().map(|partial| partial.take()).collect::<PyResult<_>>()?;
        Ok(Node { level, index, partials })
    }

    fn checked<T>(&self, outcome: Result<T>) -> PyResult<T> {
        self.or_raised(outcome.map_err(|error| to_python(&error)))
    }
}

#[pymethods]
impl PyMergeTree {
    #[new]
    #[pyo3(signature = (n_leaves, kernels, rows=None, memory=0))]
    fn new(n_leaves: u64, kernels: Vec<PyRef<'_, PyKernel>>, rows: Option<Py<PyAny>>, memory: u64) -> PyResult<Self> {
        if n_leaves == 0 {
            return Err(invalid("a tree needs at least one leaf"));
        }
        let adapters = kernels.iter().filter_map(|kernel| kernel.adapter.clone()).collect();
        let kernels = kernels.iter().map(|kernel| kernel.inner.clone()).collect();
        let tree = Mutex::new(Some(Arc::new(MergeTree::new(n_leaves))));
        Ok(Self { tree, kernels, adapters, rows: rows.map(PythonCallback::new), memory, lists: AtomicU64::new(0) })
    }

    /// Adds the nodes of a piece of work: a checkpoint has either all of them or none.
    fn insert_all(&self, py: Python<'_>, nodes: Vec<(u32, u64, Vec<PyRef<'_, PyPartial>>)>) -> PyResult<()> {
        let nodes = nodes.iter().map(|(level, index, partials)| self.node(*level, *index, partials));
        let mut nodes = nodes.collect::<PyResult<Vec<_>>>()?;
        let tree = self.tree()?;
        let kernels: Vec<&dyn AnyKernel> = self.kernels.iter().map(|kernel| &**kernel).collect();
        let inserted = py.detach(|| {
            nodes.iter_mut().try_for_each(|node| self.receive(node))?;
            tree.insert_all(&kernels, nodes)
        });
        self.checked(inserted)
    }

    /// Adds a node with data gathered by an earlier run, which has emitted its rows.
    fn restore(&self, level: u32, index: u64, partials: Vec<PyRef<'_, PyPartial>>) -> PyResult<()> {
        let node = self.node(level, index, &partials)?;
        let kernels: Vec<&dyn AnyKernel> = self.kernels.iter().map(|kernel| &**kernel).collect();
        self.count_lists(&node);
        let outcome = self.tree()?.insert(&kernels, node);
        self.checked(outcome)
    }

    /// Calls `emit(level, index, serialized)` for each present node, while workers continue.
    fn serialize(&self, py: Python<'_>, emit: Py<PyAny>) -> PyResult<()> {
        let tree = self.tree()?;
        let kernels: Vec<&dyn AnyKernel> = self.kernels.iter().map(|kernel| &**kernel).collect();
        let emit = PythonCallback::new(emit);
        let outcome = py.detach(|| {
            tree.serialize(&kernels, |level, index, serialized| {
                emit.call(|py, function| {
                    let serialized: Vec<_> = serialized.into_iter().map(|bytes| PyBytes::new(py, &bytes)).collect();
                    function.call1((level, index, serialized)).map(drop)
                })
            })
        });
        or_raised([&emit], self.checked(outcome))
    }

    /// All nodes that could not be merged further: the root alone once every leaf is in. Uses the tree up.
    fn take_nodes(&self) -> PyResult<Vec<PyNode>> {
        let tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner).take();
        let tree = tree.ok_or_else(|| invalid("this tree was used up by take_nodes"))?;
        let tree = Arc::into_inner(tree).ok_or_else(|| invalid("this tree is being filled"))?;
        let kernels: Vec<&dyn AnyKernel> = self.kernels.iter().map(|kernel| &**kernel).collect();
        let nodes = self.checked(tree.into_nodes(&kernels))?;
        Ok(nodes.into_iter().map(|node| to_python_node(&self.kernels, node)).collect())
    }
}
