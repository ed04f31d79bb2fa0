"""`RunnerTests` on the ranks of an MPI program: `mpiexec -n 3 python tests/runners/mpi_cases.py`.

Rank 0 runs the tests, the others work for it. `test_mpi.py` starts it; pytest alone does not collect it.
"""

from __future__ import annotations

import sys

import pytest

import kinema as kn
from kinema.runners import Runner
from kinema.testing import RunnerTests

RANKS: list[kn.runners.MPI] = []


class TestMPI(RunnerTests):
    """With the options that the command line names."""

    name = "mpi"
    options: dict[str, object] = {}  # noqa: RUF012

    def make(self) -> Runner:
        """On the ranks of this program."""
        return RANKS[0].configured(**self.options)


def _run(words: list[str]) -> int:
    """The exit code of the tests; words are options of the runner, option=value, and then pytest's."""
    with kn.runners.MPI() as ranks:
        if not ranks.leads:
            return 0
        own = [word.partition("=") for word in words if "=" in word and not word.startswith("-")]
        TestMPI.options = {name: int(value) if value.isdecimal() else value for name, _, value in own}
        TestMPI.worker_counts = (None, *sorted({1, 2, ranks.size} & set(range(1, ranks.size + 1))))
        # pytest imports this file once more, by its own name
        sys.modules["mpi_cases"] = sys.modules["__main__"]
        RANKS.append(ranks)
        rest = [word for word in words if "=" not in word or word.startswith("-")]
        return int(pytest.main([__file__, "-q", "-x", "-p", "no:cacheprovider", "--import-mode=prepend", *rest]))


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1:]))
