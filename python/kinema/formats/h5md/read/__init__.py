"""Reading H5MD: descriptions of its elements that the Rust half reads by."""
