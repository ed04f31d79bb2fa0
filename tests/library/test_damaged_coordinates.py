"""Damaged coordinates of an XTC frame: what is not as the frame states is an error wherever it is decoded.

The sound file is MDAnalysisTests' adk_oplsaa.xtc, the damage that of a lost sector, or of four bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.cli import main

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

FRAME, BYTE = 3, 500_000
LEFT = [frame for frame in range(10) if frame != FRAME]
PLACE = rf"XTC frame {FRAME}, byte \d+: "

DAMAGES = {"0xff": b"\xff" * 4, "a sector of zeros": bytes(512), "a page of zeros": bytes(4096)}


def write_damaged(sound: str, path: Path, kind: str) -> Path:
    content, damage = bytearray(Path(sound).read_bytes()), DAMAGES[kind]
    content[BYTE : BYTE + len(damage)] = damage
    path.write_bytes(content)
    return path


@pytest.fixture(params=DAMAGES)
def damaged(request: Any, adk_xtc: Any, tmp_path: Path) -> Path:
    return write_damaged(adk_xtc.trajectory, tmp_path / "a.xtc", request.param)


# one atom of each residue of the protein: without a topology, whose reading takes most of the time
SELECTED = np.arange(4, 3341, 16)


USES: dict[str, Callable[[kn.Trajectory, Path], object]] = {
    "read": lambda traj, _: traj.read(),
    "a frame": lambda traj, _: traj[FRAME].positions,
    "a selection": lambda traj, _: traj.read(select=SELECTED),
    "float64": lambda traj, _: traj.read(select=SELECTED, dtype=np.float64),
    "RMSD": lambda traj, _: kn.RMSD(traj, select=SELECTED).run(),
    "RMSD of all": lambda traj, _: kn.RMSD(traj).run(),
    "convert": lambda traj, folder: kn.convert(traj, folder / "b.dcd"),
    "convert without rounding": lambda traj, folder: kn.convert(traj, folder / "b.xtc", select=SELECTED),
}


@pytest.mark.parametrize("use", USES)
def test_it_is_an_error_wherever_it_is_decoded(damaged: Path, use: str) -> None:
    with pytest.raises(kn.CorruptFileError, match=PLACE) as caught:
        USES[use](kn.open(damaged, stored=False), damaged.parent)
    assert "expected" in str(caught.value) and "found" in str(caught.value)


def test_the_frame_is_left_out(damaged: Path, adk_xtc: Any) -> None:
    sound = kn.RMSD(kn.open(adk_xtc.trajectory, stored=False), select=SELECTED).run().results
    analysis = kn.RMSD(kn.open(damaged, stored=False), select=SELECTED)
    with pytest.warns(kn.Note, match=f"1 of 10 frames are damaged and left out, numbers {FRAME}; the first: .*{PLACE}"):
        analysis.run(skip_damaged=True)
    assert analysis.results.frames.tolist() == LEFT
    np.testing.assert_array_equal(analysis.results.values, sound.values[LEFT])


def test_check_finds_it(damaged: Path) -> None:
    (problem,) = kn.check(damaged, stored=False).problems
    assert (problem.kind, problem.frame) == ("corrupt", FRAME)


def test_the_command_ends_with_an_error(adk_xtc: Any, tmp_path: Path, capsys: Any) -> None:
    damaged = write_damaged(adk_xtc.trajectory, tmp_path / "a.xtc", "0xff")
    words = ["rmsd", "-s", adk_xtc.topology, "-f", str(damaged), "--select", "protein and name CA", "--no-stored"]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    shown = capsys.readouterr()
    assert f"{damaged}: XTC frame {FRAME}, byte " in shown.err and "RMSD" not in shown.out
    with pytest.raises(SystemExit) as ended:
        main([*words, "--skip-damaged"])
    assert not ended.value.code
    assert "9 frames of 47,681 atoms" in capsys.readouterr().out
