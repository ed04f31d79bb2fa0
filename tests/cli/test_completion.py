"""Shells complete commands and options of `kinema`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kinema.cli.in_process import call_kinema


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kinema conv", {"convert"}),
        ("kinema ml ex", {"export"}),
        ("kinema rmsd --sel", {"--select"}),
        ("kinema run", {"run"}),
        ("kinema --show", {"--show-completion"}),
        ("kinema nonsense --sel", set()),
    ],
)
def test_words_that_may_follow(line: str, words: set[str]) -> None:
    bash = {"_KINEMA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    zsh = {"_KINEMA_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line}
    done = call_kinema(environment=bash)
    assert (done.returncode, set(done.stdout.split()), done.stderr) == (0, words, "")
    done = call_kinema(environment=zsh)
    assert done.returncode == 0 and all(f'"{word}"' in done.stdout for word in words), done.stdout


def test_the_script_works_in_bash(tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(call_kinema("--show-completion", "bash").stdout)
    # in place of the command, what it prints for this line
    answer = call_kinema(
        environment={"_KINEMA_COMPLETE": "complete_bash", "COMP_WORDS": "kinema rep", "COMP_CWORD": "1"}
    )
    (tmp_path / "kinema").write_text(f"#!/bin/sh\ncat <<'END'\n{answer.stdout}END\n")
    (tmp_path / "kinema").chmod(0o755)
    bash = shutil.which("bash")
    assert bash is not None
    call = f"COMP_WORDS=(kinema rep); COMP_CWORD=1; _kinema_completion {tmp_path}/kinema; echo ${{COMPREPLY[@]}}"
    done = subprocess.run([bash, "--norc", "-c", f". {script}; {call}"], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["repack", "report"], done.stderr


def test_a_script_is_installed_for_a_shell_that_is_named(tmp_path: Path) -> None:
    done = call_kinema("--install-completion", "bash", environment={"HOME": str(tmp_path)})
    assert done.returncode == 0 and "start a new shell" in done.stdout, done.stderr
    assert any("_kinema_completion" in file.read_text() for file in tmp_path.rglob("*") if file.is_file())


def test_an_unknown_shell_is_refused() -> None:
    done = call_kinema("--show-completion", "csh")
    assert done.returncode == 2 and "expected one of bash" in done.stderr
