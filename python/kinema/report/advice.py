"""Advice on a run's times, in sentences: the publications' heuristics applied to the run's own numbers.

Khoshlessan et al. (2020): compute R_comp/IO and R_comp/comm; above 1 any layout scales; R_comp/comm below 1: one-sided
communication; R_comp/IO up to 1: not one shared file, but HDF5 with parallel reads, else one file per worker. Commands
in backquotes run as printed. This module changes nothing and measures nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kinema.base.timings import Timings
from kinema.formats.all_formats import format_named
from kinema.report.quantities import Quantities
from kinema.report.stragglers import SlowFile, Straggler

__all__ = ["Circumstances", "advise"]

# shares of the workers' time from which a phase is worth a sentence
_MUCH = 0.2
_SOME = 0.05
_AMPLIFIED = 2.0
# seconds of reading and computing below which chance decides
_JUDGED = 0.02
# share of CPU time in decoding and computing; below it workers had to share their cores
_OWN_CORE = 0.75


@dataclass(frozen=True)
class Circumstances:
    """Facts about a run, beside its times.

    Attributes
    ----------
    format : format of the files
    paths : paths of the files
    cores : cores of the root's machine
    runner : name of the runner
    one_sided : whether MPI ranks put their results in place
    access : how frames were read (`kinema.runners.access`)
    bytes_wanted : bytes of the selected atoms in all frames read, as numbers of 4 bytes; 0 if not known
    layouts : {path: {way of reading: bytes touched / bytes wanted}}, of HDF5 files (`PATTERNS` of `edit.layout`)
    layout_advice : sentences about the files' layout
    temporary : whether the files exist for this run only, so that advice must not name commands that read them
    """

    format: str
    paths: tuple[str, ...]
    cores: int
    runner: str
    one_sided: bool = False
    access: str = "direct"
    bytes_wanted: int = 0
    layouts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    layout_advice: tuple[str, ...] = ()
    temporary: bool = False


def advise(
    timings: Timings,
    quantities: Quantities,
    stragglers: Sequence[Straggler],
    slow_files: Sequence[SlowFile],
    run: Circumstances,
) -> tuple[str, ...]:
    """Sentences: the limit of the run, other costs, files to store in another layout, slow workers and files."""
    if not timings.workers:
        return ("nothing was read: all results came from a checkpoint",)
    working = sum(worker.io + worker.decode + worker.compute for worker in timings.workers)
    if working < _JUDGED:
        advice = [
            f"too short to judge by: {1e3 * working:.1f} ms of reading and computing in all",
            *_starting(timings, run),
        ]
    else:
        advice = [
            *_reading(timings, quantities, run),
            *_communication(timings, quantities, run),
            *_waiting(timings, stragglers, run),
            *_starting(timings, run),
            *_shared_cores(timings),
            *_unaccounted(timings),
        ]
    if quantities.R_comp_IO is not None and quantities.R_comp_IO <= 1:
        advice += _amplified(run)
    return (*advice, *run.layout_advice, *_slow(timings, stragglers, slow_files))


def _reading(timings: Timings, found: Quantities, run: Circumstances) -> Iterator[str]:
    """I/O bound or compute bound."""
    ratio = found.R_comp_IO
    if ratio is None:
        return
    measured = f"R_comp/IO {_rounded(ratio)}"
    if found.R_comp_IO_is_estimate:
        measured += " (an estimate: that of a run with one worker counts)"
    if ratio > 1:
        comm = found.R_comp_comm
        if comm is not None:
            measured += f", R_comp/comm {_rounded(comm)}"
        limit = "; messages limit it, not files" if _talks_much(timings, found) else ""
        yield f"compute bound: {measured}; more workers help with any layout of the files{limit}"
    elif found.t_decode > found.t_read:
        shared = (
            f"; on several nodes one file a worker is better: {_split(timings, run)}" if len(run.paths) == 1 else ""
        )
        yield (
            f"bound by decoding {run.format}: {measured}, of which decoding is {found.t_decode / found.t_IO:.0%}; more "
            f"workers help, as each decodes its own frames{shared}"
        )
    else:
        yield f"I/O bound: {measured}; {_instead(timings, run)}"


def _amplified(run: Circumstances) -> Iterator[str]:
    """Chunks, or ways to read, that make readers touch more bytes than they want."""
    if run.access != "direct":
        yield f"frames were read with access {run.access}; without it blocks of frames are read, and the atoms used"
    for path, cost in ({} if run.temporary else run.layouts).items():
        frame_by_frame = cost.get("frame by frame", 1.0)
        own = frame_by_frame if run.access in ("frame", "subset") else cost.get("in blocks", 1.0)
        target = Path(path).with_name(f"{Path(path).stem}-frames.h5md")
        command = f"`kinema repack {shlex.quote(path)} {shlex.quote(str(target))} --layout frames`"
        if own > _AMPLIFIED:
            yield f"{path}: chunks with {own:,.0f}x amplification: {command} would read {own:,.0f}x less"
        elif frame_by_frame > _AMPLIFIED:
            yield (
                f"{path}: automatic chunks, {frame_by_frame:,.0f}x amplification where frames are read one by one "
                f"(Kinema reads each chunk once): {command} would let other programs read {frame_by_frame:,.0f}x less"
            )


def _instead(timings: Timings, run: Circumstances) -> str:
    if format_named(run.format).chunked:
        return "HDF5 scales with parallel reads: put it on a parallel or node-local file system, or read fewer atoms"
    if len(run.paths) == 1:
        return (
            "many workers in one shared file stall each other: an H5MD file with a frame a chunk scales further, or "
            f"as many files as workers: {_split(timings, run)}"
        )
    return "with as many files as workers each opens its own; H5MD with a frame a chunk scales further"


def _split(timings: Timings, run: Circumstances) -> str:
    """The command that makes one file per worker; after a run with one worker, one per core."""
    if run.temporary:
        return "`--formats subfiles`"
    parts = timings.n_workers if timings.n_workers > 1 else max(2, run.cores)
    return f"`kinema split {shlex.quote(run.paths[0])} --parts {parts}`"


def _talks_much(timings: Timings, found: Quantities) -> bool:
    ratio = found.R_comp_comm
    return ratio is not None and ratio < 1 and timings.fractions["communicate"] >= _SOME


def _communication(timings: Timings, found: Quantities, run: Circumstances) -> Iterator[str]:
    if found.R_comp_comm is None or not _talks_much(timings, found):
        return
    share = timings.fractions["communicate"]
    measured = f"R_comp/comm {_rounded(found.R_comp_comm)}: messages take {share:.0%} of the workers' time"
    if run.runner == "mpi" and run.one_sided:
        yield f"{measured}, though each rank puts its results in place; fewer ranks with more threads each send less"
    elif run.runner == "mpi":
        yield f"{measured}; one-sided gathering (`--gather one-sided`) lets each rank put its results in place"
    else:
        yield f"{measured}; fewer workers, or threads if they are on one machine, send less"


def _waiting(timings: Timings, stragglers: Sequence[Straggler], run: Circumstances) -> Iterator[str]:
    share = timings.fractions["wait"]
    if share < _MUCH or timings.n_workers < 2:
        return
    if stragglers:
        worker = stragglers[0].worker
        yield f"{share:.0%} of the workers' time is waiting, for worker {worker} above all"
    elif run.runner in ("mpi", "dask"):
        yield f"{share:.0%} of the workers' time is waiting: dynamic hand-out and a larger `--oversubscribe` even out"
    else:
        yield f"{share:.0%} of the workers' time is waiting: there is too little work for {timings.n_workers} workers"


def _starting(timings: Timings, run: Circumstances) -> Iterator[str]:
    share = timings.fractions["start"]
    if share < _MUCH:
        return
    yield (
        f"{share:.0%} of the workers' time is their start (interpreter, imports): "
        + ("threads have none; " if run.runner == "processes" else "")
        + "it counts less in longer runs"
    )


def _shared_cores(timings: Timings) -> Iterator[str]:
    """Whether workers had their cores to themselves; a run on a busy machine measures the other load."""
    working = sum(worker.decode + worker.compute for worker in timings.workers)
    share = timings.cpu / working if working > 0 else 1.0
    if working > _MUCH * sum(worker.total for worker in timings.workers) and share < _OWN_CORE:
        yield (
            f"CPU time is {share:.0%} of the time of decoding and computing: other programs run on these cores, or "
            "Python code waits for the interpreter's lock"
        )


def _slow(timings: Timings, stragglers: Sequence[Straggler], slow_files: Sequence[SlowFile]) -> Iterator[str]:
    for straggler in stragglers:
        if straggler.phase in ("io", "open"):
            yield (
                f"worker {straggler.worker} reads slowly: check its node's way to the file system, and "
                f"{_files(straggler)}"
            )
        elif straggler.phase in ("compute", "decode"):
            yield _slow_at_work(timings, straggler)
    for file in slow_files:
        yield f"{file.path} is slow: copy it to where the other files are, or check whether it is stored otherwise"


def _slow_at_work(timings: Timings, straggler: Straggler) -> str:
    """Its core, or its frames."""
    who = f"worker {straggler.worker}"
    workers = timings.passes[straggler.round].workers if straggler.round < len(timings.passes) else ()
    for worker in workers:
        working = worker.decode + worker.compute
        if worker.worker == straggler.worker and worker.cpu < _OWN_CORE * working:
            return (
                f"{who} had {worker.cpu:.3f} s of CPU time in the {working:.3f} s in which it decoded and computed: "
                "its core is shared with another program"
            )
    if not straggler.places:
        return f"{who} is slow throughout: its core may be slower than the others'"
    if straggler.slow_blocks > straggler.blocks / 2:
        return f"{who} took longer over most of its blocks: its core may be slower than the others'"
    return f"{who} took longer over {straggler.slow_blocks} of its {straggler.blocks} blocks: check those frames"


def _files(straggler: Straggler) -> str:
    return ", ".join(dict.fromkeys(place.path for place in straggler.places)) or "the files that it read"


def _unaccounted(timings: Timings) -> Iterator[str]:
    share = timings.fractions["unaccounted"]
    if share > _SOME:
        yield f"{share:.0%} of the workers' time is not accounted for: no clock saw it"


def _rounded(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 100 else f"{ratio:,.0f}"
