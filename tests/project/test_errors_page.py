"""Each message that docs/errors.md quotes is one that a command says here, or one that stands in the sources.

In a quoted message `...` stands for any text.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import signal
from pathlib import Path

import pytest

from kinema.cli.in_process import call_kinema
from kinema.runners.local.interpreter import describe_end

from .documents import ROOT, make_files, text_of

# how users come by a message; the files are those of `make_files`, and a few damaged ones
COMMANDS = """
rmsd -s adk.psf -f none.xtc
rmsd -s none.psf -f md.xtc
info empty.xtc
info text.txt
rmsd -s adk.psf -f cut.xtc --on-truncated error
rmsd -s adk.psf -f bad.xtc
rmsd -s adk.psf -f md.xtc other.dcd
rmsd -s adk.psf -f md.xtc other.xtc
rmsd -s adk.psf -f md1.xtc md2.xtc md1.xtc
rmsd -f md.xtc --ref-frame 500
rmsd -f md.xtc --start 500
rmsd -f md.xtc -b 100000000
rmsf -f md.xtc --align average --follow
rmsd -s adk.psf -f other.xtc
rmsd -f md.xtc --select "name CA"
rmsd -s adk.psf -f md.xtc --select "name XX"
rmsd -s adk.psf -f md.xtc --select "nam CA"
rmsd -s adk.psf -f md.xtc --select "around 5 protein"
rmsd -n index.ndx --group Nope -f md.xtc
rmsd -f md.xtc --weights mass
dihedrals -f md.xtc --phi
rmsd -f md.xtc --pbc whole
convert md.xtc -o new.gro
convert md.xtc -o new.trr --fields velocities
rmsd -f md.xtc --memory 1KiB
rmsd -f md.xtc -o mine.csv
convert md.xtc -o md1.xtc
convert md.xtc -o md.xtc --force
rmsd -f md.xtc -o nowhere/new.csv
rmsd -f md.xtc -o new.xyz
convert md.xtc -o new.foo
rmsd -f md.xtc --runner mpi -j 5
rmsd -f md.xtc --scheduler nowhere.json
rmsd -f adk_dims.dcd --select all
rmsd -s start.pdb -f md.xtc --weights mass
"""


def _quoted() -> list[str]:
    """The messages of the page: the first cells of its tables that are code."""
    return re.findall(r"^\| `([^`]+)` \|", text_of("docs/errors.md"), re.MULTILINE)


def _pattern(message: str, between: str) -> str:
    return between.join(re.escape(piece) for piece in message.split("..."))


def _stands_in(text: str, message: str) -> bool:
    """Whether the pieces of a message stand in a source, in their order and near each other."""
    # a search for plain text is a hundred times as fast
    if not all(piece in text for piece in message.split("...")):
        return False
    return re.search(_pattern(message, "[^\n]{0,300}"), text) is not None


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Stderr of all commands, and how the end of a worker is told."""
    folder = tmp_path_factory.mktemp("errors")
    make_files(folder)
    whole = (folder / "md.xtc").read_bytes()
    (folder / "cut.xtc").write_bytes(whole[:-1000])
    (folder / "bad.xtc").write_bytes(whole[:300_000] + bytes(3000) + whole[303_000:])
    (folder / "empty.xtc").touch()
    (folder / "text.txt").write_text("hello\n")
    (folder / "mine.csv").write_text("a,b\n")
    from MDAnalysisTests import datafiles

    shutil.copy(datafiles.XTC, folder / "other.xtc")
    shutil.copy(datafiles.DCD_NAMD_GBIS, folder / "other.dcd")
    told = [call_kinema(*shlex.split(line), cwd=folder).stderr for line in COMMANDS.strip().splitlines()]
    return "\n".join([*told, describe_end("worker 1", "while it had frames 0 to 9", -signal.SIGKILL)])


@pytest.fixture(scope="module")
def sources() -> list[str]:
    """The text of the sources, with strings that are written in pieces joined."""
    files: list[Path] = [*(ROOT / "python").rglob("*.py"), *(ROOT / "crates").rglob("src/**/*.rs")]
    return [re.sub(r'"\s*\n\s*f?"|\\\n\s*', "", file.read_text(encoding="utf-8")) for file in files]


def test_quoted_messages_are_true(said: str, sources: list[str]) -> None:
    quoted = _quoted()
    assert len(quoted) >= 45
    by_commands = [message for message in quoted if re.search(_pattern(message, ".+"), said)]
    assert len(by_commands) >= 30
    others = {*quoted} - {*by_commands, os.strerror(errno.ENOSPC)}
    untrue = [one for one in others if not any(_stands_in(text, one) for text in sources)]
    assert untrue == []
