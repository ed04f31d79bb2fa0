//! Angles of axes in each frame, to a direction and to each other, degrees.
//!
//! The axis of a group of atoms is that of its least moment of inertia, in which the group is longest: the axis of a
//! helix. Between two groups it leads from the centre of the first to the centre of the second. Positions are used as
//! they are: molecules are not made whole.

use std::sync::Arc;

use kinema_core::frame::Fields;
use kinema_core::reduce::{Frame, Needs};
use kinema_core::selection::AtomSelection;
use kinema_core::{Error, ErrorKind, Result};

use crate::analyses::per_frame::{PerFrame, Rows};
use crate::arguments::Arguments;
use crate::geometry::{Center, Gyration, angle_of, cross, longest_direction};
use crate::registry::KernelInfo;

/// Columns: the angle of each axis to `direction`, then the angle of each pair of axes: (0, 1), (0, 2), (1, 2), (0, 3) and
/// so on. `atoms` has the atoms of all groups, `ends` the end of each among them; `masses`, one for each of `atoms`, may be
/// left out. `axes` has two groups for each axis: twice the same for its own axis. `direction` is 0 to 2 for x, y and z, 3
/// to 5 for the normals of the faces bc, ca and ab of the cell. Angles are from 0 to 90; with `signed` from 0 to 180, and
/// a group's own axis leads from its first to its last atom.
pub const KERNEL: KernelInfo = KernelInfo {
    id: AxisAngles::ID,
    make: |arguments| {
        let grouped = arguments.groups("atoms", "ends")?;
        let masses = arguments.optional_numbers("masses")?;
        if masses.is_some_and(|masses| masses.len() != grouped.places.len()) {
            return Err(arguments.wrong("masses", &format!("{} numbers", grouped.places.len())));
        }
        let groups = grouped.ranges().map(|range| {
            let weights = masses.map_or_else(|| vec![1.0; range.len()], |masses| masses[range.clone()].to_vec());
            Ok(Group {
                center: Center::mass_weighted(arguments.cpu(), &weights)?,
                tensor: Gyration::new(arguments.cpu(), &weights)?,
                places: grouped.places[range].to_vec(),
            })
        });
        let groups = groups.collect::<Result<Vec<_>>>()?;
        let axes = arguments.index_rows::<2>("axes")?.to_vec();
        if axes.is_empty() || axes.as_flattened().iter().any(|&group| group as usize >= groups.len()) {
            return Err(arguments.wrong("axes", &format!("numbers of groups (n, 2) below {}", groups.len())));
        }
        let direction = arguments.count("direction", 0)?;
        if direction > 5 {
            return Err(arguments.wrong("direction", "a number from 0 to 5"));
        }
        let signed = arguments.flag("signed", false)?;
        Ok(Arc::new(Rows(AxisAngles { groups, axes, direction, signed, atoms: grouped.atoms })))
    },
    examples: |n_atoms, _| {
        let (half, third) = (n_atoms.div_ceil(2), n_atoms.div_ceil(3));
        let atoms: Vec<u32> = (0..third).chain(0..n_atoms).chain((0..half).rev()).collect();
        let masses: Vec<f64> = atoms.iter().map(|atom| 1.0 + f64::from(*atom)).collect();
        let groups = Arguments::new(n_atoms)
            .with("atoms", atoms)
            .with("ends", vec![third, third + n_atoms, third + n_atoms + half]);
        let axes = groups.clone().with("axes", vec![[0_u32, 0], [1, 1], [0, 2]]).with("direction", 2_i64);
        let cell = groups.with("axes", vec![[0_u32, 1]]).with("masses", masses).with("direction", 3_i64);
        vec![axes, cell.with("signed", true)]
    },
};

struct AxisAngles {
    atoms: AtomSelection,
    groups: Vec<Group>,
    axes: Vec<[u32; 2]>,
    direction: usize,
    signed: bool,
}

struct Group {
    center: Center,
    tensor: Gyration,
    places: Vec<u32>,
}

