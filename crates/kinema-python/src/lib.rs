//! The Python module kinema._core.
