//! Transforms: what is done to a frame before anybody sees it, see [`kinema_core::reduce::Transform`].

pub mod center;
mod groups;
mod images;
mod molecules;
pub mod superpose;
pub mod whole;
pub mod wrap;

pub use groups::{Groups, Labels};
pub use images::{Fault, PeriodicCell};
pub use molecules::Molecules;
