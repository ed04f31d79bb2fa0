"""One call of `kinema`: its arguments before typer parses them, and its output, which obeys --json and --quiet."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Callable
from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.printable import printable, printable_lines
from kinema.cache.counts import CacheCounts, counts_of_all
from kinema.cli.option_names import option_names, rewrite_names
from kinema.cli.streams import print_out

if TYPE_CHECKING:
    from kinema.runners.mpi.runner import MPIRunner

# allowed anywhere on the line; only the application itself declares them
ANYWHERE = {"--debug", "--json", "--quiet", "-q"}
# likewise, with a value
TRACE = "--trace"
_NEVER_EMPTY = {TRACE, "--pbc", "--node-cache"}
# options that take all words up to the next option, as in GROMACS: -f part1.xtc part2.xtc
WITH_MANY_VALUES = {"-f", "--trajectory"}


@dataclass(frozen=True)
class Command:
    """One call of `kinema`.

    `typed`: the command line.
    `trace`: the folder of `--trace`.
    `ranks`: the MPI ranks that work for it, if a launcher has started several.
    `notes`: the notes so far (`kinema.base.notes`).
    `counted`: the counts of this process's node caches before the call.
    """

    typed: str
    arguments: list[str]
    debug: bool
    json: bool
    quiet: bool
    trace: str | None = None
    ranks: MPIRunner | None = None
    notes: list[str] = field(default_factory=list)
    counted: CacheCounts = field(default_factory=counts_of_all)

    def print_result(self, facts: Callable[[], Any], text: Callable[[], object], *, on_stderr: bool = False) -> None:
        """Prints the result: `text`; with --json `facts`, with the notes added to a dict; with --quiet nothing.

        It goes to stdout, or to stderr if an output is written to stdout.
        """
        if self.json:
            found = facts()
            if isinstance(found, dict):
                found |= {"notes": self.notes} | self._node_cache_facts()
            result = json.dumps(_replace_nan(found), allow_nan=False)
        elif not self.quiet:
            result = printable_lines(text())
        else:
            return
        if on_stderr:
            print(result, file=sys.stderr, flush=True)
        else:
            print_out(result)

    def _node_cache_facts(self) -> dict[str, Any]:
        counts = counts_of_all() - self.counted
        return {"node_cache": counts.as_dict()} if counts else {}

    def print_node_cache(self) -> None:
        """Prints on stderr, after the result, what node caches gave and fetched; nothing if none was used."""
        if not (self.quiet or self.json) and (counts := counts_of_all() - self.counted):
            print(f"node cache: {counts}", file=sys.stderr, flush=True)

    def print_note(self, note: str) -> None:
        """Prints a note on stderr, once, in the words of the command line; nothing with --quiet."""
        note = rewrite_names(note, option_names(self.arguments))
        if note not in self.notes:
            self.notes.append(note)
            if not self.quiet:
                print(f"note: {note}", file=sys.stderr, flush=True)

    def print_warning(self, warning: str) -> None:
        """Prints a library's warning on stderr; nothing with --quiet."""
        if not self.quiet:
            print(f"warning: {printable(' '.join(warning.split()))}", file=sys.stderr, flush=True)

    def print_progress(self, text: str) -> None:
        """Prints progress on stderr; nothing with --quiet or --json."""
        if not (self.quiet or self.json):
            print(printable_lines(text), file=sys.stderr, flush=True)


def _replace_nan(found: Any) -> Any:
    """Replaces NaN and infinity by null, because JSON has neither and programs refuse a file with NaN."""
    if isinstance(found, dict):
        return {name: _replace_nan(value) for name, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [_replace_nan(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found


def _refuse_empty(words: list[str]) -> None:
    """Raises ArgumentError for an empty value of an option that needs one, such as from an unset variable."""
    own = words.index("--") if "--" in words else len(words)
    for word, value in pairwise([*words[:own], "--"]):
        name, joined, rest = word.partition("=")
        if name in _NEVER_EMPTY and (not rest if joined else value == ""):
            raise ArgumentError(f"{name} has an empty value; give one, or leave it out")


def _take_trace(words: list[str]) -> tuple[list[str], str | None]:
    """The words without `--trace DIR`, and the folder. Words after `--` belong to another program."""
    own = words.index("--") if "--" in words else len(words)
    places = [i for i, word in enumerate(words[:own]) if word.partition("=")[0] == TRACE]
    if not places:
        return words, None
    first = places[0]
    if len(places) > 1:
        raise ArgumentError(f"{TRACE} is given twice; give it once")
    if words[first] != TRACE:
        return words[:first] + words[first + 1 :], words[first].partition("=")[2]
    if first + 1 >= own or words[first + 1].startswith("-"):
        raise ArgumentError(f"{TRACE} is to be followed by the folder of the trace")
    return words[:first] + words[first + 2 :], words[first + 1]


def prepare(words: list[str]) -> Command:
    """Takes out the options that may stand anywhere and repeats `-f` before each of its values.

    Words after `--` are not options: the command of `kinema trace` keeps its own.
    """
    typed = words
    _refuse_empty(words)
    words, trace = _take_trace(words)
    own = words.index("--") if "--" in words else len(words)
    words, behind = words[:own], words[own:]
    arguments: list[str] = []
    repeated: str | None = None  # the option whose values are being gathered
    for word in words:
        if word in ANYWHERE:
            continue
        if word in WITH_MANY_VALUES:
            repeated = word
            arguments.append(word)
        elif word.startswith("-") and word != "-":
            repeated = None
            arguments.append(word)
        elif repeated is not None and arguments[-1] != repeated:
            arguments += [repeated, word]
        else:
            arguments.append(word)
    return Command(
        typed=shlex.join(["kinema", *typed]),
        arguments=arguments + behind,
        debug="--debug" in words,
        json="--json" in words,
        quiet="--quiet" in words or "-q" in words,
        trace=trace,
    )
