"""The threads runner passes the suite of all runners."""

from kinema.testing import RunnerTests


class TestThreads(RunnerTests):
    name = "threads"
