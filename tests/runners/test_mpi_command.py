"""`kinema` under `mpiexec`: prints and writes once, refuses a foreign launcher; the page about MPI, as it stands."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.cli.in_process import call_kinema
from kinema.testing import random_walk, write_dcd
from kinema.testing.amounts import LONG

pytestmark = pytest.mark.processes

HERE = Path(__file__).parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a trajectory."""
    write_dcd(tmp_path / "a.dcd", random_walk(400, 12))
    return tmp_path


def _values(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("n_ranks", [2, 5] if LONG else [3])
def test_the_command_prints_and_writes_once(mpi: Any, n_ranks: int, folder: Path) -> None:
    words = ["-m", "kinema", "rmsd", "-f", "a.dcd"]
    code, out, err = mpi.ended(mpi.started(n_ranks, [*words, "-o", "ranks.csv", "--schedule", "static"], folder))
    assert (code, err) == (0, "")
    assert out.count("written: ranks.csv") == 1
    assert len(out.splitlines()) == 3
    assert f"on {n_ranks} workers" in out
    assert call_kinema(*words[2:], "-o", "threads.csv", cwd=folder).returncode == 0
    assert _values(folder / "ranks.csv") == _values(folder / "threads.csv")
    code, out, err = mpi.ended(mpi.started(n_ranks, [*words, "--json", "--gather", "one-sided"], folder))
    assert (code, err) == (0, "")
    assert json.loads(out)["workers"] == n_ranks


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rmsd", "-f", "none.dcd"], "kinema: none.dcd: no such file; check the name"),
        (["rmsd", "-f", "a.dcd", "--runner", "threads", "--gather", "collective"], "--gather is for the runner mpi"),
        (["rmsd", "-f", "a.dcd", "--wrong"], "--wrong"),
        (
            ["rmsd", "-f", "a.dcd", "--threads-per-worker", "0"],
            "'--threads-per-worker': expected a whole number from 1",
        ),
        (["scaling", "-f", "a.dcd", "--runner", "mpi"], "start kinema scaling itself without it"),
    ],
)
def test_bad_input_is_told_once_with_exit_code_2(mpi: Any, words: list[str], said: str, folder: Path) -> None:
    code, out, err = mpi.ended(mpi.started(2, ["-m", "kinema", *words], folder))
    assert (code, out) == (2, "")
    assert err.count("kinema:") == 1
    assert said in err


COMMANDS = (
    ["--version"],
    ["--help"],
    ["formats"],
    ["info", "a.dcd"],
    ["index", "a.dcd"],
    ["check", "a.dcd"],
    ["split", "a.dcd", "--parts", "2", "-o", "PLACE/parts"],
    ["join", "a.dcd", "-o", "PLACE/joined.dcd"],
    ["report", "run.json"],
)


# Open MPI's mpiexec gives rank 0 a terminal
PLAIN = {"COLUMNS": "80", "TERM": "dumb"}

# each command writes into files of its own, on all ranks
CALLED = """
from kinema.cli import main
for number, words in enumerate(WORDS):
    kept = os.dup(1), os.dup(2)
    for descriptor in (1, 2):
        file = os.open(f"said-{number}-{rank}-{descriptor}", os.O_CREAT | os.O_WRONLY)
        os.dup2(file, descriptor)
        os.close(file)
    try:
        main(words)
        code = "came back"
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, before in enumerate(kept, 1):
            os.dup2(before, descriptor)
            os.close(before)
    assert not code, (words, code)
    MPI.COMM_WORLD.Barrier()
"""


@pytest.fixture
def start_run(folder: Path) -> Path:
    """The folder with the record of a run."""
    assert call_kinema("rmsd", "-f", "a.dcd", "--report", "run.json", "-q", cwd=folder).returncode == 0
    (folder / "alone").mkdir()
    (folder / "ranks").mkdir()
    return folder


def _alone(mpi: Any, folder: Path, words: list[str]) -> tuple[str, str]:
    """Stdout and stderr of a command in this process."""
    line = [word.replace("PLACE", "alone") for word in words]
    done = call_kinema(*line, cwd=folder, environment=mpi.environment(**PLAIN))
    assert done.returncode == 0, done.stderr
    return done.stdout.replace("alone/", ""), done.stderr.replace("alone/", "")


def _compare_files(folder: Path, n_files: int) -> None:
    made = list((folder / "alone").rglob("*.dcd"))
    assert len(made) == n_files
    for path in made:
        assert path.read_bytes() == (folder / "ranks" / path.relative_to(folder / "alone")).read_bytes()


@pytest.mark.parametrize("n_ranks", [2, 5] if LONG else [2])
def test_every_command_runs_once(mpi: Any, n_ranks: int, start_run: Path) -> None:
    folder = start_run
    lines = [[word.replace("PLACE", "ranks") for word in words] for words in COMMANDS]
    # ranks that stay do not have the variables of their launcher, by which a command finds out that it runs on ranks
    mpi.script(n_ranks, f"WORDS = {lines!r}\n{CALLED}", folder, **PLAIN)
    for number, words in enumerate(COMMANDS):
        for descriptor, expected in enumerate(_alone(mpi, folder, words), 1):
            said = [(folder / f"said-{number}-{rank}-{descriptor}").read_text() for rank in range(n_ranks)]
            assert [text.replace("ranks/", "") for text in said] == [expected] + [""] * (n_ranks - 1), words
    _compare_files(folder, 3)


