"""The options that name the reference of a superposition: --ref-frame, --reference and --match."""

from collections.abc import Mapping
from typing import Any

from kinema.errors import ArgumentError


def check_reference(given: Mapping[str, Any]) -> None:
    """ArgumentError for options without which another one means nothing: a file and a frame exclude each other."""
    if "match" in given and "reference" not in given:
        raise ArgumentError("--match says how atoms are compared with those of --reference; name that file")
    if "ref_frame" in given and "reference" in given:
        raise ArgumentError("--ref-frame and --reference exclude each other; give one of them")
