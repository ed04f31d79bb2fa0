"""`Platform`: the parameters of a cluster's storage, network and nodes, each with its source; read from TOML files.

    [storage]
    targets = { value = 96, source = "where the number is from" }

A parameter is a number, or a table with `value` and `source`. `like = "lustre"` takes all other parameters from a
platform that comes with Kinema. Rates are bytes a second, times are seconds.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

from kinema.base.errors import ArgumentError
from kinema.base.input_files import read_regular
from kinema.base.printable import printable
from kinema.studies.lab import PLATFORMS

__all__ = ["Platform", "read_platform"]

_MOST_BYTES = 1 << 20
_SECOND = 1_000_000_000


@dataclass(frozen=True)
class Platform:
    """Parameters of a platform; times in ns, rates in bytes a second, sizes in bytes.

    Attributes
    ----------
    targets, read_rate, write_rate, request_latency, seek, ahead, stripe_bytes, stripes, request_bytes :
        Storage targets, what one reads and writes, its time for a request of any size and for a request that does not
        follow the last one, for how long an idle one reads ahead, and how files are laid out if nothing else is said.
    metadata_rate : operations a second of the one metadata server
    lock_bytes, lock_revoke : unit of the locks of writers, 0 if there are none; time to take a unit from another node
    link_rate, link_latency, eager_bytes :
        Link of a node in each direction; time of a message of no size; longest message whose sender does not wait.
    cores : of a node
    memory_rate, memory_latency : of messages and cached bytes within a node
    local_rate, local_latency : of the node's own drive
    page_bytes : unit in which a node's cache holds files that it writes
    sources : {parameter: source}
    """

    name: str
    description: str
    targets: int
    read_rate: int
    write_rate: int
    request_latency: int
    seek: int
    ahead: int
    stripe_bytes: int
    stripes: int
    request_bytes: int
    metadata_rate: int
    lock_bytes: int
    lock_revoke: int
    link_rate: int
    link_latency: int
    eager_bytes: int
    cores: int
    memory_rate: int
    memory_latency: int
    local_rate: int
    local_latency: int
    page_bytes: int
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def metadata_ns(self) -> int:
        """Service time of a request to the metadata server."""
        return _SECOND // self.metadata_rate

    def read_ns(self, size: int) -> int:
        """Time for a target to read `size` bytes."""
        return _ns(size, self.read_rate)

    def write_ns(self, size: int) -> int:
        """Time for a target to write `size` bytes."""
        return _ns(size, self.write_rate)

    def link_ns(self, size: int) -> int:
        """Time of `size` bytes on a node's link."""
        return _ns(size, self.link_rate)

    def memory_ns(self, size: int) -> int:
        """Time of `size` bytes within a node."""
        return _ns(size, self.memory_rate)

    def local_ns(self, size: int) -> int:
        """Time of `size` bytes on a node's own drive."""
        return _ns(size, self.local_rate)

    def as_dict(self) -> dict[str, Any]:
        """Parameters as in the file: {"parameters": {section.name: value}, "sources": {section.name: source}}."""
        values = {f"{section}.{name}": _shown(self, name) for section, names in _SECTIONS.items() for name in names}
        return {"name": self.name, "description": self.description, "parameters": values, "sources": {**self.sources}}


