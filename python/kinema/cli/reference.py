"""The reference of a superposition from --ref-frame and --reference. It superposes nothing."""

from pathlib import Path
from typing import Any

from kinema.errors import ArgumentError


def reference_arguments(ref_frame: int | None, reference: Path | None) -> dict[str, Any]:
    """The analysis' arguments `ref_frame` and `reference`; a structure file and a frame exclude each other."""
    if reference is None:
        return {"ref_frame": ref_frame or 0}
    if ref_frame is not None:
        raise ArgumentError("--ref-frame and --reference exclude each other; give one of them")
    return {"reference": str(reference)}
