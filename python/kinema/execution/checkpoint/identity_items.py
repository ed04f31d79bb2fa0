"""Items that identify what a checkpoint is of: of files, of frames, of arrays, of what words say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinema.execution.checkpoint.file import IdentityItem
from kinema.selection.frames import FrameSelection
from kinema.trajectory import Trajectory

__all__ = ["array", "digest_of", "item_of_frames", "items_of_files", "plain"]

# places at which content is read, 4 KiB each, of all files and at least of each: a fraction of a second from a disk
_PLACES = 1024
_PLACES_A_FILE_AT_LEAST = 16


def items_of_files(trajectory: Trajectory) -> Iterator[IdentityItem]:
    """Of the files: their identities, with content sampled at more places than those of indices are.

    What is saved is made of all coordinates, and nothing checks it later; copies are compared by the samples alone.
    """
    parts = trajectory.parts
    # numbers depend on it: units, time steps, which particles
    yield plain("what was stated of the files", _stated(trajectory.stated))
    places = max(_PLACES_A_FILE_AT_LEAST, _PLACES // len(parts))
    yield plain("the number of files", str(len(parts)))
    for number, part in enumerate(parts):
        identity = trajectory.core.identity(number, places)
        label = f"{part.path} of {part.size} bytes, fingerprint {part.fingerprint}"
        yield IdentityItem.of_file(f"file {number + 1} of {len(parts)}", identity, label)
        yield plain(f"the frames used of file {number + 1}", f"{part.kept[0]} to {part.kept[1]}")


def _stated(stated: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(stated.items())) or "nothing"


def item_of_frames(frames: FrameSelection) -> IdentityItem:
    """Of the frames, in their order."""
    if frames.stride is not None:
        start, step, length = frames.stride
        return plain("the frames", f"{length} from {start}, every {step}")
    return array("the frames", frames.numbers(), f"{len(frames)} chosen")


def plain(what: str, label: str) -> IdentityItem:
    """Of something that its words say exactly."""
    return IdentityItem(what, label, label)


def array(what: str, values: NDArray[Any], label: str = "") -> IdentityItem:
    """Of an array, by its kind, shape and values."""
    digest = digest_of(values)
    return IdentityItem(what, digest, f"{label or f'{values.dtype} {values.shape}'}, digest {digest[:12]}")


def digest_of(values: NDArray[Any]) -> str:
    """The same for equal arrays of one kind and shape."""
    digest = blake2b(f"{values.dtype.str} {values.shape} ".encode(), digest_size=16)
    digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
