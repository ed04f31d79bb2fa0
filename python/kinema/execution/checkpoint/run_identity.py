"""The identity of a run: a list of all that decides its results, each item with words for a person.

Workers, memory and runner are no items: results do not depend on them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.execution.checkpoint.file import IdentityItem
from kinema.execution.computation import Computation
from kinema.runners.base import Job
from kinema.selection.frames import FrameSelection

__all__ = ["items_of_pass", "items_of_run"]

# places at which content is read, 4 KiB each, of all files and at least of each: a fraction of a second from a disk
_PLACES = 1024
_PLACES_A_FILE_AT_LEAST = 16


def items_of_run(analyses: Sequence[Computation], frames: FrameSelection, results: str) -> list[IdentityItem]:
    """Of the whole run: version, analyses with their arguments, files, frames, and where results go."""
    items = [
        # other versions may round otherwise
        _plain("the version of Kinema", _core.__version__),
        _plain("the analyses", ", ".join(type(analysis).__name__ for analysis in analyses)),
    ]
    for name, analysis in _named(analyses):
        selection = analysis.selection
        label = f"{selection.n_atoms} atoms ({selection.description})"
        items.append(IdentityItem(f"the selection of {name}", _digest_of(selection.indices), label))
        arguments = analysis.arguments.items()
        items += [_plain(f"{argument} of {name}", str(value)) for argument, value in arguments if argument != "select"]
    items += _items_of_files(analyses[0])
    if frames.stride is not None:
        start, step, length = frames.stride
        items.append(_plain("the frames", f"{length} from {start}, every {step}"))
    else:
        items.append(_array("the frames", frames.numbers(), f"{len(frames)} chosen"))
    items.append(_plain("the results", results))
    return items


def _items_of_files(analysis: Computation) -> Iterator[IdentityItem]:
    """Of the files: their identities, with content sampled at more places than those of indices are.

    Partials are made of all coordinates, and nothing checks them later; copies are compared by the samples alone.
    """
    parts = analysis.trajectory.parts
    # numbers depend on it: units, time steps, which particles
    yield _plain("what was stated of the files", _stated(analysis.trajectory.stated))
    places = max(_PLACES_A_FILE_AT_LEAST, _PLACES // len(parts))
    yield _plain("the number of files", str(len(parts)))
    for number, part in enumerate(parts):
        identity = analysis.trajectory.core.identity(number, places)
        label = f"{part.path} of {part.size} bytes, fingerprint {part.fingerprint}"
        yield IdentityItem.of_file(f"file {number + 1} of {len(parts)}", identity, label)
        yield _plain(f"the frames used of file {number + 1}", f"{part.kept[0]} to {part.kept[1]}")


def _stated(stated: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(stated.items())) or "nothing"


def items_of_pass(
    number: int, analyses: Sequence[Computation], jobs: Sequence[Job], plan: _core.Plan
) -> list[IdentityItem]:
    """Of one pass: leaves, and for each analysis the kernel with its version and every argument, and transforms."""
    items = [
        _plain("the frames of a leaf", str(plan.leaf_frames)),
        _plain("the number of leaves", str(plan.n_leaves)),
    ]
    for (name, _), (kernel, transforms) in zip(_named(analyses), jobs, strict=True):
        where = f"of {name}, round {number + 1}"
        items.append(_plain(f"the partial {where}", kernel.id))
        items += _items_of_recipe(kernel, where)
        items.append(_plain(f"the number of transforms {where}", str(len(transforms))))
        for place, transform in enumerate(transforms):
            items += _items_of_recipe(transform, f"in transform {place + 1} {where}")
    return items


def _named(analyses: Sequence[Computation]) -> Iterator[tuple[str, Computation]]:
    names = [type(analysis).__name__ for analysis in analyses]
    for number, (name, analysis) in enumerate(zip(names, analyses, strict=True)):
        yield (f"{name} (analysis {number + 1})" if names.count(name) > 1 else name), analysis


def _items_of_recipe(made: _core.Kernel | _core.Transform, where: str) -> Iterator[IdentityItem]:
    """The call that made a kernel or transform, argument by argument."""
    _, (kind, function, arguments) = made.__reduce__()
    yield _plain(f"the kind {where}", function)
    names = inspect.signature(getattr(getattr(_core, kind), function)).parameters
    for name, value in zip(names, arguments, strict=True):
        yield from _items_of_value(f"{name} {where}", value)


def _items_of_value(what: str, value: Any) -> Iterator[IdentityItem]:
    if value is None or isinstance(value, (bool, int, float, str)):
        yield _plain(what, repr(value))
    elif isinstance(value, np.ndarray):
        yield _array(what, value)
    elif isinstance(value, (list, tuple)):
        yield _plain(f"the number of {what}", str(len(value)))
        for number, item in enumerate(value):
            yield from _items_of_value(f"{what}, number {number + 1}", item)
    else:
        # code of the user's, which gives its identity itself
        identity: Mapping[str, tuple[str, str]] = value.identity()
        yield _plain("the version of Python", f"{sys.version_info.major}.{sys.version_info.minor}")
        for name, (exact, label) in identity.items():
            yield IdentityItem(f"{name} {what}", exact, label)


def _plain(what: str, label: str) -> IdentityItem:
    return IdentityItem(what, label, label)


def _array(what: str, values: NDArray[Any], label: str = "") -> IdentityItem:
    digest = _digest_of(values)
    return IdentityItem(what, digest, f"{label or f'{values.dtype} {values.shape}'}, digest {digest[:12]}")


def _digest_of(values: NDArray[Any]) -> str:
    digest = blake2b(f"{values.dtype.str} {values.shape} ".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
