//! Solvent-accessible surface areas, angstrom^2.
//!
//! Each atom is a sphere of its radius and that of a probe, with points on it; its area is `4 pi radius^2` times the
//! share of points in no sphere of another atom, or of an image. Source: A. Shrake, J. A. Rupley, J. Mol. Biol. 79, 351
//! (1973).

use std::f64::consts::PI;
use std::sync::Arc;

use kinema_core::frame::{Fields, Lattice};
use kinema_core::reduce::{Frame, Needs};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use crate::accessible_surface::{Caps, SpherePoints, exposed};
use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::Arguments;
use crate::cpu::{Cpu, dispatch};
use crate::geometry::CellList;
use crate::geometry::cell_list::Neighbors;
use crate::registry::KernelInfo;

/// The most points on a sphere.
const MOST_POINTS: usize = 10_000_000;

/// Columns: sums of the areas of atoms. `atoms` make the surface, `radii` are those of their spheres with the probe,
/// angstrom; `members` are places in `atoms`, of the first column, of the second and so on, and `ends` the end of each
/// column. `parts`, 0 or 1 for each atom: the surface is also made of the atoms of each part alone; `kinds` (one a column) says
/// which surface is meant: 0 that of all atoms, 1 that of the part alone, 2 what the latter has more. `scales` (one a
/// column) multiply the sums.
pub const KERNEL: KernelInfo = KernelInfo {
    id: Sasa::ID,
    make: |arguments| Ok(Arc::new(Rows(Sasa::new(arguments)?))),
    examples: |n_atoms, _| {
        let atoms: Vec<u32> = (0..n_atoms).rev().collect();
        let radii: Vec<f64> = atoms.iter().map(|atom| 2.6 + 0.2 * f64::from(atom % 4)).collect();
        let members: Vec<u32> = (0..n_atoms).collect();
        let all = Arguments::new(n_atoms).with("atoms", atoms).with("radii", radii).with("n_points", 100_i64);
        let each = all.clone().with("members", members.clone()).with("ends", (1..=n_atoms).collect::<Vec<_>>());
        let parts: Vec<u32> = members.iter().map(|atom| atom % 2).collect();
        let doubled = members.repeat(3);
        let of_parts = all
            .with("members", doubled)
            .with("ends", vec![n_atoms, 2 * n_atoms, 3 * n_atoms])
            .with("parts", parts)
            .with("kinds", vec![0_u32, 1, 2])
            .with("scales", vec![1.0, 1.0, 0.5]);
        vec![each, of_parts]
    },
};

struct Sasa {
    cpu: Cpu,
    atoms: AtomSelection,
    /// Radius of each atom of the set, with the probe.
    radii: Vec<f64>,
    /// The same in single precision.
    spheres: Vec<f32>,
    points: SpherePoints,
    columns: Vec<Column>,
    /// Members of the columns, places in the set.
    members: Vec<u32>,
    /// All members, ascending.
    measured: Vec<u32>,
    /// The same for each of both parts, if there are parts: zero for atoms of the other part.
    parts: Option<[Vec<f32>; 2]>,
    /// The longest distance at which two spheres meet.
    cutoff: f64,
}

struct Column {
    /// The end in the members.
    end: usize,
    surface: Surface,
    scale: f64,
}

#[derive(Clone, Copy)]
enum Surface {
    Whole,
    Alone,
    Buried,
}

/// Buffers of one worker.
#[derive(Default)]
struct Buffers {
    cells: CellList,
    caps: Caps,
    /// Positions of the members.
    measured: Vec<f32>,
    /// Free points of each atom: on the surface of all, and of its part alone.
    free: Vec<[u32; 2]>,
}

impl Sasa {
    fn new(arguments: &Arguments) -> Result<Self> {
        let atoms = arguments.unique_atoms("atoms")?;
        let radii = arguments.numbers("radii")?;
        if radii.len() != atoms.len() || radii.iter().any(|radius| !radius.is_finite() || *radius <= 0.0) {
            return Err(arguments.wrong("radii", "numbers above 0, one for each of atoms"));
        }
        let radii = atoms.reorder_as_set(radii, 1)?.into_owned();
        let n_points = arguments.count("n_points", 1)?;
        if n_points > MOST_POINTS {
            return Err(arguments.wrong("n_points", &format!("at most {MOST_POINTS}")));
        }
        let place = |at: u32| atoms.columns().map_or(at, |columns| columns[at as usize]);
        let given = arguments.index_rows::<1>("members")?.as_flattened();
        if given.iter().any(|at| *at as usize >= atoms.len()) {
            return Err(arguments.wrong("members", "places in atoms"));
        }
        let members: Vec<u32> = given.iter().map(|at| place(*at)).collect();
        let mut measured = members.clone();
        measured.sort_unstable();
        measured.dedup();
        let largest = radii.iter().copied().fold(0.0, f64::max);
        let cutoff = largest + measured.iter().map(|at| radii[*at as usize]).fold(0.0, f64::max);
        let columns = columns_from(arguments, members.len())?;
        let points = SpherePoints::new(n_points);
        let spheres: Vec<f32> = radii.iter().map(|radius| *radius as f32).collect();
        let parts = match arguments.has("parts") {
            true => Some(parts_from(arguments, &atoms, &spheres)?),
            false => None,
        };
        Ok(Self { cpu: arguments.cpu(), atoms, radii, spheres, points, columns, members, measured, parts, cutoff })
    }

