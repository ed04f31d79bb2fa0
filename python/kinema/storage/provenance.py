"""The provenance of results: version, call, inputs with fingerprints, selection, date, notes."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from datetime import UTC, datetime

from kinema.base.frozen_dataclass import dataclass
from kinema.base.printable import printable

__all__ = ["Input", "Provenance", "now", "picture_metadata"]

_SAMPLE_BYTES = 32 << 20


@dataclass(frozen=True)
class Input:
    """A file that was read: path, size in bytes, fingerprint (hexadecimal), which are None for what is no file."""

    path: str
    size: int | None = None
    fingerprint: str | None = None

    @classmethod
    def from_path(cls, path: str) -> Input:
        """A topology, index or reference file as it is now: the fingerprint is of its bytes, of very large files of
        their first and last 32 MiB."""
        from hashlib import blake2b

        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    return cls(path)
                digest = blake2b(status.st_size.to_bytes(8, "little"), digest_size=8)
                digest.update(file.read(_SAMPLE_BYTES))
                file.seek(max(file.tell(), status.st_size - _SAMPLE_BYTES))
                digest.update(file.read(_SAMPLE_BYTES))
        except OSError:
            return cls(path)
        return cls(path, status.st_size, digest.hexdigest())


# names of the program and of a text in the metadata of a picture, as matplotlib takes them
_OF_PICTURES = {".png": ("Software", "Description"), ".svg": ("Creator", "Description"), ".pdf": ("Creator", "Subject")}


def picture_metadata(suffix: str, lines: Sequence[str]) -> dict[str, str]:
    """The lines of a provenance as the metadata of a picture; the first, "kinema VERSION", is the program.

    By it `kinema.storage.output_checks.is_remade` knows the picture.
    """
    program, text = _OF_PICTURES[suffix.lower()]
    return {program: lines[0], text: "\n".join(lines)}


def now() -> str:
    """The date and time, ISO 8601, UTC, in whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Provenance:
    """What made a result.

    Attributes
    ----------
    version : str
        Kinema's.
    call : str
        The command line, or the Python call.
    inputs : tuple of Input
    selection : str
        Description and number of atoms.
    frames : str
        Which frames were used.
    parameters : mapping of str to str
        Whatever else decided the values.
    notes : tuple of str
        What a reader of the result should know (`kinema.base.notes`).
    date : str
        When the run ended, else when this was made: ISO 8601, UTC; "" where the same call shall give the same bytes.
    """

    version: str
    call: str
    inputs: tuple[Input, ...] = ()
    selection: str = ""
    frames: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    date: str = field(default_factory=now)

    def with_notes(self, notes: Sequence[str]) -> Provenance:
        """The same with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def lines(self) -> list[str]:
        """As lines of text, for comments; no line has a line break in it."""
        found = [f"kinema {self.version}", f"call: {self.call}"]
        for item in self.inputs:
            details = [f"{item.size} bytes"] if item.size is not None else []
            details += [f"fingerprint {item.fingerprint}"] if item.fingerprint else []
            found.append(f"input: {item.path}" + (f" ({', '.join(details)})" if details else ""))
        found += [f"selection: {self.selection}"] if self.selection else []
        found += [f"frames: {self.frames}"] if self.frames else []
        found += [f"{name}: {value}" for name, value in self.parameters.items()]
        found += [f"note: {note}" for note in self.notes]
        found += [f"date: {self.date}"] if self.date else []
        return [printable(line) for line in found]

    def json(self) -> str:
        """As JSON."""
        return json.dumps({**asdict(self), "parameters": dict(self.parameters)}, indent=2)
