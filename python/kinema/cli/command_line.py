"""One call of `kinema`: its words before typer sees them, and how it tells what it finds, as --json and --quiet say.

It knows the names of a few options, not their meaning.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinema.runners.mpi.runner import MPIRunner

# allowed at any place of the line, and known to the function above all commands only
ANYWHERE = {"--debug", "--json", "--quiet", "-q"}
# take all words up to the next option, as in GROMACS: -f part1.xtc part2.xtc
WITH_MANY_VALUES = {"-f", "--trajectory"}


@dataclass(frozen=True)
class Command:
    """One call of `kinema`: what was typed, what typer is given, how to talk, and the MPI ranks that work for it."""

    typed: str
    arguments: list[str]
    debug: bool
    json: bool
    quiet: bool
    ranks: MPIRunner | None = None

    def tell(self, facts: Callable[[], Any], words: object) -> None:
        """Prints what was found: with --json `facts` for machines, with --quiet nothing, else `words` for a person."""
        if self.json:
            print(json.dumps(facts()))
        elif not self.quiet:
            print(words)

    def mention(self, text: str) -> None:
        """Says on stderr what is going on, to a person."""
        if not (self.quiet or self.json):
            print(text, file=sys.stderr, flush=True)


def prepare(words: list[str]) -> Command:
    """Takes out the options that may stand anywhere and repeats `-f` before each of its values."""
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
        typed=shlex.join(["kinema", *words]),
        arguments=arguments,
        debug="--debug" in words,
        json="--json" in words,
        quiet="--quiet" in words or "-q" in words,
    )
