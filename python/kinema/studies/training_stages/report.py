"""The report of the stages, in Markdown: their times, bandwidth and transfers beside the talk's figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kinema.base.printable import counted
from kinema.report.traces import TraceSummary
from kinema.studies.training_stages.design import TALK, Stage, TalkFigures

if TYPE_CHECKING:
    from kinema.studies.training_stages.study import StagesStudy

_NOTHING = TalkFigures("", "", "", "")


@dataclass(frozen=True)
class StageRow:
    """Times of a stage in seconds, over all its ranks; times that pass at once count once.

    `total`: from the first batch to the last.
    `application_io`: in which samples were read and put together, also by libraries.
    `posix_io`: within system calls on files.
    `unoverlapped_io`: with I/O and without a step of training: the most that better I/O could save.
    `unoverlapped_compute`: with a step of training and without I/O.
    `waited`: sum of what the ranks waited for batches.
    `bytes`: read by system calls.
    `reads`: number of system calls that read.
    """

    stage: Stage
    total: float
    application_io: float
    posix_io: float
    unoverlapped_io: float
    unoverlapped_compute: float
    waited: float
    bytes: int
    reads: int
    mean_read: float
    largest_read: int

    @classmethod
    def from_summary(cls, stage: Stage, found: TraceSummary) -> StageRow:
        """The row of a stage's trace."""
        job, reads = found.job, found.operations["read"]
        sizes = [one.sizes.max for one in found.functions if one.kind == "posix" and one.sizes is not None]
        waited = sum(one.time for one in found.functions if one.name == "fetch.iter")
        mean = reads.bytes / reads.count if reads.count else 0.0
        return cls(
            stage=stage,
            total=job.total * 1e-9,
            application_io=job.application_io * 1e-9,
            posix_io=job.posix_io * 1e-9,
            unoverlapped_io=job.unoverlapped_io * 1e-9,
            unoverlapped_compute=job.unoverlapped_compute * 1e-9,
            waited=waited * 1e-9,
            bytes=reads.bytes,
            reads=reads.count,
            mean_read=mean,
            largest_read=int(max(sizes, default=0)),
        )

    @property
    def bandwidth(self) -> float:
        """Bytes a second of the time with I/O within system calls; 0 without any."""
        return self.bytes / self.posix_io if self.posix_io else 0.0

    def as_dict(self) -> dict[str, Any]:
        """In plain types."""
        return {**asdict(self), "name": self.stage.name, "bandwidth": self.bandwidth}


def report_text(study: StagesStudy, picture: str) -> str:
    """The whole report; `picture` is the file beside it."""
    samples, design, machine = study.samples, study.design, study.machine
    cache = "dropped from memory before each stage" if design.page_cache == "drop" else "in memory"
    steps = len(samples) // (design.batch * design.ranks)
    emulated = machine.get("emulated")
    lines = [
        f"# Stages of training on samples of {', '.join(design.sources[:3])}"
        f"{', ...' if len(design.sources) > 3 else ''}",
        "",
        f"{len(samples):,} of {samples.of:,} samples of {samples.sample_bytes:,} bytes; "
        f"{counted(design.ranks, 'rank')}, {counted(design.workers, 'worker')} a rank, batches of {design.batch}, "
        f"{counted(design.epochs, 'epoch')} of {counted(steps, 'step')}; a step of training is a sleep of "
        f"{design.step:g} s. {'' if emulated else f'Files were {cache}. '}"
        f"{machine.get('processor', machine.get('architecture', ''))}, {machine['allowed_cores']} cores"
        f"{' a node' if emulated else ''}, {study.file_system or 'unknown file system'}; Kinema {machine['kinema']}. "
        "The first batch of each rank was compared with the samples.",
        "",
        "Seconds of all ranks together; what happens at once counts once. Unoverlapped I/O passes without a step of "
        "training, unoverlapped compute without I/O. Bandwidth is of the time within system calls on files. NumPy and "
        "h5py read on a pool of threads, through files of Python that record each read.",
        "",
        "| stage | total, s | I/O, s | system calls, s | unoverlapped I/O, s | unoverlapped compute, s | MB/s | "
        "reads | mean, bytes | largest, bytes | the talk: total | I/O | bandwidth | transfers |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in study.rows:
        theirs = TALK.get(row.stage.talk, _NOTHING)
        cells = (
            row.stage.name,
            *(
                _figure(value)
                for value in (
                    row.total, row.application_io, row.posix_io, row.unoverlapped_io, row.unoverlapped_compute,
                    row.bandwidth / 1e6,
                )
            ),
            f"{row.reads:,}",
            f"{row.mean_read:,.0f}",
            f"{row.largest_read:,}",
            theirs.total,
            theirs.io,
            theirs.bandwidth,
            theirs.transfers,
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    if emulated:
        lines[2:2] = [_emulated(study, emulated), ""]
    lines += ["", *_ratios(study), "", f"![parts of the time, I/O, calls and transfers of each stage]({picture})", ""]
    lines += [f"Note: {note}" for note in study.notes]
    return "\n".join(lines).rstrip() + "\n"


def _emulated(study: StagesStudy, platform: Mapping[str, Any]) -> str:
    """Facts of a run in virtual time, and how to have it again."""
    cpu = ",".join(f"{value:g}" for value in study.cpu.values())
    return (
        f"**Emulated, not measured**: the platform {platform['name']} with {counted(platform['nodes'], 'node')}, in "
        "virtual time. The loops ran here, on real files; what they did for each batch was recorded and replayed. "
        f"Microseconds of CPU time of a sample, in the order of the stages: `--cpu-per-sample {cpu}` gives these "
        "times again to the bit."
    )


def _ratios(study: StagesStudy) -> list[str]:
    """The talk's ratios of I/O between stages, and those of this run."""
    rows = {row.stage.talk: row for row in study.rows if row.stage.talk}
    lines = ["The talk used other data on another machine: compare ratios, not seconds."]
    for first, second, theirs in (
        ("NPZ", "HDF5", "883 s / 30 s = 29"), ("HDF5", "HDF5, node-local cache", "30 s / 4.6 s = 6.5"),
    ):  # fmt: skip
        one, other = rows[first].posix_io, rows[second].posix_io
        ours = _figure(one / other) if other else "-"
        lines.append(f"I/O within system calls, {first} over {second}: {ours} here; the talk: {theirs}.")
    return lines


def _figure(value: float) -> str:
    """Three significant digits."""
    return f"{float(f'{value:.3g}'):,g}" if value else "0"
