//! The frames of a block as a kernel sees them: the atoms of each of its sets side by side, and the lattices of the
//! cells.
//!
//! The binding of a kernel to blocks gathers the atoms; kernels know neither blocks nor the places of atoms in them.

use std::cell::RefCell;
use std::sync::Arc;

use super::Needs;
use crate::error::{Error, ErrorKind, Result};
use crate::frame::{AtomGather, BlockView, Cell, Fields, GatherRoom, Lattice, Stamp};
use crate::selection::AtomSelection;

/// Bytes of a set that are gathered for a kernel at a time, and stay in the second-level cache; at least one row.
const GATHERED_BYTES: usize = 256 << 10;

/// Lattices that are kept; a power of two.
const KEPT_LATTICES: u64 = 1 << 9;

/// Workspace that a worker's kernels share, as they run one after another: one lattice for each cell and its periodic
/// edges, computed on request, and the room for gathered atoms, which so stays in the cache from kernel to kernel.
#[derive(Debug, Default)]
pub struct Workspace {
    lattices: RefCell<Kept>,
    /// One room a set.
    gathered: RefCell<Vec<GatherRoom>>,
}

/// A cell, and along which edges it is periodic.
type CellAndEdges = (Cell, [bool; 3]);

#[derive(Debug, Default)]
struct Kept {
    /// Place of the last lattice: if the cell is constant, it serves every frame.
    last: usize,
    /// By frame number, modulo their number.
    by_frame: Vec<Option<(CellAndEdges, Arc<Lattice>)>>,
}

impl Workspace {
    /// The lattice of a frame's cell along the edges that are periodic.
    fn lattice(&self, frame: u64, stamp: &Stamp) -> Result<Arc<Lattice>> {
        let key = (stamp.cell, stamp.periodic);
        let mut kept = self.lattices.borrow_mut();
        let place = (frame % KEPT_LATTICES) as usize;
        for at in [kept.last, place] {
            if let Some((_, lattice)) = kept.by_frame.get(at).and_then(Option::as_ref).filter(|(of, _)| *of == key) {
                let lattice = lattice.clone();
                kept.last = at;
                return Ok(lattice);
            }
        }
        let lattice =
            Arc::new(Lattice::new(&key.0, key.1).map_err(|error| Error::new(ErrorKind::Corrupt, error.what()))?);
        if kept.by_frame.len() <= place {
            kept.by_frame.resize(place + 1, None);
        }
        kept.by_frame[place] = Some((key, lattice.clone()));
        kept.last = place;
        Ok(lattice)
    }
}

/// The atom sets of a kernel with their places in the blocks of one worker, and the room in which their atoms are
/// gathered.
#[derive(Debug)]
pub struct AtomSets {
    needs: Needs,
    n_selected: usize,
    /// One gather a set; `None` if the block is the set.
    gathers: Vec<Option<AtomGather>>,
    /// Rows that are gathered at a time.
    rows: usize,
}

impl AtomSets {
    /// Sets for a kernel's `needs`, in blocks that hold the atoms `block`.
    ///
    /// # Errors
    /// `InvalidArgument` if blocks lack an atom of a set.
    pub fn new(needs: Needs, block: &AtomSelection) -> Result<Self> {
        let places = needs.atom_sets.iter().map(|set| set.positions_in(block)).collect::<Result<Vec<_>>>()?;
        let widest = places.iter().flatten().map(|places| 12 * places.len()).max();
        let rows = widest.map_or(usize::MAX, |bytes| (GATHERED_BYTES / bytes.max(1)).max(1));
        let gathers = places.into_iter().map(|places| places.map(AtomGather::new)).collect();
        Ok(Self { needs, n_selected: block.len(), gathers, rows })
    }

