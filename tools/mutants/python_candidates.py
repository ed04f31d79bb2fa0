"""All faults that cosmic-ray and `operators` name for a Python file, without those that nobody could see."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

from mutants.operators import DropCall, DropRaise, OtherError, ReturnNone

Position = tuple[int, int]


class Candidate(NamedTuple):
    """A fault that can be planted: the so-manieth place of an operator in a file."""

    kind: str
    path: str
    line: int
    operator: Callable[[], Operator]
    occurrence: int

    def diff(self, source: str) -> str | None:
        """The patch; None if it leaves the program as it is, or makes one that cannot be compiled."""
        mutant = mutate_code(source, self.operator(), self.occurrence)
        return _diff(self.path, source, mutant) if mutant is not None and _runs(source, mutant) else None


def _named(*names: str) -> list[Callable[[], Operator]]:
    return [get_operator(f"core/{name}") for name in names]


# Each kind of fault is chosen equally often. Only operators of cosmic-ray (it has 200) whose mutants run: any
# test of the line catches `a ** b` for `a + b`, which says nothing about the tests.
KINDS: dict[str, list[Callable[[], Operator]]] = {
    "comparison": _named(
        *(
            f"ReplaceComparisonOperator_{pair}"
            for pair in "Eq_NotEq NotEq_Eq Lt_LtE LtE_Lt Gt_GtE GtE_Gt Lt_GtE Gt_LtE Is_IsNot IsNot_Is".split()
        )
    ),
    "arithmetic": _named(
        *(
            f"ReplaceBinaryOperator_{pair}"
            for pair in "Add_Sub Sub_Add Mul_FloorDiv FloorDiv_Mul Div_Mul Mod_FloorDiv BitAnd_BitOr".split()
        )
    ),
    "number": _named("NumberReplacer"),
    "truth": _named("ReplaceTrueWithFalse", "ReplaceFalseWithTrue"),
    "and-or": _named("ReplaceAndWithOr", "ReplaceOrWithAnd"),
    "not": _named("AddNot", "ReplaceUnaryOperator_Delete_Not"),
    "loop": _named("ZeroIterationForLoop", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak"),
    "call": [DropCall],
    "raise": [DropRaise],
    "return": [ReturnNone],
    "except": [OtherError],
}


def candidates(path: str, source: str) -> list[Candidate]:
    """Candidates of one file."""
    unseen = list(_unseen(ast.parse(source)))
    nodes = list(ast_nodes(parso.parse(source)))
    found: list[Candidate] = []
    for kind, operators in KINDS.items():
        for make in operators:
            places = [place for node in nodes for place in make().mutation_positions(node)]
            for occurrence, (start, _stop) in enumerate(places):
                if not any(first <= start < last for first, last in unseen):
                    found.append(Candidate(kind, path, start[0], make, occurrence))
    return found


def _runs(source: str, mutant: str) -> bool:
    """Whether a mutant is another program, and one that can be imported."""
    try:
        return ast.dump(ast.parse(mutant)) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def _unseen(tree: ast.Module) -> Iterator[tuple[Position, Position]]:
    """Where a fault changes nothing that a program does: annotations, decorators, texts, what is for type checkers."""
    for node in ast.walk(tree):
        inside = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        inside += getattr(node, "decorator_list", [])
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            inside.append(node)
        for one in inside:
            if one is not None:
                yield (one.lineno, one.col_offset), (one.end_lineno, one.end_col_offset)


def _diff(path: str, source: str, mutant: str) -> str:
    lines = difflib.unified_diff(
        source.splitlines(keepends=True), mutant.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return "".join(lines)
