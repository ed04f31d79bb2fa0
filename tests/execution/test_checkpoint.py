"""Checkpoints: what is refused and why, damaged files, when files appear and go; runs that are killed are elsewhere."""

from __future__ import annotations

import errno
import functools
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.analysis import Analysis
from kinema.execution.checkpoint import Checkpoint, manager
from kinema.execution.checkpoint.file import CheckpointWriter, Content, IdentityItem, load
from kinema.runners import ThreadsRunner
from kinema.testing import random_walk, write_dcd, write_xtc

N_FRAMES, N_ATOMS = 60, 12
CUTOFF = 3.0


@pytest.fixture
def traj(tmp_path: Path) -> kn.Trajectory:
    write_dcd(tmp_path / "a.dcd", random_walk(N_FRAMES, N_ATOMS))
    write_dcd(tmp_path / "b.dcd", random_walk(30, N_ATOMS, seed=2), first_step=N_FRAMES)
    return kn.open(tmp_path / "a.dcd")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.ckpt"


def finished(path: Path, *analyses: Analysis, **options: Any) -> None:
    """A run that is done and has kept its checkpoint."""
    kn.run(list(analyses), checkpoint=Checkpoint(path, keep=True), **options)
    assert path.exists()


def refused(path: Path, match: str, *analyses: Analysis, **options: Any) -> None:
    """The run is refused, says what differs, and leaves the checkpoint as it is."""
    before = path.read_bytes()
    with pytest.raises(kn.ArgumentError, match=match) as caught:
        kn.run(list(analyses), checkpoint=path, **options)
    assert caught.value.path == str(path)
    assert "the checkpoint is of another run" in str(caught.value)
    assert path.read_bytes() == before
    assert not any(analysis.results for analysis in analyses)


# -- another run ----------------------------------------------------------------------------------------------------

WEIGHTS = np.linspace(1.0, 2.0, N_ATOMS)
OTHER = np.linspace(1.0, 2.5, N_ATOMS)
GIVEN: dict[str, Any] = {"weights": WEIGHTS, "groups": [[1, 2]], "reference": random_walk(1, N_ATOMS)[0]}


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        (
            {"select": [1, 2, 3], "weights": WEIGHTS[:3]},
            r"the selection of RMSD, expected 12 atoms \(all\), found 3 atoms",
        ),
        ({"weights": None}, r"weights of RMSD, expected array\(12,\), found None"),
        ({"weights": OTHER}, r"weights of RMSD, round 1, expected float64 \(12,\), digest \w+, found float64 \(12,\)"),
        ({"groups": [[1, 3]]}, r"atoms? .*groups of RMSD|groups of RMSD"),
        ({"groups": None}, r"groups of RMSD"),
        ({"ref_frame": 1}, r"ref_frame of RMSD, expected 0, found 1"),
        ({"reference": random_walk(1, N_ATOMS, seed=3)[0]}, r"reference of RMSD, round 1, expected float64 \(12, 3\)"),
        ({"superposition": False}, r"superposition of RMSD, expected True, found False"),
    ],
)
def test_other_arguments(traj: kn.Trajectory, path: Path, changed: dict[str, Any], match: str) -> None:
    finished(path, kn.analysis.RMSD(traj, **GIVEN))
    refused(path, match, kn.analysis.RMSD(traj, **GIVEN | changed))


def test_other_transforms(traj: kn.Trajectory, path: Path) -> None:
    def rmsf(**arguments: Any) -> Analysis:
        return kn.analysis.RMSF(traj, select=[1, 2, 3, 4], align="reference", align_select=[4, 5, 6, 7], **arguments)

    finished(path, rmsf())
    refused(path, r"align_weights of RMSF", rmsf(align_weights=WEIGHTS[:4]))
    refused(path, "align of RMSF", kn.analysis.RMSF(traj, select=[1, 2, 3, 4]))
    other = kn.analysis.RMSF(traj, select=[1, 2, 3, 4], align="reference", align_select=[4, 5, 6, 8])
    refused(path, "atoms in transform 1 of RMSF, round 1|align_select of RMSF", other)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"step": 2}, r"the frames, expected 60 from 0, every 1, found 30 from 0, every 2"),
        ({"stop": 59}, r"the frames, expected 60 from 0, every 1, found 59"),
        ({"frames": [3, 1, 2]}, r"the frames, expected 60 from 0, every 1, found 3 chosen"),
    ],
)
def test_other_frames(traj: kn.Trajectory, path: Path, options: dict[str, Any], match: str) -> None:
    finished(path, kn.analysis.RMSD(traj))
    refused(path, match, kn.analysis.RMSD(traj), **options)


