"""Fields that conversions keep: from each format to each and back, and as a table for sources with all fields."""

from __future__ import annotations

import csv
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kinema as kn
from kinema.base.notes import collected
from kinema.model.frame import VECTOR_FIELDS
from kinema.testing import GivenFrames, lost_aspects, read_frames, trajectories
from kinema.testing.amounts import LONG

SUFFIXES = {
    "XTC": ".xtc",
    "TRR": ".trr",
    "NetCDF": ".nc",
    "NetCDF-4": ".ncdf",
    "NetCDF-4 of DL_POLY": ".netcdf",
    "DCD": ".dcd",
    "H5MD": ".h5md",
    "DL_POLY HISTORY": ".history",
    "G96": ".g96",
}
HELD = {
    "XTC": 1,
    "TRR": 3,
    "NetCDF": 3,
    "NetCDF-4": 3,
    "NetCDF-4 of DL_POLY": 3,
    "DCD": 1,
    "H5MD": 3,
    "DL_POLY HISTORY": 3,
    "G96": 2,
}
# holds one frame: tests/formats/test_dlpoly.py
SINGLE = {"DL_POLY CONFIG"}
# what nothing is known of in the files of these tests: X is written as the name of each atom
UNKNOWN = {"atoms"}
# what is rounded, and named, though it is nearly float64: ten decimals
FINE = {"DL_POLY HISTORY": {"cells"}}
# of the writer, by the suffix
OPTIONS: dict[str, dict[str, object]] = {
    ".ncdf": {"netcdf4": True},
    ".netcdf": {"netcdf4": True, "convention": "dl_poly"},
}
# formats that hold positions in angstrom; others, and other fields, are multiplied by a unit and rounded once
ANGSTROM = {"NetCDF", "NetCDF-4", "NetCDF-4 of DL_POLY", "DCD", "H5MD", "DL_POLY HISTORY"}
TABLE = Path(__file__).parents[1] / "data" / "kept_fields.csv"
# files are written again for each example; there are 81 pairs of formats, and the first example is of one frame
SETTINGS = settings(
    max_examples=12 if LONG else 3,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def written(path: Path, frames: GivenFrames) -> GivenFrames:
    """Writes frames one by one; what the file holds of them, in float64."""
    wide = {"dtype": "float64"} if path.suffix in (".h5md", *OPTIONS) else {}
    n_atoms = next(iter(frames.fields.values())).shape[1]
    with collected(), kn.Writer(path, n_atoms, overwrite=True, **wide, **OPTIONS.get(path.suffix, {})) as out:
        for one in frames.single():
            out.write(**one)
    return read_frames(path, "float64")


def converted(source: Path, target: Path, **options: object) -> set[str]:
    """Which of fields, cells, steps and times the losses of a conversion name."""
    with collected():
        chosen = {**OPTIONS.get(target.suffix, {}), **options}
        done = kn.convert(source, target, overwrite=True, **chosen)  # type: ignore[arg-type]
    return lost_aspects(target, done.losses)


@st.composite
def frames_of_any_kind(draw: st.DrawFn, held: int) -> GivenFrames:
    """Frames of a drawn trajectory with some of the fields that a format holds, in float32 or float64."""
    made = draw(trajectories(max_frames=6, max_atoms=14, velocities=True))
    names = VECTOR_FIELDS[: draw(st.integers(1, held))]
    random = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    noise = random.uniform(-1e-3, 1e-3, made.positions.shape)
    fields = {"positions": made.positions, "velocities": made.velocities, "forces": 30 * made.positions}
    steps, times = made.steps, made.times
    if draw(st.booleans()):
        steps = steps + np.cumsum(random.integers(0, 9, len(steps)))
        times = times + np.cumsum(random.uniform(0.0, 1e-2, len(times)))
    return GivenFrames(
        {name: (fields[name] + noise).astype(dtype) for name in names},
        made.cells.astype(np.float64) * draw(st.sampled_from([1.0, 1.0 + 1e-10])),
        steps,
        times,
        {name: np.ones(len(steps), np.bool_) for name in names},
    )


def keeps_bits(source: str, other: str, name: str) -> bool:
    """Whether values are never multiplied on the way from a format to another and back."""
    # H5MD is written in the units of its source, nm of TRR
    same = source == other or (source, other) == ("TRR", "H5MD")
    return same or (name == "positions" and {source, other} <= ANGSTROM)


@pytest.mark.parametrize("other", SUFFIXES)
@pytest.mark.parametrize("source", SUFFIXES)
@SETTINGS
@given(data=st.data())
def test_there_and_back(tmp_path: Path, source: str, other: str, data: st.DataObject) -> None:
    first, second = tmp_path / f"first{SUFFIXES[source]}", tmp_path / f"second{SUFFIXES[other]}"
    third = tmp_path / f"third{SUFFIXES[source]}"
    drawn = data.draw(frames_of_any_kind(HELD[source]))
    if "DL_POLY HISTORY" in (source, other):
        # which has ten columns for a step, and refuses what has more
        drawn = replace(drawn, steps=drawn.steps % 10**9)
    expected = written(first, drawn)
    lost = converted(first, second) | converted(second, third)
    found = read_frames(third, "float64")
    assert len(found) == len(expected)
    for name, values in expected.fields.items():
        if name not in found.fields:
            assert name in lost
            continue
        share = 0.0 if keeps_bits(source, other, name) and name not in lost else 2.5e-7
        # twice half of the last digit of XTC, and more than that of G96
        rounded = {"XTC": 1.1e-2, "G96": 2e-8} if name in lost else {}
        digits = max(rounded.get(source, 0.0), rounded.get(other, 0.0))
        np.testing.assert_allclose(found.fields[name], values, rtol=share, atol=digits, err_msg=name)
    if "cells" not in lost:
        edge = np.abs(expected.cells).max()
        # where cells are lengths and angles in one of the files, or are multiplied
        share = 0.0 if keeps_bits(source, other, "cells") and source not in ("DCD", "NetCDF", "NetCDF-4") else 1e-12
        np.testing.assert_allclose(found.cells, expected.cells, rtol=0, atol=share * edge)
    assert found.differing(expected) & {"steps", "times"} <= lost


@settings(SETTINGS, max_examples=6)
@given(data=st.data())
def test_trr_keeps_which_fields_each_frame_has(tmp_path: Path, data: st.DataObject) -> None:
    frames = data.draw(frames_of_any_kind(3))
    present = {
        name: np.array(data.draw(st.lists(st.booleans(), min_size=len(frames), max_size=len(frames))))
        for name in frames.fields
    }
    # the format is found by a first frame that has a field, and each frame has something
    for name in present:
        present[name][0] = True
    present["positions"] |= ~np.any(list(present.values()), axis=0)
    expected = written(tmp_path / "first.trr", replace(frames, present=present))
    for name in present:
        np.testing.assert_array_equal(expected.present[name], present[name])
    assert converted(tmp_path / "first.trr", tmp_path / "second.trr") == set()
    assert (tmp_path / "second.trr").read_bytes() == (tmp_path / "first.trr").read_bytes()
    # of values as well: some fields of all
    names = [name for name in present if name != "positions"]
    if names and all(np.any([present[name] for name in names], axis=0)):
        converted(tmp_path / "first.trr", tmp_path / "some.trr", fields=names)
        found = read_frames(tmp_path / "some.trr", "float64")
        assert not expected.with_fields(names).differing(found)


# -- a table of what is kept ------------------------------------------------------------------------------------------


def everything() -> GivenFrames:
    """Frames with all that files can have, in float64: nothing in it is even, round or the same in two frames."""
    random = np.random.default_rng(4)
    count = np.arange(5)
    cells = np.tile(np.array([[60.0, 0, 0], [11.0, 57.0, 0], [-7.0, 9.0, 63.0]]), (5, 1, 1))
    cells *= (1.0 + count / 7)[:, None, None]
    fields = {name: random.normal(0, 9, (5, 16, 3)) for name in VECTOR_FIELDS}
    present = {name: np.ones(5, np.bool_) for name in fields}
    return GivenFrames(fields, cells, 3 + count + count**2, 0.1 + count / 7 + count**2 / 9, present)


def write_everything_as_trr(path: Path) -> None:
    """In double precision with lambda, word by word."""
    frames = everything()
    with open(path, "wb") as file:
        for i in range(len(frames)):
            words = [0, 0, 72, 0, 0, 0, 0, 384, 384, 384, 16, int(frames.steps[i]), 0]
            file.write(struct.pack(">3i12s13i", 1993, 13, 12, b"GMX_trn_file", *words))
            file.write(struct.pack(">2d", frames.times[i], 0.25))
            file.write((frames.cells[i] / 10).astype(">f8").tobytes())
            for name, size in zip(VECTOR_FIELDS, (10.0, 10.0, 0.1), strict=True):
                file.write((frames.fields[name][i] / size).astype(">f8").tobytes())


def write_everything_as_h5md(path: Path) -> None:
    frames = everything()
    with kn.Writer(path, frames.fields["positions"].shape[1], dtype="float64") as out:
        out.add_observable("energy")
        for one in frames.single():
            out.write(**one)
            out.write_observable("energy", one["step"] / 7)


SOURCES: dict[str, Callable[[Path], None]] = {"TRR": write_everything_as_trr, "H5MD": write_everything_as_h5md}


def kept(expected: np.ndarray, found: np.ndarray | None) -> str:
    """In one word what a file has of values (frames, ...)."""
    if found is None:
        return "no"
    if np.array_equal(expected, found):
        return "bits"
    error = np.abs(found - expected).max() / np.abs(expected).max()
    for word, most in (("float64", 1e-12), ("float32", 2.5e-7), ("rounded", 1e-3)):
        if error <= most:
            return word
    return "no"


def rows_of_table() -> list[dict[str, str]]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_table_has_all_formats() -> None:
    pairs = [(row["source"], row["target"]) for row in rows_of_table()]
    assert pairs == [(source, target) for source in SOURCES for target in SUFFIXES]
    assert {name.partition("-4")[0] for name in SUFFIXES} | SINGLE == {
        one.name for one in kn.formats() if one.writes and not one.slow
    }


@pytest.mark.parametrize("row", rows_of_table(), ids=lambda row: f"{row['source']}-{row['target']}")
def test_what_is_kept_is_what_the_table_says(tmp_path: Path, row: dict[str, str]) -> None:
    source = tmp_path / f"source{SUFFIXES[row['source']]}"
    target = tmp_path / f"target{SUFFIXES[row['target']]}"
    SOURCES[row["source"]](source)
    lost = converted(source, target)
    expected, found = read_frames(source, "float64"), read_frames(target, "float64")
    table = {name: kept(values, found.fields.get(name)) for name, values in expected.fields.items()}
    for name in ("cells", "steps", "times"):
        table[name] = kept(getattr(expected, name), getattr(found, name))
    with collected():
        copy = kn.open(target, stored=False)
        if row["source"] == "TRR":
            table |= {"lambda": "bits" if "with lambda" in copy.parts[0].variant else "no", "observables": ""}
        else:
            table |= {"lambda": "", "observables": "bits" if list(copy.observables) == ["energy"] else "no"}
    assert {"source": row["source"], "target": row["target"], **table} == row
    # each word but the first two is a loss, and there is no other
    assert lost - UNKNOWN - FINE.get(row["target"], set()) == {
        name for name, word in table.items() if word not in ("bits", "float64", "")
    }
