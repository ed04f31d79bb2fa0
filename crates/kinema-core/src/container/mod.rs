//! How bytes are framed: no word of molecular dynamics in here.
