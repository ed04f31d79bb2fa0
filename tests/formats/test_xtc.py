"""XTC against the suite of formats."""

from pathlib import Path

import numpy as np

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
