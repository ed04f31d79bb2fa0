"""The report of an experiment on loading, in Markdown: the comparison, the recommendation, a table of loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinema.base.printable import counted

if TYPE_CHECKING:
    from kinema.studies.sample_loading.study import LoadingStudy

__all__ = ["report_text"]

_MIB = 1 << 20


def report_text(study: LoadingStudy, picture: str) -> str:
    """The whole report; `picture` is the file beside it."""
    samples, design, machine = study.samples, study.design, study.machine
    arrays = ", ".join(f"{name} {array.dtype} {array.shape[1:]}" for name, array in samples.arrays.items())
    cache = "files were dropped from memory before each loop" if design.page_cache == "drop" else "files were in memory"
    lines = [
        f"# Loading samples of {', '.join(design.sources[:3])}{', ...' if len(design.sources) > 3 else ''}",
        "",
        f"{len(samples):,} of {samples.of:,} samples, taken in runs from all of them: {arrays}; "
        f"{samples.sample_bytes:,} bytes a sample. Batches of {design.batch}; {cache}; "
        f"medians of {counted(design.repeats, 'repeat')}. "
        f"{machine.get('processor', machine.get('architecture', ''))}, {machine['allowed_cores']} cores, "
        f"{study.file_system or 'unknown file system'}; Kinema {machine['kinema']}. The first batch of each loop was "
        "compared with the samples, bit for bit.",
        "",
        *str(study.recommendation).splitlines(),
        "",
        f"![samples a second by layout]({picture})",
        "",
        "| layout | loop | order | samples/s | of a plain read | MiB/s | opening, ms | first batch, ms | CPU, us a "
        "sample | bytes a sample in files |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in study.rows:
        stored = study.stored[row.layout] / (samples.of if row.layout == "as they are" else len(samples))
        cells = (
            row.layout,
            row.program,
            row.order,
            f"{row.rate:,.0f}",
            f"{row.rate / study.limit:.2f}",
            f"{row.rate * samples.sample_bytes / _MIB:,.0f}",
            f"{1e3 * row.opening:.1f}",
            f"{1e3 * row.first:.1f}",
            f"{1e6 * row.cpu_a_sample:.1f}",
            f"{stored:,.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"A plain read of the same bytes, from the front of the files: {study.limit:,.0f} samples/s."]
    lines += [f"Note: {note}" for note in study.notes]
    return "\n".join(lines) + "\n"
