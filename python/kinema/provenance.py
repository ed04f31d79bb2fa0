"""Where results come from: version, call, inputs with fingerprints, selection, date.

It collects and renders; files are written by `kinema.output`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

__all__ = ["Input", "Provenance"]


@dataclass(frozen=True)
class Input:
    """A file that was read: path, size in bytes, fingerprint (hexadecimal; None for a topology)."""

    path: str
    size: int | None = None
    fingerprint: str | None = None


def _now() -> str:
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
    date : str
        ISO 8601, UTC.
    """

    version: str
    call: str
    inputs: tuple[Input, ...] = ()
    selection: str = ""
    frames: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    date: str = field(default_factory=_now)

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
        found.append(f"date: {self.date}")
        return [" ".join(line.split()) for line in found]

    def json(self) -> str:
        """As JSON."""
        return json.dumps({**asdict(self), "parameters": dict(self.parameters)}, indent=2)
