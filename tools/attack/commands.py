"""Wrong command lines: one line that says what is wrong, exit code 2, nothing that was there is changed."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

from attack.children import called
from attack.trials import Broken, attack
from kinema.testing import random_walk, write_dcd, write_xtc

# right ones, of which words are changed; nothing that starts servers or clusters
_LINES = (
    "info in.xtc",
    "check in.dcd",
    "rmsd -f in.xtc -o out.csv --runner serial",
    "rgyr -f in.dcd --weights none -o out.csv -b 3 -e 20 --dt 2",
    "rmsf -f in.dcd --start 2 --stop 30 --step 3 -o out.h5",
    "distances -f in.dcd --pairs pairs.txt -o out.csv",
    "convert in.xtc out.dcd --select-file none",
    "convert in.dcd out.nc -j 2 --force",
    "repack in.h5md out.h5md",
    "split in.xtc out.xtc --every 10",
    "join in.xtc in.xtc -o out.xtc",
    "index in.xtc",
    "report in.json",
)
_WORDS = (
    *("", "-", "--", "-1", "0", "1", "1e999", "nan", "2**64", "99999999999999999999", "none", "all", ".", "/"),
    *("in.dcd", "in.xtc", "nowhere.xtc", "out.xyz", "a\nb", "\x1b[31m", "\u00e9" * 300),
    *("--force", "--runner", "--no-such-option", "-o", "--json", "--pbc", "--help-me", "--memory"),
)


@attack("wrong command lines", 600)
def command_lines(moments: random.Random, folder: Path) -> None:
    """Words of a right line are left out, doubled, exchanged, or become others."""
    write_xtc(folder / "in.xtc", random_walk(40, 5))
    write_dcd(folder / "in.dcd", random_walk(40, 5))
    (folder / "pairs.txt").write_text("1 2\n3 4\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    words = moments.choice(_LINES).split()
    for _ in range(moments.randrange(1, 4)):
        _change(words, moments)
    code, said = called(_run, words, folder).checked()
    line = " ".join(map(repr, words))
    if code not in (0, 1, 2):
        raise Broken(f"{line}: exit code {code}: {said[-300:]}")
    if "Traceback" in said or (code == 2 and not said.strip()):
        raise Broken(f"{line}: exit code {code}, said {said[-300:]!r}")
    for name, content in before.items():
        if not (folder / name).exists() or (folder / name).read_bytes() != content:
            raise Broken(f"{line}: {name} was changed, exit code {code}")


def _change(words: list[str], moments: random.Random) -> None:
    at = moments.randrange(1, len(words)) if len(words) > 1 else 0
    match moments.randrange(4):
        case 0:
            words[at] = moments.choice(_WORDS)
        case 1:
            words.insert(at, moments.choice(_WORDS))
        case 2 if len(words) > 1:
            del words[at]
        case _:
            words.insert(at, words[moments.randrange(len(words))])


def _run(words: list[str], folder: Path) -> tuple[Any, str]:
    """Exit code and stderr of the command, in this process."""
    from kinema.cli import main

    os.chdir(folder)
    with open("stderr", "w+", errors="replace") as stderr:
        sys.stderr = stderr
        try:
            main(words)
        except SystemExit as end:
            code = end.code
        stderr.seek(0)
        said = stderr.read()
    Path("stderr").unlink()
    return code, said
