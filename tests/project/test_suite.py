"""Rules for all tests: they run in the background as well, what they start is bounded, they have two lanes."""

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
from kinema.testing.programs.lanes import marked

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
    # the first starts another process, which takes a shell some milliseconds
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


# -- lanes -------------------------------------------------------------------------------------------------------------

LANES = """
import os, signal, time
import pytest

tries = []

@pytest.mark.processes
@pytest.mark.parametrize("number", range(6))
def test_runs_in_the_lane_of_processes(number):
    pass

@pytest.mark.processes
def test_is_tried_once():
    tries.append(1)
    assert len(tries) == 2

@pytest.mark.processes
@pytest.mark.timeout(0.3)
def test_hangs():
    time.sleep(1000)

def test_hears_no_signal():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    time.sleep(1000)

def test_passes():
    pass
"""


def test_lanes_and_how_failures_and_hangs_end(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / f"test_{name}.py").write_text(LANES)
    words = [sys.executable, "-m", "pytest", "-v", "-c", str(TESTS.parent / "pyproject.toml")]
    words += ["--rootdir", str(tmp_path), "-p", "conftest", "-p", "no:cacheprovider", "-o", "timeout=2"]
    words += ["-n", "2", "--dist", "loadscope"]
    paths = os.pathsep.join([str(Path(kinema.__file__).parents[1]), str(TESTS)])
    environment = {**os.environ, "PYTHONPATH": paths}
    # of a run that is itself a worker of one
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    done = subprocess.run(
        [*words, str(tmp_path)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 1, done.stdout + done.stderr
    workers = re.findall(r"^\[(gw\d)\].* PASSED \S*runs_in_the_lane", done.stdout, flags=re.MULTILINE)
    assert len(workers) == 12
    assert len(set(workers)) == 1
    failed = Counter(re.findall(r"^FAILED \S*::(test_\w+)", done.stdout, flags=re.MULTILINE))
    assert failed == dict.fromkeys(["test_is_tried_once", "test_hangs", "test_hears_no_signal"], 2)
    assert "6 failed, 14 passed" in done.stdout
    # where it hung: in the one case from Python, in the other from outside of it
    assert "Timeout (>0.3s) from pytest-timeout" in done.stdout
    assert 'test_one.py", line' in done.stderr


# what starts processes that run beside the test
BESIDE = {
    "multiprocessing",
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
    "sleep_through",
    "DataLoader",
}
BESIDE_NAMES = {"dask", "processes", "bench-write", "torchdata.stateful_dataloader"}


def _names(node: ast.AST) -> set[str]:
    """Names that are used in it, and its arguments."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names | {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}


def _helpers(tree: ast.Module) -> set[str]:
    """Functions of a module, not tests, that start processes."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("test")]
    return {node.name for node in functions if _names(node) & BESIDE}


def test_what_is_marked_starts_processes() -> None:
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        assert path == Path(__file__) or "mark.flaky" not in text, path
        if "processes" not in text:
            continue
        tree = ast.parse(text)
        here = list(marked(tree))
        assert path == Path(__file__) or len(here) == text.count("pytest.mark.processes"), path
        for node in here:
            words = {
                one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)
            }
            named = _names(node) & (BESIDE | _helpers(tree))
            starts = named or words & BESIDE_NAMES or "os.kill" in ast.unparse(node)
            assert starts, f"{path.relative_to(TESTS)}: {getattr(node, 'name', 'the module')} starts no process"
