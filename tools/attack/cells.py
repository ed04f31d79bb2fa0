"""Cells, times and steps of all kinds through all writers: what is accepted is read back, the rest is refused."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import kinema as kn
from attack.children import called
from attack.trials import Broken, attack
from attack.writing import FORMATS

_KINDS = ("box", "triclinic", "left-handed", "slab", "flat", "parallel", "huge", "tiny", "negative", "turned", "none",
          "not a number")  # fmt: skip

_TIMES = (0.0, -3.5, 1e-9, 12345.678, 1e30, 1e300)
_STEPS = (0, 7, -1, 2**31 - 1, 2**31, 2**63 - 1)


@attack("cells, times and steps through writers", 400)
def cells(moments: random.Random, folder: Path) -> None:
    """Each is refused, or comes back within the precision of the file."""
    suffix, options, _ = moments.choice(FORMATS)
    # what is odd; the rest is as always
    odd = moments.choice(("cells", "cells", "times", "steps"))
    kinds = [moments.choice(_KINDS) if odd == "cells" else "triclinic" for _ in range(2)]
    given = [_cell(kind, moments) for kind in kinds]
    times = [moments.choice(_TIMES) if odd == "times" else float(number) for number in range(2)]
    steps = [moments.choice(_STEPS) if odd == "steps" else number for number in range(2)]
    path = folder / f"a.{suffix}"
    outcome = called(_write, path, options, given, times, steps)
    what = f"{suffix}{options or ''}, cells {' and '.join(kinds)}, times {times}, steps {steps}"
    if outcome.refused():
        return
    found = called(_read, path)
    if found.refused():
        raise Broken(f"{what}: accepted, and not read: {found.error}")
    losses, noted = outcome.value
    said = " ".join(losses + noted)
    for number, read in enumerate(found.value):
        for name, same in (
            ("cell", _same_cell(given[number], read[0])),
            ("time", _same_number(times[number], read[1])),
            ("step", steps[number] == read[2]),
        ):
            if not same and name not in said:
                at = {"cell": 0, "time": 1, "step": 2}[name]
                raise Broken(f"{what}: frame {number} has {name} {read[at]}, given {(given, times, steps)[at][number]}")


def _cell(kind: str, moments: random.Random) -> Any:
    """(3, 3) in angstrom, or None."""
    a, b, c = (moments.uniform(3, 90) for _ in range(3))
    xy, xz, yz = (moments.uniform(-0.4, 0.4) * length for length in (a, a, b))
    lower = np.array([[a, 0, 0], [xy, b, 0], [xz, yz, c]])
    match kind:
        case "box":
            return np.diag([a, b, c])
        case "triclinic":
            return lower
        case "left-handed":
            return lower * [1, 1, -1]
        case "slab":
            return np.diag([a, b, 0.0])
        case "flat":
            return np.array([[a, 0, 0], [xy, b, 0], [xz, yz, 0.0]])
        case "parallel":
            return np.array([[a, 0, 0], [2 * a, 0, 0], [0, 0, c]])
        case "huge":
            return np.diag([a, b, c]) * moments.choice((1e6, 1e30, 1e300))
        case "tiny":
            return np.diag([a, b, c]) * moments.choice((1e-3, 1e-30, 1e-300))
        case "negative":
            return np.diag([a, -b, c])
        case "turned":
            turn, _ = np.linalg.qr(np.array([[moments.gauss(0, 1) for _ in range(3)] for _ in range(3)]))
            return lower @ (turn * np.sign(np.linalg.det(turn)))
        case "not a number":
            return np.diag([a, float("nan"), c])
    return None


def _same_cell(given: Any, found: Any) -> bool:
    """Whether a cell came back, of float32 and of lengths and angles."""
    if given is None or not np.any(given):
        return found is None or not np.any(found)
    if found is None:
        return False
    return bool(np.allclose(found, given, rtol=2e-4, atol=2e-4 * np.abs(given).max()))


def _same_number(given: float, found: float | None) -> bool:
    """Whether a time came back, of float32."""
    return found is not None and bool(np.isclose(found, given, rtol=1e-6, atol=1e-6))


def _write(path: Path, options: dict[str, Any], cells: list[Any], times: list[float], steps: list[int]) -> Any:
    warnings.simplefilter("ignore")
    with kn.Writer(path, 3, **options) as out:
        for number, (cell, time, step) in enumerate(zip(cells, times, steps, strict=True)):
            out.write(np.arange(9.0).reshape(3, 3) + number, cell=cell, time=time, step=step)
    return list(out.losses), list(out.notes)


def _read(path: Path) -> list[Any]:
    warnings.simplefilter("ignore")
    frames = list(kn.open(path, stored=False))
    for number, frame in enumerate(frames):
        if not np.allclose(frame.positions, np.arange(9.0).reshape(3, 3) + number, atol=6e-3):
            raise Broken(f"frame {number} has other positions")
    return [(frame.cell, frame.time, frame.step) for frame in frames]
