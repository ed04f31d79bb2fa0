"""Checks of output paths: streams, folders, inputs, files that are not ours, suffixes, links in place of files."""

from __future__ import annotations

import json
import os
import re
import stat
from contextlib import suppress
from typing import IO, Any

from kinema._core import formats
from kinema.base.errors import ArgumentError, FileAccessError, FileNotFound, UnsupportedFormatError, os_errors

_STREAMS = ("-", "/dev/stdout", "/dev/stderr")
# bytes at the front of a file, and at the end of a PDF, that are searched for its provenance
_FRONT = 1 << 16
_LONGEST_LINE = 1 << 26
_PNG, _PDF, _HDF5, _NUMPY, _PARQUET = b"\x89PNG\r\n\x1a\n", b"%PDF-", b"\x89HDF\r\n\x1a\n", b"\x93NUMPY", b"PAR1"
_ZIP = b"PK\x03\x04"
# the names of columns may come first
_TABLE = re.compile(rb"([^\n]*\n)?(#|<!--) kinema \d")
_JSON = re.compile(rb'\s*\{\s*"(kinema\w*"\s*:|schema"\s*:\s*"kinema-)')
_SVG = re.compile(rb"<dc:creator>\s*<cc:Agent>\s*<dc:title>kinema \d")
_PDF_CREATOR = re.compile(rb"/Creator \(kinema \d")


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether an output is written into instead of replaced: "-", /dev/stdout, a FIFO, a device."""
    name = os.fspath(path)
    if name in _STREAMS or name.startswith(("/dev/fd/", "/proc/self/fd/")):
        return True
    if "\0" in name:
        raise ArgumentError(f"a path has no NUL byte, found {name!r}")
    with suppress(OSError):
        mode = os.stat(name).st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
    return False


def check_target(path: str | os.PathLike[str], *, overwrite: bool = True, or_else: str = "") -> None:
    """Checks before a run that a file can be made at `path`.

    Raises ArgumentError if it is a folder, or exists without `overwrite` (`or_else` says what else the caller may do);
    FileNotFound or FileAccessError for its folder.
    """
    name = os.fspath(path)
    if is_stream(name):
        return
    folder = os.path.dirname(os.path.abspath(name))
    if os.path.isdir(name):
        raise ArgumentError("is a directory, expected a file name", at=name)
    if os.path.exists(name) and not overwrite:
        raise ArgumentError(f"exists already; overwrite=True replaces it{or_else}", at=name)
    if not os.path.isdir(folder):
        raise FileNotFound("its folder does not exist, make it first", at=name)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileAccessError("its folder may not be written, choose another", at=name)


def check_remade(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """`check_target` for a table, a picture or a report. A file that Kinema wrote is replaced, because the same call
    makes it again; any other file is replaced only with `overwrite`."""
    name = os.fspath(path)
    check_target(name)
    if not overwrite and not is_stream(name) and os.path.exists(name) and not is_remade(name):
        raise ArgumentError(
            "exists already, and is not a table, picture or report that kinema wrote; overwrite=True replaces it",
            at=name,
        )


def is_remade(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a table, a picture or a report with Kinema's provenance; the content decides.

    False for every trajectory and archive of samples, even if Kinema wrote it. Raises FileAccessError or FileIOError if
    the file cannot be read.
    """
    name = os.fspath(path)
    with os_errors("cannot read what would be replaced", name), open(name, "rb") as file:
        front = file.read(_FRONT)
        if front.startswith(_PDF):
            file.seek(max(0, os.fstat(file.fileno()).st_size - _FRONT))
            return _PDF_CREATOR.search(front + file.read(_FRONT)) is not None
        if len(front) == _FRONT and b"\n" not in front and b"\0" not in front:
            # the names of many columns
            file.seek(0)
            file.readline(_LONGEST_LINE)
            front = b"\n" + file.read(_FRONT)
    if front.startswith(_PNG):
        return _software_of_png(front).startswith(b"kinema ")
    if front.startswith(_HDF5):
        return b"kinema results" in front and _is_results_file(name)
    if front.startswith(_NUMPY):
        return _is_described_array(name)
    if front.startswith(_ZIP):
        return _has_npz_provenance(name)
    if front.startswith(_PARQUET):
        return _has_parquet_provenance(name)
    return bool(_TABLE.match(front) or _JSON.match(front) or _SVG.search(front))