impl Group {
    /// The positions of its atoms, in their order.
    fn gather<'a>(&self, xyz: &[[f32; 3]], gathered: &'a mut Vec<f32>) -> &'a [f32] {
        gathered.clear();
        gathered.extend(self.places.iter().flat_map(|&place| xyz[place as usize]));
        gathered
    }
}

impl AxisAngles {
    /// The axis of least moment of inertia of a group.
    fn own_axis(&self, group: &Group, row: &[f32]) -> Result<[f64; 3]> {
        let axis = longest_direction(group.tensor.tensor(row)?);
        let (xyz, _) = row.as_chunks::<3>();
        let (Some(first), Some(last)) = (xyz.first(), xyz.last()) else { return Ok(axis) };
        let along: f64 = (0..3).map(|c| axis[c] * (f64::from(last[c]) - f64::from(first[c]))).sum();
        Ok(if along < 0.0 { axis.map(|x| -x) } else { axis })
    }

    /// Degrees.
    fn angle(&self, u: [f64; 3], v: [f64; 3]) -> f64 {
        let angle = angle_of(u, v).to_degrees();
        if self.signed || angle <= 90.0 { angle } else { 180.0 - angle }
    }
}

impl PerFrame for AxisAngles {
    const ID: &'static str = "axis_angles/1";
    type Value = f64;
    /// Positions of a group, its centre and axis for each, and the axes.
    type Scratch = (Vec<f32>, Vec<[f64; 3]>);

    fn needs(&self) -> Needs {
        let cell = if self.direction > 2 { Fields::CELL } else { Fields::NONE };
        Needs { fields: Fields::POSITIONS | cell, atom_sets: vec![self.atoms.clone()] }
    }

    fn width(&self) -> usize {
        self.axes.len() * (self.axes.len() + 1) / 2
    }

    fn row(&self, frame: &Frame<'_>, (gathered, axes): &mut Self::Scratch, values: &mut [f64]) -> Result<()> {
        let (xyz, _) = frame.positions(0).as_chunks::<3>();
        if !xyz.as_flattened().iter().all(|x| x.is_finite()) {
            return Err(frame.not_finite(Fields::POSITIONS, 0));
        }
        axes.clear();
        for &[first, second] in &self.axes {
            let [first, second] = [first, second].map(|number| &self.groups[number as usize]);
            let from = first.gather(xyz, gathered);
            axes.push(if std::ptr::eq(first, second) {
                self.own_axis(first, from)?
            } else {
                let from = first.center.compute(from)?;
                let to = second.center.compute(second.gather(xyz, gathered))?;
                std::array::from_fn(|c| to[c] - from[c])
            });
        }
        let direction = match self.direction {
            at @ 0..3 => std::array::from_fn(|c| if c == at { 1.0 } else { 0.0 }),
            at => normal(frame, at - 3)?,
        };
        let pairs = (0..axes.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
        let to_direction = axes.iter().map(|&axis| self.angle(axis, direction));
        let to_each_other = pairs.map(|(i, j)| self.angle(axes[i], axes[j]));
        values.iter_mut().zip(to_direction.chain(to_each_other)).for_each(|(value, angle)| *value = angle);
        Ok(())
    }
}

/// The normal of a face of the cell: 0 to 2 for bc, ca and ab. The third edge may be open.
fn normal(frame: &Frame<'_>, face: usize) -> Result<[f64; 3]> {
    let periodic = frame.lattice()?.dual_of_edges();
    let [first, second] = [(face + 1) % 3, (face + 2) % 3].map(|edge| periodic[edge]);
    if first == [0.0; 3] || second == [0.0; 3] {
        let name = ["bc", "ca", "ab"][face];
        let what = format!("the cell has no face {name}, which direction names; choose x, y or z");
        return Err(Error::new(ErrorKind::InvalidArgument, what));
    }
    // without a third edge both lie in the face
    Ok(if periodic[face] == [0.0; 3] { cross(first, second) } else { periodic[face] })
}
