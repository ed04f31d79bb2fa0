"""Every kernel against the suite of kernels."""

import numpy as np
import pytest

from kinema import _core
from kinema.testing import KernelTests


def every_other(n_atoms):
    return np.arange(0, n_atoms, 2, dtype=np.uint32)


class TestRmsd(KernelTests):
    def jobs(self, reference):
        n_atoms = len(reference)
        atoms = every_other(n_atoms)
        everything = np.arange(n_atoms, dtype=np.uint32)
        weights = np.linspace(1.0, 2.0, len(atoms))
        groups = [(everything, reference, None), (atoms, reference[atoms], weights)]
        kernels = [
            _core.Kernel.rmsd(n_atoms, everything, reference),
            _core.Kernel.rmsd(n_atoms, atoms, reference[atoms], weights, groups),
            _core.Kernel.rmsd(n_atoms, atoms, reference[atoms], superposition=False),
        ]
        return [(kernel, ()) for kernel in kernels]


class TestRmsf(KernelTests):
    def jobs(self, reference):
        n_atoms = len(reference)
        atoms = every_other(n_atoms)
        everything = np.arange(n_atoms, dtype=np.uint32)
        superpose = _core.Transform("superpose", n_atoms, atoms=everything, reference=reference)
        return [
            (_core.Kernel.rmsf(n_atoms, everything), ()),
            (_core.Kernel.rmsf(n_atoms, atoms), (superpose,)),
        ]


class TestAverage(KernelTests):
    def jobs(self, reference):
        n_atoms = len(reference)
        atoms = every_other(n_atoms)
        superpose = _core.Transform.superpose(n_atoms, atoms, reference[atoms])
        return [(_core.Kernel.average(n_atoms, atoms), (superpose,)), (_core.Kernel.average(n_atoms, atoms), ())]


class TestRadiusOfGyration(KernelTests):
    def jobs(self, reference):
        n_atoms = len(reference)
        atoms = every_other(n_atoms)
        masses = np.linspace(1.0, 16.0, len(atoms))
        return [
            (_core.Kernel.rgyr(n_atoms, atoms), ()),
            (_core.Kernel.rgyr(n_atoms, atoms, masses, True), ()),
        ]


def test_atoms_are_in_any_order_and_counted_once():
    _core.Kernel.rgyr(5, np.array([3, 1], dtype=np.uint32))
    with pytest.raises(ValueError, match="atom index 3 is selected twice"):
        _core.Kernel.rgyr(5, np.array([3, 1, 3], dtype=np.uint32))
    with pytest.raises(IndexError, match="out of range"):
        _core.Kernel.rgyr(5, np.array([5, 1], dtype=np.uint32))
