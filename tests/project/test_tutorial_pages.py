"""The pages of a cluster, a training loop and a notebook do what they say, on the files that they name.

Commands run without their launcher, in this process. The Dask cluster is one of threads.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kinema.cli.in_process import call_kinema

from .documents import blocks, shell_lines

# whether a page takes the two files as they lie in its folder; the page of notebooks copies them itself
PYTHON = {"docs/cluster.md": True, "docs/training-loop.md": True, "docs/jupyter.md": False}
# what their code prints, as regular expressions
SAID = {
    "docs/cluster.md": ["98 frames, "],
    "docs/training-loop.md": [
        r"epoch 30: 0\.[12]\d in training, 0\.[2-4]\d in validation",
        "29 samples are left of this epoch",
    ],
    "docs/jupyter.md": ["98 frames, "],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from MDAnalysisTests import datafiles

    folder = tmp_path_factory.mktemp("cluster")
    shutil.copy(datafiles.PSF, folder / "adk.psf")
    shutil.copy(datafiles.DCD, folder / "adk_dims.dcd")
    return folder


@pytest.fixture(scope="module")
def scheduler_file(folder: Path) -> Iterator[None]:
    """`scheduler.json` of a cluster, as `dask scheduler` writes it."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as threads,
        Client(threads) as client,
    ):
        client.write_scheduler_file(str(folder / "scheduler.json"))
        yield


def test_commands_of_the_page_of_a_cluster(folder: Path, scheduler_file: None) -> None:
    lines = shell_lines("docs/cluster.md")
    assert [line.words[0] for line in lines] == ["doctor", *["rmsd"] * 3, "report", "rmsd", "rmsd"]
    for line in lines:
        done = call_kinema(*line.words, *(["--timeout", "120"] if line.words == ["doctor"] else []), cwd=folder)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        shown = blocks("docs/cluster.md", "text")[0].splitlines()
        if "two.csv" in line.words:
            assert [one for one in shown if one != "..." and one not in done.stdout.splitlines()] == []
    one, two = ((folder / name).read_text().splitlines() for name in ("one.csv", "two.csv"))
    assert [row for row in one if row[0] != "#"] == [row for row in two if row[0] != "#"]


@pytest.mark.parametrize("name", PYTHON)
def test_python_of_the_pages(
    name: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    found = blocks(name, "python")
    if any("scheduler.json" in block for block in found):
        request.getfixturevalue("scheduler_file")
    if PYTHON[name]:
        for file in folder.iterdir():
            shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in found:
        exec(compile(block, name, "exec"), names)
    said = capsys.readouterr().out
    assert [text for text in SAID[name] if not re.search(text, said)] == []
