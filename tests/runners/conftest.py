"""For tests that start an MPI program: `mpi`, which starts it with the launcher of this environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kinema as kn

# the launcher that belongs to the MPI library of this environment comes first
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")

BEGIN = """
import os, sys
import numpy as np
sys.path.insert(0, os.getcwd())
import kinema as kn
from mpi4py import MPI
rank = MPI.COMM_WORLD.Get_rank()

def say(*words):
    # in one piece: lines of other ranks may come between the words of print
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
"""


class MPI:
    """Starts MPI programs."""

    begin = BEGIN

    @staticmethod
    def environment(**more: str) -> dict[str, str]:
        package = str(Path(kn.__file__).parent.parent)
        return {**os.environ, "PYTHONPATH": package, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", **more}

    def started(
        self, n_ranks: int, words: list[str], folder: Path, *, program: str = sys.executable, **more: str
    ) -> subprocess.Popen[str]:
        assert MPIEXEC is not None, "no mpiexec: pip install kinema[mpi-local]"
        return subprocess.Popen(
            [MPIEXEC, "-n", str(n_ranks), program, *words],
            cwd=folder,
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @staticmethod
    def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
        """Exit code, stdout, stderr. A run that hangs fails the test, and is ended."""
        try:
            out, err = process.communicate(timeout=180)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"the ranks did not end: {out}{err}")
        return process.returncode, out, err

    def script(self, n_ranks: int, text: str, folder: Path, **more: str) -> str:
        """What the ranks of a script print."""
        (folder / "script.py").write_text(BEGIN + text)
        code, out, err = self.ended(self.started(n_ranks, ["script.py"], folder, **more))
        assert code == 0, out + err
        return out


@pytest.fixture(scope="session")
def mpi() -> MPI:
    """Starts MPI programs."""
    return MPI()
