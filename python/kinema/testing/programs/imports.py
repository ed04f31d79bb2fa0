"""Lazy imports of slow packages: every process of a test run imports all test modules.

A test module says `MDAnalysis = lazy("MDAnalysis")`, and uses the name in functions.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class _Lazy:
    """Stands for a module, which is imported when its first attribute is used."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)

    # pytest's monkeypatch would not find the old value to restore
    def __setattr__(self, attribute: str, value: Any) -> None:
        raise AttributeError(f"replace it in the module: monkeypatch.setattr('{self._name}.{attribute}', ...)")

    def __dir__(self) -> list[str]:
        return dir(import_module(self._name))

    # code of test modules is sent to workers with the objects that it names
    def __reduce__(self) -> tuple[Any, ...]:
        return lazy, (self._name,)

    def __repr__(self) -> str:
        return f"lazy({self._name!r})"


def lazy(name: str) -> Any:
    """The module `name`, imported when one of its attributes is first used."""
    return _Lazy(name)


def package_folder(name: str) -> Path:
    """The folder of an installed package, without importing it."""
    spec = find_spec(name)
    assert spec is not None and spec.origin is not None, f"{name} is not installed"
    return Path(spec.origin).parent
