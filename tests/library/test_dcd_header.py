"""`_core.dcd_header`: numbers and sizes of every variant of DCD, and errors with their place."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import kinema as kn
from kinema import _core
from kinema.base.errors import CorruptFileError, FileNotFound, TruncatedFileError

pytestmark = pytest.mark.usefixtures("nobody_changes_files")

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(
    [*(ROOT / "tests/data/golden").glob("*.dcd"), *(ROOT / "crates/kinema-core/tests/data/dcd").glob("*.dcd")]
)


@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in FILES])
def test_numbers_and_sizes_are_those_of_the_file(path: Path) -> None:
    found, data = _core.dcd_header(str(path)), path.read_bytes()
    assert data.startswith(found["data"])
    marker, at = found["marker_bytes"], found["control_offset"]
    assert (at, data[marker:at].decode()) == (marker + 4, found["kind"])
    assert found["control"] == list(struct.unpack_from(f"{found['byte_order']}20i", data, at))
    assert found["claimed_frames"] == found["control"][0]
    assert found["stride"] == max(1, found["control"][2])
    assert found["n_fixed"] == found["control"][8]
    n_frames = found["n_frames"]
    frames = found["first_frame_bytes"] + (n_frames - 1) * found["frame_bytes"] if n_frames else 0
    assert len(found["data"]) + frames + found["leftover_bytes"] == len(data)
    traj = kn.open(str(path), on_truncated="drop")
    assert (found["n_atoms"], n_frames) == (traj.n_atoms, traj.n_frames)


def test_errors_name_path_and_byte(tmp_path: Path) -> None:
    assert FILES
    whole = FILES[0].read_bytes()
    path = tmp_path / "bad.dcd"
    with pytest.raises(FileNotFound, match=r"bad\.dcd"):
        _core.dcd_header(str(path))
    path.write_bytes(whole[: len(_core.dcd_header(str(FILES[0]))["data"]) - 2])
    with pytest.raises(TruncatedFileError, match=r"bad\.dcd: DCD byte \d+: .*expected"):
        _core.dcd_header(str(path))
    path.write_bytes(whole[:88] + bytes(4) + whole[92:])
    with pytest.raises(CorruptFileError, match=r"bad\.dcd: DCD byte 88: .*expected 84, found 0"):
        _core.dcd_header(str(path))
    path.write_bytes(whole[:100])
    with pytest.raises(TruncatedFileError, match=r"bad\.dcd: DCD byte 92: .*expected \d+ more bytes, found 8"):
        _core.dcd_header(str(path))


def test_lists_of_values_are_those_that_the_core_takes(tmp_path: Path) -> None:
    path = str(FILES[0])
    for overlap in _core.OVERLAP_VALUES:
        for on_truncated in _core.ON_TRUNCATED_VALUES:
            for index in _core.INDEX_VALUES:
                core = _core.Trajectory([path], overlap=overlap, on_truncated=on_truncated, index=index)
                assert core.n_atoms > 0
    for name, wrong in [("overlap", "none"), ("on_truncated", "keep"), ("index", "never")]:
        with pytest.raises(kn.ArgumentError, match=f'{name}="{wrong}" is not one of "'):
            _core.Trajectory([path], **{name: wrong})  # type: ignore[arg-type]
    assert _core.ACCESS_VALUES == ("direct", "frame", "subset", "in-memory")
    assert _core.DTYPE_VALUES == ("float32", "float64")
    assert _core.FIELD_VALUES == ("positions", "velocities", "forces", "cell", "step", "time")
    for name, levels in _core.COMPRESSION_LEVELS.items():
        for level in levels or ():
            assert _core.creation_filters(name, level, 4)
        with pytest.raises(kn.ArgumentError):
            _core.creation_filters(name, (levels or (0, 0))[1] + 1, 4)
