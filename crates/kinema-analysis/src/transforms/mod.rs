//! Transforms by name: changes of a frame before anybody sees it, see [`kinema_core::reduce::Transform`].

pub mod center;
mod centers;
pub mod cluster;
pub(crate) mod displacement;
mod fours;
mod groups;
pub(crate) mod images;
mod molecules;
mod nearest;
pub mod nojump;
mod progressive;
mod rotate_cell;
mod shortest_tree;
pub mod superpose;
mod tracked;
mod unit_cell;
pub mod whole;
pub mod wrap;

use std::sync::Arc;

use kinema_core::reduce::AnyTransform;
use kinema_core::{Error, ErrorKind, Result};

pub use groups::{Groups, Labels};
pub use images::{Fault, PeriodicCell};
pub use molecules::Molecules;

use crate::arguments::Arguments;

/// A transform as it is declared in its own file.
#[derive(Debug)]
pub struct TransformInfo {
    /// Name and version: "superpose/1". The version changes with the values that it gives.
    pub id: &'static str,
    /// Makes it.
    pub make: fn(&Arguments) -> Result<Arc<dyn AnyTransform>>,
}

impl TransformInfo {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.id.split_once('/').map_or(self.id, |(name, _)| name)
    }

    /// The transform.
    ///
    /// # Errors
    /// Errors of the transform; `InvalidArgument` for an argument that it does not know.
    pub fn transform(&self, arguments: &Arguments) -> Result<Arc<dyn AnyTransform>> {
        let transform = (self.make)(arguments)?;
        arguments.check_known()?;
        Ok(transform)
    }
}

/// All transforms.
pub static TRANSFORMS: &[TransformInfo] = &[
    center::TRANSFORM,
    centers::TRANSFORM,
    cluster::TRANSFORM,
    displacement::TRANSFORM,
    nojump::TRANSFORM,
    rotate_cell::TRANSFORM,
    superpose::TRANSFORM,
    whole::TRANSFORM,
    wrap::TRANSFORM,
];

/// The transform of that name.
///
/// # Errors
/// `InvalidArgument` for a name that no transform has.
pub fn named(name: &str) -> Result<&'static TransformInfo> {
    TRANSFORMS.iter().find(|info| info.name() == name).ok_or_else(|| {
        let names: Vec<_> = TRANSFORMS.iter().map(TransformInfo::name).collect();
        let what = format!("no transform is named {name:?}, expected one of {}", names.join(", "));
        Error::new(ErrorKind::InvalidArgument, what)
    })
}
