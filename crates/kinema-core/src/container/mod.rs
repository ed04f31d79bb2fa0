//! How bytes are framed in files: records, padding, byte order. Knows no word of molecular dynamics.

pub mod xdr;
