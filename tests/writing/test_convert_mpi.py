"""`kn.convert` and `kinema convert` on MPI ranks: the same bytes, kills, a full disk of one rank, every format."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kinema as kn
from kinema.execution.checkpoint.file import load
from kinema.testing import random_walk, write_dcd
from kinema.testing.amounts import LONG, each

sys.path.insert(0, str(Path(__file__).parent))
from runner_cases import converted, digest, expected, make_sources

pytestmark = pytest.mark.processes

HERE = str(Path(__file__).parent)

ALL = """
import json, warnings
sys.path.insert(0, HERE)
from runner_cases import MPI_STRATEGIES, converted, digest
from pathlib import Path
here = Path.cwd()
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        known = list(enumerate(json.loads(Path("known.json").read_text())))
        for number, (source, target, more, expected) in known[TURN]:
            # two of them, others on another number of ranks
            for strategy in ("direct", MPI_STRATEGIES[(number + mpi.size) % 5]):
                workers = None if strategy != "direct" else max(1, mpi.size - 1)
                done = converted(here, source, target, runner=mpi, workers=workers, strategy=strategy, **more)
                assert done.compared
                assert digest(here / target) == expected, (source, target, strategy)
        hints = {"cb_nodes": 1, "romio_ds_write": "disable", "cb_buffer_size": 1 << 20}
        converted(here, "long.xtc", "o.dcd", runner=mpi, strategy="mpiio-collective", hints=hints)
        converted(here, "long.xtc", "p.dcd")
        assert digest(here / "o.dcd") == digest(here / "p.dcd")
        say("all the same")
# all ranks call it, and get what it returns; an error is raised on all
done = converted(here, "in.xtc", "all.trr", runner="mpi")
assert done.n_frames == 60 and done.path.endswith("all.trr")
try:
    converted(here, "in.xtc", "all.trr", runner="mpi", strategy="subfiles")
except kn.ArgumentError as error:
    assert "the table is" in str(error)
else:
    raise AssertionError("no error")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sources, and in known.json conversions with the digests of what threads make."""
    path = tmp_path_factory.mktemp("mpi")
    sources = make_sources(path)
    (path / "known.json").write_text(json.dumps(expected(path, sources)))
    return path


@pytest.mark.parametrize(("n_ranks", "turn"), [(1, 0), (2, 1), (3, 0), (5, 1)])
def test_same_bytes_on_any_number_of_ranks(mpi: Any, folder: Path, n_ranks: int, turn: int) -> None:
    """Half of the conversions on one rank and on three, the others on two and on five; all if the run is long."""
    text = ALL.replace("HERE", repr(HERE)).replace("TURN", "slice(None)" if LONG else f"slice({turn}, None, 2)")
    more = {"MPIR_CVAR_ODD_EVEN_CLIQUES": "1"} if n_ranks == 5 else {}
    assert mpi.compute(n_ranks, text, folder, **more) == "all the same\n"
    assert not list(folder.glob("*.part-*"))


EVERY = """
import warnings
warnings.simplefilter("ignore")
from kinema.cli import main
import MDAnalysis
sources = sorted(name for name in os.listdir() if name.startswith("in"))
targets = ["e.xtc", "e.trr", "e.dcd", "e.nc", "e.history", "e.h5md", "e.pdb", "e.gro", "e.config", "e4.nc"]
# every second pair, of each source and of each target half; all if the run is long
for source, target in [
    (source, target) for number, source in enumerate(sources) for target in targets[number % STEP :: STEP]
]:
    words = ["convert", source, "-o", target, "--force", "-q", "-s", "top.pdb"]
    words += ["--start", "2", "--stop", "3"] if target in ("e.config", "e.gro") else []
    words += ["--netcdf4"] if target == "e4.nc" else []
    try:
        main(words)
    except SystemExit as end:
        code = end.code
    found = kn.open(target) if rank == 0 and not code else None
    if code or (found and (found.n_frames, found.n_atoms) != (1 if target in ("e.config", "e.gro") else 60, 37)):
        say(source, target, code, found)
        MPI.COMM_WORLD.Abort(1)
