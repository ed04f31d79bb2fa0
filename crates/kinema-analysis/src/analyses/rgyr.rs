//! Radius of gyration, in total and about each axis, in one pass over a frame's atoms.
//!
//! It does not make molecules whole: atoms are taken where they stand. The formulas, with masses m and centre of mass c:
//! `sqrt(sum m |r - c|^2 / sum m)`, as MDAnalysis' `radius_of_gyration`; about x: `sqrt(sum m ((r_y - c_y)^2 +
//! (r_z - c_z)^2) / sum m)`, as `gmx gyrate`.

use kinema_core::Result;
use kinema_core::frame::{BlockView, Fields};
use kinema_core::reduce::{AtomMap, Buffers, Kernel, Needs, ResultArray};
use kinema_core::selection::AtomSelection;

use crate::blocks;
use crate::cpu::{Cpu, dispatch};
use crate::lanes::{Lanes, Quad, Registers, atoms_as_lanes, fill_up};
use crate::partials::series::Series;
use crate::weights::relative_to_mean;

const ID: &str = "rgyr/1";

/// The radius of gyration of each frame. Results: "time" (n), ps; "values", angstrom: (n, 1), or with axes (n, 4):
/// total, about x, about y, about z.
#[derive(Debug, Clone)]
pub struct Rgyr {
    cpu: Cpu,
    atoms: AtomSelection,
    weights: Vec<Lanes>,
    axes: bool,
}

impl Rgyr {
    /// Of `atoms`, with one mass an atom in their requested order, or all alike.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty set, an atom requested twice, and for masses that are negative, all zero or of another number.
    pub fn new(atoms: AtomSelection, masses: Option<&[f64]>, axes: bool) -> Result<Self> {
        Self::for_cpu(Cpu::detect(), atoms, masses, axes)
    }

    /// As [`Rgyr::new`], for a stated build of the loops; results are the same bits.
    ///
    /// # Errors
    /// As there.
    pub fn for_cpu(cpu: Cpu, atoms: AtomSelection, masses: Option<&[f64]>, axes: bool) -> Result<Self> {
        blocks::check_set(&atoms, "atom set")?;
        atoms.check_unique()?;
        let relative = match masses {
            Some(masses) => relative_to_mean(&atoms.in_set_order(masses, 1)?, atoms.len())?,
            None => vec![1.0; atoms.len()],
        };
        Ok(Self { cpu, weights: atoms_as_lanes(&relative), atoms, axes })
    }

    fn width(&self) -> usize {
        if self.axes { 4 } else { 1 }
    }

    /// Mean squares of x, y and z about the centre.
    #[inline(never)]
    fn mean_squares(&self, row: &[f32]) -> [f64; 3] {
        let (position, square) = dispatch!(
            self.cpu,
            ([f64; 3], [f64; 3]),
            gather,
            (row: &[f32] = row, weights: &[Lanes] = &self.weights)
        );
        // Weights are relative to their mean: their sum is the number of atoms.
        let total = self.atoms.len() as f64;
        std::array::from_fn(|c| (square[c] - position[c] * (position[c] / total)) / total)
    }

    fn add_row(&self, row: &[f32], map: &AtomMap, buffers: &mut Buffers, values: &mut Vec<f64>) -> Result<()> {
        let gathered = blocks::gather(ID, map, row, &mut buffers.first)?;
        let [x, y, z] = self.mean_squares(gathered);
        let sum = x + y + z;
        if !sum.is_finite() {
            return Err(blocks::not_finite(&self.atoms, gathered));
        }
        values.push(sum.max(0.0).sqrt());
        if self.axes {
            values.extend([y + z, x + z, x + y].map(|square| square.max(0.0).sqrt()));
        }
        Ok(())
    }
}

/// Weighted sums of coordinates and of their squares, relative to the first atom.
#[inline(always)]
fn gather<Q: Quad>(row: &[f32], weights: &[Lanes]) -> ([f64; 3], [f64; 3]) {
    let first = row.first_chunk::<3>().copied().unwrap_or_default();
    let origin = Registers::<Q>::load(&Lanes::repeat(first.map(f64::from)));
    let mut sums = [Registers::<Q>::zero(); 2];
    let (groups, tail) = row.as_chunks::<12>();
    for (group, weights) in groups.iter().zip(weights) {
        add(&mut sums, group, &origin, weights);
    }
    if let (false, Some(weights)) = (tail.is_empty(), weights.last()) {
        add(&mut sums, &fill_up(tail, first), &origin, weights);
    }
    (sums[0].fold(), sums[1].fold())
}

#[inline(always)]
fn add<Q: Quad>(sums: &mut [Registers<Q>; 2], group: &[f32; 12], origin: &Registers<Q>, weights: &Lanes) {
    let x = Registers::relative(group, origin);
    let weighted = x.times(&Registers::load(weights));
    sums[0].add(&weighted);
    sums[1].add_product(&weighted, &x);
}

impl Kernel for Rgyr {
    type Partial = Series;

    fn id(&self) -> &'static str {
        ID
    }

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS, atom_sets: vec![self.atoms.clone()] }
    }

    fn empty(&self) -> Series {
        Series::default()
    }

    fn accumulate(
        &self,
        partial: &mut Series,
        block: &BlockView<'_>,
        maps: &[AtomMap],
        buffers: &mut Buffers,
    ) -> Result<()> {
        blocks::check(ID, block, maps, &[&self.atoms])?;
        let rows = partial.open(block.rows(), self.width());
        for map in maps {
            for (row, (frame, stamp)) in block.frames.iter().zip(block.stamps).enumerate() {
                self.add_row(block.positions_of(row), map, buffers, &mut rows.values)
                    .map_err(|error| error.at_frame(*frame))?;
                rows.times.push(stamp.time);
            }
        }
        Ok(())
    }

    fn merge(&self, left: &mut Series, right: Series) -> Result<()> {
        left.append(right);
        Ok(())
    }

    fn finish(&self, partial: Series) -> Result<Vec<ResultArray>> {
        partial.results(ID, self.width())
    }

    fn to_bytes(&self, partial: &Series) -> Result<Vec<u8>> {
        Ok(partial.to_bytes(ID, self.width()))
    }

    fn from_bytes(&self, bytes: &[u8]) -> Result<Series> {
        Series::from_bytes(ID, self.width(), bytes)
    }
}
