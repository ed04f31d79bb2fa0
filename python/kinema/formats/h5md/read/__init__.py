"""Reading H5MD: descriptions of its elements, by which the decoder in Rust reads."""
