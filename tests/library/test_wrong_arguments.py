"""Arguments of another kind than a function takes: each is an ArgumentError that names it, on the command line too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.cli import main
from kinema.testing import random_walk, write_dcd
from kinema.testing.programs.imports import lazy

datafiles = lazy("MDAnalysisTests.datafiles")

MASKED = np.ma.masked_greater(random_walk(2, 4), 0.0)


def written(folder: Path, **given: Any) -> None:
    with kn.Writer(folder / "out.trr", 4) as out:
        out.write(**given)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda _, traj: kn.open(traj.paths[0], format=5), "format must be a text, found 5"),
        (lambda folder, traj: kn.convert(traj, folder / "a.xtc", format=5), "format must be a text, found 5"),
        (lambda folder, traj: kn.convert(traj, folder / "a.xtc", dump="x"), "dump= is a time in ps, found 'x'"),
        (lambda _, __: kn.open("a\0b.dcd"), "a path has no NUL byte"),
        (lambda _, traj: kn.convert(traj, "a\0b.dcd"), "a path has no NUL byte"),
        (lambda _, __: kn.Writer("a\0b.dcd", 4), "a path has no NUL byte"),
        (lambda folder, _: written(folder, positions=MASKED), "positions have masked values"),
        (lambda folder, _: written(folder, positions=MASKED.data, velocities=MASKED), "velocities have masked values"),
        (lambda _, traj: traj.select(np.ma.masked_equal([1, 2, 3], 2)), "an array with masked values"),
    ],
)
def test_each_is_an_error_that_names_it(
    tmp_path: Path, call: Callable[[Path, kn.Trajectory], object], words: str
) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(3, 4))
    traj = kn.open(tmp_path / "a.dcd")
    with pytest.raises(kn.ArgumentError, match=words):
        call(tmp_path, traj)
    assert [path.name for path in tmp_path.iterdir()] == ["a.dcd"]


def test_a_mask_of_an_array_without_masked_values_is_as_none(tmp_path: Path) -> None:
    written(tmp_path, positions=np.ma.masked_array(MASKED.data))
    np.testing.assert_allclose(kn.open(tmp_path / "out.trr").read(), MASKED.data, rtol=1e-6)


def test_a_selection_that_is_nested_too_deeply() -> None:
    traj = kn.open(datafiles.DCD, topology=datafiles.PSF)
    with pytest.raises(kn.ArgumentError, match="a selection of 23,999 words is nested too deeply"):
        traj.select(" and ".join(["name CA"] * 8000))


@pytest.mark.parametrize("words", [["--pbc", ""], ["--pbc="], ["--node-cache", ""], ["--trace", ""], ["--trace="]])
def test_options_with_an_empty_value(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(3, 4))
    with pytest.raises(SystemExit) as end:
        main(["rgyr", "-f", str(tmp_path / "a.dcd"), "--weights", "none", *words])
    assert end.value.code == 2
    assert f"{words[0].rstrip('=')} has an empty value" in capsys.readouterr().err
