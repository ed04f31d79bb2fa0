//! Blocks that the nodes of a job give each other by a transfer written in Python.

use kinema_core::{Error, ErrorKind, Result};
use kinema_net::cache::{Answer, Nodes, StoredBlock, WantedBlock};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

/// An object with `fetch` and `stored`. Its exceptions are errors of the transfer: they are counted, and the source is
/// read.
pub struct PythonNodes {
    object: Py<PyAny>,
    // a forked child has nothing of the transfer
    process: u32,
}

impl PythonNodes {
    pub fn new(object: Py<PyAny>) -> Self {
        Self { object, process: std::process::id() }
    }

    fn call<T>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        Python::attach(|py| call(self.object.bind(py)))
            .map_err(|error| Error::new(ErrorKind::Io, format!("a block from another node: {error}")))
    }
}

impl Nodes for PythonNodes {
    fn is_away(&self, _file: u128, _number: u64) -> bool {
        std::process::id() == self.process
    }

    fn fetch(&self, wanted: &WantedBlock, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Answer> {
        let name = wanted.hash().to_le_bytes();
        let given = self.call(|object| {
            object.call_method1("fetch", (&name[..],))?.extract::<Option<(Vec<PyBackedBytes>, u64)>>()
        })?;
        let Some((pieces, checksum)) = given else { return Ok(Answer::Claimed) };
        for piece in &pieces {
            take(piece)?;
        }
        Ok(Answer::Given(Some(checksum)))
    }

    fn stored(&self, wanted: &WantedBlock, block: Option<StoredBlock<'_>>) {
        let name = wanted.hash().to_le_bytes();
        let block = block.map(|block| (block.path.as_os_str(), block.len, block.checksum));
        // what fails there is counted there: the block itself is stored
        let said = self.call(|object| object.call_method1("stored", (&name[..], block)).map(drop));
        debug_assert!(said.is_ok(), "{said:?}");
    }
}
