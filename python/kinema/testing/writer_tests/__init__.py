"""The conformance suite of writers, its description of a format, and the law of extreme values."""