def test_other_frames_of_the_same_number(traj: kn.Trajectory, path: Path) -> None:
    finished(path, kn.analysis.RMSD(traj), frames=[5, 7, 1])
    refused(path, r"the frames, expected 3 chosen, digest \w+, found 3", kn.analysis.RMSD(traj), frames=[5, 1, 7])


def test_other_analyses(traj: kn.Trajectory, path: Path) -> None:
    rmsd, rmsf = kn.analysis.RMSD, kn.analysis.RMSF
    finished(path, rmsd(traj), rmsf(traj))
    refused(path, "the analyses, expected RMSD, RMSF, found RMSF, RMSD", rmsf(traj), rmsd(traj))
    refused(path, "the analyses, expected RMSD, RMSF, found RMSD", rmsd(traj))


def test_other_files(traj: kn.Trajectory, path: Path, tmp_path: Path) -> None:
    a, b = tmp_path / "a.dcd", tmp_path / "b.dcd"
    finished(path, kn.analysis.RMSD(traj))
    refused(path, "the number of files, expected 1, found 2", kn.analysis.RMSD(kn.open([a, b])))
    refused(path, r"file 1 of 1, expected .*a\.dcd of \d+ bytes", kn.analysis.RMSD(kn.open(b)), stop=30)
    path.unlink()
    finished(path, kn.analysis.RMSD(kn.open([a, b])))
    refused(path, r"file 1 of 2, expected \S*a\.dcd", kn.analysis.RMSD(kn.open([b, a], overlap="all")))


def test_frames_of_parts_that_count(path: Path, tmp_path: Path) -> None:
    names = [tmp_path / "a.dcd", tmp_path / "b.dcd"]
    write_dcd(names[0], random_walk(N_FRAMES, N_ATOMS))
    write_dcd(names[1], random_walk(30, N_ATOMS, seed=2), first_step=50)
    finished(path, kn.analysis.RMSD(kn.open(names)))
    changed = kn.analysis.RMSD(kn.open(names, overlap="first"))
    refused(path, "the frames used of file 1, expected 0 to 50, found 0 to 60", changed)


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize("ending", ["dcd", "xtc"])
def test_a_file_whose_middle_was_rewritten(tmp_path: Path, path: Path, ending: str, restored: bool) -> None:
    """Size, both ends and the heads of all frames stay; also where the time of modification was set back."""
    name = tmp_path / f"large.{ending}"
    positions = random_walk(60, 1000)
    {"dcd": write_dcd, "xtc": write_xtc}[ending](name, positions)
    finished(path, kn.analysis.RMSD(kn.open(name)))
    before = name.stat()
    traj = kn.open(name)
    content = bytearray(name.read_bytes())
    for frame in range(20, 40):
        _, _, offset, length = traj.core.locate(frame)
        # within the coordinates; damaged ones of XTC are decoded or refused
        for place in range(offset + 200, offset + length - 200, 8):
            content[place] ^= 1
    name.write_bytes(content)
    if restored:
        os.utime(name, ns=(before.st_atime_ns, before.st_mtime_ns))
    refused(
        path, f"file 1 of 1, expected .*large.{ending} of .*: its content is another", kn.analysis.RMSD(kn.open(name))
    )


def test_an_identity_that_is_none(traj: kn.Trajectory, path: Path) -> None:
    finished(path, kn.analysis.RMSD(traj))
    for exact in ("FileIdentity ", "FileIdentity xyz", "FileIdentity 00ff"):
        rewrite(path, lambda item, exact=exact: item._replace(exact=exact) if item.what == "file 1 of 1" else item)
        refused(path, "file 1 of 1, expected .* its identity cannot be read", kn.analysis.RMSD(traj))


