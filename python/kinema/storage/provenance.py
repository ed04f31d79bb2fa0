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

_SAMPLE_BYTES = 32 << 20


@dataclass(frozen=True)
class Input:
    """An input: path, size in bytes and fingerprint (hexadecimal); these are None for an input that is not a file."""

    path: str
    size: int | None = None
    fingerprint: str | None = None

    @classmethod
    def from_path(cls, path: str) -> Input:
        """A topology, index or reference file in its current state. The fingerprint covers its bytes; for very large
        files, the first and last 32 MiB."""
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


# metadata keys for the program and for a text in a picture, as matplotlib takes them
_OF_PICTURES = {".png": ("Software", "Description"), ".svg": ("Creator", "Description"), ".pdf": ("Creator", "Subject")}


def picture_metadata(suffix: str, lines: Sequence[str]) -> dict[str, str]:
    """The lines of a provenance as metadata of a picture; the first line, "kinema VERSION", is the program.

    `kinema.storage.output_checks.is_remade` recognises the picture by it.
    """
    program, text = _OF_PICTURES[suffix.lower()]
    return {program: lines[0], text: "\n".join(lines)}


def now() -> str:
    """The date and time, ISO 8601, UTC, in whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Provenance:
    """Origin of a result.

    `call`: the command line, or the Python call.
    `selection`: description and number of atoms.
    `parameters`: all other parameters that decided the values.
    `notes`: notes for a reader of the result (`kinema.base.notes`).
    `date`: end of the run, or else the time when this object was made: ISO 8601, UTC; "" if the same call must give the
        same bytes.
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
        """The same provenance with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def lines(self) -> list[str]:
        """The provenance as lines of text, for comments; no line contains a line break."""
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
        """The provenance as JSON."""
        return json.dumps({**asdict(self), "parameters": dict(self.parameters)}, indent=2)
