//! Rows of a numeric HDF5 data set as the bytes that are stored, of numbers of any type: where each part of a row lies.

use super::array::{Array, Chunk, Stored};

/// Bytes of a row that lie together, in the row as in its chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowPart {
    /// First byte in the chunk's row.
    pub in_chunk: usize,
    /// First byte in the row.
    pub in_row: usize,
    /// Number of bytes.
    pub len: usize,
}

impl Array {
    /// Number of rows.
    pub fn n_rows(&self) -> u64 {
        self.shape[0]
    }

    /// Bytes of a row, in memory.
    pub fn dense_row_bytes(&self) -> u64 {
        self.shape[1] * self.shape[2] * self.number.size() as u64
    }

    /// The chunks that hold a row, in the order of the grid.
    pub fn chunks_of_row(&self, row: u64) -> impl Iterator<Item = Chunk> + '_ {
        let beside = self.grid[1] * self.grid[2];
        let first = row / self.chunk[0] * beside;
        (first..first + beside).map(|number| self.chunk(number as usize))
    }

    /// Rows that share all their chunks with this one; its first.
    pub fn chunk_row(&self, row: u64) -> u64 {
        row / self.chunk[0]
    }

    /// Number of a chunk in the grid.
    pub fn number_of(&self, chunk: &Chunk) -> usize {
        chunk.number
    }

    /// First byte of a row in the bytes of its chunk.
    pub fn row_in_chunk(&self, chunk: &Chunk, row: u64) -> usize {
        ((row - chunk.rows.start) * self.row_bytes()) as usize
    }

    /// The parts of a row that a chunk holds.
    pub fn parts_of_row(&self, chunk: &Chunk) -> impl Iterator<Item = RowPart> + use<> {
        let size = self.number.size() as u64;
        let (units, components) = (chunk.units.clone(), chunk.components.clone());
        let [_, _, wide] = self.shape;
        let stored = self.chunk[2];
        // whole units lie together in both
        let together = stored == wide;
        let (steps, len) = if together {
            (1, (units.end - units.start) * wide)
        } else {
            (units.end - units.start, components.end - components.start)
        };
        (0..steps).map(move |unit| RowPart {
            in_chunk: (unit * stored * size) as usize,
            in_row: (((units.start + unit) * wide + components.start) * size) as usize,
            len: (len * size) as usize,
        })
    }

    /// Fills bytes with the value of elements that were never written.
    pub fn put_fill(&self, bytes: &mut [u8]) {
        bytes.chunks_exact_mut(self.fill.len().max(1)).for_each(|place| place.copy_from_slice(&self.fill));
    }

    /// Whether any of the chunks of a row must be decoded whole.
    pub fn decodes(&self, row: u64) -> bool {
        self.filtered() && self.chunks_of_row(row).any(|chunk| matches!(self.stored(&chunk), Stored::Filtered(_)))
    }
}