def test_a_file_that_was_only_touched(traj: kn.Trajectory, path: Path) -> None:
    finished(path, kn.analysis.RMSD(traj))
    os.utime(traj.paths[0], ns=(1, 1))
    again = kn.analysis.RMSD(kn.open(traj.paths[0]))
    kn.run([again], checkpoint=path)
    assert len(again.results.values) == N_FRAMES


def test_a_changed_and_a_grown_file(traj: kn.Trajectory, path: Path, tmp_path: Path) -> None:
    finished(path, kn.analysis.RMSD(traj))
    write_dcd(tmp_path / "a.dcd", random_walk(N_FRAMES, N_ATOMS, seed=9))
    again = kn.open(tmp_path / "a.dcd")
    refused(path, r"file 1 of 1, .* fingerprint \w+, found .* fingerprint", kn.analysis.RMSD(again))
    write_dcd(tmp_path / "a.dcd", random_walk(N_FRAMES + 5, N_ATOMS))
    grown = kn.analysis.RMSD(kn.open(tmp_path / "a.dcd"))
    refused(path, r"file 1 of 1, expected .* of 10\d+ bytes, .*, found .* of 11\d+ bytes", grown, stop=N_FRAMES)


def test_results_elsewhere(traj: kn.Trajectory, path: Path, tmp_path: Path) -> None:
    finished(path, kn.analysis.RMSD(traj))
    match = r"the results, expected in memory, found in rows\.h5"
    refused(path, match, kn.analysis.RMSD(traj), out=tmp_path / "rows.h5")
    assert not list(tmp_path.glob("rows*"))


def rewrite(path: Path, change: Callable[[IdentityItem], IdentityItem]) -> None:
    """Writes a checkpoint again with other items, as another version would have."""
    content = load(str(path))
    assert content is not None
    with open(path, "wb") as file:
        writer = CheckpointWriter(file)
        writer.run([change(item) for item in content.items])
        for one in content.passes:
            writer.begin_pass([change(item) for item in one.items])
            for node in one.nodes:
                writer.node(*node)
        writer.end()


@pytest.mark.parametrize(
    ("what", "value", "match"),
    [
        ("the version of Kinema", "0.0.9", r"the version of Kinema, expected 0\.0\.9, found \d"),
        ("the partial of RMSD, round 1", "rmsd/0", r"the partial of RMSD, round 1, expected rmsd/0, found rmsd/1"),
        ("the frames of a leaf", "512", r"the frames of a leaf, expected 512, found 1"),
    ],
)
def test_other_versions(traj: kn.Trajectory, path: Path, what: str, value: str, match: str) -> None:
    finished(path, kn.analysis.RMSD(traj))
    changed: list[IdentityItem] = []

    def change(item: IdentityItem) -> IdentityItem:
        if item.what != what:
            return item
        changed.append(item)
        return IdentityItem(what, value, value)

    rewrite(path, change)
    assert len(changed) == 1
    refused(path, match, kn.analysis.RMSD(traj))


# -- code of the user's -----------------------------------------------------------------------------------------------


def far(frame: Any, limit: float = 1.0) -> float:
    return float((np.abs(frame.positions) > CUTOFF).sum() + limit)


def made_by(function_text: str) -> Callable[..., Any]:
    """A function of this module with another body."""
    names = dict(globals())
    exec(function_text, names)
    function: Callable[..., Any] = names["far"]
    return function


