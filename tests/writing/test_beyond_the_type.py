"""Numbers of float64 that are infinite in the type of the file: `convert` names frame and atom, on workers as well."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.trr", {}),
        ("a.dcd", {}),
        ("a.nc", {}),
        ("a.h5md", {"dtype": "float32", "select": range(11)}),
        ("a.trr", {"runner": "processes"}),
    ],
)
def test_they_are_refused_and_infinite_ones_are_not(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    positions = np.random.default_rng(1).normal(0.0, 9.0, (20, 12, 3))
    positions[3, 2, 0] = np.inf
    for value in (1e300, 3.0):
        positions[13, 4, 1] = value
        with collected(), kn.Writer(tmp_path / "in.h5md", 12, dtype="float64", overwrite=True) as out:
            out.write(positions, time=np.arange(20.0))
        if value == 3.0:
            with collected():
                kn.convert(tmp_path / "in.h5md", tmp_path / name, **options)
            continue
        with collected(), pytest.raises(kn.UnsupportedFormatError, match=r"frame 13: positions of atom 5 ") as raised:
            kn.convert(tmp_path / "in.h5md", tmp_path / name, **options)
        assert not (tmp_path / name).exists()
        # the traceback of a worker is beside the error, not in what is said of it
        assert not any("Traceback" in note for note in getattr(raised.value, "__notes__", []))
        shown = "".join(traceback.format_exception(raised.value))
        assert ("RemoteTraceback" in shown) == ("runner" in options)
