"""The identity of code: the same in every process, another where the code, what it uses or its state is another."""

from __future__ import annotations

import cmath
import math
import os
import subprocess
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.code_identity import code_digest

MODULE = """
import functools
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

LIMIT = 3
NAMES = {"a", "b", "c", "CA", "CB"}
TABLE = {"x": (1, 2), "y": np.arange(3)}


def helper(value):
    return value + LIMIT


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def plain(frame, scale=2.0, *, shift=(1, 2)):
    inner = [helper(x) for x in (1, 2)]
    return np.linalg.norm(frame) * scale + len(NAMES) + TABLE["x"][0] + even(4) + sum(inner)


@functools.lru_cache
def cached(frame):
    return helper(frame)


def decorated_by(function):
    @functools.wraps(function)
    def call(frame):
        return function(frame)

    return call


@decorated_by
def decorated(frame):
    return helper(frame) * 2


class Base(ABC):
    @abstractmethod
    def method(self): ...


class Kernel(Base):
    factor = 2
    pattern = re.compile("x+")

    def __init__(self, state):
        self.state = state
        self.itself = self

    def method(self):
        return self.factor * self.size

    @property
    def size(self):
        return len(self.state)

    @functools.cached_property
    def width(self):
        return 1

    @staticmethod
    def fixed():
        return 1

    def __call__(self, frame):
        return self.method()


@dataclass
class Data:
    a: int = 1

    def __call__(self, frame):
        return self.a


EVERY = {
    "plain": plain,
    "cached": cached,
    "decorated": decorated,
    "partial": functools.partial(plain, scale=3.0),
    "bound": Kernel([1]).method,
    "object": Kernel({"a": {1, 2, "three"}}),
    "data": Data(),
    "lambda": lambda frame: helper(frame) in {"p", "q", "r"},
    "ufunc": np.sqrt,
    "builtin": len,
}
"""

PRINT = """
import importlib, sys
from kinema.base.code_identity import code_digest
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    used = importlib.import_module("used")
    assert used.__file__.startswith(folder)
    print(*[f"{name}={code_digest(value, name)}" for name, value in used.EVERY.items()])
    del sys.modules["used"], sys.path[0]
"""


def _printed(folders: list[Path], seed: str = "0") -> list[dict[str, str]]:
    """Digests of the module in each folder, from a process of its own with that seed for the order of sets."""
    package = str(Path(kn.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": package, "PYTHONHASHSEED": seed}
    words = [sys.executable, "-c", PRINT, *map(str, folders)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [dict(word.split("=") for word in line.split()) for line in done.stdout.splitlines()]


def _digests(folder: Path, module: str, seed: str = "0") -> dict[str, str]:
    (folder / "used.py").write_text(module)
    for compiled in folder.glob("__pycache__/*"):
        if seed == "0":
            compiled.unlink()
    (found,) = _printed([folder], seed)
    return found


def test_the_same_in_every_process(tmp_path: Path) -> None:
    first = _digests(tmp_path, MODULE)
    assert len(set(first.values())) == len(first) == 10
    # from the compiled file, and with sets in other orders
    assert _digests(tmp_path, MODULE, "1") == first
    assert _digests(tmp_path, MODULE, "77") == first
    assert _digests(tmp_path, "# moved down\n\n" + MODULE) == first


CHANGES = [
    ("LIMIT = 3", "LIMIT = 4", {"plain", "cached", "decorated", "partial", "lambda"}),
    ("return value + LIMIT", "return value - LIMIT", {"plain", "cached", "decorated", "partial", "lambda"}),
    ("n == 0 or", "n == 1 or", {"plain", "partial"}),
    ('"CA", "CB"}', '"CA", "CG"}', {"plain", "partial"}),
    ("np.arange(3)", "np.arange(4)", {"plain", "partial"}),
    ("scale=2.0", "scale=2.5", {"plain", "partial"}),
    ("shift=(1, 2)", "shift=(1, 3)", {"plain", "partial"}),
    ("scale=3.0", "scale=4.0", {"partial"}),
    ("factor = 2", "factor = 3", {"bound", "object"}),
    ('compile("x+")', 'compile("y+")', {"bound", "object"}),
    ("len(self.state)", "2 + len(self.state)", {"bound", "object"}),
    ("Kernel([1])", "Kernel([2])", {"bound"}),
    ('"three"', '"four"', {"object"}),
    ("a: int = 1", "a: int = 2", {"data"}),
    ('"q", "r"', '"q", "s"', {"lambda"}),
    ("helper(frame) * 2", "helper(frame) * 3", {"decorated"}),
    ("np.sqrt", "np.cbrt", {"ufunc"}),
]


@pytest.fixture(scope="module")
def digests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Digests of the module as it is, under "", and of each change, under the text that it replaces."""
    modules = {"": MODULE, **{before: MODULE.replace(before, after) for before, after, _ in CHANGES}}
    folders = [tmp_path_factory.mktemp("changed") for _ in modules]
    for folder, module in zip(folders, modules.values(), strict=True):
        (folder / "used.py").write_text(module)
    return dict(zip(modules, _printed(folders), strict=True))


@pytest.mark.parametrize(("before", "after", "changed"), CHANGES)
def test_every_change_is_seen_where_it_matters(
    digests: dict[str, dict[str, str]], before: str, after: str, changed: set[str]
) -> None:
    assert MODULE.count(before) == 1 and after != before
    first, second = digests[""], digests[before]
    assert {name for name in first if first[name] != second[name]} == changed


def _opened(path: Path) -> Callable[[Any], Any]:
    file = path.open()
    return lambda frame: file.read()


def test_what_has_no_identity(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    function = _opened(tmp_path / "notes.txt")
    with pytest.raises(kn.ArgumentError, match=r"^read_notes cannot be run with a checkpoint: file, which .* uses"):
        code_digest(function, "read_notes")
    generator = (i for i in range(3))
    with pytest.raises(kn.ArgumentError, match="has no identity that another process could compare"):
        code_digest(lambda frame: next(generator), "numbered")


class Slotted:
    __slots__ = ("values",)

    def __init__(self, values: Any) -> None:
        self.values = values


def test_state_counts_whatever_holds_it() -> None:
    def identity_with_state(state: Any) -> str:
        return code_digest(lambda frame: state, "held")

    states = [
        *("ab".count, "ba".count, math.sqrt, cmath.sqrt, Slotted({"a"}), Slotted({"b"}), Slotted(lambda frame: 1)),
        *(OrderedDict(a=1), OrderedDict(a=2), OrderedDict(a=lambda frame: 1), deque([1]), deque([2])),
        *(np.array(["a", 1], dtype=object), np.array(["a", 2], dtype=object), [1], (1,), [True], ["1"], [1.0]),
    ]
    digests = [identity_with_state(state) for state in states]
    assert len(set(digests)) == len(states)
    assert digests == [identity_with_state(state) for state in states]


def test_state_that_holds_itself_counts_with_the_place_where_it_does() -> None:
    def digest(place: int) -> str:
        whole: list[Any] = []
        part: list[Any] = [0]
        whole.append(part)
        part[0] = (whole, part)[place]
        return code_digest(lambda frame: whole, "nested")

    digests = [digest(place) for place in (0, 1, 0, 1)]
    assert digests[:2] == digests[2:]
    assert digests[0] != digests[1]
