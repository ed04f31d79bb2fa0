"""Strategies: the table of the documents, hints, what does not exist; examples of `docs/parallel-writing.md`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import kinema as kn
from kinema.formats.strategies import (
    AXES,
    STRATEGIES,
    check_strategy,
    check_verify,
    hints_of,
    strategies_of,
    table_rows,
    verifying,
)
from kinema.formats.writer_choice import CLASSES, OPTIONS_OF_RANKS

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "parallel-writing.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("axis", AXES)
def test_the_tables_of_the_documents(axis: Literal["atoms", "frames"]) -> None:
    over = {"atoms": "ranks", "frames": "workers"}[axis]
    page = (DOCS / "formats.md").read_text(encoding="utf-8")
    (table,) = re.findall(rf"## Strategies with {axis} over {over}\n\n.*?\n\n(.*?)\n(?:\n|$)", page, re.DOTALL)
    head, *rows = ["| " + " | ".join(row) + " |" for row in table_rows(axis)]
    assert table.splitlines() == [head, "|---" * (1 + len(STRATEGIES)) + "|", *rows]


def test_every_writer_has_strategies() -> None:
    for name in CLASSES:
        assert check_strategy(name, "atoms", "auto") == strategies_of(name)[0]


def test_pairs_that_do_not_exist_show_the_table() -> None:
    with pytest.raises(kn.ArgumentError, match=r"XTC has no strategy 'mpiio' with atoms .*the table is: DL_POLY"):
        check_strategy("XTC", "atoms", "mpiio")
    with pytest.raises(kn.ArgumentError, match="no strategy writes NONSENSE"):
        strategies_of("NONSENSE")


def test_strategies_that_verify() -> None:
    assert verifying("XTC") == ("gather",)
    assert set(verifying("DCD")) == {"direct", "mpiio", "mpiio-collective", "gather"}
    assert verifying("H5MD") == strategies_of("H5MD")
    assert set(verifying("H5MD (contiguous)")) == {"direct", "mpiio", "mpiio-collective"} and verifying("PDB") == ()
    check_verify("DCD", "mpiio")
    with pytest.raises(kn.ArgumentError, match=r"not for strategy .serial. of XTC, choose one of gather$"):
        check_verify("XTC", "serial")
    with pytest.raises(kn.ArgumentError, match="no strategy of PDB verifies: leave verify= out"):
        check_verify("PDB", "serial")


def test_hints() -> None:
    hints = hints_of({"cb_nodes": "3", "cb_buffer_size": 1 << 20, "striping_factor": 4}, "direct")
    assert (hints.writers, hints.batch_bytes, hints.unused) == (3, 1 << 20, ("striping_factor",))
    assert hints_of({"anything": 1}, "mpiio").info == {"anything": "1"}
    for wrong in ({"anything": 1}, {"cb_nodes": 0}, {"cb_nodes": "x"}, {"cb_buffer_size": 3}, {3: 4}, [1]):
        with pytest.raises(kn.ArgumentError):
            hints_of(wrong, "direct")  # type: ignore[arg-type]


@pytest.mark.parametrize("option", [one for one in OPTIONS_OF_RANKS if one != "comm"])
def test_options_of_ranks_need_a_communicator(tmp_path: Path, option: str) -> None:
    with pytest.raises(kn.ArgumentError, match=f"{option}= is for a writer of many ranks, which needs comm="):
        kn.Writer(tmp_path / "a.dcd", 3, **{option: None})


def test_restarts_of_one_process(tmp_path: Path) -> None:
    path, values = tmp_path / "a.trr", [[[1.0, 2, 3]] * 4]
    with kn.Writer(path, 4) as out:
        for frame in range(5):
            out.write(values[0], step=10 * frame, time=float(frame))
    with kn.Writer(path, mode="a", resume_from=25) as out:
        assert out.n_frames == 3
        out.write(values[0])
    assert kn.open(path, stored=False).steps.tolist() == [0, 10, 20, 30]
    for step, words in (
        (-1, "no frame with a step of -1 or less, the first frame has step 0"),
        (0.5, "number of a step"),
    ):
        with pytest.raises(kn.ArgumentError, match=words):
            kn.Writer(path, mode="a", resume_from=step)
    with pytest.raises(kn.ArgumentError, match="for mode='a' and a file that is there"):
        kn.Writer(path, 4, resume_from=3, overwrite=True)
    with pytest.raises(kn.ArgumentError, match="resume_from= is for mode='a' and a file that is there"):
        kn.Writer(tmp_path / "a.h5md", 4, mode="a", resume_from=3)
    assert kn.open(path, stored=False).n_frames == 4


@pytest.mark.processes
def test_examples_of_the_documents(mpi: Any, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert blocks
    said = mpi.compute(3, "\n".join(blocks) + "\nsay(sorted(out.timings))", tmp_path)
    assert said == f"{sorted(['sort', 'communicate', 'encode', 'write', 'sync', 'verify'])}\n" * 3
    assert kn.open(tmp_path / "run.dcd").n_frames == 10
    history = kn.open(tmp_path / "HISTORY")
    assert (history.n_frames, history.n_atoms, history.atoms.names[0]) == (5, 256, "Cu")


@pytest.mark.processes
def test_the_example_of_openmm(mpi: Any, tmp_path: Path) -> None:
    """Reads back what rank 0 has; ranks compute the same."""
    pytest.importorskip("openmm", reason="openmm is not installed: pip install openmm")
    (block,) = (one for one in re.findall(r"^```py\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE) if "openmm" in one)
    program = "\nif comm.rank == 0:\n    np.save('last.npy', [positions, velocities])\n"
    mpi.compute(3, block + program, tmp_path)
    trajectory = kn.open(tmp_path / "argon.trr", stored=False)
    assert (trajectory.n_frames, trajectory.n_atoms) == (5, 216)
    np.testing.assert_allclose(trajectory.times, [0.02, 0.04, 0.06, 0.08, 0.1], rtol=1e-6)
    assert trajectory.steps.tolist() == [10, 20, 30, 40, 50]
    last, (positions, velocities) = trajectory[4], np.load(tmp_path / "last.npy")
    # TRR has nm, in float32
    np.testing.assert_allclose(last.positions, positions, atol=1e-5)
    np.testing.assert_allclose(last.velocities, velocities, atol=1e-5)
