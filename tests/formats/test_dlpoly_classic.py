"""HISTORY files with records of any width, as DL_POLY 2 and Classic write them, against the suite of formats."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import kinema as kn
from kinema.base.notes import collected
from kinema.testing import FormatTests, Golden, random_walk

FORCE = 0.01  # kJ/(mol angstrom) in Da angstrom/ps^2


def folder() -> Path:
    from MDAnalysisTests import datafiles

    return Path(os.path.dirname(datafiles.__file__)) / "data/dlpoly"


def classic_bytes(
    vectors: list[NDArray[np.floating]],
    *,
    cells: NDArray[np.floating] | None = None,
    first_step: int = 0,
    number: str = "12.4e",
    end: str = "\n",
    order: NDArray[np.int64] | None = None,
    indices: Iterable[int] | None = None,
) -> bytes:
    """The bytes of a file as DL_POLY Classic writes it, from its description: no cell without periods, no time.

    `vectors`: positions, velocities, forces, (frames, atoms, 3) each. Other programs write more digits than `12.4e`.
    """
    n_frames, n_atoms, _ = vectors[0].shape
    keytrj, imcon = len(vectors) - 1, 0 if cells is None else 3
    lines = ["a title of any length", f"{keytrj:10d}{imcon:10d}{n_atoms:10d}"]
    for i in range(n_frames):
        lines.append(f"timestep{first_step + i:10d}{n_atoms:10d}{keytrj:10d}{imcon:10d}{1.0:12.6f}")
        if cells is not None:
            lines += ["".join(f" {value:{number}}" for value in row) for row in cells[i]]
        labels = list(indices) if indices is not None else range(1, n_atoms + 1)
        for atom in range(n_atoms) if order is None else order[i]:
            lines.append(f"{f'A{atom}':8s}{labels[atom]:10d}{1.5 * atom:12.6f}{-0.25 * atom:12.6f}")
            lines += ["".join(f" {value:{number}}" for value in one[i, atom]) for one in vectors]
    return "".join(line + end for line in lines).encode("ascii")


def plain(path: Path, levels: int, n_atoms: int, cell_lines: int) -> NDArray[np.float64]:
    """The vectors, (frames, atoms, levels, 3), by splitting lines: what Kinema is compared with."""
    lines = path.read_text().splitlines()[2:]
    a_frame = 1 + cell_lines + n_atoms * (1 + levels)
    frames = [lines[i : i + a_frame] for i in range(0, len(lines) // a_frame * a_frame, a_frame)]
    return np.array(
        [
            [
                [[float(word) for word in line.split()] for line in frame[at + 1 : at + 1 + levels]]
                for at in range(1 + cell_lines, a_frame, 1 + levels)
            ]
            for frame in frames
        ]
    )


def opened(path: str | Path) -> kn.Trajectory:
    with collected():
        trajectory = kn.open(path, stored=False)
        trajectory.scan()
    return trajectory


class TestClassicHistory(FormatTests):
    suffix = ".history"
    index = "table"

    def write(self, path, positions, first_step):
        Path(path).write_bytes(classic_bytes([positions], first_step=first_step, number=".9g"))

    def write_synthetic(self, path, made):
        cells = made.cells if made.cells.any() else None
        vectors = [made.positions] if made.velocities is None else [made.positions, made.velocities]
        Path(path).write_bytes(classic_bytes(vectors, cells=cells, number=".17g"))
        return cells is not None, made.velocities is not None

    def golden_files(self):
        from MDAnalysis.coordinates.DLPoly import HistoryReader

        found = []
        for name in ("HISTORY_classic", "HISTORY_order"):
            with HistoryReader(str(folder() / name)) as reader:
                positions = np.array([ts.positions.copy() for ts in reader], np.float32)
            times = {"HISTORY_classic": [0.0005, 1.0005, 2.0005], "HISTORY_order": [0.005, 0.055, 0.105]}[name]
            found.append(Golden(folder() / name, positions, np.array(times)))
        return found


def test_the_real_file_has_the_values_of_its_text() -> None:
    path = folder() / "HISTORY_classic"
    trajectory = opened(path)
    found = trajectory.read(fields=["positions"])
    np.testing.assert_array_equal(found["positions"], plain(path, 1, 3, 3)[:, :, 0].astype(np.float32))
    np.testing.assert_array_equal(found["cells"], np.broadcast_to(35.607 * np.eye(3), (3, 3, 3)))
    assert found["steps"].tolist() == [1, 2001, 4001]
    assert list(trajectory.atoms.get("names")) == ["C", "B", "A"]
    assert list(trajectory.atoms.get("charges")) == [0.994] * 3
    assert list(trajectory.atoms.get("masses")) == [39.0983] * 3


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("periodic", [False, True])
def test_every_key_is_read_as_its_text(tmp_path: Path, end: str, levels: int, periodic: bool) -> None:
    random = np.random.default_rng(levels)
    vectors = [random.normal(0, 10.0 ** (2 * i), (5, 7, 3)) for i in range(levels)]
    cells = random.uniform(10, 90, (5, 3, 3)) if periodic else None
    path = tmp_path / "HISTORY"
    path.write_bytes(classic_bytes(vectors, cells=cells, end=end))
    expected = plain(path, levels, 7, 3 if periodic else 0)
    trajectory = opened(path)
    names = ["positions", "velocities", "forces"][:levels]
    for selected in (np.arange(7), np.array([0]), np.array([6]), np.array([2, 5])):
        for dtype in (np.float32, np.float64):
            found = trajectory.read(fields=names, select=selected, dtype=dtype)
            for level, name in enumerate(names):
                factor = FORCE if name == "forces" else 1.0
                values = (expected[:, selected, level] * factor).astype(dtype)
                np.testing.assert_array_equal(found[name], values)
    assert found["cells"].any() == periodic


def test_atoms_are_put_in_the_order_of_their_indices(tmp_path: Path) -> None:
    positions = random_walk(4, 9, 1)
    random = np.random.default_rng(5)
    order = np.array([random.permutation(9) for _ in positions])
    (tmp_path / "HISTORY").write_bytes(classic_bytes([positions], order=order, number=".9g"))
    trajectory = opened(tmp_path / "HISTORY")
    np.testing.assert_array_equal(trajectory.read(), positions)
    np.testing.assert_array_equal(trajectory.read(select=[1, 7]), positions[:, [1, 7]])
    assert list(trajectory.atoms.get("names")) == [f"A{i}" for i in range(9)]
    # if indices are not distinct, the order of the file counts; an index that is not an atom's is an error
    (tmp_path / "HISTORY").write_bytes(classic_bytes([positions], indices=[1] * 9, number=".9g"))
    np.testing.assert_array_equal(opened(tmp_path / "HISTORY").read(), positions)
    (tmp_path / "HISTORY").write_bytes(classic_bytes([positions], indices=[1, 2, 3, 4, 10, 6, 7, 8, 9], number=".9g"))
    with pytest.raises(kn.Error, match="index of an atom, expected 1 to 9, found 10"):
        opened(tmp_path / "HISTORY").read()


def test_the_first_frame_of_another_number_of_atoms_is_named(tmp_path: Path) -> None:
    positions = random_walk(3, 4, 1)
    fewer = classic_bytes([positions[:1, :3]])
    head, body = fewer.split(b"\n", 2)[:2], fewer.split(b"\n", 2)[2]
    assert len(head) == 2
    whole = classic_bytes([positions])
    (tmp_path / "HISTORY").write_bytes(whole + body)
    with pytest.raises(
        kn.Error,
        match=rf"frame 3, byte {len(whole)}: frames of different numbers of atoms .* expected 4, found 3",
    ):
        opened(tmp_path / "HISTORY")


def test_edited_files_of_dl_poly_4_are_read(tmp_path: Path) -> None:
    text = (folder() / "HISTORY").read_text()
    stripped = "".join(line.rstrip() + "\n" for line in text.splitlines())
    (tmp_path / "HISTORY").write_text(stripped)
    names = ["positions", "velocities", "forces"]
    expected, found = (opened(path / "HISTORY").read(fields=names) for path in (folder(), tmp_path))
    assert expected.keys() == found.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("name", ["HISTORY_minimal", "HISTORY_minimal_cell"])
def test_what_contradicts_the_head_is_noted(name: str) -> None:
    with collected() as notes:
        trajectory = kn.open(folder() / name, stored=False)
        trajectory.scan()
    assert trajectory.n_frames == 3
    assert any("the lines of atoms are those of keytrj 0" in str(note) for note in notes)
    cell_lines = 3 if name.endswith("cell") else 0
    expected = plain(folder() / name, 1, 3, cell_lines)[:, :, 0]
    found = trajectory.read(fields=["positions"], dtype=np.float64)
    np.testing.assert_array_equal(found["positions"], expected)
    assert found["cells"].any() == bool(cell_lines)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_frames_are_not_copied_and_the_reason_is_named(tmp_path: Path, end: str) -> None:
    path = tmp_path / "one.history"
    path.write_bytes(classic_bytes([random_walk(3, 4)], end=end))
    before = path.read_bytes()
    actions = (
        lambda: kn.salvage(path, tmp_path / "out.history"),
        lambda: kn.split(path, tmp_path / "parts", frames_per_part=1),
        lambda: kn.join([path, path], tmp_path / "out.history", overlap="all"),
        lambda: kn.Writer(path, 4, mode="a"),
    )
    for action in actions:
        with pytest.raises(kn.UnsupportedFormatError, match=r"any width; kinema convert"), collected():
            action()
    assert path.read_bytes() == before
    assert not (tmp_path / "out.history").exists()
    # what the message says can be done
    with collected():
        kn.convert(path, tmp_path / "whole.history")
        parts = kn.split(tmp_path / "whole.history", tmp_path / "cut", frames_per_part=2)
    assert [opened(part).n_frames for part in parts.paths] == [2, 1]
