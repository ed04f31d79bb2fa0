"""The conformance suite of writers, what it needs of a format, and the law of extreme values."""
