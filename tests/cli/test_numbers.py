"""Numbers of the command line: what is beyond the range of an option is refused in one line that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import typer

from kinema.analysis import ANALYSES
from kinema.cli import main
from kinema.cli.app import COMMANDS, application
from kinema.testing import random_walk, write_dcd, write_h5md
from kinema.testing.synthetic import synthetic

# what each command needs besides the option
NEEDED = {
    "info": ["a.dcd"],
    **{name: ["-f", "a.dcd"] for name in ANALYSES},
    "summarise": ["a.npy"],
    "histogram2d": ["a.npy:column 1", "a.npy:column 2", "--quantity", "counts"],
    "check": ["a.dcd"],
    "index": ["a.dcd"],
    "convert": ["-f", "a.dcd", "-o", "out.xtc"],
    "repack": ["a.h5md", "out.h5md"],
    "split": ["a.dcd"],
    "join": ["a.dcd", "-o", "out.dcd"],
    "demo": [],
    "scaling": ["-f", "a.dcd", "--repeats", "1"],
    "ml convert": ["a.npz", "-o", "out.h5"],
    "ml export": ["a.dcd", "--output-format", "npy", "-o", "out"],
    "ml statistics": ["a.dcd", "-o", "s.json"],
    "doctor": [],
    "bench-write": ["--strategies", "serial", "--records", "ascii", "--formats", "none"],
    "ml catalogue": ["make", "a.dcd", "-o", "out.kinema-catalogue"],
    "ml bench": ["a.npy"],
    "cache fill": ["a.dcd", "--node-cache", "node"],
}
# texts that are, or hold, numbers
TEXTS = {
    "--memory": "{}TiB",
    "--shard-size": "{}TiB",
    "--limit": "{}TiB",
    "--workers": "1,{}",
    "--workload": "{}",
    "--oversubscribe": "{}",
    "--ranks": "1,{}",
    "--layout": "{}x3x3",
    "--bins": "8,{}",
    # of samples
    "ml convert --layout": "samples:{}",
}
WITH = {"--checkpoint-interval": ["--checkpoint", "run.ckpt"], "--ref-frame": []}
BAD = {"whole": [str(10**21), str(-(10**21)), "1" * 5000, "1e3", "nan"], "decimal": ["nan", "inf", "-inf", "1e400"]}


def _options() -> list[tuple[str, str, str, str]]:
    """Command, option, a format for its value, and the kind of number, of all options that take one."""
    found = []
    commands: dict[str, Any] = {}
    for name, command in cast(Any, typer.main.get_command(application([]))).commands.items():
        members = getattr(command, "commands", None)
        commands |= {name: command} if members is None else {f"{name} {one}": members[one] for one in members}
    for name, command in commands.items():
        for option in command.params:
            text = TEXTS.get(f"{name} {option.opts[-1]}", TEXTS.get(option.opts[-1], "{}"))
            if option.metavar in ("INTEGER", "NUMBER"):
                kind = {"INTEGER": "whole", "NUMBER": "decimal"}[option.metavar]
                found.append((name, option.opts[-1], "{}", kind))
            elif option.opts[-1] in TEXTS:
                found.append((name, option.opts[-1], text, "whole"))
            else:
                # every other number would be without a range
                assert getattr(option.type, "name", "") not in ("integer", "float"), (name, option.opts)
    return found


def test_all_commands_are_looked_at() -> None:
    assert {name for name, *_ in _options()} == set(NEEDED)
    assert {*COMMANDS} - {name.split()[0] for name in NEEDED} == {"formats", "report", "run", "trace"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small files, in which no command writes."""
    folder = tmp_path_factory.mktemp("numbers")
    write_dcd(folder / "a.dcd", random_walk(5, 4))
    write_h5md(folder / "a.h5md", synthetic(5, 4))
    np.save(folder / "a.npy", np.zeros((5, 4)))
    return folder


@pytest.mark.parametrize(("command", "option", "text", "kind"), _options())
def test_a_number_beyond_its_range(
    command: str, option: str, text: str, kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(folder)
    for bad in BAD[kind]:
        words = [*command.split(), *NEEDED[command], *WITH.get(option, []), f"{option}={text.format(bad)}"]
        # the number of `--repeats` that the command needs is not given twice
        words = [word for word in words if option != "--repeats" or word not in ("--repeats", "1")]
        with pytest.raises(SystemExit) as end:
            main(words)
        printed = capsys.readouterr()
        assert (end.value.code, printed.out) == (2, ""), (words, printed.err)
        assert len(printed.err.splitlines()) == 1 and len(printed.err) < 6000, printed.err
        assert option in printed.err
        assert "defect" not in printed.err
        assert {path.name for path in folder.iterdir()} == {"a.dcd", "a.h5md", "a.npy"}


def test_large_numbers_of_the_range_are_no_defects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    write_dcd("a.dcd", random_walk(5, 4))
    most = str((1 << 63) - 1)
    for words, code in (
        (["rmsd", "-f", "a.dcd", "--ref-frame", most], 2),
        (["rmsd", "-f", "a.dcd", f"--ref-frame=-{most}"], 2),
        (["rmsd", "-f", "a.dcd", "--stop", most, "--step", most], 0),
        (["rmsd", "-f", "a.dcd", f"--start=-{most}", "--memory", "1 EiB"], 2),
        (["rmsd", "-f", "a.dcd", f"--start=-{most}", "--memory", "4000000 TiB"], 0),
        (["rmsd", "-f", "a.dcd", "-b", "-1e18", "-e", "1e18"], 0),
        (["rmsd", "-f", "a.dcd", "--dt", "1e-300"], 0),
        (["split", "a.dcd", "--frames-per-part", most], 0),
        (["split", "a.dcd", "--parts", most, "--force"], 2),
        (["check", "a.dcd", "--jump", "1e18"], 0),
    ):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == code, (words, capsys.readouterr().err)
