//! Transforms: what is done to a frame before anybody sees it, see [`kinema_core::reduce::Transform`].

pub mod center;
pub mod cluster;
mod groups;
mod images;
mod molecules;
pub mod nojump;
pub mod superpose;
pub mod whole;
pub mod wrap;

pub use groups::{Groups, Labels};
pub use images::{Fault, PeriodicCell};
pub use molecules::Molecules;
