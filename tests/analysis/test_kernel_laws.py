"""Every kernel of the registry against the suite of kernels."""

import pickle

import numpy as np
import pytest

from kinema import _core
from kinema.testing import KernelTests

NAMES = [kernel["name"] for kernel in _core.kernels()]


def examples(name, reference):
    n_atoms = len(reference)
    return [_core.Kernel(name, n_atoms, **given) for given in _core.kernel_examples(name, n_atoms, reference)]


class Registered(KernelTests):
    """One of them, as it comes and with superposed frames."""

    name: str

    def jobs(self, reference):
        n_atoms = len(reference)
        everything = np.arange(n_atoms, dtype=np.uint32)
        superpose = _core.Transform("superpose", n_atoms, atoms=everything, reference=reference)
        return [(kernel, stack) for kernel in examples(self.name, reference) for stack in ((), (superpose,))]


for _name in NAMES:
    # a group that changes may be empty
    _defined = _name not in ("angles", "axis_angles", "centers", "coordination", "dihedrals", "gyration", "rgyr")
    _more = {"depends_on_order": True} if _name in ("jumps", "displacements", "rotations") else {}
    if _name in ("jumps", "displacements", "axis_angles", "density_profile", "grid_counts", "rdf", "structure_factor"):
        _more["cell"] = (20.0, 21.0, 22.0)
    globals()[f"Test{_name.title()}"] = type(
        f"Test{_name.title()}", (Registered,), {"name": _name, "defined_for_one_atom": _defined, **_more}
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_pickled_as_its_call(name):
    reference = np.arange(36.0).reshape(12, 3) ** 1.5
    for given, kernel in zip(_core.kernel_examples(name, 12, reference), examples(name, reference), strict=True):
        again = pickle.loads(pickle.dumps(kernel))
        assert again.id == kernel.id
        _, (kind, made, arguments) = again.__reduce__()
        assert (kind, made, arguments.pop("n_atoms")) == ("Kernel", name, 12)
        assert arguments.keys() == given.keys()


def test_atoms_are_in_any_order_and_counted_once():
    _core.Kernel("rgyr", 5, atoms=np.array([3, 1], dtype=np.uint32))
    with pytest.raises(ValueError, match="atom index 3 is selected twice"):
        _core.Kernel("rgyr", 5, atoms=np.array([3, 1, 3], dtype=np.uint32))
    with pytest.raises(IndexError, match="out of range"):
        _core.Kernel("rgyr", 5, atoms=np.array([5, 1], dtype=np.uint32))


def test_arguments_that_do_not_fit_are_refused_by_name():
    atoms = np.arange(3, dtype=np.uint32)
    for name, arguments, message in [
        ("rgyration", {}, "no kernel is named .rgyration., expected one of .*rgyr"),
        ("rgyr", {}, "argument atoms of the kernel must be atom indices"),
        ("rgyr", {"atoms": atoms[:0]}, "atoms has no atoms"),
        ("rgyr", {"atoms": atoms.astype(np.int64)}, "argument atoms of a kernel cannot be an array of int64"),
        (
            "rgyr",
            {"atoms": atoms, "axis": True},
            "has no argument axis, expected one of atoms, axes, group, masses",
        ),
        ("rgyr", {"atoms": atoms, "axes": 1}, "argument axes of the kernel must be true or false, found 1"),
        ("rmsd", {"atoms": atoms, "reference": np.zeros((2, 3))}, "argument reference .* must be of 3 atoms"),
        ("rmsd", {"atoms": atoms, "reference": np.zeros((3, 3)), "fit": "x"}, "fit .* one of superpose, center, none"),
        ("python", {"atoms": atoms}, "needs the argument fields"),
    ]:
        with pytest.raises(ValueError, match=message):
            _core.Kernel(name, 5, **arguments)
