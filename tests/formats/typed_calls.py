"""Calls that mypy accepts, and calls that it refuses: `make lint` runs it on this file. Nothing here is run.

Each error that is expected has a comment, which is an error itself once there is none.
"""

from __future__ import annotations

import kinema as kn


def accepted(name: str) -> None:
    kn.open(name, particles="water", axis="positions", reader_options={"unwrap_images": True})
    kn.Writer(name, 3, compression="gzip", layout=(1, 3, 3), fields="positions", resume_from=7)
    kn.Writer(name, 3, comm=None, strategy="auto")
    kn.convert(name, name, precision=100, particles="water", split=10, t0=0.0, checkpoint="convert.checkpoint")


def refused(name: str) -> None:
    kn.open(name, particles=3)  # type: ignore[arg-type]
    kn.open(name, partciles="water")  # type: ignore[call-arg]
    kn.Writer(name, 3, precision="fine")  # type: ignore[arg-type]
    kn.Writer(name, 3, precison=100)  # type: ignore[call-arg]
    kn.convert(name, name, precision="fine")  # type: ignore[arg-type]
    kn.convert(name, name, n_frames=3)  # type: ignore[call-arg]