say("done") if rank == 0 else None
"""


def test_every_readable_format_to_every_writable_one(mpi: Any, folder: Path) -> None:
    import MDAnalysis

    universe = MDAnalysis.Universe.empty(37, trajectory=True)
    positions = kn.open(folder / "in.dcd").read()
    universe.load_new(positions[:1])
    universe.atoms.write(str(folder / "top.pdb"))
    universe.load_new(positions)
    universe.atoms.write(str(folder / "in.pdb"), frames="all")
    # no more ranks than cores of a small machine: they wait busily, and these are tens of conversions
    assert mpi.script(2, EVERY.replace("STEP", "1" if LONG else "2"), folder) == "done\n"
    assert not list(folder.glob("*.part-*"))


def test_the_command_on_ranks(mpi: Any, folder: Path) -> None:
    command = ["-m", "kinema", "convert", "long.xtc", "--force", "--json"]
    for target, words in (("c.dcd", []), ("c.xtc", ["-j", "2", "--strategy", "mpiio"])):
        code, out, err = mpi.ended(mpi.started(3, [*command, "-o", target, *words], folder))
        assert code == 0, err
        assert json.loads(out)["workers"] == (2 if words else 3)
        converted(folder, "long.xtc", f"t{target}")
        assert digest(folder / target) == digest(folder / f"t{target}")
    code, out, err = mpi.ended(mpi.started(2, [*command, "-o", "c.dcd", "--strategy", "gather"], folder))
    assert code == 2 and "the table is" in err


# -- what goes wrong ---------------------------------------------------------------------------------------------------

# argv of a command on ranks: the rank that fails, and how
FAILING = """
import os, resource, signal, sys, time
from pathlib import Path
from mpi4py import MPI
from kinema.cli import main
from kinema.parallel.placers import FilePlacer, MpiPlacer
rank, (_, failing, how, *words) = MPI.COMM_WORLD.Get_rank(), sys.argv
Path(f"pid-{rank}").write_text(str(os.getpid()))
if how == "limit" and rank == int(failing):
    # it can write no byte after the first MiB, which is an error of this rank alone
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

def watched(write):
    def written(placer, offset, data):
        try:
            if how == "raise" and rank == int(failing) and offset > 1 << 20:
                raise ZeroDivisionError("as was to be shown")
            write(placer, offset, data)
        except BaseException:
            Path(f"failed-{rank}").write_text(str(time.time()))
            raise
    return written

for one in (FilePlacer, MpiPlacer):
    one.write_at = watched(one.write_at)
