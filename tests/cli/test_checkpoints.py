"""`--checkpoint` and `-o` with .h5: the same command continues, even if only its output could not be written."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from kinema.testing.amounts import each

# The signal is sent at the third poll: no test has to guess how long to wait.
SCRIPT = """
import os, signal
from kinema.execution.checkpoint.manager import CheckpointManager
from kinema.cli import main

poll = CheckpointManager.poll
ended = []

def poll_and_end(self, tree):
    poll(self, tree)
    done = []
    tree.serialize(lambda *node: done.append(node))
    if done and not ended:
        ended.append(True)
        os.kill(os.getpid(), signal.{name})

CheckpointManager.poll = poll_and_end
main({words!r})
"""


EARLY = """
import os, signal
from kinema.cli import main
from kinema.trajectory import Trajectory

Trajectory.scan = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)
main({words!r})
"""


def test_a_signal_before_the_run_leaves_the_checkpoint_of_an_earlier_one(
    files: Any, tmp_path: Path, environment: dict[str, str]
) -> None:
    kept = tmp_path / "run.ckpt"
    kept.write_bytes(b"of an earlier run")
    script = EARLY.format(words=["rmsd", "-f", str(files.dcd), "--checkpoint", str(kept)])
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 143
    assert done.stderr == f"kinema: stopped; what was done before is in {kept}\n"
    assert kept.read_bytes() == b"of an earlier run"


@pytest.mark.parametrize(("suffix", "name"), each([".csv", ".h5"], ["SIGINT", "SIGTERM"]))
def test_the_same_command_goes_on(
    files: Any, tmp_path: Path, environment: dict[str, str], run_kinema: Any, suffix: str, name: str
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    kept, output = folder / "run.ckpt", folder / f"rmsd{suffix}"
    # the parts are the same file: some 30,000 frames of all atoms, which take far longer than the tenth of a second
    # between polls
    words = ["rmsd", "-f", *[str(files.dcd)] * 300, "--overlap", "all"]
    words += ["-j", "1", "--checkpoint", str(kept), "-o", str(output)]
    script = SCRIPT.format(name=name, words=words)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 128 + signal.Signals[name], done.stderr
    assert done.stderr.splitlines()[-1] == (
        f"kinema: stopped; what was done is in {kept}; the same call continues from there"
    )
    left = [".h5"] if suffix == ".h5" else []
    assert [file.suffix for file in folder.glob("rmsd.part-*")] == left
    assert len(list(folder.iterdir())) == 1 + len(left)
    done = run_kinema(*words, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert 0 < summary["frames_restored"] < summary["frames_used"] == 300 * 98
    assert {file.name for file in folder.iterdir()} == {output.name}
    # every part is the same
    if suffix == ".csv":
        found = np.array([float(line.split(",")[2]) for line in output.read_text().splitlines() if line[0].isdigit()])
    else:
        with h5py.File(output, "r") as file:
            assert file.attrs["complete"]
            assert "kinema rmsd -f" in json.loads(file["rmsd"].attrs["provenance"])["call"]
            found = file["rmsd"][:, 0]
    np.testing.assert_array_equal(found.reshape(300, 98), np.tile(found[:98], (300, 1)))
    extremes = (summary["min"], summary["max"])
    # of which text has seven digits
    np.testing.assert_allclose((summary["mean"], *extremes), (found.mean(), found.min(), found.max()), 1e-6)


def test_the_checkpoint_stays_until_the_values_are_written(
    files: Any, tmp_path: Path, run_kinema: Any, environment: dict[str, str]
) -> None:
    kept, output = tmp_path / "run.ckpt", tmp_path / "rgyr.csv"
    words = ["rgyr", "-f", str(files.dcd), "--weights", "none", "--checkpoint", str(kept), "-o", str(output)]
    script = (
        "import kinema.storage.tables\n"
        "from kinema.cli import main\n"
        "def full(*_):\n"
        "    raise OSError(28, 'No space left on device')\n"
        "kinema.storage.tables._WRITERS['.csv'] = full\n"
        f"main({words!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        f"kinema: {output}: cannot write: no space left on device",
    )
    assert kept.exists()
    done = run_kinema(*words)
    assert done.returncode == 0
    assert f"98 frames were done already: {kept}" in done.stdout
    assert output.exists()
    assert not kept.exists()


def test_rmsf_and_results_in_a_file(files: Any, tmp_path: Path, run_kinema: Any) -> None:
    words = ["rmsf", "-f", files.dcd, "-n", files.ndx, "--group", "C-alpha", "--align", "average"]
    done = run_kinema(*words, "--checkpoint", tmp_path / "run.ckpt", "-o", tmp_path / "a.csv")
    assert done.returncode == 0, done.stderr
    run_kinema(*words, "-o", tmp_path / "b.csv")

    def rows(name: str) -> list[str]:
        return [line for line in (tmp_path / name).read_text().splitlines() if not line.startswith("#")]

    assert rows("a.csv") == rows("b.csv")
    assert not (tmp_path / "run.ckpt").exists()
    done = run_kinema(*words, "-o", tmp_path / "a.h5")
    assert done.returncode == 2
    assert "results are not written as .h5" in done.stderr


def test_summary_of_values_in_a_file(files: Any, tmp_path: Path, run_kinema: Any) -> None:
    words = ["rgyr", "-s", files.psf, "-f", files.dcd, "--axes", "--json"]
    memory = json.loads(run_kinema(*words).stdout)
    file = json.loads(run_kinema(*words, "-o", tmp_path / "rgyr.h5", "--plot", tmp_path / "rgyr.png").stdout)
    for name in ("mean", "min", "max", "frames_used"):
        assert memory[name] == file[name]
    assert (tmp_path / "rgyr.png").exists()


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--checkpoint", "nowhere/run.ckpt"], "its folder does not exist"),
        (["--checkpoint-interval", "5"], "name the file with --checkpoint"),
        (
            ["--checkpoint", "run.ckpt", "--checkpoint-interval", "-5"],
            "expected a number from 0 to",
        ),
        (["-o", "nowhere/a.h5"], "its folder does not exist"),
    ],
)
def test_bad_words(files: Any, tmp_path: Path, run_kinema: Any, words: list[str], match: str) -> None:
    done = run_kinema("rmsd", "-f", files.dcd, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert match in done.stderr
    assert done.stderr.count("\n") == 1


def test_another_command_is_refused(files: Any, tmp_path: Path, run_kinema: Any) -> None:
    import kinema as kn
    from kinema.analysis import RMSD
    from kinema.execution.checkpoint import Checkpoint

    RMSD(kn.open(files.dcd)).run(checkpoint=Checkpoint(tmp_path / "run.ckpt", keep=True))
    done = run_kinema("rmsd", "-f", files.dcd, "--step", "2", "--checkpoint", tmp_path / "run.ckpt")
    assert done.returncode == 2
    assert "the frames, expected 98 from 0, every 1, found 49 from 0, every 2" in done.stderr
