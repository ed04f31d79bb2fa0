"""Names for the series of an experiment where `kinema.report` does not tell them apart by itself."""

from __future__ import annotations

from collections.abc import Sequence

from kinema.report import Report

__all__ = ["labels_of"]

# what `kinema.report.scaling` does not look at
_NAMES = ("task", "reader", "analysis", "times", "storage", "stripes")


def labels_of(reports: Sequence[Report]) -> list[str | None]:
    """For each report the varied values that its series is named after; None if there are none."""
    named = [[f"{name} {report.extra[name]}" for name in _NAMES if name in report.extra] for report in reports]
    return [", ".join(words) or None for words in named]