def test_a_command_that_mpiexec_starts_runs_once(mpi: Any, start_run: Path) -> None:
    folder = start_run
    for words in (COMMANDS[0], COMMANDS[6]):
        line = [word.replace("PLACE", "ranks") for word in words]
        code, out, err = mpi.ended(mpi.started(3, ["-m", "kinema", *line], folder, **PLAIN))
        assert (code, out.replace("ranks/", ""), err) == (0, *_alone(mpi, folder, words)), words
    _compare_files(folder, 2)


def test_programs_that_rank_0_starts_are_no_ranks(mpi: Any, folder: Path) -> None:
    # as `kinema demo` starts them
    text = """
from kinema.demo import run_json
with kn.runners.MPI() as ranks:
    if ranks.is_root:
        say(run_json([sys.executable, "-m", "kinema", "rmsd", "-f", "a.dcd", "-j", "1", "--json"])["workers"])
"""
    assert mpi.compute(3, "import sys\n" + text, folder) == "1\n"


@pytest.mark.parametrize("rank", [0, 2])
def test_a_corrupt_frame_is_told_with_the_rank_that_read_it(mpi: Any, rank: int, folder: Path) -> None:
    frame = 50 + 133 * rank
    whole = bytearray((folder / "a.dcd").read_bytes())
    at = len(whole) - (400 - frame) * 3 * (12 * 4 + 8)
    whole[at : at + 4] = b"\xff\xff\xff\x7f"
    (folder / "a.dcd").write_bytes(whole)
    words = ["-m", "kinema", "rmsd", "-f", "a.dcd", "-o", "x.csv", "--schedule", "static", "--oversubscribe", "1"]
    code, out, err = mpi.ended(mpi.started(3, words, folder))
    assert (code, out) == (2, "")
    assert f"a.dcd: DCD frame {frame}, byte {at}: record length" in err
    assert err.count(f"on rank {rank} (") == err.count("on rank ") == 1
    assert not (folder / "x.csv").exists()
    text = """
def read():
    try:
        kn.analysis.RMSD(mpi.open("a.dcd")).run(runner=mpi)
    except kn.CorruptFileError as error:
        return str(error.__notes__.count(f"on rank {WHERE} ({MPI.Get_processor_name()})"))
mpi = kn.runners.MPI(schedule="static", oversubscribe=1)
say(read())
"""
    assert mpi.compute(3, text.replace("WHERE", str(rank)), folder).split() == ["1"] * 3


def test_a_launcher_of_another_library_is_refused(mpi: Any, folder: Path) -> None:
    # as each of four ranks sees it that Open MPI's mpiexec has started and that are alone in MPICH
    for rank in range(4):
        environment = mpi.environment(OMPI_COMM_WORLD_SIZE="4", OMPI_COMM_WORLD_RANK=str(rank))
        words = [sys.executable, "-m", "kinema", "rmsd", "-f", "a.dcd", "-o", "x.csv"]
        found = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
        assert found.returncode == 2
        assert found.stdout == ""
        assert not (folder / "x.csv").exists()
        if rank:
            assert found.stderr == ""
        else:
            assert "expected 4 from the launcher (OMPI_COMM_WORLD_SIZE), found 1 in MPI" in found.stderr
            assert "KINEMA_MPI=off" in found.stderr
    environment["KINEMA_MPI"] = "off"
    found = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert found.returncode == 0
    script = "import kinema as kn; kn.runners.MPI()"
    del environment["KINEMA_MPI"]
    words = [sys.executable, "-c", script]
    found = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=200)
    assert "ArgumentError" in found.stderr


# -- the page about it ------------------------------------------------------------------------------------------------


def test_the_scripts_of_the_page_run(mpi: Any, tmp_path: Path) -> None:
    from MDAnalysisTests.datafiles import DCD, PSF

    # a file is known by its first bytes, not by its name
    data = bytearray(Path(DCD).read_bytes())
    data[8:12] = (98).to_bytes(4, "little")  # the frames that it holds; the original says 500, which is a note
    (tmp_path / "md.xtc").write_bytes(data)
    shutil.copy(PSF, tmp_path / "top.psf")
    page = (HERE.parent.parent / "docs/mpi.md").read_text()
    # whole scripts; MDAnalysis with `comm=` is in tests/interop/test_mdanalysis_mpi.py
    scripts = re.findall(r"```python\n(import .*?)```", page, flags=re.DOTALL)
    assert len(scripts) == 4
    expected = kn.analysis.RMSD(kn.open(DCD, PSF), select="name CA").run().results.rmsd
    mpi.compute(2, scripts[0], tmp_path)
    written = np.loadtxt((line for line in _values(tmp_path / "rmsd.csv")[1:]), delimiter=",")
    assert written[:, -1] == pytest.approx(expected[:, -1])
    # short, since Open MPI's mpiexec mixes lines of more than 4 KiB
    for script in scripts[1:]:
        out = mpi.compute(2, "import hashlib\n" + script + "\nsay(rank, hashlib.md5(values).hexdigest())", tmp_path)
        assert sorted(out.splitlines()) == [f"{rank} {hashlib.md5(expected).hexdigest()}" for rank in range(2)]
    command = next(line for line in page.splitlines() if line.startswith("mpiexec -n 96 kinema"))
    words = shlex.split(command)[4:]
    code, _, err = mpi.ended(mpi.started(2, ["-m", "kinema", *words], tmp_path))
    assert (code, err) == (0, "")
