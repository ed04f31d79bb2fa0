"""Plants the faults of tests/mutants one at a time, and says which share the tests catch.

python -m mutants                              all
python -m mutants --only python --jobs 2       one language; or one module (`plan`), or patches by the start of a name
python -m mutants --outcome survived           those that survived the last time

Exit code 1 if a fault survives that was caught before, or if a patch no longer applies.
"""

from __future__ import annotations

import argparse
import csv
import os
import queue
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mutants.hunt import (
    BY_TIME,
    CAUGHT,
    DOES_NOT_APPLY,
    DOES_NOT_BUILD,
    NOT_YET,
    SURVIVED,
    Fault,
    Outcome,
    alone,
    together,
)
from mutants.modules import FOLDER, LANGUAGES, Module, modules
from mutants.tree import Tree

RESULTS = FOLDER / "results.csv"
OUTCOMES = (CAUGHT, BY_TIME, SURVIVED, NOT_YET, DOES_NOT_BUILD, DOES_NOT_APPLY)


@dataclass(frozen=True)
class Row:
    """A line of the results."""

    patch: str
    module: str
    outcome: str
    by: str
    seconds: int


def main(words: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="a language, a module, the start of a patch's name")
    parser.add_argument("--outcome", action="append", choices=OUTCOMES, help="those with this outcome in the results")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree in which faults are tried")
    parser.add_argument("--half", choices=["alone", "together"], help="only one half of the work")
    asked = parser.parse_args(words)
    # so that what has been started is ended as well
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    before = {row.patch: row for row in read_results()}
    chosen = _chosen(before, asked.only, asked.outcome)
    trees: queue.Queue[Tree] = queue.Queue()
    for _ in range(asked.jobs):
        trees.put(Tree())
    rows = dict(before)
    with ThreadPoolExecutor(asked.jobs) as threads:
        if asked.half != "together":
            for found in threads.map(
                lambda one: _tried(one[0], lambda tree: {one[1].name: alone(*one, tree)}, trees), chosen
            ):
                _record(found, rows)
        if asked.half != "alone":
            waiting = [
                (module, [fault for of, fault in chosen if of == module and rows[fault.name].outcome == NOT_YET])
                for module in (module for language in LANGUAGES for module in modules(language))
            ]
            for found in threads.map(lambda one: _tried(one[0], lambda tree: together(*one, tree), trees), waiting):
                _record(found, rows)
    now = [rows[fault.name] for _, fault in chosen]
    print(table(now))
    return _verdict(now, before)


def _chosen(
    before: dict[str, Row], only: Sequence[str], outcomes: Collection[str] | None
) -> list[tuple[Module, Fault]]:
    """Patches that were asked for."""
    chosen: list[tuple[Module, Fault]] = []
    for module in (module for language in LANGUAGES for module in modules(language)):
        for path in sorted((FOLDER / module.language).glob(f"{module.name}-*.patch")):
            known = before.get(path.stem)
            if outcomes and (known is None or known.outcome not in outcomes):
                continue
            if not only or any(word in (module.language, module.name) or path.name.startswith(word) for word in only):
                seen_by = known.by if known and known.outcome in (CAUGHT, BY_TIME) else ""
                chosen.append((module, Fault(path.stem, path.read_text(encoding="utf-8"), seen_by)))
    return chosen


def _tried(module: Module, work: Callable[[Tree], dict[str, Outcome]], trees: queue.Queue[Tree]) -> list[Row]:
    """Rows of the work in a free tree; faults that were tried together share the time equally."""
    tree = trees.get()
    began = time.monotonic()
    try:
        outcomes = work(tree)
    finally:
        trees.put(tree)
    seconds = round((time.monotonic() - began) / max(1, len(outcomes)))
    return [Row(name, module.name, found.outcome, found.by, seconds) for name, found in outcomes.items()]


def _record(found: Sequence[Row], rows: dict[str, Row]) -> None:
    for row in found:
        rows[row.patch] = row
        print(f"{row.outcome:15} {row.seconds:4d} s  {row.patch}  {row.by}", flush=True)
    # another run may have written others meanwhile
    write_results({row.patch: row for row in [*read_results(), *found]}.values())


def read_results() -> list[Row]:
    """Rows of earlier runs."""
    if not RESULTS.exists():
        return []
    with RESULTS.open(newline="", encoding="utf-8") as file:
        return [Row(**{**line, "seconds": int(line["seconds"])}) for line in csv.DictReader(file)]


def write_results(rows: Collection[Row]) -> None:
    """One line a patch, in the order of their names."""
    part = RESULTS.with_suffix(".part")
    with part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row.__annotations__)
        for row in sorted(rows, key=lambda row: row.patch):
            writer.writerow([row.patch, row.module, row.outcome, row.by, row.seconds])
    os.replace(part, RESULTS)


def table(rows: Sequence[Row]) -> str:
    """Counts of each module, and the survivors."""
    names = list(dict.fromkeys(row.module for row in rows))
    lines = ["", f"{'module':12}{'patches':>9}" + "".join(f"{name:>16}" for name in OUTCOMES) + f"{'share caught':>14}"]
    for name in [*names, "all"]:
        of_module = [row for row in rows if name in (row.module, "all")]
        count = Counter(row.outcome for row in of_module)
        seen = count[CAUGHT] + count[BY_TIME]
        tried = seen + count[SURVIVED] + count[NOT_YET]
        counts = "".join(f"{count[outcome]:16d}" for outcome in OUTCOMES)
        lines.append(f"{name:12}{len(of_module):9d}{counts}{f'{seen / tried:.1%}' if tried else '-':>14}")
    survivors = [row.patch for row in rows if row.outcome in (SURVIVED, NOT_YET)]
    return "\n".join([*lines, "", "survivors:", *(f"  {patch}" for patch in survivors)])


def _verdict(now: Sequence[Row], before: dict[str, Row]) -> int:
    """1 if less is seen than before."""
    bad = [row for row in now if row.outcome == DOES_NOT_APPLY]
    for row in now:
        known = before.get(row.patch)
        if known and row.outcome == SURVIVED and known.outcome in (CAUGHT, BY_TIME):
            print(f"{row.patch} was caught by {known.by}, and survives", file=sys.stderr)
            bad.append(row)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