main(words)
"""


def failed(mpi: Any, folder: Path, rank: int, how: str, words: list[str]) -> tuple[int, str]:
    """Exit code and stderr of a command of which a rank fails: all ranks have ended soon after that."""
    (folder / "failing.py").write_text(FAILING)
    began = time.time()
    process = mpi.started(3, ["failing.py", str(rank), how, *words], folder)
    try:
        until = time.monotonic() + 180
        while not list(folder.glob("failed-*")) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        _, err = process.communicate(timeout=30)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    ended = time.time()
    times = [float(one.read_text()) for one in folder.glob("failed-*")]
    # what the core writes by itself is not watched
    since = f"{ended - min(times):.2f} s after the error" if times else f"{ended - began:.2f} s after the start"
    print(f"{how}, {' '.join(words)}: all ranks had ended {since}")
    pids = [int(one.read_text()) for one in folder.glob("pid-*")]
    assert len(pids) == 3 and all(mpi.is_gone(pid) for pid in pids)
    assert len([line for line in err.splitlines() if line.startswith("kinema: ")]) == (process.returncode != 0), err
    return process.returncode, err


@pytest.mark.parametrize(("target", "strategy"), each(["full.xtc", "full.dcd"], ["direct", "mpiio"]))
def test_a_disk_that_is_full_for_one_rank(mpi: Any, tmp_path: Path, target: str, strategy: str) -> None:
    write_dcd(tmp_path / "in.dcd", random_walk(4000, 200))
    words = ["convert", "in.dcd", "-o", target, "--strategy", strategy]
    for _ in range(10):
        code, err = failed(mpi, tmp_path, 1, "limit", words)
        if code:
            break
        # work goes to whoever asks first: this rank had none that lies beyond its limit
        (tmp_path / target).unlink()
    assert code == 2, err
    assert "cannot write the file" in err and "on rank 1" in err and "Traceback" not in err
    assert not list(tmp_path.glob("full*.*"))


def test_a_disk_that_is_full(mpi: Any, tmp_path: Path) -> None:
    """A file system of one mebibyte, where those who test may mount one."""
    write_dcd(tmp_path / "in.dcd", random_walk(4000, 200))
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    words = ["-t", "tmpfs", "-o", "size=1m", "none", disk]
    made = mount and subprocess.run([mount, *words], capture_output=True, timeout=60)
    if not made or made.returncode != 0:
        pytest.skip("no file system may be mounted here")
    try:
        code, err = failed(mpi, tmp_path, -1, "none", ["convert", "in.dcd", "-o", "disk/full.dcd"])
        assert code == 2 and "no space left" in err.lower() and "on rank " in err, err
        assert not list(disk.iterdir())
    finally:
        subprocess.run(["umount", disk], check=True, timeout=60)


def test_an_exception_of_one_rank(mpi: Any, tmp_path: Path) -> None:
    write_dcd(tmp_path / "in.dcd", random_walk(4000, 200))
    code, err = failed(mpi, tmp_path, 2, "raise", ["convert", "in.dcd", "-o", "a.dcd", "--strategy", "mpiio"])
    assert code == 70 and "ZeroDivisionError: as was to be shown" in err and "on rank 2" in err, err
    assert not list(tmp_path.glob("a*.*"))


def test_a_damaged_frame_names_the_rank(mpi: Any, tmp_path: Path) -> None:
    write_dcd(tmp_path / "in.dcd", random_walk(300, 60))
    converted(tmp_path, "in.dcd", "in.xtc")
    offsets, _ = kn.open(tmp_path / "in.xtc", stored=False).core.extents(0)
    data = bytearray((tmp_path / "in.xtc").read_bytes())
    data[int(offsets[250]) + 84 : int(offsets[250]) + 88] = b"\xff\xff\xff\xff"
    (tmp_path / "in.xtc").write_bytes(data)
    for target in ("bad.dcd", "bad.trr"):
        words = ["-m", "kinema", "convert", "in.xtc", "-o", target]
        code, _, err = mpi.ended(mpi.started(3, words, tmp_path))
        assert code == 2
        assert "frame 250" in err and "on rank " in err
        assert not list(tmp_path.glob("bad*"))


# prints the process of each rank, and that it is at work
KILLED = """
from pathlib import Path
import time, warnings
warnings.simplefilter("ignore")
Path(f"pid-{rank}").write_text(str(os.getpid()))
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        def progress(done, total):
            if done and total == 6000:
                Path("at-work").write_text(str(done))
                # so that the run lasts until it is killed
                time.sleep(0.1)
        kn.convert("in.dcd", TARGET, runner=mpi, checkpoint="a.ckpt", checkpoint_interval=0, progress=progress,
                   strategy=STRATEGY, overwrite=True)
        Path("finished").touch()
