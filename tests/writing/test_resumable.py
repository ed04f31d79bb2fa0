"""`kn.convert(checkpoint=)`: calls that were ended go on, to the same bytes; other calls are refused, and why."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.execution.checkpoint import Checkpoint
from kinema.execution.checkpoint.file import load
from kinema.notes import collected
from kinema.testing import random_walk, write_dcd
from kinema.testing.children import start_child

SUFFIXES = ("dcd", "xtc")


def converted(source: Any, out: Path, **options: Any) -> kn.Converted:
    with collected():
        return kn.convert(source, out, **options)


class Stopped(Exception):
    pass


def _stop(done: int, total: int) -> None:
    """Ends a call when the first frames are written and saved."""
    if done:
        raise Stopped


class Folder:
    """A source whose frames take some seconds, what is made of it, and a checkpoint."""

    def __init__(self, path: Path, suffix: str) -> None:
        self.path, self.source = path, path / "in.xtc"
        self.out, self.saved = path / "made" / f"a.{suffix}", path / "made" / "a.ckpt"
        self.out.parent.mkdir()
        self.options: dict[str, Any] = {"overlap": "all", "select": range(39_000, 40_000), "workers": 1}
        write_dcd(path / "in.dcd", random_walk(20, 40_000))
        # all atoms before those that are written are decoded
        converted(path / "in.dcd", self.source)
        self.n_parts = 200

    @property
    def parts(self) -> list[Path]:
        return [self.source] * self.n_parts

    def run(self, **options: Any) -> kn.Converted:
        return converted(self.parts, self.out, checkpoint=self.saved, checkpoint_interval=0, **(self.options | options))

    def interrupt(self, **options: Any) -> int:
        """Ends a call on its way; how many frames it has saved."""
        with pytest.raises(Stopped) as stopped:
            self.run(progress=_stop, **options)
        assert stopped.value.__notes__ == [f"what was done is in {self.saved}; the same call goes on from there"]
        content = load(str(self.saved))
        assert content is not None
        ((_, _, (state,)),) = content.passes[0].nodes
        return int.from_bytes(state[:8], "little")

    @property
    def left(self) -> set[str]:
        return {path.name for path in self.out.parent.iterdir() if path.suffix != ".kinema-index"}

    @property
    def part(self) -> Path:
        (part,) = self.out.parent.glob(f"a.part-*{self.out.suffix}")
        return part


@pytest.fixture(params=SUFFIXES)
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Folder:
    return Folder(tmp_path, request.param)


def test_a_call_goes_on_to_the_same_bytes(folder: Folder) -> None:
    n_saved = folder.interrupt()
    assert 0 < n_saved < 4000
    assert folder.left == {"a.ckpt", folder.part.name}
    again = folder.interrupt()
    assert n_saved < again < 4000
    done = folder.run(workers=3, memory="40 MiB")
    assert done.n_restored == again and done.n_frames == 4000
    assert f"{again:,} frames were there already" in str(done)
    assert folder.left == {folder.out.name}
    whole = folder.path / f"whole{folder.out.suffix}"
    assert converted(folder.parts, whole, **folder.options).n_restored == 0
    assert folder.out.read_bytes() == whole.read_bytes()


def test_another_call_is_refused_with_what_differs(folder: Folder) -> None:
    folder.interrupt()
    kept = folder.part.read_bytes()
    for options, words in (
        ({"stop": 3000}, "the frames, expected 4000 from 0, every 1, found 3000 from 0, every 1"),
        ({"select": range(38_000, 39_000)}, "the atoms, expected 1000 of 40000, digest"),
        ({"fields": "positions"}, r"the fields, expected None, found \('positions',\)"),
        ({"dt": 3.0}, "what was stated of the files"),
    ):
        with pytest.raises(kn.ArgumentError, match=f"the checkpoint is of another run: {words}"):
            folder.run(**options)
        assert folder.part.read_bytes() == kept
    if folder.out.suffix == ".xtc":
        with pytest.raises(kn.ArgumentError, match="the precision, expected None, found 500"):
            folder.run(precision=500)
    other = Folder.__new__(Folder)
    other.__dict__ |= folder.__dict__ | {"out": folder.out.with_stem("b")}
    with pytest.raises(kn.ArgumentError, match=r"the output, expected a.*, found b"):
        other.run()
    # rewritten, of the same size and time
    status = folder.source.stat()
    with folder.source.open("r+b") as file:
        file.seek(-100_000, os.SEEK_END)
        file.write(b"12345678")
    os.utime(folder.source, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(kn.ArgumentError, match=r"file 1 of 200, expected .* changed in place"):
        folder.run()
    assert folder.part.read_bytes() == kept
    assert folder.left == {"a.ckpt", folder.part.name}


def test_a_part_that_is_not_what_was_written_is_refused(folder: Folder) -> None:
    folder.interrupt()
    part, kept = folder.part, folder.part.read_bytes()
    part.write_bytes(kept[:1000])
    with pytest.raises(kn.TruncatedFileError, match="the file is shorter than what was written of it"):
        folder.run()
    moved = part.rename(folder.path / "elsewhere")
    with pytest.raises(kn.ArgumentError, match=r"not found beside a.*relies on the frames in it; bring it back"):
        folder.run()
    moved.rename(part)
    # what lies behind the frames that count is of no interest
    part.write_bytes(kept + b"what a killed call has written and not counted")
    done = folder.run()
    assert done.compared == 16 and folder.left == {folder.out.name}


def test_a_part_under_another_name_is_not_touched(folder: Folder) -> None:
    folder.interrupt()
    precious = folder.out.parent / "precious"
    precious.write_bytes(b"x" * 10_000_000)
    data = folder.saved.read_bytes()
    content = load(str(folder.saved))
    assert content is not None and content.rows == folder.part.name
    from kinema.execution.checkpoint.file import RecordWriter

    with folder.saved.open("wb") as file:
        writer = RecordWriter(file)
        writer.run(content.items)
        writer.rows("precious")
        writer.begin_pass(content.passes[0].items)
        writer.node(*content.passes[0].nodes[0])
        writer.end()
    with pytest.raises(kn.ArgumentError, match="precious: not found beside"):
        folder.run()
    assert precious.read_bytes() == b"x" * 10_000_000
    folder.saved.write_bytes(data)
    precious.unlink()
    assert folder.run().n_restored > 0


def test_an_error_before_the_first_frame_leaves_nothing(folder: Folder) -> None:
    with pytest.raises(kn.MemoryLimitError):
        folder.run(memory="1 MiB")
    with pytest.raises(kn.ArgumentError, match=r"lacks what is to be written|holds one field"):
        folder.run(fields="velocities")
    assert folder.left == set()
    # of a file that goes on, what is there stays
    folder.interrupt()
    with pytest.raises(kn.MemoryLimitError):
        folder.run(memory="1 MiB")
    assert folder.left == {"a.ckpt", folder.part.name}


def test_a_call_that_was_ended_behind_its_last_write(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    import kinema.writing.resumable as module

    def ended(*_: Any) -> None:
        raise Stopped

    folder.n_parts = 3
    real = {name: getattr(module, name) for name in ("publish",)}
    monkeypatch.setattr(module, "publish", ended)
    with pytest.raises(Stopped):
        folder.run()
    assert folder.left == {"a.ckpt", folder.part.name}
    # behind the renaming
    monkeypatch.setattr(module, "publish", real["publish"])
    monkeypatch.setattr(module.CheckpointManager, "finish", ended)
    with pytest.raises(Stopped):
        folder.run()
    assert folder.left == {"a.ckpt", folder.out.name}
    monkeypatch.undo()
    expected = folder.out.read_bytes()
    done = folder.run()
    assert (done.n_restored, done.compared, folder.left) == (60, 16, {folder.out.name})
    assert folder.out.read_bytes() == expected
    # without its checkpoint it is a file like any other
    with pytest.raises(kn.ArgumentError, match="exists already"):
        folder.run()


def test_a_checkpoint_that_is_kept_says_that_all_is_done(folder: Folder) -> None:
    folder.n_parts = 3
    saved = Checkpoint(folder.saved, keep=True)
    first = converted(folder.parts, folder.out, checkpoint=saved, **folder.options)
    again = converted(folder.parts, folder.out, checkpoint=saved, **folder.options)
    assert (first.n_restored, again.n_restored, again.size) == (0, 60, first.size)
    assert folder.left == {"a.ckpt", folder.out.name}
    folder.out.write_bytes(b"of somebody else")
    with pytest.raises(kn.ArgumentError, match="exists already"):
        converted(folder.parts, folder.out, checkpoint=saved, **folder.options)


def test_a_file_that_reads_back_otherwise_is_not_gone_on_with(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    import kinema.writing.convert as module

    folder.n_parts = 3
    monkeypatch.setattr(module, "_equal", lambda *_: False)
    with pytest.raises(kn.CorruptFileError, match="read back are not those of the source"):
        folder.run()
    assert folder.left == set()


def test_what_cannot_be_a_checkpoint(folder: Folder) -> None:
    folder.n_parts = 1
    for options, words in (
        ({"checkpoint": folder.out}, "the output and checkpoint are two files"),
        ({"checkpoint": folder.source}, "is the file that is read"),
        ({"checkpoint": None, "checkpoint_interval": 3.0}, "name the file with checkpoint="),
        ({"checkpoint": folder.path / "no" / "a.ckpt"}, "folder does not exist"),
    ):
        with pytest.raises(kn.Error, match=words):
            converted(folder.parts, folder.out, **(folder.options | options))
    assert folder.left == set()


# -- kills -------------------------------------------------------------------------------------------------------------

# argv: folder, suffix; as `Folder.run`
RUN = """
import os, sys, warnings
sys.path.insert(0, os.path.dirname(sys.argv[3]))
warnings.simplefilter("ignore")
import kinema as kn
folder, suffix = sys.argv[1:3]

