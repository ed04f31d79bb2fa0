"""The header of DCD files that are made from whole frames of other files."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kinema import _core
from kinema.base.errors import ArgumentError, UnsupportedFormatError
from kinema.base.notes import emit
from kinema.formats.splice import FileHead
from kinema.model.frame import Part

_INT32 = range(-(1 << 31), 1 << 31)
# places of numbers in the first record of a DCD file, after "CORD"
_N_FRAMES, _FIRST_STEP, _STRIDE, _N_STEPS = 0, 1, 2, 3


@dataclass(frozen=True)
class DcdHead(FileHead):
    """The header of a DCD file, as the core parses it: `facts`."""

    facts: _core.DcdHeader

    @classmethod
    def read(cls, path: str) -> DcdHead:
        """The header of a file; errors as of `_core.dcd_header`."""
        return cls(path, _core.dcd_header(path))

    def number(self, place: int) -> int:
        """An integer of the first record."""
        return self.facts["control"][place]

    @property
    def stride(self) -> int:
        """Steps between frames."""
        return self.facts["stride"]

    def encode(self, first_step: Callable[[], int], n_frames: int) -> bytes:
        """As `FileHead`: UnsupportedFormatError for fixed atoms, ArgumentError for numbers beyond 32 bits."""
        if self.facts["n_fixed"] != 0:
            raise UnsupportedFormatError(
                "DCD with fixed atoms, whose frames need the first one, cannot be cut or joined",
                at=self.path,
                format="DCD",
            )
        numbers = {_N_FRAMES: n_frames, _FIRST_STEP: first_step()}
        if self.number(_N_STEPS) == self.number(_N_FRAMES) * self.number(_STRIDE):
            numbers[_N_STEPS] = n_frames * self.stride
        result = bytearray(self.facts["data"])
        order, start = self.facts["byte_order"], self.facts["control_offset"]
        for place, value in numbers.items():
            if value not in _INT32:
                raise ArgumentError(f"{value} is beyond what a DCD header holds", at=self.path)
            struct.pack_into(f"{order}i", result, start + 4 * place, value)
        return bytes(result)

    def layout(self) -> tuple[object, ...]:
        """Properties that must agree for frames to share a file.

        Byte order, kind, stride, time step, cell, 4th dimension.
        """
        facts = self.facts
        words = tuple(self.number(i) for i in (8, 9, 10, 11, 19))
        return (facts["byte_order"], facts["marker_bytes"], facts["kind"], facts["stride"], words)

    def check_first(self, steps: Callable[[], NDArray[np.int64]], parts: Sequence[Part]) -> None:
        """As `FileHead`; the header alone gives the times of all frames; emits a note if it has none."""
        numbers = steps()
        wrong = np.flatnonzero(np.diff(numbers) != self.stride)
        # without times the steps are frame numbers, which are renumbered
        if len(wrong) and "time" not in parts[0].fields:
            emit([f"{self.path}: the DCD files hold no times; steps are counted on from the first part's"])
        elif len(wrong):
            at = int(wrong[0])
            later = next((one for one in parts if one.first_frame == at + 1 and one.kept[1]), parts[0])
            raise ArgumentError(
                "frames of a DCD are equally far apart in time, expected step "
                f"{numbers[at] + self.stride} after {numbers[at]}, found {numbers[at + 1]}; the parts cannot be one "
                "DCD file, whose header alone says the times of all frames",
                at=later.path,
                format="DCD",
            )

    def check_next(self, first: Self, n_frames: int) -> None:
        self.encode(lambda: 0, 1)  # refuses a file that cannot be cut
        if self.layout() != first.layout():
            raise ArgumentError(
                f"its header differs from that of {first.path} (byte order, time step, cell or program), "
                "so that their frames cannot stand in one file",
                at=self.path,
                format="DCD",
            )
