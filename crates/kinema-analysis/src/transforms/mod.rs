//! Transforms: what is done to a frame before anybody sees it, see [`kinema_core::reduce::Transform`].

pub mod superpose;
