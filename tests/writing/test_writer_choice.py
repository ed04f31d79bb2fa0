"""Which writer `kn.Writer` chooses, and the arguments that each takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kinema as kn
from kinema.formats.all_writers import options_of
from kinema.formats.dcd.writer import DcdWriter
from kinema.formats.h5md.writer import H5mdWriter
from kinema.formats.netcdf.writer import NetcdfWriter
from kinema.formats.trr.writer import TrrWriter
from kinema.formats.xtc.writer import XtcWriter
from kinema.testing import random_walk


def test_the_class_is_that_of_the_suffix_or_format(tmp_path: Path) -> None:
    for name, stated, expected in (
        ("a.xtc", None, XtcWriter),
        ("A.DCD", None, DcdWriter),
        ("a.veldcd", None, DcdWriter),
        ("a.h5md", None, H5mdWriter),
        ("plain", None, H5mdWriter),
        ("bare", "xtc", XtcWriter),
        ("a.TRR", None, TrrWriter),
        ("a.nc", None, NetcdfWriter),
        ("a.ncdf", None, NetcdfWriter),
    ):
        out = kn.Writer(tmp_path / name, 3, format=stated)
        assert type(out) is expected
        assert isinstance(out, kn.Writer)
        assert out.format == expected.format
        out.abort()
    assert list(tmp_path.iterdir()) == []
    assert options_of("XTC") == ("fields", "precision")
    assert options_of("DCD") == ("fields",)
    assert "compression" in options_of("H5MD")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.xtc", {"compression": "gzip"}, r"XTC has no option compression=, expected one of fields, precision"),
        ("a.dcd", {"precision": 100}, r"DCD has no option precision=, expected one of fields"),
        ("a.h5md", {"precision": 100}, r"H5MD has no option precision=, expected one of fields, particles, layout"),
        ("a.xtc", {"group": "x", "particles": "x"}, r"group= is the old name of particles="),
        ("a.xtc", {"format": "DCD"}, r"the suffix is none of DCD, expected \.dcd or \.veldcd, found \.xtc"),
        ("a.pdbx", {}, r"no writer of \.pdbx, expected XTC \(\.xtc\), TRR"),
        ("-", {}, "not into streams"),
        ("a.xtc", {"n_atoms": None}, "n_atoms is needed"),
        ("a.xtc", {"n_atoms": 0}, "n_atoms is a "),
        ("a.xtc", {"mode": "r"}, "mode is 'w' for a new file or 'a'"),
        ("a.xtc", {"mode": "a", "overwrite": True}, "overwrite=True is for mode='w'"),
        ("a.dcd", {"fields": "weights"}, "fields are names out of positions, velocities, forces"),
    ],
)
def test_refused_arguments(tmp_path: Path, name: str, options: dict[str, Any], message: str) -> None:
    path = name if name == "-" else tmp_path / name
    with pytest.raises((kn.ArgumentError, kn.UnsupportedFormatError), match=message):
        kn.Writer(path, **{"n_atoms": 3, **options})
    assert list(tmp_path.iterdir()) == []


ALIASES = [("TRR", name) for name in ("TRR", "trr", "Trr")]
ALIASES += [("NetCDF", name) for name in ("NetCDF", "netcdf", "NETCDF", "ncdf", "NCDF", "nc", "Nc")]


@pytest.mark.parametrize(("registered", "name"), ALIASES)
def test_names_of_trr_and_netcdf(tmp_path: Path, registered: str, name: str) -> None:
    positions = random_walk(3, 5)
    with kn.Writer(tmp_path / "written", 5, format=name) as out:
        out.write(positions)
    assert out.format == registered
    read = kn.open(tmp_path / "written", format=name, stored=False)
    assert (read.format, read.n_frames) == (registered, 3)
    done = kn.convert(tmp_path / "written", tmp_path / "converted", format=name)
    assert (done.n_frames, kn.open(tmp_path / "converted", stored=False).format) == (3, registered)
    suffix = {"TRR": "nc", "NetCDF": "trr"}[registered]
    with pytest.raises(kn.UnsupportedFormatError, match=f"the suffix is none of {registered}"):
        kn.Writer(tmp_path / f"a.{suffix}", 5, format=name)
    with pytest.raises(kn.Error, match=registered):
        kn.open(kn.convert(tmp_path / "written", tmp_path / f"other.{suffix}").path, format=name).scan()
