"""Kills at random moments: of writers, of conversions and runs with checkpoints."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import numpy as np

import kinema as kn
from attack.children import called, traced
from attack.trials import Broken, attack
from attack.writing import FORMATS, drawn
from kinema.testing import random_walk, write_xtc

# seconds within which a call is killed; undisturbed it takes about as long
_LONGEST = 0.4
# kills of one call with a checkpoint, before it comes to its end
_KILLS = 4


@attack("kills: writers", 400)
def writers(moments: random.Random, folder: Path) -> None:
    """Committed frames stay, and the writer continues after them."""
    work = drawn(moments, folder)
    called(work.write, kill_after=moments.uniform(0, _LONGEST))
    work.go_on()


@attack("kills: writers, at a system call", 100)
def writers_at_calls(moments: random.Random, folder: Path) -> None:
    """The same, at one of the calls that change files."""
    work = drawn(moments, folder)
    traced(work.write, fault="signal=KILL", at=moments.randrange(1, 120))
    work.go_on()


@attack("kills: conversions", 40)
def conversions(moments: random.Random, folder: Path) -> None:
    """A conversion with a checkpoint that is killed again and again makes the file of one that is not."""
    # variants have no checkpoints
    suffix = moments.choice([suffix for suffix, options, _ in FORMATS if not options])
    source, path, checkpoint = folder / "in.xtc", folder / f"out.{suffix}", folder / "a.ckpt"
    write_xtc(source, random_walk(1200, 60, seed=moments.randrange(1 << 30)))
    expected = called(_converted, source, folder / f"whole.{suffix}", None).checked()
    for _ in range(_KILLS):
        called(_converted, source, path, checkpoint, kill_after=moments.uniform(0, _LONGEST))
    if called(_converted, source, path, checkpoint).checked() != expected:
        raise Broken(f"{suffix}: other values than without kills")
    _check_alone(folder, {"in.xtc", path.name, f"whole.{suffix}"})


@attack("kills: runs", 60)
def runs(moments: random.Random, folder: Path) -> None:
    """A run with a checkpoint that is killed again and again gives the bits of one that is not."""
    write_xtc(folder / "in.xtc", random_walk(1500, 40, seed=moments.randrange(1 << 30)))
    runner = moments.choice(("threads", "threads", "processes"))
    expected = called(_run, folder, "serial", None).checked()
    for _ in range(_KILLS):
        called(_run, folder, runner, folder / "a.ckpt", kill_after=moments.uniform(0, 2 * _LONGEST))
    if called(_run, folder, runner, folder / "a.ckpt").checked() != expected:
        raise Broken(f"{runner}: other bits than without kills")
    _check_alone(folder, {"in.xtc"})


def _converted(source: Path, path: Path, checkpoint: Path | None) -> bytes:
    """Converts, and returns all values of the file."""
    warnings.simplefilter("ignore")
    kn.convert(
        source, path, checkpoint=checkpoint, checkpoint_interval=0 if checkpoint else None, overwrite=True, workers=2,
    )  # fmt: skip
    return repr(
        [(one.time, one.step, one.cell, one.positions.tobytes()) for one in kn.open(path, stored=False)]
    ).encode()


def _run(folder: Path, runner: str, checkpoint: Path | None) -> bytes:
    warnings.simplefilter("ignore")
    analysis = kn.analysis.RMSF(kn.open(folder / "in.xtc"), align="average")
    interval = 0.0 if checkpoint else None
    workers = None if runner == "serial" else 2
    analysis.run(runner=runner, workers=workers, checkpoint=checkpoint, checkpoint_interval=interval)
    return np.asarray(analysis.results.rmsf).tobytes()


def _check_alone(folder: Path, allowed: set[str]) -> None:
    """Nothing of a killed call is left when the last one has ended, but for indices."""
    left = {path.name for path in folder.iterdir() if not path.name.endswith(".kinema-index")} - allowed
    if left:
        raise Broken(f"left behind: {', '.join(sorted(left))}")
