"""What holds for all tests: they run in the background as well, what they start is bounded, which are tried again."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import kinema
from kinema.testing.programs.children import all_ended, end_children, start_child

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


@pytest.mark.processes
@pytest.mark.parametrize("how", ["seconds", "end of the test", "ended"])
def test_children_end(how: str) -> None:
    # the first starts another one, which takes a shell some milliseconds
    script = "sleep 1000 >&- 2>&- & echo $!; read line; wait"
    process = start_child(["sh", "-c", script], seconds=2 if how == "seconds" else 120, stdin=subprocess.PIPE)
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
    if "subprocess" not in source and "os." not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if ast.unparse(node.func) in ("subprocess.run", "subprocess.check_output"):
            if not {"timeout", None} & {keyword.arg for keyword in node.keywords}:
                yield node.lineno
        elif ast.unparse(node.func) in ("subprocess.Popen", "os.fork", "os.system"):
            yield node.lineno


def test_whatever_tests_start_is_bounded() -> None:
    # a process that is to run beside the test: `kinema.testing.programs.children.start_child`
    unbounded = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        for line in _unbounded(path.read_text())
    ]
    assert unbounded == []


# -- which tests are tried again ---------------------------------------------------------------------------------------

TRIED = """
import os, signal, time
import pytest

tries = []

@pytest.mark.processes
def test_passes_the_second_time(tmp_path):
    tries.append(tmp_path)
    # with fixtures of its own
    assert not list(tmp_path.iterdir())
    (tmp_path / "left").touch()
    assert len(tries) == 2

@pytest.mark.processes
def test_fails_whenever_it_is_tried():
    assert False

@pytest.mark.processes
@pytest.mark.timeout(0.3)
def test_hangs():
    time.sleep(1000)

def test_fails():
    assert False

def test_hears_no_signal():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(1000)

def test_passes():
    pass
"""


def test_tests_of_processes_are_tried_again_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "test_tried.py").write_text(TRIED)
    words = [sys.executable, "-m", "pytest", "-c", str(TESTS.parent / "pyproject.toml"), "--rootdir", str(tmp_path)]
    words += ["-p", "conftest", "-p", "no:cacheprovider", "-o", "timeout=2", "-n", "2", "--dist", "worksteal"]
    paths = os.pathsep.join([str(Path(kinema.__file__).parents[1]), str(TESTS)])
    environment = {**os.environ, "PYTHONPATH": paths}
    # of a run that is itself a worker of one
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    done = subprocess.run(
        [*words, str(tmp_path)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 1, done.stdout + done.stderr
    said = Counter(re.findall(r"^(RERUN|FAILED) \S*::(test_\w+)", done.stdout, flags=re.MULTILINE))
    retried = [one for one in said.elements() if one[0] == "RERUN"]
    assert sorted(name for _, name in retried) == [
        *["test_fails_whenever_it_is_tried"] * 2, *["test_hangs"] * 2, "test_passes_the_second_time",
    ]  # fmt: skip
    failed = {name for word, name in said if word == "FAILED"}
    assert failed == {"test_fails_whenever_it_is_tried", "test_hangs", "test_fails", "test_hears_no_signal"}
    assert re.search(r"4 failed, 2 passed, 5 rerun", done.stdout), done.stdout
    # where it hung: in the one case from Python, in the other from outside of it
    assert "Timeout (>0.3s) from pytest-timeout" in done.stdout
    assert 'test_tried.py", line' in done.stderr


# what starts processes that run beside the test
BESIDE = {
    "start_child",
    "LocalCluster",
    "OwnCluster",
    "Dask",
    "ProcessesRunner",
    "Backend",
    "mpi",
    "run_child",
    "cluster",
    "run_write_design",
    "DataLoader",
}
BESIDE_NAMES = {"dask", "processes", "bench-write", "torchdata.stateful_dataloader"}


def _marked(tree: ast.Module) -> Iterator[ast.AST]:
    """What is marked `processes`: functions, or the whole module."""
    for node in tree.body:
        decorators = getattr(node, "decorator_list", [])
        if any(ast.unparse(one) == "pytest.mark.processes" for one in decorators):
            yield node
        elif isinstance(node, ast.Assign) and ast.unparse(node) == "pytestmark = pytest.mark.processes":
            yield tree


def _names(node: ast.AST) -> set[str]:
    """Names that are used in it, and its arguments."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names | {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}


def _helpers(tree: ast.Module) -> set[str]:
    """Functions of a module, not tests, that start processes."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("test")]
    return {node.name for node in functions if _names(node) & BESIDE}


def test_what_is_tried_again_starts_processes() -> None:
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        assert path == Path(__file__) or "mark.flaky" not in text, path
        if "processes" not in text:
            continue
        tree = ast.parse(text)
        marked = list(_marked(tree))
        assert path == Path(__file__) or len(marked) == text.count("pytest.mark.processes"), path
        for node in marked:
            words = {
                one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
            named = _names(node) & (BESIDE | _helpers(tree))
            starts = named or words & BESIDE_NAMES or "os.kill" in ast.unparse(node)
            assert starts, f"{path.relative_to(TESTS)}: {getattr(node, 'name', 'the module')} starts no process"
