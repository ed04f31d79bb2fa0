"""Findings of an experiment on loading: the recommended layout, and the command that makes it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from kinema.studies.sample_loading.design import AS_THEY_ARE, LAYOUTS, LoadingDesign, SampleLayout
from kinema.studies.sample_loading.layouts import Samples, chunk_of
from kinema.studies.sample_loading.measuring import LoopRow

__all__ = ["Recommendation", "recommended"]

# ratio of rates that still count as equal
_EQUAL = 0.9
# ratio of bytes that is worth a remark
_SMALLER = 0.8


@dataclass(frozen=True)
class Recommendation:
    """The layout with the fastest loader; among equally fast layouts, the one with the smallest files.

    Attributes
    ----------
    layout, order : str
        The layout, and the order of Kinema's loader.
    rate : float
        Samples per second.
    bytes_a_sample : float
        Bytes of a sample in the files.
    command : str
        Command that makes it from the user's files; "" if these are as fast already.
    reasons : tuple of str
    """

    layout: str
    order: str
    rate: float
    bytes_a_sample: float
    command: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        what = f"recommended: {self.layout}, read by Kinema in the order {self.order}"
        lines = [what, *(f"  {reason}" for reason in self.reasons)]
        return "\n".join([*lines, f"  {self.command}"] if self.command else lines)


def recommended(
    design: LoadingDesign, rows: Sequence[LoopRow], stored: dict[str, int], samples: Samples, limit: float
) -> Recommendation:
    """`stored`: bytes of the files of each layout; `limit`: samples per second of a plain read of the same bytes."""
    own = [row for row in rows if row.program == "Kinema"]
    made = {layout.name: layout for layout in LAYOUTS if layout.convert}
    fastest = max(row.rate for row in own if row.layout in made)
    equal = [row for row in own if row.layout in made and row.rate >= _EQUAL * fastest]
    best = min(equal, key=lambda row: (stored[row.layout], list(made).index(row.layout), -row.rate))
    per_sample = stored[best.layout] / len(samples)
    reasons = [
        f"{best.rate:,.0f} samples/s, {100 * best.rate / limit:.0f} % of a plain read of the same bytes; "
        f"{per_sample:,.0f} bytes a sample in its files, of {samples.sample_bytes:,}"
    ]
    others = [row for row in rows if row.program != "Kinema" and row.order == "random"]
    if others:
        beside = max(others, key=lambda row: row.rate)
        reasons.append(
            f"{best.rate / beside.rate:.1f} times the fastest other loop in random order ({beside.program} of "
            f"{beside.layout}: {beside.rate:,.0f} samples/s)"
        )
    now = max((row for row in own if row.layout == AS_THEY_ARE), key=lambda row: row.rate)
    reasons.append(f"{best.rate / now.rate:.1f} times Kinema's loader of the files as they are")
    small = min((row for row in own if row.layout in made), key=lambda row: (stored[row.layout], -row.rate))
    if stored[small.layout] < _SMALLER * stored[best.layout]:
        reasons.append(
            f"smaller files, {100 * stored[small.layout] / stored[best.layout]:.0f} % of these: {small.layout} "
            f"({options_of(made[small.layout], samples, design)}), {small.rate:,.0f} samples/s, order {small.order}"
        )
    if now.rate >= _EQUAL * best.rate:
        reasons.append("the files are as fast as they are: convert them only for smaller ones, or for other programs")
        return Recommendation(best.layout, best.order, best.rate, per_sample, "", tuple(reasons))
    options = options_of(made[best.layout], samples, design)
    sources = " ".join(map(shlex.quote, design.sources[:3])) + (" ..." if len(design.sources) > 3 else "")
    fields = "" if design.fields is None else f" --fields {shlex.quote(','.join(design.fields))}"
    command = f"kinema ml convert {sources}{fields} {options} -o train.h5"
    return Recommendation(best.layout, best.order, best.rate, per_sample, command, tuple(reasons))


def options_of(layout: SampleLayout, samples: Samples, design: LoadingDesign) -> str:
    """Options of `kinema ml convert` that make a layout."""
    return layout.convert.format(chunk=chunk_of(layout, samples, design.batch))
