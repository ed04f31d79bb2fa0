"""Values of Python in checkpoints: stored as such if possible, otherwise pickled with a proof of the user's key."""

from __future__ import annotations

import decimal
import io
import math
import os
import pickle
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.execution.checkpoint import Checkpoint
from kinema.execution.checkpoint.file import CheckpointWriter, load
from kinema.execution.checkpoint.value_bytes import _PICKLED, from_bytes, is_pickled, to_bytes
from kinema.storage.user_key import key_file
from kinema.testing import random_walk, write_dcd

N_FRAMES, N_ATOMS = 60, 12


@pytest.fixture
def traj(tmp_path: Path) -> kn.Trajectory:
    write_dcd(tmp_path / "a.dcd", random_walk(N_FRAMES, N_ATOMS))
    return kn.open(tmp_path / "a.dcd", stored=False)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.ckpt"


@pytest.fixture(autouse=True)
def own_key(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))


# -- values -----------------------------------------------------------------------------------------------------------

PLAIN: list[Any] = [
    None,
    True,
    0,
    -1,
    1 << 200,
    -(1 << 63),
    2.5,
    -0.0,
    math.inf,
    1 - 2j,
    "caf\u00e9 \ud800",
    b"\0\xff",
    [],
    (),
    {},
    [1, 2, 3],
    [1, True, None],
    [1, 1 << 70],
    [0.1, -0.0],
    (1, "a", [2.0, (3,)]),
    {"a": [1.5], 2: {"b": None}, (1, 2): b""},
    np.float32(0.1),
    np.int16(-3),
    np.bool_(True),
    np.datetime64("2026-01-01", "s"),
    np.arange(12.0).reshape(3, 4),
    np.asfortranarray(np.arange(12).reshape(3, 4)),
    np.arange(20)[::3],
    np.array(7, ">i2"),
    np.zeros((0, 5), np.complex64),
    np.array(["ab", "c"]),
    ([np.ones((2, 3), np.float32), np.zeros((1, 3), np.float32)], [np.array([1.0, 2.0])]),
]


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, (np.ndarray, np.generic)):
        order = [array.flags.f_contiguous and not array.flags.c_contiguous for array in (one, other)]
        return one.dtype.str == other.dtype.str and one.tobytes() == other.tobytes() and order[0] == order[1]
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return _same(list(one.items()), list(other.items()))
    return repr(one) == repr(other)


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: repr(value)[:30].encode("ascii", "replace").decode())
def test_plain_values_come_back_as_they_were(value: Any) -> None:
    data = to_bytes(value)
    assert not is_pickled(data)
    again = from_bytes(data)
    assert _same(value, again)
    if isinstance(again, np.ndarray):
        assert again.flags.writeable


def test_anything_else_is_pickled() -> None:
    shared = np.ones(3)
    nested: list[Any] = []
    for _ in range(60):
        nested = [nested]
    others: list[Any] = [
        {1, 2},
        Counter("abc"),
        np.ma.array([1, 2], mask=[True, False]),
        np.array([None]),
        np.zeros(2, [("a", "<i4")]),
        # one array in two places stays one
        {"a": shared, "b": shared},
        nested,
    ]
    for value in others:
        data = to_bytes(value)
        assert is_pickled(data)
        assert repr(from_bytes(data)) == repr(value)
    again = from_bytes(to_bytes({"a": shared, "b": shared}))
    assert again["a"] is again["b"]
    # equal ones that are two may be written as such
    assert not is_pickled(to_bytes({"a": shared, "b": shared.copy(), "c": [1], "d": [1]}))


def test_a_class_that_has_moved_is_refused_with_the_remedy() -> None:
    stored = to_bytes(decimal.Decimal(1)).replace(b"decimal", b"decimus")
    with pytest.raises(kn.ArgumentError, match=r"No module named 'decimus'\); remove the checkpoint"):
        from_bytes(stored)
    stored = to_bytes(decimal.Decimal(1)).replace(b"Decimal", b"Decimus")
    with pytest.raises(kn.ArgumentError, match=r"Decimus.*; remove the checkpoint"):
        from_bytes(stored)