def test_a_function_that_was_edited(traj: kn.Trajectory, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    analysis = functools.partial(kn.analysis.from_function, trajectory=traj)
    same = "def far(frame, limit=1.0):\n    return float((np.abs(frame.positions) > CUTOFF).sum() + limit)\n"
    finished(path, analysis(made_by(same)))
    kn.run([analysis(made_by("\n\n# elsewhere in the file\n" + same))], checkpoint=Checkpoint(path, keep=True))
    match = "the code adapter of FromFunction, round 1, expected far, digest"
    refused(path, match, analysis(made_by(same.replace(">", "<"))))
    refused(path, match, analysis(made_by(same.replace("limit=1.0", "limit=2.0"))))
    refused(path, match, analysis(made_by(same.replace("sum() + limit", "sum() + 7"))))
    refused(path, "over of FromFunction", analysis(made_by(same), over="blocks"))
    monkeypatch.setitem(globals(), "CUTOFF", 4.0)
    refused(path, match, analysis(made_by(same)))


def test_lambdas_and_closures_by_what_they_close_over(traj: kn.Trajectory, path: Path) -> None:
    def analysis(scale: Any) -> Analysis:
        return kn.analysis.from_function(lambda frame: frame.positions[0, 0] * scale, traj)

    finished(path, analysis(np.array([1.0, 2.0])))
    again = analysis(np.array([1.0, 2.0])).run(checkpoint=Checkpoint(path, keep=True))
    assert again.timings.frames_restored == N_FRAMES
    refused(path, "the code", analysis(np.array([1.0, 3.0])))


def test_what_has_no_identity_is_told_before_the_run(traj: kn.Trajectory, path: Path) -> None:
    lock = threading.Lock()

    def locked(frame: Any) -> float:
        with lock:
            return float(frame.time)

    with pytest.raises(kn.ArgumentError, match=r"locked cannot be run with a checkpoint: lock, which .*locked uses"):
        kn.analysis.from_function(locked, traj).run(checkpoint=path)
    assert not path.exists()


class Counting(kn.analysis.PythonKernel):
    def __init__(self, limit: float) -> None:
        self.limit = limit

    def empty(self) -> int:
        return 0

    def accumulate(self, partial: int, block: Any) -> int:
        return partial + self.count(block)

    def count(self, block: Any) -> int:
        return int((block.positions > self.limit).sum())

    def merge(self, left: int, right: int) -> int:
        return left + right

    def finish(self, partial: int) -> dict[str, int]:
        return {"count": partial}


class Failing(Counting):
    def merge(self, left: int, right: int) -> int:
        if left > 10:
            raise ZeroDivisionError("in merge")
        return left + right


def test_kernels_by_code_and_state(traj: kn.Trajectory, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(path, kn.analysis.Custom(traj, Counting(1.0)))
    again = kn.analysis.Custom(traj, Counting(1.0)).run(checkpoint=Checkpoint(path, keep=True))
    assert again.timings.frames_restored == N_FRAMES
    assert again.results.count == kn.analysis.Custom(traj, Counting(1.0)).run().results.count
    refused(path, "the code adapter of Custom", kn.analysis.Custom(traj, Counting(2.0)))
    monkeypatch.setattr(Counting, "count", lambda self, block: 1)
    refused(path, "the code adapter of Custom", kn.analysis.Custom(traj, Counting(1.0)))


def test_a_merge_that_raises_is_never_saved(traj: kn.Trajectory, path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="in merge"):
            kn.analysis.Custom(traj, Failing(1.0)).run(checkpoint=path, checkpoint_interval=0, workers=1)
        content = load(str(path)) if path.exists() else None
        assert content is None or not content.passes[0].nodes


# -- damaged files ----------------------------------------------------------------------------------------------------


def test_truncated_anywhere(traj: kn.Trajectory, path: Path) -> None:
    finished(path, kn.analysis.RMSD(traj))
    whole = path.read_bytes()
    for length in [*range(40), *range(40, len(whole), 37), *range(len(whole) - 40, len(whole))]:
        path.write_bytes(whole[:length])
        with pytest.raises((kn.TruncatedFileError, kn.CorruptFileError), match="byte") as caught:
            kn.analysis.RMSD(traj).run(checkpoint=path)
        assert caught.value.path == str(path)
        assert caught.value.offset is not None
        assert caught.value.offset <= length
        assert path.read_bytes() == whole[:length]


def test_bits_flipped_anywhere(traj: kn.Trajectory, path: Path) -> None:
    finished(path, kn.analysis.RMSD(traj))
    whole = path.read_bytes()
    random = np.random.default_rng(4)
    for at in [*range(40), *random.integers(40, len(whole), 150).tolist()]:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        with pytest.raises((kn.CorruptFileError, kn.TruncatedFileError, kn.UnsupportedFormatError)) as caught:
            kn.analysis.RMSD(traj).run(checkpoint=path)
        assert caught.value.path == str(path)
        assert caught.value.offset is not None
        assert caught.value.offset <= at
        assert str(path) in str(caught.value)
    path.write_bytes(whole + b"more")
    with pytest.raises(kn.CorruptFileError, match="has no place here"):
        kn.analysis.RMSD(traj).run(checkpoint=path)


def test_a_file_that_is_no_checkpoint_is_never_replaced(traj: kn.Trajectory, tmp_path: Path) -> None:
    (tmp_path / "b.dcd").write_bytes((tmp_path / "a.dcd").read_bytes())
    for name, content in (("b.dcd", None), ("notes.txt", b"my notes"), ("empty", b"")):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        before = path.read_bytes()
        with pytest.raises(kn.CorruptFileError, match="this is not a checkpoint of Kinema") as caught:
            kn.analysis.RMSD(traj).run(checkpoint=path)
        assert caught.value.offset == 0
        assert path.read_bytes() == before


def _replace_nodes(path: Path, nodes: Callable[[Content], Sequence[tuple[int, int, list[bytes]]]]) -> None:
    content = load(str(path))
    assert content is not None
    with open(path, "wb") as file:
        writer = CheckpointWriter(file)
        writer.run(content.items)
        writer.begin_pass(content.passes[0].items)
        for node in nodes(content):
            writer.node(*node)
        writer.end()


@pytest.mark.parametrize(
    "nodes",
    [
        lambda content: content.passes[0].nodes * 2,
        lambda content: [(0, 60, content.passes[0].nodes[0][2])],
        lambda content: [(0, 0, [])],
        lambda content: [(0, 0, [b"nonsense"])],
        lambda content: [(1 << 40, 0, [b""])],
    ],
)
def test_nodes_that_cannot_be(traj: kn.Trajectory, path: Path, nodes: Any) -> None:
    finished(path, kn.analysis.RMSD(traj))
    _replace_nodes(path, nodes)
    with pytest.raises(kn.CorruptFileError, match=r"run\.ckpt: byte \d+: the checkpoint is damaged"):
        kn.analysis.RMSD(traj).run(checkpoint=path)


# -- files that come and go -------------------------------------------------------------------------------------------


def test_nothing_is_left_of_a_run_that_is_done(traj: kn.Trajectory, path: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    found = kn.analysis.RMSD(traj).run(checkpoint=path, checkpoint_interval=0)
    assert sorted(tmp_path.iterdir()) == before
    assert found.results.rmsd.tobytes() == kn.analysis.RMSD(traj).run().results.rmsd.tobytes()


def test_a_kept_checkpoint_of_a_finished_run(traj: kn.Trajectory, path: Path) -> None:
    once = kn.analysis.RMSF(traj, align="average").run(checkpoint=Checkpoint(path, keep=True))
    seen: list[tuple[int, int]] = []
    again = kn.analysis.RMSF(traj, align="average").run(
        checkpoint=Checkpoint(path, keep=True), progress=lambda *done: seen.append(done)
    )
    assert again.results.rmsf.tobytes() == once.results.rmsf.tobytes()
    assert again.timings.frames_read == 0
    assert again.timings.frames_restored == 2 * N_FRAMES
    assert "all of it came from the checkpoint" in again.plan
    assert seen == [(N_FRAMES, N_FRAMES)] * 2


def test_nothing_is_left_of_a_run_that_did_nothing(traj: kn.Trajectory, path: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    for options in ({"workers": 0}, {"memory": 1000}, {"runner": "none"}, {"frames": [999]}):
        with pytest.raises(kn.Error):
            kn.analysis.RMSD(traj).run(checkpoint=path, **options)
        assert sorted(tmp_path.iterdir()) == before


def _never(*_arguments: Any, **_options: Any) -> Any:
    raise AssertionError("the run has begun")


def test_a_folder_that_cannot_be_written(traj: kn.Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ThreadsRunner, "map_reduce", _never)
    with pytest.raises(kn.FileNotFound, match="its folder does not exist"):
        kn.analysis.RMSD(traj).run(checkpoint=tmp_path / "nowhere" / "run.ckpt")
    with pytest.raises(kn.ArgumentError, match="is a directory"):
        kn.analysis.RMSD(traj).run(checkpoint=tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(kn.FileAccessError, match="may not be written"):
        kn.analysis.RMSD(traj).run(checkpoint=tmp_path / "run.ckpt")


def test_a_full_disk_is_told_before_the_run(
    traj: kn.Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(tmp_path.iterdir())

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(ThreadsRunner, "map_reduce", _never)
    with pytest.raises(kn.FileIOError, match=r"run\.ckpt: cannot write: no space left on device"):
        kn.analysis.RMSD(traj).run(checkpoint=tmp_path / "run.ckpt")
    assert sorted(tmp_path.iterdir()) == before


def test_a_disk_that_fills_up_later_ends_the_run_and_keeps_what_was_saved(
    traj: kn.Trajectory, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync
    calls: list[int] = []

    def filling(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", filling)
    # however long the first save takes, there is time for others
    monkeypatch.setattr(manager, "_SHARE", 1.0)
    analysis = functools.partial(kn.analysis.from_function, _slowly, traj)
    with pytest.raises(kn.FileIOError, match="no space left") as caught:
        analysis().run(checkpoint=path, checkpoint_interval=0, workers=1)
    assert any("the same call continues from there" in note for note in caught.value.__notes__)
    monkeypatch.undo()
    found = analysis().run(checkpoint=path)
    assert 0 < found.timings.frames_restored < N_FRAMES
    assert found.results.values.tobytes() == analysis().run().results.values.tobytes()


def _slowly(frame: Any) -> float:
    threading.Event().wait(0.01)
    return float(frame.positions.sum())


def test_the_checkpoint_of_an_earlier_build_is_refused_by_its_version(traj: kn.Trajectory, path: Path) -> None:
    finished(path, kn.analysis.RMSD(traj))
    content = bytearray(path.read_bytes())
    content[8] = 3
    path.write_bytes(content)
    with pytest.raises(kn.UnsupportedFormatError, match=r"byte 8: wrong version of a checkpoint, expected 6, found 3"):
        kn.analysis.RMSD(traj).run(checkpoint=path)


def test_two_runs_with_one_checkpoint(traj: kn.Trajectory, path: Path) -> None:
    def meddle(frame: kn.Frame) -> float:
        # after it was saved, before it is saved again
        if path.exists():
            path.write_bytes(b"of another run")
        return _slowly(frame)

    with pytest.raises(kn.FileIOError, match="was changed by somebody else"):
        kn.analysis.from_function(meddle, traj).run(checkpoint=path, checkpoint_interval=0, workers=1)
    assert path.read_bytes() == b"of another run"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"checkpoint": 7}, "checkpoint is a file name, found int"),
        ({"checkpoint": "x.ckpt", "checkpoint_interval": -1}, "checkpoint_interval is a number of seconds"),
        ({"checkpoint": "x.ckpt", "checkpoint_interval": float("nan")}, "checkpoint_interval"),
        ({"checkpoint": "x.ckpt", "checkpoint_interval": "often"}, "checkpoint_interval"),
        ({"checkpoint_interval": 5}, "name the file with checkpoint="),
        ({"checkpoint": "x.h5", "out": "x.h5"}, "two files"),
    ],
)
def test_arguments(
    traj: kn.Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], match: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kn.ArgumentError, match=match):
        kn.analysis.RMSD(traj).run(**options)


def test_from_another_thread_and_with_handlers_untouched(traj: kn.Trajectory, path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)]
    made: list[Analysis] = []
    thread = threading.Thread(target=lambda: made.append(kn.analysis.RMSD(traj).run(checkpoint=path)))
    thread.start()
    thread.join()
    assert made[0].results.rmsd.tobytes() == kn.analysis.RMSD(traj).run(checkpoint=path).results.rmsd.tobytes()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)] == before
