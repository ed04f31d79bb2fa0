"""G96 against the suite of formats, and the files that GROMACS has written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import FormatTests, Golden, random_walk

FOLDER = Path(__file__).parents[1] / "data" / "g96"
VALUES = np.load(FOLDER / "values.npz")
NAMES = ("triclinic.g96", "rectangular.g96", "positions.g96", "named.g96")


def g96_bytes(
    vectors: Sequence[NDArray[np.floating]],
    *,
    first_step: int = 0,
    cells: NDArray[np.floating] | None = None,
    steps: Sequence[int] | None = None,
) -> bytes:
    """A file of frames as `gmx trjconv` writes them, of positions and velocities in angstrom."""
    lines = []
    for i in range(len(vectors[0])):
        step = first_step + i if steps is None else steps[i]
        lines += [
            "TITLE",
            "made by a test" if i == 0 else "",
            "END",
            "TIMESTEP",
            f"{step:15d}{first_step + i:15.6f}",
            "END",
        ]
        for name, one in zip(("POSITIONRED", "VELOCITYRED"), vectors, strict=False):
            lines += [name, *("".join(f"{value / 10:15.9f}" for value in atom) for atom in one[i].tolist()), "END"]
        cell = np.zeros((3, 3)) if cells is None else cells[i].astype(np.float64) / 10
        order = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
        lines += ["BOX", "".join(f"{cell[place]:15.9f}" for place in order), "END"]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def opened(path: str | Path) -> kn.Trajectory:
    with collected():
        trajectory = kn.open(path, stored=False, absent="nan")
        trajectory.scan()
    return trajectory


class TestG96(FormatTests):
    suffix = ".g96"
    index = "table"
    # rounded to 9 decimals of nm
    tolerance = 1e-5
    velocity_tolerance = 1e-3

    def write(self, path, positions, first_step):
        Path(path).write_bytes(g96_bytes([positions], first_step=first_step))

    def write_synthetic(self, path, made):
        Path(path).write_bytes(g96_bytes([made.positions], cells=made.cells, steps=made.steps.tolist()))
        return True, False

    def golden_files(self):
        return [
            Golden(
                FOLDER / name,
                (VALUES[f"{name}/positions"] * 10).astype(np.float32),
                VALUES[f"{name}/times"],
                (VALUES[f"{name}/cells"] * 10).astype(np.float32),
            )
            for name in NAMES[:3]
        ]


@pytest.mark.parametrize("name", NAMES)
def test_files_of_gromacs_have_the_values_that_were_printed(name: str) -> None:
    expected = {key.split("/")[1]: VALUES[key] for key in VALUES if key.startswith(f"{name}/")}
    fields = [one for one in ("positions", "velocities") if one in expected]
    trajectory = opened(FOLDER / name)
    assert [one for one in trajectory.fields if one in ("positions", "velocities")] == fields
    for select in (None, [0], [1, 40, 7], list(range(42))):
        for dtype in ("float32", "float64"):
            found = trajectory.read(fields=fields, select=select, dtype=dtype)
            for field in fields:
                values = (expected[field] * 10.0)[:, slice(None) if select is None else select].astype(dtype)
                np.testing.assert_array_equal(found[field], values)
            alone = trajectory.read(select=select, dtype=dtype, fields=["positions"])
            np.testing.assert_array_equal(alone["positions"], found["positions"])
            np.testing.assert_array_equal(alone["cells"], expected["cells"] * 10.0)
    if name == "named.g96":
        assert np.isnan(found["times"]).all() and trajectory.parts[0].variant == "positions, box"
        return
    assert found["steps"].tolist() == expected["steps"].tolist()
    assert found["times"].tolist() == expected["times"].tolist()


@pytest.mark.parametrize("name", NAMES[:3])
def test_files_of_gromacs_are_written_again(name: str, tmp_path: Path) -> None:
    with collected():
        kn.convert(FOLDER / name, tmp_path / "again.g96")
    theirs, ours = (
        (path / file).read_bytes().split(b"\nEND\n", 1)[1] for path, file in ((FOLDER, name), (tmp_path, "again.g96"))
    )
    assert ours == theirs


def test_velocities_of_some_frames(tmp_path: Path) -> None:
    positions = random_walk(4, 9)
    with_them, without = g96_bytes([positions[:2], positions[:2]]), g96_bytes([positions[2:]], first_step=2)
    (tmp_path / "a.g96").write_bytes(with_them + without)
    trajectory = opened(tmp_path / "a.g96")
    found = trajectory.read(fields=["positions", "velocities"])
    assert found["present"]["velocities"].tolist() == [True, True, False, False]
    np.testing.assert_allclose(found["positions"], positions, atol=1e-5)
    assert np.isnan(found["velocities"][2:]).all()
    with pytest.raises(kn.ArgumentError, match="frame 2: the frame has no velocities"):
        kn.open(tmp_path / "a.g96", stored=False).read(fields=["velocities"])


def test_titles_of_any_bytes(tmp_path: Path) -> None:
    # GROMACS writes its memory if it has no title
    (tmp_path / "a.g96").write_bytes(
        g96_bytes([random_walk(2, 4)]).replace(b"made by a test", b"\xff\x05\xfe t= 0 step= 0")
    )
    trajectory = opened(tmp_path / "a.g96")
    assert (trajectory.n_frames, list(trajectory.parts[0].remarks)) == (2, [])
    (tmp_path / "a.g96").write_bytes(g96_bytes([random_walk(2, 4)]))
    assert list(opened(tmp_path / "a.g96").parts[0].remarks) == ["made by a test"]


@pytest.mark.parametrize("without", [b"TIMESTEP", b"BOX"])
def test_files_that_are_not_continued(tmp_path: Path, without: bytes) -> None:
    made = g96_bytes([random_walk(2, 4)])
    path = tmp_path / "theirs.g96"
    path.write_bytes(re.sub(without + rb"\n.*?\nEND\n", b"", made, flags=re.DOTALL))
    before = path.read_bytes()
    with pytest.raises(kn.UnsupportedFormatError, match="cannot be extended"):
        kn.Writer(path, mode="a")
    assert path.read_bytes() == before
