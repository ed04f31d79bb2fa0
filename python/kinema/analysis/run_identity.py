"""What a run is, as a list of items: all that decides its results, each with words for a person.

It compares nothing and stores nothing. Workers, memory and runner are no items: results do not depend on them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.checkpoint.file import Item
from kinema.frames import ResolvedFrames, count
from kinema.runners.base import Job

if TYPE_CHECKING:
    from kinema.analysis.base import Analysis

__all__ = ["items_of_round", "items_of_run"]


def items_of_run(analyses: Sequence[Analysis], frames: ResolvedFrames, results: str) -> list[Item]:
    """Of the whole run: version, analyses with their arguments, files, frames, and where results go."""
    found = [
        # other versions may round otherwise
        _plain("the version of Kinema", _core.__version__),
        _plain("the analyses", ", ".join(type(analysis).__name__ for analysis in analyses)),
    ]
    for name, analysis in _named(analyses):
        selection = analysis.selection
        told = f"{selection.n_atoms} atoms ({selection.description})"
        found.append(Item(f"the selection of {name}", _digest_of(selection.indices), told))
        arguments = analysis._arguments.items()
        found += [_plain(f"{argument} of {name}", str(value)) for argument, value in arguments if argument != "select"]
    found += _items_of_files(analyses[0])
    if isinstance(frames, tuple):
        start, step, length = frames
        found.append(_plain("the frames", f"{length} from {start}, every {step}"))
    else:
        found.append(_array("the frames", frames, f"{count(frames)} chosen"))
    found.append(_plain("the results", results))
    return found


def _items_of_files(analysis: Analysis) -> Iterator[Item]:
    parts = analysis.trajectory.parts
    yield _plain("the number of files", str(len(parts)))
    for number, part in enumerate(parts):
        told = f"{part.path} of {part.size} bytes, fingerprint {part.fingerprint}"
        yield Item(f"file {number + 1} of {len(parts)}", part.fingerprint, told)
        yield _plain(f"the frames used of file {number + 1}", f"{part.kept[0]} to {part.kept[1]}")


def items_of_round(number: int, analyses: Sequence[Analysis], jobs: Sequence[Job], plan: _core.Plan) -> list[Item]:
    """Of one round: leaves, and for each analysis the kernel with its version and every argument, and transforms."""
    found = [
        _plain("the frames of a leaf", str(plan.leaf_frames)),
        _plain("the number of leaves", str(plan.n_leaves)),
    ]
    for (name, _), (kernel, transforms) in zip(_named(analyses), jobs, strict=True):
        where = f"of {name}, round {number + 1}"
        found.append(_plain(f"the partial {where}", kernel.id))
        found += _items_of_recipe(kernel, where)
        found.append(_plain(f"the number of transforms {where}", str(len(transforms))))
        for place, transform in enumerate(transforms):
            found += _items_of_recipe(transform, f"in transform {place + 1} {where}")
    return found


def _named(analyses: Sequence[Analysis]) -> Iterator[tuple[str, Analysis]]:
    names = [type(analysis).__name__ for analysis in analyses]
    for number, (name, analysis) in enumerate(zip(names, analyses, strict=True)):
        yield (f"{name} (analysis {number + 1})" if names.count(name) > 1 else name), analysis


def _items_of_recipe(made: _core.Kernel | _core.Transform, where: str) -> Iterator[Item]:
    """The call that made a kernel or transform, argument by argument."""
    _, (kind, function, arguments) = made.__reduce__()
    yield _plain(f"the kind {where}", function)
    names = inspect.signature(getattr(getattr(_core, kind), function)).parameters
    for name, value in zip(names, arguments, strict=True):
        yield from _items_of_value(f"{name} {where}", value)


def _items_of_value(what: str, value: Any) -> Iterator[Item]:
    if value is None or isinstance(value, (bool, int, float, str)):
        yield _plain(what, repr(value))
    elif isinstance(value, np.ndarray):
        yield _array(what, value)
    elif isinstance(value, (list, tuple)):
        yield _plain(f"the number of {what}", str(len(value)))
        for number, item in enumerate(value):
            yield from _items_of_value(f"{what}, number {number + 1}", item)
    else:
        # code of the user's, which tells its identity itself
        identity: Mapping[str, tuple[str, str]] = value.identity()
        yield _plain("the version of Python", f"{sys.version_info.major}.{sys.version_info.minor}")
        for name, (exact, told) in identity.items():
            yield Item(f"{name} {what}", exact, told)


def _plain(what: str, told: str) -> Item:
    return Item(what, told, told)


def _array(what: str, values: NDArray[Any], told: str = "") -> Item:
    digest = _digest_of(values)
    return Item(what, digest, f"{told or f'{values.dtype} {values.shape}'}, digest {digest[:12]}")


def _digest_of(values: NDArray[Any]) -> str:
    digest = blake2b(f"{values.dtype.str} {values.shape} ".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
