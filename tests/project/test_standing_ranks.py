"""Ranks that stay for several tests: what one program does is not seen by the next, and a lost rank fails one test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinema.testing.programs import standing_ranks


def test_programs_leave_nothing_to_the_next(mpi: Any, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("value = 1\n")
    text = "import own\nos.environ['LEFT'] = 'x'\nos.chdir('/')\nimport warnings\nwarnings.simplefilter('error')\n"
    assert mpi.compute(2, text + "say(rank, own.value, os.environ['GIVEN'])\n", tmp_path, GIVEN="g").split() in (
        ["0", "1", "g", "1", "1", "g"], ["1", "1", "g", "0", "1", "g"],
    )  # fmt: skip
    text = "import warnings\nsay('own' in sys.modules, 'LEFT' in os.environ, 'GIVEN' in os.environ, os.getcwd())\n"
    text += "warnings.warn('is no error')\n"
    assert mpi.compute(2, text, tmp_path).split() == ["False", "False", "False", str(tmp_path)] * 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("assert rank == 0, 'not the first'\n", "not the first"),
        # the other one waits for it
        ("if rank == 1: raise ValueError('alone')\nMPI.COMM_WORLD.Barrier()\n", "alone"),
        ("sys.exit(3)\n", "the program ended with 3"),
        ("os._exit(0) if rank else None\n", "of 2 did not answer"),
        # the ranks have not imported the second module before
        (
            "import kinema.base.notes\nkinema.base.notes.emit = print\n"
            "from kinema.testing import changes\ndef other(): pass\nchanges.other = other\n",
            "the program changes kinema.base.notes.emit, kinema.testing.changes.other: ",
        ),
    ],
    ids=["error", "error of one", "exit", "lost", "changed"],
)
def test_a_program_that_fails_says_why_and_the_next_runs(
    mpi: Any, tmp_path: Path, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the rank that waits in vain is waited for
    monkeypatch.setattr(standing_ranks, "_AFTER_A_FAILURE", 1.0)
    with pytest.raises(AssertionError) as error:
        mpi.compute(2, text, tmp_path)
    assert said in str(error.value)
    assert mpi.compute(2, "from kinema.base import notes\nsay(notes.emit.__name__)\n", tmp_path).split() == [
        "emit",
        "emit",
    ]