"""


@pytest.mark.parametrize(("target", "strategies"), [("k.xtc", ("direct", "mpiio")), ("k.dcd", ("direct", "serial"))])
def test_killed_at_random_moments(
    mpi: Any, tmp_path: Path, kills: Callable[..., int], target: str, strategies: tuple[str, ...]
) -> None:
    write_dcd(tmp_path / "in.dcd", random_walk(6000, 100))
    converted(tmp_path, "in.dcd", f"whole{target[1:]}")
    moments = random.Random(seed := random.randrange(1 << 32))
    print("seed", seed)
    killed = 0
    # each strategy once
    for number in range(kills(2)):
        for name in ("at-work", "finished", *(f"pid-{rank}" for rank in range(5))):
            (tmp_path / name).unlink(missing_ok=True)
        n_ranks = moments.choice([2, 3])
        text = KILLED.replace("TARGET", repr(target)).replace("STRATEGY", repr(strategies[number % 2]))
        (tmp_path / "script.py").write_text(mpi.begin + text)
        process = mpi.started(n_ranks, ["script.py"], tmp_path)
        until = time.monotonic() + 120
        while not (tmp_path / "at-work").exists() and process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.002)
        time.sleep(moments.uniform(0.0, 0.15))
        # one rank, or all of them
        ranks = [moments.randrange(n_ranks)] if moments.random() < 0.6 else range(n_ranks)
        hit = process.poll() is None and not (tmp_path / "finished").exists()
        for rank in ranks if hit else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int((tmp_path / f"pid-{rank}").read_text()), signal.SIGKILL)
        code, _, _ = mpi.ended(process)
        killed += code != 0
        if (tmp_path / "finished").exists() and code == 0:
            assert digest(tmp_path / target) == digest(tmp_path / f"whole{target[1:]}")
            (tmp_path / target).unlink()
        for rank in range(n_ranks):
            assert mpi.is_gone(int((tmp_path / f"pid-{rank}").read_text()))
    # another runner continues, whatever ran last
    converted(tmp_path, "in.dcd", target, runner="processes", workers=2, checkpoint=tmp_path / "a.ckpt")
    assert digest(tmp_path / target) == digest(tmp_path / f"whole{target[1:]}")
    assert not list(tmp_path.glob("k*.part-*")), "a file that no checkpoint names is left"
    print("killed", killed)
    assert killed


def test_sigterm_and_ctrl_c_save_first(mpi: Any, tmp_path: Path) -> None:
    write_dcd(tmp_path / "in.dcd", random_walk(10_000, 400))
    converted(tmp_path, "in.dcd", "whole.xtc")
    words = ["-m", "kinema", "convert", "in.dcd", "-o", "s.xtc", "--checkpoint", "a.ckpt", "--checkpoint-interval", "0"]
    words += ["--hints", "cb_buffer_size=65536", "--no-verify"]
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        saved = _frames_saved(tmp_path / "a.ckpt")
        process = mpi.started(2, words, tmp_path)
        until = time.monotonic() + 120
        while _frames_saved(tmp_path / "a.ckpt") == saved:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.002)
        for one in _descendants(process.pid):
            if b"convert" in _words(one) and b"-n" not in _words(one).split(b"\0"):
                os.kill(one, number)
        found, _, err = mpi.ended(process)
        assert found == code, err
        assert "stopped; what was done is in a.ckpt" in err.replace(str(tmp_path) + "/", "")
    done = converted(tmp_path, "in.dcd", "s.xtc", workers=2, checkpoint=tmp_path / "a.ckpt", verify=False)
    assert 0 < done.n_restored < 10_000
    assert digest(tmp_path / "s.xtc") == digest(tmp_path / "whole.xtc")


def _frames_saved(path: Path) -> int:
    """How many frames a checkpoint counts."""
    content = load(str(path)) if path.exists() else None
    if content is None or not content.passes[0].nodes:
        return 0
    ((_, _, (stored,)),) = content.passes[0].nodes
    return int(struct.unpack("<QQQ", stored)[0])


def _words(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _descendants(process: int) -> list[int]:
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, level = [], [process]
    while level:
        level = [one for one, parent in parents.items() if parent in level]
        found += level
    return found