    /// Counts the free points of an atom: on the surface of all, and of its part alone.
    fn count(&self, atom: u32, neighbors: &Neighbors, caps: &mut Caps) -> [u32; 2] {
        let whole = self.exposed(atom, &self.spheres, neighbors, caps);
        let Some(parts) = &self.parts else { return [whole; 2] };
        let own = &parts[usize::from(parts[1][atom as usize] > 0.0)];
        if neighbors.numbers().iter().all(|other| own[*other as usize] > 0.0) {
            return [whole; 2];
        }
        [whole, self.exposed(atom, own, neighbors, caps)]
    }

    fn exposed(&self, atom: u32, spheres: &[f32], neighbors: &Neighbors, caps: &mut Caps) -> u32 {
        dispatch!(
            self.cpu,
            u32,
            exposed,
            (
                points: &SpherePoints = &self.points,
                radii: (f32, &[f32]) = (self.spheres[atom as usize], spheres),
                neighbors: &Neighbors = neighbors,
                caps: &mut Caps = caps,
            )
        )
    }

    /// The area of a sphere for each of its points.
    fn of_point(&self, atom: u32) -> f64 {
        let radius = self.radii[atom as usize];
        4.0 * PI * radius * radius / self.points.len() as f64
    }
}

/// The spheres of each of both parts.
fn parts_from(arguments: &Arguments, atoms: &AtomSelection, spheres: &[f32]) -> Result<[Vec<f32>; 2]> {
    let parts = arguments.index_rows::<1>("parts")?.as_flattened();
    if parts.len() != atoms.len() || parts.iter().any(|part| *part > 1) {
        return Err(arguments.wrong("parts", "0 or 1, one for each of atoms"));
    }
    let parts: Vec<f64> = parts.iter().map(|part| f64::from(*part)).collect();
    let parts = atoms.reorder_as_set(&parts, 1)?;
    let of = |second: bool| {
        let own = |(one, sphere): (&f64, &f32)| if (*one > 0.5) == second { *sphere } else { 0.0 };
        parts.iter().zip(spheres).map(own).collect()
    };
    Ok([of(false), of(true)])
}

fn columns_from(arguments: &Arguments, n_members: usize) -> Result<Vec<Column>> {
    let ends = arguments.index_rows::<1>("ends")?.as_flattened();
    if !ends.is_sorted() || ends.last().is_none_or(|end| *end as usize != n_members) {
        return Err(arguments.wrong("ends", &format!("ascending, to {n_members}")));
    }
    let kinds = if arguments.has("kinds") { arguments.index_rows::<1>("kinds")?.as_flattened() } else { &[] };
    let scales = arguments.optional_numbers("scales")?.unwrap_or(&[]);
    let fits = |found: usize| found == 0 || found == ends.len();
    if !fits(kinds.len()) || kinds.iter().any(|kind| *kind > 2) {
        return Err(arguments.wrong("kinds", "0, 1 or 2, one for each of ends"));
    }
    if !fits(scales.len()) {
        return Err(arguments.wrong("scales", "numbers, one for each of ends"));
    }
    let surfaces = [Surface::Whole, Surface::Alone, Surface::Buried];
    let column = |(i, end): (usize, &u32)| Column {
        end: *end as usize,
        surface: kinds.get(i).map_or(Surface::Whole, |kind| surfaces[*kind as usize]),
        scale: scales.get(i).copied().unwrap_or(1.0),
    };
    Ok(ends.iter().enumerate().map(column).collect())
}

impl PerFrame for Sasa {
    const ID: &'static str = "sasa/1";
    type Value = f64;
    type Scratch = Buffers;

    fn needs(&self) -> Needs {
        Needs { fields: Fields::POSITIONS | Fields::CELL, atom_sets: vec![self.atoms.clone()] }
    }

    fn width(&self) -> usize {
        self.columns.len()
    }

    fn row(&self, frame: &Frame<'_>, buffers: &mut Buffers, values: &mut [f64]) -> Result<()> {
        let positions = frame.finite_positions(0)?;
        let lattice: Arc<Lattice> = frame.lattice()?;
        let Buffers { cells, caps, measured, free } = buffers;
        free.clear();
        free.resize(self.radii.len(), [0; 2]);
        let (atoms, _) = positions.as_chunks::<3>();
        if atoms.len() != self.radii.len() {
            return Err(Error::new(ErrorKind::Internal, "wrong number of atoms in a frame"));
        }
        measured.clear();
        measured.extend(self.measured.iter().flat_map(|atom| atoms[*atom as usize]));
        cells.visit_each(&lattice, [measured, positions], self.cutoff, |place, neighbors| {
            let atom = self.measured[place as usize];
            free[atom as usize] = self.count(atom, neighbors, caps);
        })?;
        let mut start = 0;
        for (column, value) in self.columns.iter().zip(values) {
            let area = |atom: &u32| {
                let [whole, alone] = free[*atom as usize];
                let points = match column.surface {
                    Surface::Whole => whole,
                    Surface::Alone => alone,
                    Surface::Buried => alone - whole,
                };
                f64::from(points) * self.of_point(*atom)
            };
            *value = column.scale * self.members[start..column.end].iter().map(area).sum::<f64>();
            start = column.end;
        }
        Ok(())
    }
}
