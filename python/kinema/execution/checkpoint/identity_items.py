"""Items that identify the run of a checkpoint: of files, frames, arrays and values."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.execution.checkpoint.file import IdentityItem
from kinema.model.selection.frames import FrameSelection
from kinema.trajectory import Trajectory

# places at which content is sampled, 4 KiB each, over all files, at least one each: a fraction of a second from a disk
_PLACES = 1024
_PLACES_A_FILE_AT_LEAST = 16


def items_of_files(trajectory: Trajectory) -> Iterator[IdentityItem]:
    """Items of the files and of the transforms of their frames: identities of files, with content sampled at more
    places than for an index, and each transform.

    Saved results are made of all coordinates, and nothing checks them later; copies are compared only by the samples.
    """
    parts = trajectory.parts
    # numbers depend on these: units, time steps, which particles
    yield plain("what was stated of the files", _stated(trajectory.stated))
    places = max(_PLACES_A_FILE_AT_LEAST, _PLACES // len(parts))
    yield plain("the number of files", str(len(parts)))
    for number, part in enumerate(parts):
        identity = trajectory.core.identity(number, places)
        label = f"{part.path} of {part.size} bytes, fingerprint {part.fingerprint}"
        yield IdentityItem.from_file(f"file {number + 1} of {len(parts)}", identity, label)
        yield plain(f"the frames used of file {number + 1}", f"{part.kept[0]} to {part.kept[1]}")
    transforms = trajectory.core.transforms
    yield plain("the number of transforms of the trajectory", str(len(transforms)))
    for number, transform in enumerate(transforms):
        yield from items_of_transform(transform, f"in transform {number + 1} of the trajectory")


def _stated(stated: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(stated.items())) or "nothing"


def item_of_frames(frames: FrameSelection) -> IdentityItem:
    """Item of the frames, in their order."""
    if frames.stride is not None:
        start, step, length = frames.stride
        return plain("the frames", f"{length} from {start}, every {step}")
    return array("the frames", frames.numbers(), f"{len(frames)} chosen")


def items_of_transform(made: _core.Transform, where: str) -> Iterator[IdentityItem]:
    """Items of the call that made a transform, one per argument."""
    yield plain(f"the kind {where}", made.id)
    for name, value in sorted(made.arguments.items()):
        yield from items_of_value(f"{name} {where}", value)


def items_of_value(what: str, value: Any) -> Iterator[IdentityItem]:
    """Items of an argument of a kernel or transform."""
    if value is None or isinstance(value, (bool, int, float, str)):
        yield plain(what, repr(value))
    elif isinstance(value, np.ndarray):
        yield array(what, value)
    elif isinstance(value, (list, tuple)):
        yield plain(f"the number of {what}", str(len(value)))
        for number, item in enumerate(value):
            yield from items_of_value(f"{what}, number {number + 1}", item)
    else:
        # user code, which states its own identity
        identity: Mapping[str, tuple[str, str]] = value.identity()
        yield plain("the version of Python", f"{sys.version_info.major}.{sys.version_info.minor}")
        for name, (exact, label) in identity.items():
            yield IdentityItem(f"{name} {what}", exact, label)


def plain(what: str, label: str) -> IdentityItem:
    """Item of a fact that its words state exactly."""
    return IdentityItem(what, label, label)


def array(what: str, values: NDArray[Any], label: str = "") -> IdentityItem:
    """Item of an array: its kind, shape and values."""
    digest = digest_of(values)
    return IdentityItem(what, digest, f"{label or f'{values.dtype} {values.shape}'}, digest {digest[:12]}")


def digest_of(values: NDArray[Any]) -> str:
    """A digest that is equal for equal arrays of the same kind and shape."""
    digest = blake2b(f"{values.dtype.str} {values.shape} ".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