def test_damaged_values_are_errors_and_take_no_memory() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    draw = random.Random(seed)
    whole = [to_bytes(value) for value in PLAIN]
    huge = [
        b"a\3\0\0\0\0\0\0\0<f8" + np.array([1, 1 << 60], "<u8").tobytes() + b"C",
        b"l" + b"\xff" * 8,
        b"D" + b"\xff" * 8,
    ]
    damaged = [*huge, *(data[:-1] for data in whole)]
    for _ in range(4000):
        data = bytearray(draw.choice(whole))
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        damaged.append(bytes(data))
    refused = 0
    for data in damaged:
        try:
            from_bytes(data)
        except ValueError:
            refused += 1
    assert refused > 1000
    for data in huge:
        with pytest.raises(ValueError, match="damaged"):
            from_bytes(data)


def test_arrays_are_of_plain_types() -> None:
    data = to_bytes(np.array([1.0]))
    assert from_bytes(data) == 1.0
    # objects, bytes without a meaning, and types that are lists of types
    for name in (b"|O8", b"<V8", b"f,f"):
        with pytest.raises(ValueError, match="there is no array of '"):
            from_bytes(data.replace(b"<f8", name))


# -- checkpoints ------------------------------------------------------------------------------------------------------


class Bag:
    """A partial that cannot be stored as such."""

    def __init__(self) -> None:
        self.sums: list[float] = []


class Bags(kn.analysis.PythonKernel):
    def empty(self) -> Bag:
        return Bag()

    def accumulate(self, partial: Bag, block: Any) -> Bag:
        partial.sums += [float(one.sum()) for one in block.positions]
        return partial

    def merge(self, left: Bag, right: Bag) -> Bag:
        left.sums += right.sums
        return left

    def finish(self, partial: Bag) -> dict[str, Any]:
        return {"sums": np.array(partial.sums)}


def _first(frame: Any) -> Any:
    return frame.positions[0].astype(float)


def another_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on another machine, or of another user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))


def finished(path: Path, analysis: Any) -> Any:
    return analysis.run(checkpoint=Checkpoint(path, keep=True))


def test_arrays_and_numbers_need_no_key(traj: kn.Trajectory, path: Path, tmp_path: Path, monkeypatch: Any) -> None:
    analysis = finished(path, kn.analysis.from_function(_first, traj))
    assert _PICKLED not in path.read_bytes()
    assert not key_file().exists()
    assert not [note for note in analysis.notes if "key" in note]
    another_key(monkeypatch, tmp_path)
    again = finished(path, kn.analysis.from_function(_first, traj))
    assert again.timings.frames_restored == N_FRAMES
    assert again.results["values"].tobytes() == analysis.results["values"].tobytes()


def test_what_must_be_pickled_needs_the_key(traj: kn.Trajectory, path: Path, tmp_path: Path, monkeypatch: Any) -> None:
    with pytest.warns(kn.Note, match=f"signed with the key {key_file()}"):
        analysis = finished(path, kn.analysis.Custom(traj, Bags()))
    assert sum("needs that key" in note for note in analysis.notes) == 1
    again = finished(path, kn.analysis.Custom(traj, Bags()))
    assert again.timings.frames_restored == N_FRAMES
    assert again.results.sums.tobytes() == analysis.results.sums.tobytes()
    key, before = key_file().read_bytes(), path.read_bytes()
    another_key(monkeypatch, tmp_path)
    with pytest.raises(kn.FileAccessError, match=r"with the key .*another/kinema/key, found another proof"):
        finished(path, kn.analysis.Custom(traj, Bags()))
    assert path.read_bytes() == before
    # with a copy of the key the run continues
    key_file().write_bytes(key)
    key_file().chmod(0o600)
    assert finished(path, kn.analysis.Custom(traj, Bags())).timings.frames_restored == N_FRAMES


def test_the_first_save_says_so(traj: kn.Trajectory, path: Path) -> None:
    seen: list[str] = []

    class Stopping(Bags):
        def accumulate(self, partial: Bag, block: Any) -> Bag:
            if block.frames[-1] >= 40:
                raise InterruptedError
            return super().accumulate(partial, block)

    with pytest.warns(kn.Note) as warned, pytest.raises(InterruptedError):
        kn.analysis.Custom(traj, Stopping()).run(checkpoint=path, checkpoint_interval=0, runner="serial")
    seen = [str(one.message) for one in warned]
    assert sum("needs that key" in note for note in seen) == 1
    assert path.exists()


