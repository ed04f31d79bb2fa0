"""`Lanes`: how pytest-xdist gives tests to its workers; tests of processes run one after another beside all others."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling


class Lanes(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Units of work: tests marked `processes` in tests/runners; such tests elsewhere; other tests by module."""

    def _split_scope(self, nodeid: str) -> str:
        module, _, function = nodeid.partition("::")
        names = _marked_names(self.config.rootpath / module)
        if names & {"", function.partition("[")[0].partition("::")[0]}:
            return "processes of runners" if module.startswith("tests/runners/") else "processes"
        return module

    def schedule(self) -> None:
        """As its base, but a worker that replaces a lost one gets two units: it runs a test when it knows the next."""
        super().schedule()
        for node in self.nodes:
            self._reschedule(node)

    def remove_node(self, node: Any) -> str | None:
        """As its base, except for the test that ended its process: it has failed, and is not run again."""
        units: list[dict[str, bool]] = list(self.assigned_work.get(node, {}).values())
        lost = [(unit, test) for unit in units for test, done in unit.items() if not done][:1]
        for unit, test in lost:
            unit[test] = True
        super().remove_node(node)
        return lost[0][1] if lost else None


def marked(tree: ast.Module) -> Iterator[ast.AST]:
    """The functions and classes that a module marks `processes`, or the whole module."""
    for node in tree.body:
        decorators = getattr(node, "decorator_list", [])
        if any(ast.unparse(one) == "pytest.mark.processes" for one in decorators):
            yield node
        elif isinstance(node, ast.Assign) and ast.unparse(node) == "pytestmark = pytest.mark.processes":
            yield tree


@functools.cache
def _marked_names(module: Path) -> frozenset[str]:
    """The functions and classes that are marked; "" if all are."""
    return frozenset(getattr(node, "name", "") for node in marked(ast.parse(module.read_text())))
