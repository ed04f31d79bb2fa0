"""The conformance files through `kinema.open`: the Rust half reads what `describe` says."""

import numpy as np
import pytest

import kinema as kn
from kinema.testing.h5md_files import CASES


@pytest.mark.parametrize("case", CASES, ids=str)
def test_read_as_written(case, tmp_path):
    path = tmp_path / "case.h5md"
    expected = case.write(path)
    traj = kn.open(path, index="memory", **expected.options)
    vectors = {"positions": expected.positions, "velocities": expected.velocities, "forces": expected.forces}
    there = {name: values for name, values in vectors.items() if values is not None}
    assert set(there) == set(traj.fields) & set(vectors)
    assert (traj.n_frames, traj.n_atoms) == next(iter(there.values())).shape[:2]
    found = traj.read(fields=list(there), dtype="float64")
    for name, values in there.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12, atol=0)
        np.testing.assert_array_equal(traj.read(fields=name), found[name].astype(np.float32))
    if expected.cells is None:
        assert not found["cells"].any()
    else:
        np.testing.assert_allclose(found["cells"], expected.cells, rtol=2e-7, atol=1e-7)
    if expected.times is not None:
        np.testing.assert_allclose(found["times"], expected.times, rtol=1e-12)
    if expected.steps is not None:
        np.testing.assert_array_equal(found["steps"], expected.steps)
    some = traj.read(frames=[2, 0] if traj.n_frames > 2 else [0], select=[3, 1], fields=next(iter(there)))
    whole = found[next(iter(there))].astype(np.float32)
    np.testing.assert_array_equal(some, whole[[2, 0] if traj.n_frames > 2 else [0]][:, [3, 1]])