def _ns(size: int, rate: int) -> int:
    return (size * _SECOND + rate // 2) // rate


@dataclass(frozen=True)
class _Kind:
    """Limits of a parameter, and the factor between its value in a file and in `Platform`."""

    least: float
    most: float
    factor: int = 1
    whole: bool = True


_COUNT, _SIZE, _RATE = _Kind(1, 1_000_000), _Kind(0, 1 << 40), _Kind(1, 1e15, whole=False)
_UNIT = _Kind(1, 1 << 40)
_TIME = _Kind(0, 1000, _SECOND, whole=False)
_SECTIONS: Mapping[str, Mapping[str, _Kind]] = {
    "storage": {
        "targets": _COUNT, "read_rate": _RATE, "write_rate": _RATE, "request_latency": _TIME, "seek": _TIME,
        "ahead": _TIME, "stripe_bytes": _UNIT, "stripes": _COUNT, "request_bytes": _UNIT,
    },
    "metadata": {"metadata_rate": _Kind(1, 1e9, whole=False)},
    "locks": {"lock_bytes": _SIZE, "lock_revoke": _TIME},
    "network": {"link_rate": _RATE, "link_latency": _TIME, "eager_bytes": _SIZE},
    "node": {
        "cores": _COUNT, "memory_rate": _RATE, "memory_latency": _TIME, "local_rate": _RATE, "local_latency": _TIME,
        "page_bytes": _UNIT,
    },
}  # fmt: skip


def _shown(platform: Platform, name: str) -> float:
    kind = next(kinds[name] for kinds in _SECTIONS.values() if name in kinds)
    value: int = getattr(platform, name)
    return value / kind.factor if kind.factor > 1 else value


def read_platform(name: str) -> Platform:
    """A platform by its name, one of `PLATFORMS`, or the TOML file of another.

    Raises ArgumentError for another name and for a file that does not describe a platform, with the place; raises as
    reading files does.
    """
    if name in PLATFORMS:
        text = resources.files("kinema.studies.lab").joinpath("platforms", f"{name}.toml").read_text(encoding="utf-8")
        return _platform(_parsed(text, f"{name}.toml"), f"{name}.toml", name)
    if not name.endswith(".toml"):
        raise ArgumentError(f"a platform is {', '.join(PLATFORMS)} or a file NAME.toml, found {name!r}")
    try:
        text = read_regular(name, "platform", most=_MOST_BYTES).decode()
    except UnicodeDecodeError:
        raise ArgumentError(f"{name}: is not a TOML file, expected text", path=name) from None
    return _platform(_parsed(text, name), name, Path(name).stem)


def _parsed(text: str, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ArgumentError(f"{path}: is not a TOML file, {error}", path=path) from None


def _platform(found: dict[str, Any], path: str, name: str) -> Platform:
    known = ("like", "description", *_SECTIONS)
    for key in found:
        if key not in known:
            raise ArgumentError(f"{path}: {key}: is not known, expected {', '.join(known)}", path=path)
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    description = found.get("description", "")
    if not isinstance(description, str):
        raise ArgumentError(f"{path}: description: expected text, found {description!r}", path=path)
    if "like" in found:
        if found["like"] not in PLATFORMS:
            raise ArgumentError(f"{path}: like: expected {', '.join(PLATFORMS)}, found {found['like']!r}", path=path)
        model = read_platform(found["like"])
        values = {one.name: getattr(model, one.name) for one in fields(Platform) if one.name != "sources"}
        sources = dict(model.sources)
        description = description or f"like {model.name}: {model.description}"
    for section, kinds in _SECTIONS.items():
        given = found.get(section, {})
        if not isinstance(given, dict):
            raise ArgumentError(f"{path}: {section}: expected a table, found {given!r}", path=path)
        for key, value in given.items():
            if key not in kinds:
                raise ArgumentError(f"{path}: {section}.{key}: is not known, expected {', '.join(kinds)}", path=path)
            values[key], sources[f"{section}.{key}"] = _parameter(value, kinds[key], f"{section}.{key}", path)
        missing = [key for key in kinds if key not in values]
        if missing:
            raise ArgumentError(
                f'{path}: {section}.{missing[0]}: is missing; like = "lustre" would take it from there', path=path
            )
    if values["stripes"] > values["targets"]:
        what = f"{values['stripes']} stripes on {values['targets']} targets"
        raise ArgumentError(f"{path}: storage.stripes: expected at most one for each target, found {what}", path=path)
    return Platform(**{**values, "name": name, "description": printable(description), "sources": sources})


def _parameter(given: Any, kind: _Kind, place: str, path: str) -> tuple[int, str]:
    value, source = given, "not stated"
    if isinstance(given, dict):
        if set(given) != {"value", "source"} or not isinstance(given["source"], str):
            raise ArgumentError(f"{path}: {place}: expected a number, or value and source, found {given!r}", path=path)
        value, source = given["value"], printable(given["source"])
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not kind.least <= value <= kind.most or (kind.whole and value != int(value)):
        what = "a whole number" if kind.whole else "a number"
        raise ArgumentError(
            f"{path}: {place}: expected {what} from {kind.least:g} to {kind.most:g}, found {value!r}", path=path
        )
    return round(value * kind.factor), source
