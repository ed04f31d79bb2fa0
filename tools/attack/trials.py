"""Attacks by name, trials of them with their seeds, and the table of what held."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

# what a trial does with its own random numbers, in an empty folder of its own
Trial = Callable[[random.Random, Path], None]


class Broken(Exception):
    """A promise that was not kept, in words."""


class NotTried(Exception):
    """Why an attack cannot be made here."""


@dataclass(frozen=True)
class Attack:
    """An attack: its name, how many trials it has in a whole run, and a trial."""

    name: str
    trials: int
    trial: Trial


ATTACKS: dict[str, Attack] = {}


def attack(name: str, trials: int) -> Callable[[Trial], Trial]:
    """Decorator: the function is a trial of the attack of this name, which has `trials` in a whole run."""

    def added(trial: Trial) -> Trial:
        ATTACKS[name] = Attack(name, trials, trial)
        return trial

    return added


@dataclass
class Row:
    """Result of an attack: trials, seeds of broken trials with words, why it was not tried, seconds."""

    name: str
    trials: int = 0
    broken: list[tuple[int, str]] = field(default_factory=list)
    not_tried: str = ""
    seconds: float = 0.0

    @property
    def held(self) -> int:
        """Trials in which all promises were kept."""
        return self.trials - len(self.broken)


def run_trials(one: Attack, seeds: Iterable[int], say: Callable[[str], None] = lambda _: None) -> Row:
    """Makes a trial with each seed; `say` gets a line for each that is broken."""
    row, began = Row(one.name), time.monotonic()
    for seed in seeds:
        folder = Path(tempfile.mkdtemp(prefix="kinema-attack-"))
        try:
            one.trial(random.Random(seed), folder)
        except NotTried as reason:
            row.not_tried = str(reason)
            break
        except Exception as error:
            row.trials += 1
            row.broken.append((seed, _describe_error(error)))
            say(f"broken: {one.name}, seed {seed}: {row.broken[-1][1]}")
        else:
            row.trials += 1
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    row.seconds = time.monotonic() - began
    return row


def _describe_error(error: Exception) -> str:
    """A broken promise as it is said; of anything else also the place: that is a defect of the trial, or ours."""
    if isinstance(error, Broken):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown, with a sum."""
    lines = ["| attack | trials | held | broken | s |", "|---|---|---|---|---|"]
    for row in rows:
        broken = str(len(row.broken)) if row.trials or not row.not_tried else f"not tried: {row.not_tried}"
        lines.append(f"| `{row.name}` | {row.trials:,} | {row.held:,} | {broken} | {row.seconds:.0f} |")
    trials, held = sum(row.trials for row in rows), sum(row.held for row in rows)
    lines.append(f"| all | {trials:,} | {held:,} | {trials - held:,} | {sum(row.seconds for row in rows):.0f} |")
    return "\n".join(lines)
