//! Solvent-accessible surfaces by points on spheres (Shrake and Rupley): the points, and which of them are in no other
//! sphere.
//!
//! Source: A. Shrake, J. A. Rupley, J. Mol. Biol. 79, 351 (1973).

pub(crate) mod caps;
pub(crate) mod points;

pub(crate) use caps::{Caps, exposed};
pub(crate) use points::SpherePoints;
