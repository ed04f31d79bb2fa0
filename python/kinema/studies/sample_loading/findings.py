"""Findings of an experiment on loading: the recommended layout, and the command that makes it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kinema.base.comparison import Comparison, compare, is_faster
from kinema.studies.sample_loading.design import AS_THEY_ARE, LAYOUTS, LoadingDesign, SampleLayout
from kinema.studies.sample_loading.layouts import Samples, chunk_of
from kinema.studies.sample_loading.measuring import LoopRow

# ratio of bytes that is worth a remark
_SMALLER = 0.8


@dataclass(frozen=True)
class Recommendation:
    """The layout and order that Kinema's loader reads faster than all others, or a tie.

    `layout`, `order`: the layout, and the order of Kinema's loader; "" for a tie, and if there are too few repeats.
    `leaders`: tuple of (layout, order); the fastest one, or those that are a tie.
    `command`: command that makes it from the user's files; "" if there is none to recommend.
    """

    layout: str
    order: str
    leaders: tuple[tuple[str, str], ...]
    command: str
    verdict: str
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        lines = [self.verdict, *(f"  {reason}" for reason in self.reasons)]
        return "\n".join([*lines, f"  {self.command}"] if self.command else lines)


def recommended(
    design: LoadingDesign, rows: Sequence[LoopRow], stored: dict[str, int], samples: Samples, limit: float
) -> Recommendation:
    """`stored`: bytes of the files of each layout; `limit`: samples per second of a plain read of the same bytes.

    Candidates are the layouts that `kinema ml convert` makes, and the files as they are.
    """
    made = {layout.name: layout for layout in LAYOUTS if layout.convert}
    rows_of_kinema = {(row.layout, row.order): row for row in rows if row.program == "Kinema"}
    candidates = {key: row for key, row in rows_of_kinema.items() if key[0] in (*made, AS_THEY_ARE)}
    found = compare({key: row.times for key, row in candidates.items()})
    if not found.is_judged:
        return Recommendation("", "", found.leaders, "", f"no recommendation, {found.in_words()}", ())
    if found.winner is None:
        return _tie(design, candidates, found, samples)
    best = candidates[found.winner]
    per_sample = stored[best.layout] / (samples.of if best.layout == AS_THEY_ARE else len(samples))
    reasons = [
        f"the fastest in each of {found.repeats} repeats: {best.rate:,.0f} samples/s, {100 * best.rate / limit:.0f} % "
        f"of a plain read of the same bytes; {per_sample:,.0f} bytes a sample in its files, of {samples.sample_bytes:,}"
    ]
    others = [row for row in rows if row.program != "Kinema" and row.order == "random"]
    beside = max(others, key=lambda row: row.rate, default=None)
    if beside is not None and is_faster(best.times, beside.times):
        reasons.append(
            f"{best.rate / beside.rate:.1f} times the fastest other loop in random order ({beside.program} of "
            f"{beside.layout}: {beside.rate:,.0f} samples/s)"
        )
    verdict = f"recommended: {best.layout}, read by Kinema in the order {best.order}"
    if best.layout == AS_THEY_ARE:
        reasons.append("convert the files only for smaller ones, or for other programs")
        return Recommendation(best.layout, best.order, found.leaders, "", verdict, tuple(reasons))
    now = max((row for row in candidates.values() if row.layout == AS_THEY_ARE), key=lambda row: row.rate)
    reasons.append(f"{best.rate / now.rate:.1f} times Kinema's loader of the files as they are")
    small = min((row for row in candidates.values() if row.layout in made), key=lambda row: stored[row.layout])
    if stored[small.layout] < _SMALLER * stored[best.layout]:
        reasons.append(
            f"smaller files, {100 * stored[small.layout] / stored[best.layout]:.0f} % of these: {small.layout} "
            f"({options_of(made[small.layout], samples, design)})"
        )
    sources = " ".join(map(shlex.quote, design.sources[:3])) + (" ..." if len(design.sources) > 3 else "")
    fields = "" if design.fields is None else f" --fields {shlex.quote(','.join(design.fields))}"
    options = options_of(made[best.layout], samples, design)
    command = f"kinema ml convert {sources}{fields} {options} -o train.h5"
    return Recommendation(best.layout, best.order, found.leaders, command, verdict, tuple(reasons))


def _tie(
    design: LoadingDesign,
    candidates: Mapping[tuple[str, str], LoopRow],
    found: Comparison[tuple[str, str]],
    samples: Samples,
) -> Recommendation:
    """None of the leaders is recommended over another; what is said of all of them holds for each."""
    tied = [candidates[key] for key in found.leaders]
    options = {layout.name: options_of(layout, samples, design) for layout in LAYOUTS if layout.convert}
    reasons = [
        f"{row.layout}, {row.order}: {row.rate:,.0f} samples/s"
        + (f" ({options[row.layout]})" if row.layout in options else "")
        for row in tied
    ]
    now = [row for row in candidates.values() if row.layout == AS_THEY_ARE]
    if any(row.layout == AS_THEY_ARE for row in tied):
        reasons.append(
            "the files as they are belong to the tie: convert them only for smaller ones, or for other programs"
        )
    elif all(is_faster(row.times, one.times) for row in tied for one in now):
        reasons.append("each of them is faster than the files as they are")
    return Recommendation("", "", found.leaders, "", "no recommendation, a tie:", tuple(reasons))


def options_of(layout: SampleLayout, samples: Samples, design: LoadingDesign) -> str:
    """Options of `kinema ml convert` that make a layout."""
    return layout.convert.format(chunk=chunk_of(layout, samples, design.batch))
