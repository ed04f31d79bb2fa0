"""DCD against the suite of formats."""

from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.testing import FormatTests, Golden, random_walk, write_dcd

GOLDEN = Path(__file__).parents[1] / "data" / "golden"


class TestDcd(FormatTests):
    suffix = ".dcd"

    def write(self, path, positions, first_step):
        write_dcd(path, positions, first_step=first_step)

    def write_synthetic(self, path, made):
        cells = made.cells if made.cells.any() else None
        write_dcd(path, made.positions, first_step=int(made.steps[0]) % 2**31, dt=1.0, cell=cells)
        return True, False

    def golden_files(self):
        with np.load(GOLDEN / "ca.dcd.npz") as values:
            return [Golden(GOLDEN / "ca.dcd", values["positions"])]


class TestBigEndianDcdWithCell(TestDcd):
    def write(self, path, positions, first_step):
        write_dcd(path, positions, first_step=first_step, byte_order=">", cell=(30.0, 31.0, 32.0))

    def write_synthetic(self, path, made):
        cells = made.cells if made.cells.any() else None
        write_dcd(path, made.positions, byte_order=">", cell=cells)
        return True, False


def test_cells_are_box_vectors(tmp_path):
    path = tmp_path / "cell.dcd"
    write_dcd(path, random_walk(2, 4), cell=(30.0, 31.0, 32.0))
    np.testing.assert_allclose(kn.open(path)[1].cell, np.diag([30.0, 31.0, 32.0]), atol=1e-4)


@pytest.mark.parametrize("n_atoms", [1, 2, 3341])
def test_numbers_of_atoms(tmp_path, n_atoms):
    path = tmp_path / "many.dcd"
    positions = random_walk(3, n_atoms)
    write_dcd(path, positions)
    np.testing.assert_array_equal(kn.open(path).read(), positions)
