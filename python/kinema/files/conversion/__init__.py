"""The making of files for `kinema.convert`: selected frames, encoders and Writers, comparison with the source."""
