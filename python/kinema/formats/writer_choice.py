"""Choice of the class that writes a file, by its name, `format=` and options; names of all options.

Writers enter themselves in `CLASSES` and `VARIANTS` when their modules are imported, all of them by
`kinema.formats.all_writers`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kinema._core import formats
from kinema.base.choices import check_text
from kinema.base.errors import ArgumentError, UnsupportedFormatError
from kinema.formats.declared import RanksWriting, names_of, unknown_option
from kinema.storage.output_checks import is_stream

if TYPE_CHECKING:
    from kinema.formats.writer import Writer

CLASSES: dict[str, type[Writer]] = {}
"""The usual writer of each format."""

VARIANTS: dict[str, dict[str, type[Writer]]] = {}
"""Other writers of a format, by the option that chooses each."""

OPTIONS_OF_RANKS = ("comm", *names_of(RanksWriting))
"""Additional options of the writer of many ranks."""

# format of a name without a suffix
_USUAL = "H5MD"
# arguments of every writer, except `path` and `n_atoms`
_COMMON = ("format", "mode", "overwrite", "keep_partial", "workers", "comm")


def format_of(path: str | os.PathLike[str], format: str | None = None) -> str:
    """The format in which a `Writer` writes `path`.

    It is the stated format, or that of the suffix; for a name without a suffix, the format whose files have this name
    (HISTORY), else H5MD. Raises UnsupportedFormatError if there is none, or the suffix belongs to another format;
    ArgumentError for streams.
    """
    name = os.fspath(path)
    if is_stream(name):
        raise ArgumentError("trajectories are written to files, not into streams; name a file", at=name)
    suffix = os.path.splitext(name)[1].lower()
    if format is None and (named := format_of_file_name(name)):
        return named
    check_text("format", format)
    wanted = f".{format.lstrip('.').lower()}" if format is not None else suffix or f".{_USUAL.lower()}"
    found = [one for one in CLASSES.values() if wanted in (f".{one.format.lower()}", *one.suffixes)]
    if not found:
        order = [one["name"] for one in formats() if one["name"] in CLASSES]
        order += [name for name in CLASSES if name not in order]
        known = ", ".join(f"{name} ({', '.join(CLASSES[name].suffixes)})" for name in order)
        raise UnsupportedFormatError(f"no writer of {format or suffix}, expected {known}", at=name)
    (chosen,) = found
    if suffix and suffix not in chosen.suffixes:
        raise UnsupportedFormatError(
            f"the suffix is none of {chosen.format}, expected {' or '.join(chosen.suffixes)}, found {suffix}",
            at=name,
            format=chosen.format,
        )
    return chosen.format


def format_of_file_name(path: str) -> str | None:
    """The format whose files have this name, without a suffix: HISTORY; None if there is none."""
    name = os.path.basename(path)
    return next((one.format for one in CLASSES.values() if name in one.file_names), None)


def options_of(format: str, *, variants: bool = True) -> tuple[str, ...]:
    """Names of the options that a format declares, with those of its variants or alone; without `resume_from`."""
    classes = [CLASSES[format], *(VARIANTS.get(format, {}).values() if variants else ())]
    return tuple(dict.fromkeys(name for one in classes for name in names_of(one.takes) if name != "resume_from"))


def all_options() -> tuple[str, ...]:
    """Names of the options of all formats."""
    return tuple(dict.fromkeys(name for one in CLASSES for name in options_of(one)))


def is_option(name: str) -> bool:
    """Whether any format or all writers have this option."""
    return name in (*_COMMON, *OPTIONS_OF_RANKS, "resume_from", *all_options())


def owners_in_words(name: str) -> str:
    """The formats that have an option, in words: "compression= is for NetCDF and H5MD files"."""
    owners = [one for one in CLASSES if name in options_of(one)]
    return f"{name}= is for {', '.join(owners[:-1])}{' and ' if len(owners) > 1 else ''}{owners[-1]} files"


def check_options(path: str | os.PathLike[str], format: str, options: Mapping[str, Any]) -> None:
    """Raises ArgumentError for options that the chosen writer does not have."""
    taken = names_of(class_of(path, format, options).takes)
    for name in options:
        if name in taken or name in _COMMON:
            continue
        if name == "resume_from":
            raise ArgumentError(f"{format} has no option resume_from=, by which files of records are cut")
        if name in OPTIONS_OF_RANKS:
            raise ArgumentError(f"{name}= is for a writer of many ranks, which needs comm=, their communicator")
        variants = VARIANTS.get(format, {}).items()
        needed = next((option for option, one in variants if name in names_of(one.takes)), None)
        if needed is not None:
            raise ArgumentError(f"{format} has {name}= with {needed}=True only")
        if not is_option(name):
            raise unknown_option("Writer", name, ("path", "n_atoms", *_COMMON, *all_options()))
        takes = ", ".join(options_of(format))
        raise ArgumentError(f"{format} has no option {name}=, expected one of {takes}; {owners_in_words(name)}")


def is_variant(path: str | os.PathLike[str], format: str, options: Mapping[str, Any]) -> bool:
    """Whether options choose a class other than the usual one of a format."""
    return class_of(path, format, options) is not CLASSES[format]


def class_of(path: str | os.PathLike[str], format: str, options: Mapping[str, Any]) -> type[Writer]:
    """The writer of a format, chosen by options or by the file that is continued."""
    appends = options.get("mode") == "a" and os.path.exists(path)
    for option, one in VARIANTS.get(format, {}).items():
        if options.get(option) or (appends and one.continues(path)):
            return one
    return CLASSES[format]


def old_names() -> dict[str, str]:
    """Old names of the options of all formats, with their new names."""
    classes = (*CLASSES.values(), *(one for variants in VARIANTS.values() for one in variants.values()))
    return {old: new for one in classes for old, new in one.takes.old_names.items()}