def run():
    kn.convert([folder + "/in.xtc"] * 200, folder + "/made/a." + suffix, overlap="all", select=range(39_000, 40_000),
               checkpoint=folder + "/made/a.ckpt", checkpoint_interval=0, workers=2, progress=progress,
               overwrite=True)  # a call that was killed at its very end has made the file and removed the checkpoint

def progress(done, total):
    if done and not said:
        said.append(print("at work", flush=True))

said = []
"""

# Forks after its imports; nothing has a thread when it forks. Prints how each call has ended.
KILLER = (
    RUN
    + """
import random, signal, time, traceback
seed, n_kills, longest = int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6])
moments = random.Random(seed)
kills = finished = 0
while kills < n_kills or not finished:
    child = os.fork()
    if child == 0:
        said.append(None)
        code = 1
        try:
            run()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    try:
        if kills < n_kills:
            time.sleep(moments.uniform(0.0, longest))
    finally:
        if kills < n_kills:
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        kills += 1
        continue
    assert os.WEXITSTATUS(status) == 0
    finished += 1
    print("finished", flush=True)
    sys.stdin.readline()
print("kills", kills)
"""
)


def _started(script: str, folder: Folder, *words: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(kn.__file__).parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", script, folder.path, folder.out.suffix[1:], kn.__file__, *words]
    return start_child([str(word) for word in command], env=environment, stdin=subprocess.PIPE)


def _whole(folder: Folder) -> bytes:
    whole = folder.path / f"whole{folder.out.suffix}"
    converted(folder.parts, whole, **folder.options)
    return whole.read_bytes()


@pytest.mark.processes
def test_killed_at_random_moments(folder: Folder, kills: Callable[[int], int]) -> None:
    expected, n_kills, seed = _whole(folder), kills(20), random.randrange(1 << 32)
    print("seed", seed)
    process = _started(KILLER, folder, seed, n_kills, 0.8)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    with process:
        for line in process.stdout:
            if line != "finished\n":
                assert line == f"kills {n_kills}\n"
                break
            assert folder.out.read_bytes() == expected
            assert folder.left == {folder.out.name}
            folder.out.unlink()
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.processes
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 1)])
def test_a_signal_that_ends_saves_first(folder: Folder, number: signal.Signals, code: int) -> None:
    process = _started(RUN + "\nrun()", folder)
    assert process.stdout is not None and process.stderr is not None
    with process:
        assert process.stdout.readline() == "at work\n"
        process.send_signal(number)
        said = process.stderr.read()
    # a Python that is interrupted ends by the signal, too
    assert process.returncode in (code, -number)
    if number is signal.SIGINT:
        assert "KeyboardInterrupt" in said and "what was done is in" in said
    else:
        assert said == ""
    assert folder.left == {"a.ckpt", folder.part.name}
    assert 0 < folder.run(workers=2).n_restored < 4000
    assert folder.out.read_bytes() == _whole(folder)


def test_steps_and_times_of_a_resumed_file_are_those_of_the_source(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "xtc")
    folder.interrupt()
    folder.run()
    with collected():
        made, source = kn.open(folder.out), kn.open(folder.parts, overlap="all")
        assert np.array_equal(made.steps, source.steps)
    # the index was stored by the call that went on, and is that of a scan
    assert made.parts[0].index == "stored"
    assert made.parts[0].index_path is not None
    stored = Path(made.parts[0].index_path).read_bytes()
    with collected():
        kn.open(folder.out, index="rebuild").scan()
    assert Path(made.parts[0].index_path).read_bytes() == stored