    /// Calls `see` with the frames of a block, in order, as many at a time as are gathered together.
    ///
    /// # Errors
    /// `Internal` for a block of other atoms or without a field that is needed; errors of `see`.
    pub fn visit(
        &mut self,
        block: &BlockView<'_>,
        workspace: &Workspace,
        see: impl FnMut(&Frames<'_>) -> Result<()>,
    ) -> Result<()> {
        let block = self.needed(block)?;
        self.exchange_rooms(workspace);
        let seen = self.visit_gathered(block, workspace, see);
        self.exchange_rooms(workspace);
        seen
    }

    /// Takes the room of the worker, or gives it back.
    fn exchange_rooms(&mut self, workspace: &Workspace) {
        let mut rooms = workspace.gathered.borrow_mut();
        if rooms.len() < self.gathers.len() {
            rooms.resize_with(self.gathers.len(), GatherRoom::default);
        }
        for (gather, room) in self.gathers.iter_mut().zip(rooms.iter_mut()) {
            gather.iter_mut().for_each(|gather| gather.exchange_room(room));
        }
    }

    fn visit_gathered(
        &mut self,
        block: BlockView<'_>,
        workspace: &Workspace,
        mut see: impl FnMut(&Frames<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut start = 0;
        while start < block.rows() {
            let end = block.rows().min(start.saturating_add(self.rows));
            let block = block.rows_in(start..end);
            self.gathers.iter_mut().flatten().for_each(|gather| gather.fill(&block));
            see(&Frames { block, sets: self, workspace })?;
            start = end;
        }
        Ok(())
    }

    /// The block, with only the needed vectors.
    fn needed<'a>(&self, block: &BlockView<'a>) -> Result<BlockView<'a>> {
        let wrong = |what: String, expected: usize, found: usize| {
            Err(Error::new(ErrorKind::Internal, format!("wrong {what} of a block, expected {expected}, found {found}")))
        };
        if block.n_selected != self.n_selected {
            return wrong("number of atoms".to_owned(), self.n_selected, block.n_selected);
        }
        if block.stamps.len() != block.rows() {
            return wrong("number of times".to_owned(), block.rows(), block.stamps.len());
        }
        let size = block.rows().saturating_mul(block.n_selected).saturating_mul(3);
        let mut vectors = [block.positions, block.velocities, block.forces];
        for (field, values) in Fields::VECTORS.into_iter().zip(&mut vectors) {
            if !self.needs.fields.contains(field) {
                *values = &[];
            } else if values.len() != size {
                return wrong(format!("size of the {}", field.names().concat()), size, values.len());
            }
        }
        let [positions, velocities, forces] = vectors;
        Ok(BlockView { positions, velocities, forces, ..*block })
    }
}

/// Frames of a block, one after the other; row `i` is the i-th.
#[derive(Debug, Clone, Copy)]
pub struct Frames<'a> {
    block: BlockView<'a>,
    sets: &'a AtomSets,
    workspace: &'a Workspace,
}

impl<'a> Frames<'a> {
    /// Number of frames.
    pub fn rows(&self) -> usize {
        self.block.rows()
    }

    /// Their numbers in the trajectory.
    pub fn numbers(&self) -> &'a [u64] {
        self.block.frames
    }

    /// Their cells, steps and times (ps).
    pub fn stamps(&self) -> &'a [Stamp] {
        self.block.stamps
    }

    /// A set's vectors of a field in all rows, `rows x atoms x 3`, atoms ascending; empty for a field that the kernel does
    /// not need.
    ///
    /// # Panics
    /// For a set that the kernel does not need.
    #[inline]
    pub fn all(&self, field: Fields, set: usize) -> &'a [f32] {
        let view = match &self.sets.gathers[set] {
            Some(gather) => gather.view(self.block),
            None => self.block,
        };
        match field {
            Fields::VELOCITIES => view.velocities,
            Fields::FORCES => view.forces,
            _ => view.positions,
        }
    }

    /// One of the frames.
    ///
    /// # Panics
    /// For a row that does not exist.
    #[inline]
    pub fn frame(&self, row: usize) -> Frame<'a> {
        Frame { number: self.block.frames[row], stamp: &self.block.stamps[row], row, frames: *self }
    }

    /// All of them, in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Frame<'a>> + use<'a> {
        let frames = *self;
        (0..self.rows()).map(move |row| frames.frame(row))
    }

    /// The error for vectors of a set that are not finite: it names the first such atom, and its frame.
    #[cold]
    pub fn not_finite(&self, field: Fields, set: usize) -> Error {
        let bad = self.iter().find(|frame| frame.vectors(field, set).iter().any(|value| !value.is_finite()));
        bad.map_or_else(
            || Error::new(ErrorKind::Corrupt, "sums over atoms are not finite"),
            |frame| frame.not_finite(field, set).with_frame(frame.number),
        )
    }
}