class Evil:
    """An object that makes a folder when it is unpickled."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.made),)


def forged(path: Path, partial: bytes, end: bytes = b"") -> None:
    """The checkpoint with this partial in every node, as somebody without the key writes it."""
    content = load(str(path))
    assert content is not None
    buffer = io.BytesIO()
    writer = CheckpointWriter(buffer)
    writer.run(content.items)
    for one in content.passes:
        writer.begin_pass(one.items)
        for level, index, partials in one.nodes:
            writer.node(level, index, [partial] * len(partials))
    writer.is_pickled = False
    if end:
        writer._record(b"SIGN", [end])
    writer.end()
    path.write_bytes(buffer.getvalue())


@pytest.mark.parametrize("analysis", ["function", "kernel"])
@pytest.mark.parametrize("proof", ["none", "wrong", "of another file", "with another key"])
def test_a_forged_checkpoint_runs_nothing(
    traj: kn.Trajectory, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, analysis: str, proof: str
) -> None:
    def make() -> Any:
        if analysis == "function":
            return kn.analysis.from_function(_first, traj)
        return kn.analysis.Custom(traj, Bags())

    made = tmp_path / "code was run"
    evil = _PICKLED + pickle.dumps(Evil(made))
    pickle.loads(pickle.dumps(Evil(tmp_path / "works")))
    assert (tmp_path / "works").exists()
    with pytest.warns(kn.Note):
        finished(path, kn.analysis.Custom(traj, Bags()))
    signature = path.read_bytes().rpartition(b"SIGN")[2][8 : 8 + 64]
    path.unlink()
    with_notes = pytest.warns(kn.Note) if analysis == "kernel" else pytest.MonkeyPatch.context()
    with with_notes:
        finished(path, make())
    if proof == "with another key":
        mine = os.environ["XDG_CONFIG_HOME"]
        content = load(str(path))
        assert content is not None
        another_key(monkeypatch, tmp_path)
        buffer = io.BytesIO()
        writer = CheckpointWriter(buffer)
        writer.run(content.items)
        for one in content.passes:
            writer.begin_pass(one.items)
            writer.node(63, 0, [evil])
        writer.end()
        path.write_bytes(buffer.getvalue())
        monkeypatch.setenv("XDG_CONFIG_HOME", mine)
    else:
        forged(path, evil, {"none": b"", "wrong": b"0" * 64, "of another file": signature}[proof])
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    before = path.read_bytes()
    with pytest.raises(kn.FileAccessError, match="pickled values, which can run any code"):
        finished(path, make())
    assert not made.exists()
    assert path.read_bytes() == before


def test_pickles_without_their_mark_are_damage(traj: kn.Trajectory, path: Path, tmp_path: Path) -> None:
    made = tmp_path / "code was run"
    finished(path, kn.analysis.from_function(_first, traj))
    forged(path, pickle.dumps(Evil(made)))
    with pytest.raises(kn.CorruptFileError, match="damaged"):
        finished(path, kn.analysis.from_function(_first, traj))
    assert not made.exists()


@pytest.mark.parametrize("nodes", [False, True])
def test_a_forged_checkpoint_removes_and_changes_no_file(
    traj: kn.Trajectory, path: Path, tmp_path: Path, nodes: bool
) -> None:
    def run() -> Any:
        kept = Checkpoint(path, keep=True)
        return kn.analysis.from_function(_first, traj).run(checkpoint=kept, out=tmp_path / "rows.h5")

    run()
    content = load(str(path))
    assert content is not None
    # the user's own, and as good as the file of this run as it can be
    victim = tmp_path / "theirs" / "valued.h5"
    victim.parent.mkdir()
    (tmp_path / "rows.h5").rename(victim)
    before = victim.read_bytes()
    with path.open("wb") as file:
        writer = CheckpointWriter(file)
        writer.run(content.items)
        writer.rows(os.path.relpath(victim, tmp_path))
        for one in content.passes:
            writer.begin_pass(one.items)
            for node in one.nodes if nodes else []:
                writer.node(*node)
        writer.end()
    with pytest.raises(kn.CorruptFileError, match=r"names another file .* found .*valued\.h5"):
        run()
    assert victim.read_bytes() == before
