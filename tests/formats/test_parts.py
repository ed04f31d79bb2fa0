"""Parts whose times start again: what is refused, noted, drawn and joined."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected


def dcd(path: Path, first_step: int, *, delta: float = 1.0, n_frames: int = 4) -> str:
    """A DCD file of one atom and a stride of 10."""
    head = struct.pack(
        "<i4s9if10ii", 84, b"CORD", n_frames, first_step, 10, 10 * n_frames, *[0] * 5, delta, *[0] * 9, 24, 84
    )
    head += struct.pack("<ii80si", 84, 1, b"REMARKS".ljust(80), 84) + struct.pack("<iii", 4, 1, 4)
    path.write_bytes(head + b"".join(struct.pack("<ifi", 4, i, 4) * 3 for i in range(n_frames)))
    return str(path)


def xtc(path: Path, steps: list[int], times: list[float]) -> str:
    frames = b""
    for step, time in zip(steps, times, strict=True):
        frames += struct.pack(">iiif9fi3f", 1995, 1, step, time, *[0.0] * 9, 1, *[0.1] * 3)
    path.write_bytes(frames)
    return str(path)


def notes_of(*paths: str, **options: str) -> tuple[str, ...]:
    traj = kn.open(list(paths), **options)
    with collected():
        return traj.notes


def test_the_refusal_names_the_file_that_starts_again(tmp_path: Path) -> None:
    first, later, again = (dcd(tmp_path / f"{name}.dcd", step) for name, step in (("a", 0), ("b", 40), ("c", 0)))
    for overlap in ("last", "first"):
        traj = kn.open([first, later, again], overlap=overlap)
        with pytest.raises(kn.ArgumentError, match="does not start after the start of") as caught:
            traj.scan()
        assert caught.value.path == again
        assert later in str(caught.value) or first in str(caught.value)
        assert 'overlap="all"' in str(caught.value)


def test_time_that_goes_back_is_no_gap(tmp_path: Path) -> None:
    # steps increase and times go back, as between files of two programs
    first = xtc(tmp_path / "a.xtc", [0, 10, 20], [0.0, 50.0, 100.0])
    later = xtc(tmp_path / "b.xtc", [1000, 1010], [1.0, 2.0])
    (note,) = notes_of(first, later)
    assert note == "time goes back from 100 to 1 ps before frame 3"
    problems = kn.check([first, later]).problems
    assert [(problem.kind, problem.path) for problem in problems] == [("order", later)]
    again = dcd(tmp_path / "a.dcd", 0)
    assert [note for note in notes_of(again, again, overlap="all") if "back" in note]
    many = notes_of(*[again] * 10, overlap="all")
    assert len([note for note in many if "back" in note]) == 4
    assert "time goes back in 6 more places" in many


def test_parts_are_ordered_by_times_of_one_unit(tmp_path: Path) -> None:
    """Times of files are compared in ps, not in the units of each."""
    first = xtc(tmp_path / "a.xtc", [0, 0, 0], [0.0, 1.0, 2.0])
    later = str(tmp_path / "b.h5md")
    with kn.Writer(later, 1, time_unit="fs") as out:
        for i in range(3):
            out.write(positions=np.zeros((1, 3)), step=i, time=1.5 + i)
    traj = kn.open([first, later])
    with collected():
        np.testing.assert_allclose(traj.times, [0.0, 1.0, 1.5, 2.5, 3.5])


def test_a_curve_is_broken_where_time_starts_again(tmp_path: Path) -> None:
    path = dcd(tmp_path / "a.dcd", 0)
    traj = kn.open([path, path], overlap="all")
    with collected():
        analysis = kn.analysis.RadiusOfGyration(traj, weights=None).run(progress=False)
    from kinema.analysis.plotting import draw

    (line,) = draw(analysis.table()).axes[0].lines
    x = np.asarray(line.get_xdata(), float)
    assert np.flatnonzero(np.isnan(x)).tolist() == [4]
    assert not (np.diff(x) < 0).any()


def test_dcd_files_are_joined_with_all_frames_where_the_header_can_say_it(tmp_path: Path) -> None:
    out = tmp_path / "out.dcd"
    parts = [dcd(tmp_path / f"{name}.dcd", step) for name, step in (("a", 0), ("b", 40))]
    assert kn.join(parts, out, overlap="all").n_frames == 8
    with collected():
        np.testing.assert_array_equal(kn.open(str(out)).steps, 10 * np.arange(8))
        # the steps start again: the one header would give the frames other times
        with pytest.raises(kn.ArgumentError, match="header alone says the times") as caught:
            kn.join([parts[1], parts[0]], tmp_path / "other.dcd", overlap="all")
        assert caught.value.path == parts[0]
        untimed = [dcd(tmp_path / f"{name}.dcd", 0, delta=0.0) for name in ("c", "d")]
        done = kn.join(untimed, tmp_path / "untimed.dcd", overlap="all")
        assert any("steps are counted on" in note for note in done.notes)
        np.testing.assert_array_equal(kn.open(done.path).read()[:, 0, 0], [0, 1, 2, 3, 0, 1, 2, 3])