/// One frame as a kernel sees it.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// Its number in the trajectory.
    pub number: u64,
    /// Its cell, step and time (ps).
    pub stamp: &'a Stamp,
    row: usize,
    frames: Frames<'a>,
}

impl<'a> Frame<'a> {
    /// The positions of a set, `atoms x 3`, angstrom, atoms ascending.
    ///
    /// # Panics
    /// For a set that the kernel does not need.
    #[inline]
    pub fn positions(&self, set: usize) -> &'a [f32] {
        self.vectors(Fields::POSITIONS, set)
    }

    /// The positions of a set, which are finite.
    ///
    /// # Errors
    /// [`Frame::not_finite`].
    pub fn finite_positions(&self, set: usize) -> Result<&'a [f32]> {
        let positions = self.positions(set);
        if all_finite(positions) { Ok(positions) } else { Err(self.not_finite(Fields::POSITIONS, set)) }
    }

    /// Vectors of any field: velocities in angstrom/ps, forces in kJ/(mol angstrom); empty if the kernel does not need
    /// the field.
    ///
    /// # Panics
    /// For a set that the kernel does not need.
    #[inline]
    pub fn vectors(&self, field: Fields, set: usize) -> &'a [f32] {
        let width = 3 * match &self.frames.sets.gathers[set] {
            Some(gather) => gather.n_atoms(),
            None => self.frames.block.n_selected,
        };
        let all = self.frames.all(field, set);
        if all.is_empty() { all } else { &all[self.row * width..][..width] }
    }

    /// The lattice of its cell along its periodic edges. It is reused if the frame before had the same cell, or if
    /// another kernel has requested it.
    ///
    /// # Errors
    /// `Corrupt`, with the frame, for a cell that is not finite or spans nothing; `Internal` for a kernel that does not
    /// need cells.
    pub fn lattice(&self) -> Result<Arc<Lattice>> {
        if !self.frames.sets.needs.fields.contains(Fields::CELL) {
            return Err(Error::new(ErrorKind::Internal, "a kernel asks for a cell that is not among its needs"));
        }
        self.frames.workspace.lattice(self.number, self.stamp).map_err(|error| error.with_frame(self.number))
    }

    /// The same, or a lattice without periodic edges if nearest images do not count.
    ///
    /// # Errors
    /// As [`Frame::lattice`].
    pub fn lattice_if(&self, nearest_images: bool) -> Result<Arc<Lattice>> {
        if nearest_images { self.lattice() } else { Ok(Arc::new(Lattice::open())) }
    }

    /// The error for vectors of a set that are not finite, which names the first such atom of the trajectory.
    #[cold]
    pub fn not_finite(&self, field: Fields, set: usize) -> Error {
        let atoms = self.vectors(field, set).as_chunks::<3>().0;
        let at = atoms.iter().position(|atom| atom.iter().any(|value| !value.is_finite()));
        match at.and_then(|at| self.frames.sets.needs.atom_sets[set].iter().nth(at)) {
            Some(atom) => {
                let what = match field {
                    Fields::VELOCITIES => "velocity",
                    Fields::FORCES => "force",
                    _ => "position",
                };
                Error::new(ErrorKind::Corrupt, format!("{what} of atom {} (counted from 1) is not finite", atom + 1))
            }
            None => Error::new(ErrorKind::Corrupt, "sums over atoms are not finite"),
        }
    }
}

