"""The stub `_core.pyi` has the names, parameters and defaults of the compiled module."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kinema
from kinema import _core

STUB = ast.parse((Path(kinema.__file__).parent / "_core.pyi").read_text())
CLASSES = [node for node in STUB.body if isinstance(node, ast.ClassDef) and not node.bases]  # TypedDicts have one


def callables() -> Iterator[tuple[str, ast.FunctionDef, Any]]:
    """Name, stub and object of all functions, static methods and methods; of a class what makes it."""
    for node in STUB.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node, getattr(_core, node.name)
    for one in CLASSES:
        made = getattr(_core, one.name)
        for node in one.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("__re"):
                is_property = any(isinstance(mark, ast.Name) and mark.id == "property" for mark in node.decorator_list)
                if not is_property:
                    found = made if node.name == "__init__" else getattr(made, node.name)
                    yield f"{one.name}.{node.name}", node, found


def declared(stub: ast.FunctionDef) -> dict[str, object]:
    """Parameters with their defaults; an asterisk before those that are given by name only."""
    arguments = [one.arg for one in stub.args.args]
    required = [inspect.Parameter.empty] * (len(arguments) - len(stub.args.defaults))
    plain = zip(arguments, [*required, *map(ast.literal_eval, stub.args.defaults)], strict=True)
    named = {
        f"*{one.arg}": inspect.Parameter.empty if value is None else ast.literal_eval(value)
        for one, value in zip(stub.args.kwonlyargs, stub.args.kw_defaults, strict=True)
    }
    others = [one.arg for one in (stub.args.vararg, stub.args.kwarg) if one is not None]
    return (
        {name: value for name, value in plain if name != "self"}
        | named
        | dict.fromkeys(others, inspect.Parameter.empty)
    )


def actual(found: Any) -> dict[str, object]:
    parameters = inspect.signature(found).parameters.values()
    return {
        f"*{one.name}" if one.kind is one.KEYWORD_ONLY else one.name: one.default
        for one in parameters
        if one.name != "self"
    }


@pytest.mark.parametrize(("stub", "found"), [pytest.param(node, it, id=name) for name, node, it in callables()])
def test_parameters_and_defaults(stub: ast.FunctionDef, found: Any) -> None:
    shown, expected = actual(found), declared(stub)
    assert expected.keys() == shown.keys()
    # a list that each call makes for itself is shown as an ellipsis
    assert {name: shown[name] if shown[name] is ... else value for name, value in expected.items()} == shown


def test_names() -> None:
    functions = {node.name for node in STUB.body if isinstance(node, ast.FunctionDef)}
    public = {name for name in dir(_core) if not name.startswith("__")}
    constants = {
        node.target.id for node in STUB.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert public == functions | {one.name for one in CLASSES} | (constants - {"__version__"})
    for one in CLASSES:
        members = {node.name for node in one.body if isinstance(node, ast.FunctionDef)}
        has = vars(getattr(_core, one.name))
        assert {name for name in has if not name.startswith("__")} == {
            name for name in members if not name.startswith("__")
        }
