"""Which tests see which faults: each fault alone meets the tests that take little time; the survivors meet all others
together, as each of those would take minutes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from mutants.modules import Module
from mutants.steps import Failure, Step, steps_of
from mutants.tree import DoesNotApply, Tree

CAUGHT, BY_TIME, SURVIVED = "caught", "caught by time", "survived"
# of the tests for each fault alone, if those for survivors together are yet to come
NOT_YET = "not yet caught"
DOES_NOT_APPLY, DOES_NOT_BUILD = "does not apply", "does not build"


@dataclass(frozen=True)
class Fault:
    """A patch, its text, and which test saw it the last time."""

    name: str
    diff: str
    seen_by: str = ""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a fault, and which test saw it."""

    outcome: str
    by: str = ""


def alone(module: Module, fault: Fault, tree: Tree) -> Outcome:
    """One fault, and the tests for each: first the one that saw it the last time."""
    first, rest = steps_of(module)
    try:
        for step in [*first, *rest]:
            if fault.seen_by and step.has(fault.seen_by) and _sees(step, fault, fault.seen_by, tree):
                return Outcome(CAUGHT, fault.seen_by)
        for step in first:
            with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
                outcome = _first(step, fault, tree, Path(folder))
            if outcome is not None:
                return outcome
    except DoesNotApply as error:
        return Outcome(DOES_NOT_APPLY, str(error))
    return Outcome(NOT_YET)


def _first(step: Step, fault: Fault, tree: Tree, folder: Path) -> Outcome | None:
    """By the first test that sees it."""
    without: set[str] = set()
    while True:
        with tree.planted(fault.diff):
            failure = step.first_failure(tree, folder, without)
            # a test must fail twice: one that fails by chance has seen nothing
            is_named = failure is not None and failure.built and failure.test and not failure.hung
            by_chance = is_named and not step.fails(tree, failure.test)
        if failure is None:
            return None
        if not failure.built or not failure.test or (not by_chance and step.is_sound(tree, failure.test)):
            return _outcome(failure)
        _pass_over(failure.test, by_chance)
        without.add(failure.test)


def _sees(step: Step, fault: Fault, test: str, tree: Tree) -> bool:
    """Whether a test fails with a fault alone, and not without it."""
    with tree.planted(fault.diff):
        fails = step.fails(tree, test)
    return fails and step.is_sound(tree, test)


def together(module: Module, faults: Sequence[Fault], tree: Tree) -> dict[str, Outcome]:
    """Tries faults that no test has seen yet all at once. A test that fails is tried with each fault alone."""
    outcomes: dict[str, Outcome] = {}
    left = list(faults)
    while left:
        group, left = _that_apply(left, tree)
        for step in steps_of(module)[1]:
            with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
                outcomes |= _hunt_group(step, group, tree, Path(folder))
            group = [fault for fault in group if fault.name not in outcomes]
        outcomes |= {fault.name: Outcome(SURVIVED) for fault in group}
    return outcomes


def _that_apply(faults: Sequence[Fault], tree: Tree) -> tuple[list[Fault], list[Fault]]:
    """Those that can be planted in one tree, and those for another time, in whose lines others are."""
    group: list[Fault] = []
    left: list[Fault] = []
    with ExitStack() as stack:
        for fault in faults:
            try:
                stack.enter_context(tree.planted(fault.diff))
                group.append(fault)
            except DoesNotApply:
                left.append(fault)
    return group, left


def _hunt_group(step: Step, group: Sequence[Fault], tree: Tree, folder: Path) -> dict[str, Outcome]:
    """Those that the tests of a step see."""
    outcomes: dict[str, Outcome] = {}
    without: set[str] = set()
    while hidden := [fault for fault in group if fault.name not in outcomes]:
        with ExitStack() as stack:
            for fault in hidden:
                stack.enter_context(tree.planted(fault.diff))
            failure = step.first_failure(tree, folder, without)
        if failure is None:
            break
        if not failure.built or not failure.test:
            raise SystemExit(f"{', '.join(fault.name for fault in hidden)}, planted together: {failure.said}")
        seen = [fault for fault in hidden if _sees(step, fault, failure.test, tree)]
        outcomes |= {fault.name: _outcome(failure) for fault in seen}
        if not seen:
            _pass_over(failure.test, by_chance=step.is_sound(tree, failure.test))
            without.add(failure.test)
    return outcomes


def _outcome(failure: Failure) -> Outcome:
    if not failure.built:
        return Outcome(DOES_NOT_BUILD, failure.said)
    return Outcome(BY_TIME if failure.hung else CAUGHT, failure.test or failure.said)


def _pass_over(test: str, by_chance: bool) -> None:
    print(f"passed over, as it fails {'by chance' if by_chance else 'without a fault'}: {test}", flush=True)
