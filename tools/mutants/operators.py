"""Faults that cosmic-ray has no operator for: a statement that is left out, a value that is not returned, an except
clause that does not hear its error.
"""

from __future__ import annotations

from collections.abc import Iterator

import parso
from cosmic_ray.operators.operator import Example, Operator
from parso.tree import NodeOrLeaf

Span = tuple[tuple[int, int], tuple[int, int]]


def _code(text: str, old: NodeOrLeaf) -> NodeOrLeaf:
    """`text` in the place of `old`, after the same blanks."""
    new = parso.parse(text).children[0]
    first = new.get_first_leaf()
    assert first is not None
    first.prefix = old.get_first_leaf().prefix
    return new


class _OneChild(Operator):
    """Replaces one child of a node by `text`."""

    text = ""

    def place(self, node: NodeOrLeaf) -> int | None:
        """Which child is replaced; None if this node is left alone."""
        raise NotImplementedError

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[Span]:
        at = self.place(node)
        if at is not None:
            yield node.children[at].start_pos, node.children[at].end_pos

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        at = self.place(node)
        assert at is not None and index == 0
        node.children[at] = _code(self.text, node.children[at])
        return node


class DropCall(_OneChild):
    """A call whose value nobody takes is not made."""

    text = "pass"

    def place(self, node: NodeOrLeaf) -> int | None:
        if node.type != "simple_stmt" or node.children[0].type not in ("atom_expr", "power"):
            return None
        last = node.children[0].children[-1]
        return 0 if last.type == "trailer" and last.children[0].value == "(" else None

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("f.sync(1)\n", "pass\n"),)


class DropRaise(_OneChild):
    """An error is not raised."""

    text = "pass"

    def place(self, node: NodeOrLeaf) -> int | None:
        if node.type != "simple_stmt":
            return None
        first = node.children[0]
        return 0 if first.type == "raise_stmt" or getattr(first, "value", "") == "raise" else None

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("raise ValueError('a')\n", "pass\n"), Example("try:\n    f()\nexcept A:\n    raise\n", ""))


class ReturnNone(_OneChild):
    """None is returned in place of a value."""

    text = "None"

    def place(self, node: NodeOrLeaf) -> int | None:
        return 1 if node.type == "return_stmt" and node.children[1].get_code().strip() != "None" else None

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("def f():\n    return 1\n", "def f():\n    return None\n"),)


class OtherError(_OneChild):
    """An except clause hears an error that nobody raises."""

    text = "StopAsyncIteration"

    def place(self, node: NodeOrLeaf) -> int | None:
        return 1 if node.type == "except_clause" else None

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        caught = node.children[1]
        if caught.type != "as_pattern":
            return super().mutate(node, index)
        caught.children[0] = _code(self.text, caught.children[0])
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("try:\n    f()\nexcept A:\n    pass\n", ""),)
