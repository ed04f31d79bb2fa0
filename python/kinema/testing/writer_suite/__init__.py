"""The conformance suite of writers: a subclass of `WriterTests` in a test module says what its format holds."""

from kinema.testing.writer_suite.suite import WriterTests

__all__ = ["WriterTests"]
