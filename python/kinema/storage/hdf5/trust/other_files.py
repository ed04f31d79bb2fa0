"""Files that an HDF5 file draws in, by external links and virtual data sets: where they lie, and which are allowed.

A file from a stranger may name any file of the user. Raw bytes of other files as values (external storage) and links of
user-defined classes are always refused. `external` decides about others: "folder" allows files in the folder of the
HDF5 file and below it, after symbolic links of both are resolved. Names within files that are drawn in count as well.
A name is searched for where libhdf5 searches for it, and the first existing file decides.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

from kinema.base.choices import EXTERNAL, check_choice
from kinema.base.errors import ArgumentError, CorruptFileError, UnsupportedFormatError
from kinema.base.printable import printable
from kinema.storage.hdf5.trust.verdicts import KnownStructures, Named, verdict_on, verdicts_known

# environment variables with prefixes of names, as libhdf5 uses them
_PREFIXES = {"link": "HDF5_EXT_PREFIX", "virtual": "HDF5_VDS_PREFIX"}
_WORDS = {"link": "external link", "virtual": "virtual data set"}
# most files that one file may draw in
_MOST_FILES = 1 << 20
# most files that a note lists
_LISTED = 20


def check_other_files(path: str, external: str, *, stored: bool = True) -> None:
    """Raises if a file names other files that `external` does not allow.

    Raises UnsupportedFormatError for external storage and user-defined links, ArgumentError for files that `external`
    refuses, and CorruptFileError as `verdict_on`, for this file or one that it draws in. A name without a file is not
    refused: there is nothing to read.
    """
    drawn_in(path, external, stored=stored)


def drawn_in(path: str, external: str, *, stored: bool = True) -> tuple[str, ...]:
    """The files that a file draws in, by their real names, in the order in which they are met. Raises as
    `check_other_files`."""
    check_choice("external", external, EXTERNAL)
    folder = os.path.dirname(os.path.realpath(path))
    known = {os.path.realpath(path): None}
    # by the name that they are opened with: names within are looked for beside it
    waiting = [path]
    while waiting:
        holder = waiting.pop()
        for named in verdict_on(holder, stored=stored).names:
            for found in _files(path, holder, named):
                real = os.path.realpath(found)
                if real == os.path.realpath(holder):
                    continue
                _check_allowed(path, holder, named, real, folder, external)
                if real not in known:
                    known[real] = None
                    waiting.append(found)
                if len(known) > _MOST_FILES:
                    raise CorruptFileError(f"draws in more than {_MOST_FILES} files", at=path, format="H5MD")
    return tuple(known)[1:]


def known_structures(path: str) -> KnownStructures:
    """The verdicts of this process on a file and on the files that it draws in; none if it has not checked the file."""
    known = verdicts_known([path])
    return verdicts_known([path, *drawn_in(path, "any", stored=False)]) if known.verdicts else known


def note_drawn_in(path: str, external: str, *, stored: bool = True) -> tuple[str, ...]:
    """A note that lists the files that a file draws in; empty if there are none."""
    others = drawn_in(path, external, stored=stored)
    if not others:
        return ()
    more = f" and {len(others) - _LISTED} more" if len(others) > _LISTED else ""
    listed = ", ".join(map(printable, others[:_LISTED]))
    return (f"{path}: draws in other files by links or virtual data sets: {listed}{more}",)


def find_file(holder: str, kind: str, name: str) -> str | None:
    """The file that libhdf5 opens for a link or virtual data set (`kind`) to `name` in `holder`, given by the name with
    which it was opened; None if there is no such file."""
    return next((one for one in _places(holder, kind, name) if os.path.exists(one)), None)


def _places(holder: str, kind: str, name: str) -> Iterator[str]:
    """Names under which libhdf5 tries to open a file, in its order (H5F_prefix_open_file)."""
    opened = os.path.abspath(holder)
    beside = os.path.dirname(opened)
    if os.path.isabs(name):
        yield name
        name = os.path.basename(name)
    prefixes = os.environ.get(_PREFIXES[kind], "")
    for prefix in prefixes.split(":"):
        if prefix:
            yield os.path.join(prefix, name)
            yield os.path.join(prefix.replace("${ORIGIN}", beside), name)
    yield os.path.join(beside, name)
    yield os.path.abspath(name)
    yield os.path.join(os.path.dirname(os.path.realpath(opened)), name)


def _files(path: str, holder: str, named: Named) -> Iterator[str]:
    """The files to which a name leads: several if it is a pattern of virtual data sets."""
    if named.kind == "storage":
        raise UnsupportedFormatError(
            f"{_tag(path, holder)}{named.at} is kept in external storage ({named.file}), which is not read; "
            "h5repack copies it into the file",
            at=path,
            format="H5MD",
        )
    if named.kind == "user-defined":
        raise UnsupportedFormatError(
            f"{_tag(path, holder)}{named.at} is a user-defined link (class {named.file}), and none is followed",
            at=path,
            format="H5MD",
        )
    if named.kind == "virtual" and named.file == ".":
        return
    if named.kind == "virtual" and "%" in named.file:
        for number in itertools.count():
            name = numbered(named.file, number)
            found = find_file(holder, named.kind, name)
            if found is None:
                return
            yield found
            if name == numbered(named.file, number + 1):
                return
    found = find_file(holder, named.kind, named.file)
    if found is not None:
        yield found


def numbered(pattern: str, number: int) -> str:
    """The name of a block of a virtual data set: `%b` is its number, `%%` a percent sign."""
    return "%".join(part.replace("%b", str(number)) for part in pattern.split("%%"))


def _check_allowed(path: str, holder: str, named: Named, real: str, folder: str, external: str) -> None:
    if external == "any" or (external == "folder" and is_within(folder, real)):
        return
    where = f"{_tag(path, holder)}{_WORDS[named.kind]} {named.at} leads to {real}"
    if external == "none":
        raise ArgumentError(
            f'{where}, and external="none" allows no other files; external="folder" allows those in {folder} and below',
            at=path,
        )
    raise ArgumentError(f'{where}, expected files in {folder} or below; external="any" reads it', at=path)


def is_within(folder: str, path: str) -> bool:
    """Whether a file is in a folder, by its real name, or below it, after its symbolic links are resolved."""
    return os.path.commonpath([folder, os.path.realpath(path)]) == folder


def _tag(path: str, holder: str) -> str:
    """Names the file of a message, if it is not the file that was opened."""
    return "" if holder == path else f"{holder}: "
