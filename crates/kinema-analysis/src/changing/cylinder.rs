//! A cylinder along z in a periodic cell.
//!
//! If the first edge of the cell is along x and the second in the plane of x and y, an atom is moved along the third, the
//! second and the first edge in turn until it is within half of an edge from the centre, as in MDAnalysis, and that image
//! decides. In other cells, which MDAnalysis turns without the atoms, an atom is inside if one of its images is.

use kinema_core::frame::Cell;
use kinema_core::frame::lattice::Lattice;
use kinema_core::{Error, ErrorKind, Result};

type Vector = [f64; 3];

/// A cylinder, faces excluded, and the images of an atom that can be inside.
pub(super) struct Cylinder<'a> {
    center: Vector,
    /// Radius that is excluded, and radius.
    radii: (Option<f64>, f64),
    z: [f64; 2],
    images: Images<'a>,
}

enum Images<'a> {
    /// The periodic edges, each with the axis that it alone decides after those before it.
    InTurn(Vec<(usize, Vector)>),
    /// The nearest image plus these vectors.
    All(&'a Lattice, Vec<Vector>),
}

impl<'a> Cylinder<'a> {
    /// A cylinder of two radii, angstrom, from the lower to the upper `z` from its centre.
    /// Errors: `InvalidArgument` if it is wider or longer than an edge of a cell in which images are chosen in turn.
    pub(super) fn new(
        (lattice, cell): (&'a Lattice, &Cell),
        center: Vector,
        radii: (Option<f64>, f64),
        z: [f64; 2],
    ) -> Result<Self> {
        let edges = (0..3).rev().map(|axis| (axis, cell[axis])).filter(|(_, edge)| *edge != [0.0; 3]);
        let edges: Vec<(usize, Vector)> = if lattice.is_open() { Vec::new() } else { edges.collect() };
        let in_turn = |(axis, edge): &(usize, Vector)| edge[*axis] != 0.0 && edge[axis + 1..].iter().all(|x| *x == 0.0);
        if !edges.iter().all(in_turn) {
            let images = Images::All(lattice, shifts(lattice, radii.1.hypot(z[0].abs().max(z[1].abs()))));
            return Ok(Self { center, radii, z, images });
        }
        for (axis, edge) in &edges {
            let (size, name) = if *axis == 2 { (z[1] - z[0], "height") } else { (2.0 * radii.1, "diameter") };
            let most = length(edge);
            if size > most {
                let what =
                    format!("the {name} of a cylinder must fit into the cell, expected at most {most:.3} angstrom");
                return Err(Error::new(ErrorKind::InvalidArgument, format!("{what}, found {size:.3}")));
            }
        }
        Ok(Self { center, radii, z, images: Images::InTurn(edges) })
    }

    pub(super) fn has(&self, position: &[f32; 3]) -> bool {
        let mut from: Vector = std::array::from_fn(|c| f64::from(position[c]) - self.center[c]);
        match &self.images {
            Images::InTurn(edges) => {
                for (axis, edge) in edges {
                    let count = (from[*axis] / edge[*axis]).round_ties_even();
                    from.iter_mut().zip(edge).for_each(|(x, edge)| *x -= count * edge);
                }
                self.has_image(from)
            }
            Images::All(lattice, shifts) => {
                let nearest = lattice.nearest(from);
                shifts.iter().any(|shift| self.has_image([0, 1, 2].map(|c| nearest[c] + shift[c])))
            }
        }
    }

    fn has_image(&self, [x, y, z]: Vector) -> bool {
        let square = x * x + y * y;
        let (inner, outer) = self.radii;
        let outside = inner.is_none_or(|inner| square > inner * inner);
        outside && square < outer * outer && z > self.z[0] && z < self.z[1]
    }
}

fn length(vector: &Vector) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Lattice vectors that can move a nearest image to within `reach` from the origin.
fn shifts(lattice: &Lattice, reach: f64) -> Vec<Vector> {
    // a nearest image is at most half of the sum of the basis vectors long
    let reach = reach + 0.5 * lattice.basis().iter().map(length).sum::<f64>();
    let most = lattice.dual().map(|dual| (reach * length(&dual)).floor() as i64);
    let mut found = Vec::new();
    for first in -most[0]..=most[0] {
        for second in -most[1]..=most[1] {
            for third in -most[2]..=most[2] {
                let counts = [first, second, third].map(|count| count as f64);
                let shift: Vector = std::array::from_fn(|c| (0..3).map(|i| counts[i] * lattice.basis()[i][c]).sum());
                if length(&shift) <= reach {
                    found.push(shift);
                }
            }
        }
    }
    found
}
