"""XTC against the suite of formats."""

import struct
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.base.errors import CorruptFileError
from kinema.cli import main
from kinema.testing import FormatTests, Golden, write_xtc

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


class TestXtc(FormatTests):
    suffix = ".xtc"
    index = "table"
    # nm in float32, times 10
    tolerance = 2e-5

    def write(self, path, positions, first_step):
        write_xtc(path, positions, first_step=first_step)

    def write_synthetic(self, path, made):
        write_xtc(path, made.positions, first_step=int(made.steps[0]) % 2**30, cell=made.cells)
        return True, False

    def golden_files(self):
        with np.load(GOLDEN / "ca.xtc.npz") as values:
            return [Golden(GOLDEN / "ca.xtc", values["positions"], values["times"])]


class TestXtcOfFewAtoms(TestXtc):
    """Up to nine atoms are stored as they are, not compressed."""

    n_atoms = 9

    def golden_files(self):
        return []  # the one above has more atoms


def test_frames_of_no_atoms_are_refused(tmp_path, capsys):
    frame = struct.pack(">4i", 1995, 0, 0, 0) + np.diag([1, 1, 1]).astype(">f4").tobytes() + struct.pack(">i", 0)
    path = tmp_path / "none.xtc"
    path.write_bytes(3 * frame)
    with pytest.raises(CorruptFileError, match=r"none\.xtc: XTC frame 0, byte 4: wrong atom count, expected 1 or more"):
        kn.open(path)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(path)])
    assert ended.value.code == 1 and "wrong atom count" in capsys.readouterr().out