class ArrayFingerprint:
    """Fingerprint of the bytes of a .npy file, which has no room for provenance: the JSON file beside it holds it.

    A file-like object to write the bytes into; `str` gives their fingerprint.
    """

    def __init__(self) -> None:
        from hashlib import blake2b

        self._digest = blake2b(digest_size=16)

    def write(self, block: Any) -> int:
        """Takes the next bytes."""
        self._digest.update(block)
        return len(block)

    def __str__(self) -> str:
        return self._digest.hexdigest()


def _software_of_png(front: bytes) -> bytes:
    """The text "Software" of a PNG file, from its first bytes."""
    at = len(_PNG)
    while at + 8 <= len(front):
        length, kind = int.from_bytes(front[at : at + 4], "big"), front[at + 4 : at + 8]
        keyword, _, text = front[at + 8 : at + 8 + length].partition(b"\0")
        if kind == b"tEXt" and keyword == b"Software":
            return text
        at += 12 + length
    return b""


def _is_results_file(name: str) -> bool:
    import h5py

    try:
        with h5py.File(name, "r") as file:
            return bool(file.attrs.get("format") == "kinema results")
    except OSError:
        # damaged: not a file that Kinema has written
        return False


def _is_described_array(name: str) -> bool:
    try:
        with open(name + ".json", "rb") as file:
            described = json.loads(file.read())
        found = ArrayFingerprint()
        with open(name, "rb") as file:
            while block := file.read(1 << 20):
                found.write(block)
        return bool(described["kinema"] and described["fingerprint"] == str(found))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        # not a description by Kinema, or one of another array
        return False


def _has_npz_provenance(name: str) -> bool:
    """Whether a .npz file has an array `provenance` of Kinema; archives of samples have none."""
    import zipfile

    import numpy as np

    try:
        with np.load(name, allow_pickle=False) as arrays:
            lines = arrays["provenance"] if "provenance" in arrays.files else np.array([])
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
        # damaged, or an archive of something else
        return False
    return lines.dtype.kind == "U" and lines.size > 0 and str(lines.flat[0]).startswith("kinema ")


def _has_parquet_provenance(name: str) -> bool:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        return False
    try:
        return b"kinema" in (parquet.read_schema(name).metadata or {})
    except (OSError, ArrowException):
        return False


def check_not_input(path: str | os.PathLike[str], *sources: str | os.PathLike[str] | None) -> None:
    """Raises ArgumentError if `path` is one of the files that are read; None stands for no file."""
    name = os.fspath(path)
    for source in sources:
        if source is None or not os.path.exists(name) or not os.path.exists(source):
            continue
        if not is_stream(name) and os.path.samefile(source, name):
            raise ArgumentError("is the file that is read; write to another, and rename it afterwards", at=name)


def check_format(path: str | os.PathLike[str], format: str) -> None:
    """Raises UnsupportedFormatError if the suffix of a file name does not belong to `format`, which will be written."""
    name = os.fspath(path)
    if is_stream(name):
        raise ArgumentError(f"{format} is written to files, not into streams; name a file", at=name)
    known = [f".{ending}" for one in formats() if one["name"] == format for ending in one["extensions"]]
    suffix = os.path.splitext(name)[1]
    if suffix and suffix.lower() not in known:
        raise UnsupportedFormatError(
            f"this version writes {format} here, expected a name that ends with {' or '.join(known)}, found {suffix}",
            at=name,
            format=format,
        )


def check_plot_path(path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """`check_remade` for a picture; raises UnsupportedFormatError for suffixes other than .png, .pdf and .svg."""
    name = os.fspath(path)
    suffix = os.path.splitext(name)[1].lower()
    if suffix not in (".png", ".pdf", ".svg"):
        raise UnsupportedFormatError(
            f"plots are not written as {suffix or 'a file without suffix'}, choose one of .png, .pdf, .svg", at=name
        )
    check_remade(name, overwrite=overwrite)


def others_may_move(path: str) -> bool:
    """Whether others may remove or rename files beside `path`: they can write to the folder, and it is not sticky."""
    with suppress(OSError):
        mode = os.stat(os.path.dirname(os.path.abspath(path))).st_mode
        return bool(mode & 0o022) and not mode & stat.S_ISVTX
    return False


def open_temporary(name: str, mode: str, **options: Any) -> IO[Any]:
    """As `open`, for a temporary file of an output: raises FileAccessError if others have put a link in its place."""

    def opener(path: str, flags: int) -> int:
        try:
            return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError:
            check_no_link(path)
            raise

    return open(name, mode, opener=opener, **options)


def check_no_link(temporary: str) -> None:
    """Raises FileAccessError if others have put a link in place of a temporary file that a library will write."""
    if os.path.islink(temporary):
        raise FileAccessError(
            "a link was put in place of the temporary file of an output; write where others may not remove your files",
            at=temporary,
        )
