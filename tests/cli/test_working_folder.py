"""The working folder may be anybody's: nothing in it is run, or read as settings, but what the user names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kinema

SHADOWED = ("kinema", "numpy", "json", "h5py", "runpy", "struct", "mpi4py", "matplotlib", "typer", "sitecustomize")


def run(*words: object, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """`kinema` as it is installed: the working folder is not among those that modules are imported from."""
    environment = os.environ | {"PYTHONPATH": str(Path(kinema.__file__).parent.parent)} | variables
    command = [sys.executable, "-P", "-m", "kinema", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=180)


@pytest.mark.parametrize(
    "words",
    [
        "rmsd -f adk.dcd -n adk.ndx --group C-alpha -o x.csv --plot x.png --runner processes -j 2",
        "scaling -f adk.dcd -s adk.psf --select backbone --runner threads --workers 1 --repeats 1 -o out",
        "bench-write --particles 704 --records ascii --formats none --strategies serial --ranks 1 -o out",
    ],
    ids=lambda words: words.split()[0],
)
def test_no_module_of_the_working_folder_is_run(files: Any, tmp_path: Path, words: str) -> None:
    """Programs that commands start included."""
    for name in SHADOWED:
        (tmp_path / f"{name}.py").write_text("import os; open('ran', 'w'); os._exit(9)")
    done = run(*words.split(), cwd=tmp_path)
    assert (done.returncode, (tmp_path / "ran").exists()) == (0, False), done.stderr


def test_no_command_starts_modules_otherwise() -> None:
    """`python -m` imports from the working folder first; `module_command` has the option against that."""
    package = Path(kinema.__file__).parent
    places = [path.relative_to(package) for path in package.rglob("*.py") if 'executable, "-m"' in path.read_text()]
    assert not places


@pytest.mark.parametrize("kind", ["settings", "FIFO", "folder", "broken link"])
def test_matplotlibrc_of_the_working_folder_is_left_out(files: Any, tmp_path: Path, kind: str) -> None:
    """It may have texts go through TeX, which is not installed here or writes files of the user into the picture."""
    place = tmp_path / "matplotlibrc"
    if kind == "settings":
        place.write_text("text.usetex: True\n")
    elif kind == "FIFO":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to("nowhere")
    words = ("rmsd", "-f", "adk.dcd", "-n", "adk.ndx", "--group", "C-alpha", "-o", "x.csv", "--plot", "x.svg")
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "matplotlibrc of the working folder is not used" in done.stderr
    assert (tmp_path / "x.svg").exists()


def test_matplotlibrc_that_is_named_is_used(files: Any, tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("axes.facecolor: 123456\n")
    words = ("rmsd", "-f", "adk.dcd", "-n", "adk.ndx", "--group", "C-alpha", "-o", "x.csv", "--plot", "x.svg")
    for variables, used in (({}, False), ({"MATPLOTLIBRC": "matplotlibrc"}, True)):
        done = run(*words, cwd=tmp_path, **variables)
        assert done.returncode == 0, done.stderr
        assert ("#123456" in (tmp_path / "x.svg").read_text()) == used
        assert ("is not used" in done.stderr) != used
