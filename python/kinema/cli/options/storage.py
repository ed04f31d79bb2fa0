"""Options about the storage of values: in outputs, and in the archives of samples that commands read."""

from typing import Annotated

import typer

from kinema.base.errors import ArgumentError
from kinema.cli import numbers
from kinema.storage.hdf5.filters import COMPRESSIONS as _LEVELS

# with their levels: gzip[:1-9]
COMPRESSIONS = [
    "none",
    *(name if highest is None else f"{name}[:1-{highest}]" for name, (_, highest) in _LEVELS.items()),
    "or a filter's number: 32001:5,1",
]

Shuffle = Annotated[
    bool | None,
    typer.Option("--shuffle/--no-shuffle", help="HDF5's shuffle before --compress."),
]
Checksum = Annotated[bool, typer.Option("--checksum", help="Store a Fletcher32 checksum with each chunk.")]

FileIsSample = Annotated[
    bool | None,
    typer.Option(
        "--file-is-sample/--no-file-is-sample",
        help="Each file of samples is one sample, or an archive of many; a folder that may be either is refused.",
    ),
]

MaxError = Annotated[
    float | None,
    typer.Option("--max-error", **numbers.decimal(0, 1e18), help="Round positions, each by at most this."),
]
Unit = Annotated[
    str | None,
    typer.Option("--unit", help="Unit of --max-error: angstrom, nm or pm; angstrom by default."),
]


def layout(text: str) -> str | tuple[int, ...]:
    """A name, or the numbers of "16x1000x3"."""
    words = text.lower().split("x")
    if len(words) > 1 and all(word.isdecimal() for word in words):
        return tuple(numbers.whole_number(word, 1, numbers.LARGEST) for word in words)
    return text


def compression(text: str) -> tuple[str | tuple[int, tuple[int, ...]] | None, int | None]:
    """Name and level of "gzip:6", number and values of "32001:5,1"; "none" is None."""
    name, colon, level = text.partition(":")
    if name.isdecimal():
        values = level.split(",") if level else []
        if not all(word.isdecimal() for word in values):
            raise ArgumentError(f"--compress by number is a filter and its values, as in 32001:5,1, found {text!r}")
        return (int(name), tuple(map(int, values))), None
    if colon and not level.isdecimal():
        raise ArgumentError(f"--compress is a name and perhaps a level, as in zstd:3, found {text!r}")
    return None if name == "none" else name, int(level) if colon else None
