"""The reference of a superposition from --ref-frame, --reference and --match."""

from pathlib import Path
from typing import Any

from kinema.errors import ArgumentError


def reference_arguments(ref_frame: int | None, reference: Path | None, match: str | None) -> dict[str, Any]:
    """The analysis' arguments that name a reference; a structure file and a frame exclude each other."""
    if reference is None:
        if match is not None:
            raise ArgumentError("--match says how atoms are compared with those of --reference; name that file")
        return {"ref_frame": ref_frame or 0}
    if ref_frame is not None:
        raise ArgumentError("--ref-frame and --reference exclude each other; give one of them")
    return {"reference": str(reference)} | ({} if match is None else {"match": match})
