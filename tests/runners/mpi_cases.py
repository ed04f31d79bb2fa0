"""`RunnerTests` on the ranks of an MPI program: `mpiexec -n 3 python tests/runners/mpi_cases.py`.

Rank 0 runs the tests, the others work for it. `test_mpi.py` starts it; pytest alone does not collect it.
"""

from __future__ import annotations

import operator
import sys
import time
from pathlib import Path

import pytest
from mpi4py import MPI

import kinema as kn
from kinema.runners import Runner
from kinema.testing import RunnerTests
from kinema.testing.amounts import LONG

RANKS: list[kn.runners.MPI] = []


def _rank(_: object) -> int:
    return int(MPI.COMM_WORLD.Get_rank())


def _meet(folder: Path) -> None:
    """Waits until it was called on two ranks."""
    (folder / str(_rank(folder))).touch()
    until = time.monotonic() + 120
    while len(list(folder.iterdir())) < 2:
        if time.monotonic() > until:
            raise TimeoutError("no other rank was called")
        time.sleep(0.01)


class TestMPI(RunnerTests):
    """With the options that the command line names."""

    name = "mpi"
    options: dict[str, object] = {}  # noqa: RUF012

    def make(self) -> Runner:
        """On the ranks of this program."""
        return RANKS[0].configured(**self.options)

    def test_map(self, tmp_path: Path) -> None:
        """Functions of others, MDAnalysis' analyses among them."""
        runner = self.make()
        seen: list[int] = []
        assert runner.map(operator.neg, list(range(20)), progress=seen.append) == [-n for n in range(20)]
        assert sorted(seen) == list(range(20))
        assert runner.map(operator.neg, [3], workers=1) == [-3]
        assert runner.map(_rank, list(range(40)), workers=1) == [0] * 40
        if RANKS[0].size > 1:
            runner.map(_meet, [tmp_path] * 2)
        assert runner.map(operator.neg, []) == []
        with pytest.raises(kn.ArgumentError, match="start mpiexec with more"):
            runner.map(operator.neg, [3], workers=99)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError) as caught:
                runner.map((1).__truediv__, [4, 2, 0, 1, 5, 6, 7, 8])
            notes = "\n".join(caught.value.__notes__)
            assert "part 3 of 8" in notes
            assert "on rank " in notes

        def stop(_number: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            runner.map(operator.neg, list(range(20)), progress=stop)
        # and nothing is left that would disturb the next one
        assert runner.map(operator.neg, list(range(20))) == [-n for n in range(20)]

    def test_analyses_of_mdanalysis(self) -> None:
        """The results of MDAnalysis' serial backend."""
        import MDAnalysis
        from MDAnalysis.analysis.rms import RMSD
        from MDAnalysisTests.datafiles import DCD, PSF

        from kinema.interop.mdanalysis import Backend

        universe = MDAnalysis.Universe(PSF, DCD)
        expected = RMSD(universe, select="name CA").run().results.rmsd
        backend = Backend(self.make(), progress=False)
        found = RMSD(universe, select="name CA").run(backend=backend, unsupported_backend=True, n_parts=7)
        assert found.results.rmsd.tobytes() == expected.tobytes()


def _run(words: list[str]) -> int:
    """The exit code of the tests; words are options of the runner, option=value, and then pytest's."""
    with kn.runners.MPI() as ranks:
        if not ranks.is_root:
            return 0
        own = [word.partition("=") for word in words if "=" in word and not word.startswith("-")]
        TestMPI.options = {name: int(value) if value.isdecimal() else value for name, _, value in own}
        # all ranks, and some; more in a long run
        counts = {1, 2, ranks.size} if LONG else {max(1, ranks.size - 1)}
        TestMPI.worker_counts = (None, *sorted(counts & set(range(1, ranks.size + 1))))
        # pytest imports this file once more, by its own name
        sys.modules["mpi_cases"] = sys.modules["__main__"]
        RANKS.append(ranks)
        rest = [word for word in words if "=" not in word or word.startswith("-")]
        return int(pytest.main([__file__, "-q", "-x", "-p", "no:cacheprovider", "--import-mode=prepend", *rest]))


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1:]))
