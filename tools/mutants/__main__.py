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
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mutants.modules import FOLDER, LANGUAGES, Module, modules
from mutants.running import BY_TIME, CAUGHT, DOES_NOT_APPLY, DOES_NOT_BUILD, SURVIVED, Outcome, run_tests
from mutants.tree import DoesNotApply, Tree

RESULTS = FOLDER / "results.csv"
# a run of tests takes at most this multiple of what it takes without a fault, and this many seconds more
SLOWER, MORE_SECONDS = 3, 60


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
    parser.add_argument("--outcome", action="append", default=[], help="those with this outcome in the results")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree in which faults are tried")
    parser.add_argument("--clean-limit", type=float, help="skip the run without a fault; the limit in seconds instead")
    asked = parser.parse_args(words)
    before = {row.patch: row for row in read_results()}
    chosen = [
        (module, patch)
        for language in LANGUAGES
        for module in modules(language)
        for patch in sorted((FOLDER / language).glob(f"{module.name}-*.patch"))
        if _is_asked(module, patch, asked.only)
        and (not asked.outcome or (patch.stem in before and before[patch.stem].outcome in asked.outcome))
    ]
    trees: queue.Queue[Tree] = queue.Queue()
    for number in range(asked.jobs):
        trees.put(Tree(f"tree-{number}"))
    limits = _limits({module.name: module for module, _ in chosen}, trees, asked.clean_limit)
    rows = dict(before)
    with ThreadPoolExecutor(asked.jobs) as threads:
        for row in threads.map(lambda one: _try(*one, trees, limits[one[0].name], before), chosen):
            rows[row.patch] = row
            write_results(rows.values())
            print(f"{row.outcome:15} {row.seconds:4d} s  {row.patch}  {row.by}", flush=True)
    now = [rows[patch.stem] for _, patch in chosen]
    print(table(now))
    return _verdict(now, before)


def _is_asked(module: Module, patch: Path, only: Sequence[str]) -> bool:
    return not only or any(word in (module.language, module.name) or patch.name.startswith(word) for word in only)


def _limits(those: dict[str, Module], trees: queue.Queue[Tree], given: float | None) -> dict[str, float]:
    """Seconds for the tests of each module, by a run without a fault: what fails then sees no fault."""
    if given is not None:
        return dict.fromkeys(those, given)
    limits: dict[str, float] = {}
    for name, module in those.items():
        began = time.monotonic()
        tree = trees.get()
        clean = run_tests(module, tree, 3600.0)
        trees.put(tree)
        seconds = time.monotonic() - began
        if clean.outcome != SURVIVED:
            raise SystemExit(f"{name}: without a fault {clean.by} fails")
        print(f"without a fault {seconds:4.0f} s  {name}", flush=True)
        limits[name] = SLOWER * seconds + MORE_SECONDS
    return limits


def _try(module: Module, patch: Path, trees: queue.Queue[Tree], limit: float, before: dict[str, Row]) -> Row:
    """Plants one fault and runs the tests."""
    tree = trees.get()
    began = time.monotonic()
    first = before[patch.stem].by if patch.stem in before else ""
    try:
        with tree.planted(patch.read_text(encoding="utf-8")):
            outcome = run_tests(module, tree, limit, first)
    except DoesNotApply as error:
        outcome = Outcome(DOES_NOT_APPLY, str(error))
    finally:
        trees.put(tree)
    return Row(patch.stem, module.name, outcome.outcome, outcome.by, round(time.monotonic() - began))


def read_results() -> list[Row]:
    """Those of earlier runs."""
    if not RESULTS.exists():
        return []
    with RESULTS.open(newline="", encoding="utf-8") as file:
        return [Row(**{**line, "seconds": int(line["seconds"])}) for line in csv.DictReader(file)]


def write_results(rows: Sequence[Row]) -> None:
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
    outcomes = (CAUGHT, BY_TIME, SURVIVED, DOES_NOT_BUILD, DOES_NOT_APPLY)
    names = list(dict.fromkeys(row.module for row in rows))
    lines = ["", f"{'module':14}{'patches':>9}" + "".join(f"{name:>16}" for name in outcomes) + f"{'share caught':>14}"]
    for name in [*names, "all"]:
        of_module = [row for row in rows if name in (row.module, "all")]
        count = Counter(row.outcome for row in of_module)
        tried = count[CAUGHT] + count[BY_TIME] + count[SURVIVED]
        share = f"{(count[CAUGHT] + count[BY_TIME]) / tried:.1%}" if tried else "-"
        lines.append(
            f"{name:14}{len(of_module):9d}" + "".join(f"{count[outcome]:16d}" for outcome in outcomes) + f"{share:>14}"
        )
    survivors = [row.patch for row in rows if row.outcome == SURVIVED]
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
