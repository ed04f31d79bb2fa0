"""What holds for all tests: they run in the background as well, and what they start is bounded."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import kinema
from kinema.testing.children import all_ended, end_children, start_child

TESTS = Path(__file__).parent.parent


def test_tests_of_signals_pass_where_sigint_is_ignored() -> None:
    # as a shell starts jobs in the background
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "while_the_output or nothing"]
    words += [str(TESTS / name) for name in ("cli/test_stopping.py", "formats/h5md/test_writer_refusals.py")]
    environment = {**os.environ, "PYTHONPATH": str(Path(kinema.__file__).parents[1])}
    command = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *words]
    done = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout


@pytest.mark.parametrize("how", ["seconds", "end of the test", "ended"])
def test_children_end(how: str) -> None:
    # the first starts another one, which takes a shell some milliseconds
    script = "sleep 1000 >&- 2>&- & echo $!; read line; wait"
    process = start_child(["sh", "-c", script], seconds=5 if how == "seconds" else 120, stdin=subprocess.PIPE)
    assert process.stdout is not None
    second = psutil.Process(int(process.stdout.readline()))
    if how == "seconds":
        process.wait(120)
    elif how == "ended":
        second.kill()
        process.communicate(timeout=120)
        assert process.returncode == 0
    end_children()
    assert process.returncode == (0 if how == "ended" else -9)
    assert all_ended([second])


def _unbounded(source: str) -> Iterator[int]:
    """Lines that start programs without a bound."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("subprocess.run", "subprocess.check_output"):
            if not {"timeout", None} & {keyword.arg for keyword in node.keywords}:
                yield node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("subprocess.Popen", "os.fork", "os.system"):
            yield node.lineno


def test_whatever_tests_start_is_bounded() -> None:
    # a process that is to run beside the test: `kinema.testing.children.start_child`
    unbounded = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        for line in _unbounded(path.read_text())
    ]
    assert unbounded == []
