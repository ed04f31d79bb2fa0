"""`FrameSink` of files in HDF5: rows, and frames that are encoded already, make the same file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.formats.frame_sink import FrameSink, StoredFrames
from kinema.formats.given_frames import FrameArrays
from kinema.formats.h5md.writer import H5mdWriter
from kinema.formats.hdf5.writer import Hdf5Writer
from kinema.testing import random_walk

N_FRAMES, N_ATOMS = 23, 40
# chunks of 4 frames
STORED: list[tuple[str, dict[str, Any]]] = [
    ("a.h5md", {"chunk_bytes": 2000, "compression": "gzip", "checksum": True}),
    ("a.h5md", {"layout": (4, 15, 3), "dtype": "float64", "compression": "zstd"}),
    ("a.nc", {"chunk_bytes": 2000, "netcdf4": True, "convention": "dl_poly"}),
]


def frames_given() -> FrameArrays:
    cells = np.tile(np.diag([50.0, 51.0, 52.0]), (N_FRAMES, 1, 1))
    cells[:, 0, 0] += np.arange(N_FRAMES)
    positions = random_walk(N_FRAMES, N_ATOMS).astype("<f4")
    fields = {"positions": positions, "velocities": positions[::-1].copy()}
    return FrameArrays(fields, cells, np.arange(N_FRAMES) * 10, np.arange(N_FRAMES) * 0.5)


def opened(path: Path, options: dict[str, Any]) -> tuple[Hdf5Writer, FrameSink]:
    path.parent.mkdir()
    writer = kn.Writer(path, N_ATOMS, **options)
    assert isinstance(writer, Hdf5Writer)
    return writer, writer


def drop_values(frames: FrameArrays, *chunks: Any, not_finite: int | None = None) -> StoredFrames:
    kinds = {name: values.dtype for name, values in frames.fields.items()}
    return StoredFrames(len(frames), kinds, frames.cells, frames.steps, frames.times, chunks, not_finite)


@pytest.mark.parametrize(("name", "options"), STORED)
def test_stored_frames_make_the_file_that_rows_make(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    frames, run = frames_given(), 3
    writer, sink = opened(tmp_path / "rows" / name, options)
    with writer:
        for at in range(0, N_FRAMES, run):
            sink.rows(frames[at : at + run])
        sink.finish()
    writer, sink = opened(tmp_path / "stored" / name, options)
    with writer:
        encoders = sink.begin(frames[:1])
        assert sink.n_frames == 0
        held: StoredFrames | None = None
        # pieces of any length: their chunks are made without the file
        for at, stop in ((0, 8), (8, 13), (13, 14), (14, N_FRAMES)):
            piece = frames[at:stop]
            made = {field: encoders[field].encoded(values, at) for field, values in piece.fields.items()}
            here = drop_values(piece, made)
            held = here if held is None else StoredFrames.joined([held, here])
            while held.n_frames >= run:
                first, held = held.cut(run)
                sink.stored(first)
        assert held is not None and not held.chunks
        sink.stored(held)
        assert sink.n_frames == N_FRAMES
        sink.finish()
    assert (tmp_path / "rows" / name).read_bytes() == (tmp_path / "stored" / name).read_bytes()


def test_a_commit_and_a_check_of_the_finished_file(tmp_path: Path) -> None:
    frames, checked = frames_given(), []
    writer, sink = opened(tmp_path / "new" / "a.h5md", {})
    with writer:
        sink.rows(frames[:5])
        sink.commit()
        assert (writer.n_flushed, (tmp_path / "new" / "a.h5md").exists()) == (5, False)
        sink.rows(frames[5:])
        sink.finish(lambda path: checked.append(kn.open(path).n_frames))
    assert checked == [N_FRAMES]
    np.testing.assert_array_equal(kn.open(tmp_path / "new" / "a.h5md").read(), frames.fields["positions"])


def test_fields_that_others_write(tmp_path: Path) -> None:
    frames = frames_given()
    writer, _ = opened(tmp_path / "new" / "a.h5md", {"layout": "contiguous", "n_frames": N_FRAMES})
    assert isinstance(writer, H5mdWriter)
    with writer as sink:
        places = sink.places_of_fields(frames[:1])
        with open(sink.current_path, "r+b") as file:
            for name, place in places.items():
                file.seek(place)
                file.write(frames.fields[name].tobytes())
        sink.stored(drop_values(frames))
        sink.finish()
    found = kn.open(tmp_path / "new" / "a.h5md")
    for name, values in frames.fields.items():
        np.testing.assert_array_equal(found.read(fields=name), values)


def test_a_frame_that_is_not_finite_is_noted_once(tmp_path: Path) -> None:
    frames = frames_given()
    writer, sink = opened(tmp_path / "new" / "a.h5md", {})
    with writer:
        encoders = sink.begin(frames[:1])
        made = {field: encoders[field].encoded(values, 0) for field, values in frames.fields.items()}
        whole = StoredFrames.joined([drop_values(frames[:9], made, not_finite=7), drop_values(frames[9:])])
        with pytest.warns(kn.Note, match="frame 7 has positions that are not numbers"):
            sink.stored(whole)
        sink.finish()
    assert sum("not numbers" in note for note in writer.notes) == 1