/// Whether all values are finite.
pub fn all_finite(values: &[f32]) -> bool {
    // a product with a value that is not finite is not zero, nor is a sum that has it; sums of lanes need not wait
    let (blocks, rest) = values.as_chunks::<32>();
    let mut lanes = [0.0; 32];
    for block in blocks {
        lanes.iter_mut().zip(block).for_each(|(sum, value)| *sum += value * 0.0);
    }
    lanes.into_iter().chain(rest.iter().map(|value| value * 0.0)).sum::<f32>() == 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Block;

    const N_ATOMS: u32 = 4;

    /// Frames 10, 11 and so on, of as many atoms as a selection of all has.
    fn block(rows: usize, fields: Fields) -> Block {
        let mut block = Block::default();
        block.reset((0..rows as u64).map(|row| 10 + row), N_ATOMS as usize, fields);
        for (vectors, first) in [(&mut block.positions, 0.0), (&mut block.velocities, 1e3), (&mut block.forces, 1e6)] {
            vectors.iter_mut().enumerate().for_each(|(i, value)| *value = first + i as f32);
        }
        block
    }

    /// Values of `see`, one for each call of a visit of the atoms 1 and 3.
    fn seen<T>(block: &Block, fields: Fields, mut see: impl FnMut(&Frames<'_>) -> T) -> Vec<T> {
        let pair = AtomSelection::from_sorted(vec![1, 3], N_ATOMS).expect("two atoms");
        let needs = Needs { fields, atom_sets: vec![pair, AtomSelection::all(N_ATOMS)] };
        let mut sets = AtomSets::new(needs, &AtomSelection::all(N_ATOMS)).expect("blocks have the atoms");
        let mut all = Vec::new();
        let visited = sets.visit(&block.view(), &Workspace::default(), |frames| {
            all.push(see(frames));
            Ok(())
        });
        visited.expect("a block of these atoms and fields");
        all
    }

    #[test]
    fn a_set_has_its_atoms_of_each_field_and_none_of_a_field_that_is_not_needed() {
        let fields = Fields::POSITIONS | Fields::VELOCITIES | Fields::FORCES;
        let block = block(2, fields);
        let atoms = [3.0, 4.0, 5.0, 9.0, 10.0, 11.0, 15.0, 16.0, 17.0, 21.0, 22.0, 23.0];
        for (field, first) in [(Fields::POSITIONS, 0.0), (Fields::VELOCITIES, 1e3), (Fields::FORCES, 1e6)] {
            let expected = atoms.map(|value| first + value);
            let rows = seen(&block, fields, |frames| {
                assert_eq!(frames.all(field, 0), expected);
                frames.iter().map(|frame| (frame.number, frame.vectors(field, 0).to_vec())).collect::<Vec<_>>()
            });
            assert_eq!(rows, [[(10, expected[..6].to_vec()), (11, expected[6..].to_vec())]]);
            for other in Fields::VECTORS.into_iter().filter(|other| *other != field) {
                let sizes = seen(&block, field, |frames| [0, 1].map(|set| frames.all(other, set).len()));
                assert_eq!(sizes, [[0, 0]], "{:?} are not needed", other.names());
            }
        }
    }

    #[test]
    fn as_many_frames_are_gathered_together_as_stay_in_the_cache() {
        // 24 bytes of two atoms in each frame
        let most = GATHERED_BYTES / 24;
        assert!(most > 1000);
        for (rows, expected) in [(1, vec![1]), (most, vec![most]), (most + 3, vec![most, 3])] {
            assert_eq!(seen(&block(rows, Fields::POSITIONS), Fields::POSITIONS, |frames| frames.rows()), expected);
        }
    }

    #[test]
    fn what_is_not_finite_is_named_by_its_atom_its_field_and_its_frame() {
        for (field, name) in
            [(Fields::POSITIONS, "position"), (Fields::VELOCITIES, "velocity"), (Fields::FORCES, "force")]
        {
            let mut block = block(3, field);
            let vectors = [&mut block.positions, &mut block.velocities, &mut block.forces];
            // the y of atom 3 in the second frame, and of all that follow
            vectors.into_iter().filter(|values| !values.is_empty()).for_each(|values| values[22..].fill(f32::NAN));
            let errors = seen(&block, field, |frames| frames.not_finite(field, 0));
            assert_eq!(errors[0].kind(), ErrorKind::Corrupt);
            let text = errors[0].to_string();
            assert!(text.contains(&format!("{name} of atom 4 (counted from 1) is not finite")), "{text}");
            assert!(text.contains("frame 11"), "{text}");
        }
        let sound =
            seen(&block(3, Fields::POSITIONS), Fields::POSITIONS, |frames| frames.not_finite(Fields::POSITIONS, 0));
        assert_eq!(sound[0].to_string(), "sums over atoms are not finite");
    }

    #[test]
    fn a_value_that_is_not_finite_is_found_at_any_place() {
        for n in [0, 1, 31, 32, 33, 64, 100] {
            let mut values: Vec<f32> = (0..n).map(|i| [f32::MAX, -f32::MAX, -0.0, f32::MIN_POSITIVE][i % 4]).collect();
            assert!(all_finite(&values), "{n}");
            for at in 0..n {
                for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let value = std::mem::replace(&mut values[at], wrong);
                    assert!(!all_finite(&values), "{wrong} at {at} of {n}");
                    values[at] = value;
                }
            }
        }
    }
}
