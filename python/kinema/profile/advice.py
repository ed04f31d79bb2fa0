"""What to do about where the time went, in sentences: the publications' heuristics on a run's own numbers.

Khoshlessan et al. (2020): compute R_comp/IO and R_comp/comm; above 1 any layout scales; R_comp/comm below 1: one-sided
communication; R_comp/IO up to 1: not one shared file, but HDF5 with parallel reads, else one file a worker. It changes
nothing and measures nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kinema.profile.quantities import Quantities
from kinema.profile.stragglers import SlowFile, Straggler
from kinema.runners.timings import Timings

__all__ = ["Circumstances", "advise"]

# shares of the workers' time from which a phase is worth a sentence
_MUCH = 0.2
_SOME = 0.05
_AMPLIFIED = 2.0


@dataclass(frozen=True)
class Circumstances:
    """What a run was like, beside its times.

    Attributes
    ----------
    format : of the files
    n_files : int
    runner : its name
    access : how frames were read (`kinema.access`)
    bytes_wanted : of the selected atoms in all frames read, as numbers of 4 bytes; 0 where that is not known
    layouts : {path: {way of reading: bytes touched / bytes wanted}}, of HDF5 files (`kinema.layout.PATTERNS`)
    layout_advice : sentences about the files' layout
    """

    format: str
    n_files: int
    runner: str
    access: str = "direct"
    bytes_wanted: int = 0
    layouts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    layout_advice: tuple[str, ...] = ()


def advise(
    timings: Timings,
    quantities: Quantities,
    stragglers: Sequence[Straggler],
    slow_files: Sequence[SlowFile],
    run: Circumstances,
) -> tuple[str, ...]:
    """Sentences, the most costly first; one that says that all is well where there is nothing to do."""
    if not timings.workers:
        return ("nothing was read: all results came from a checkpoint",)
    told = [
        *_reading(quantities, run),
        *_communication(timings, quantities, run),
        *_waiting(timings, stragglers, run),
        *_starting(timings, run),
        *_slow(stragglers, slow_files),
        *_unaccounted(timings),
    ]
    return tuple(told)


def _reading(found: Quantities, run: Circumstances) -> Iterator[str]:
    """I/O bound or compute bound."""
    ratio = found.R_comp_IO
    if ratio is None:
        return
    said = f"R_comp/IO {_rounded(ratio)}"
    if found.R_comp_IO_is_estimate:
        said += " (an estimate: that of a run with one worker counts)"
    if ratio > 1:
        yield f"compute bound: {said}; more workers help with any layout of the files"
    elif found.t_decode > found.t_read:
        yield (
            f"bound by decoding {run.format}: {said}, of which decoding is {found.t_decode / found.t_IO:.0%}; more "
            "workers help, as each decodes its own frames"
        )
    else:
        yield f"I/O bound: {said}; {_instead(run)}"
    if ratio <= 1:
        yield from _amplified(run)
    yield from run.layout_advice


def _amplified(run: Circumstances) -> Iterator[str]:
    """Chunks, or ways to read, that make readers touch more than they want."""
    if run.access != "direct":
        yield f"frames were read with access {run.access}; without it blocks of frames are read, and the atoms used"
    for path, cost in run.layouts.items():
        frame_by_frame = cost.get("frame by frame", 1.0)
        own = frame_by_frame if run.access in ("frame", "subset") else cost.get("in blocks", 1.0)
        command = f"`kinema repack {path} OUT.h5md --layout frames`"
        if own > _AMPLIFIED:
            yield f"{path}: chunks with {own:,.0f}x amplification: {command} would read {own:,.0f}x less"
        elif frame_by_frame > _AMPLIFIED:
            yield (
                f"{path}: automatic chunks, {frame_by_frame:,.0f}x amplification where frames are read one by one "
                f"(Kinema reads each chunk once): {command} would let other programs read {frame_by_frame:,.0f}x less"
            )


def _instead(run: Circumstances) -> str:
    if run.format == "H5MD":
        return "HDF5 scales with parallel reads: put it on a parallel or node-local file system, or read fewer atoms"
    if run.n_files == 1:
        return (
            "many workers in one shared file stall each other: an H5MD file with a frame a chunk, or as many files as "
            "workers, scales further"
        )
    return "with as many files as workers each opens its own; H5MD with a frame a chunk scales further"


def _communication(timings: Timings, found: Quantities, run: Circumstances) -> Iterator[str]:
    share = timings.fractions["communicate"]
    ratio = found.R_comp_comm
    if ratio is None or ratio >= 1 or share < _SOME:
        return
    said = f"R_comp/comm {_rounded(ratio)}: messages take {share:.0%} of the workers' time"
    if run.runner == "mpi":
        yield f"{said}; one-sided gathering (`--gather one-sided`) lets each rank put its results in place"
    else:
        yield f"{said}; fewer workers, or threads where they are on one machine, send less"


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
        f"{share:.0%} of the workers' time is their start (interpreter, imports, opening): "
        + ("threads have none; " if run.runner == "processes" else "")
        + "it counts less in longer runs"
    )


def _slow(stragglers: Sequence[Straggler], slow_files: Sequence[SlowFile]) -> Iterator[str]:
    for straggler in stragglers:
        if straggler.phase in ("io", "open"):
            yield (
                f"worker {straggler.worker} reads slowly: look at its node's way to the file system, and at "
                f"{_files(straggler)}"
            )
        elif straggler.phase in ("compute", "decode") and not straggler.places:
            yield f"worker {straggler.worker} is slow throughout: its core may be shared with another program"
        elif straggler.phase in ("compute", "decode"):
            yield (
                f"worker {straggler.worker} took longer over {straggler.slow_blocks} of its {straggler.blocks} blocks: "
                + ("its core may be shared" if straggler.slow_blocks > straggler.blocks / 2 else "look at those frames")
            )
    for file in slow_files:
        yield f"{file.path} is slow: copy it to where the other files are, or look whether it is stored otherwise"


def _files(straggler: Straggler) -> str:
    return ", ".join(dict.fromkeys(place.path for place in straggler.places)) or "the files that it read"


def _unaccounted(timings: Timings) -> Iterator[str]:
    share = timings.fractions["unaccounted"]
    if share > _SOME:
        yield f"{share:.0%} of the workers' time is not accounted for: no clock saw it"


def _rounded(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 100 else f"{ratio:,.0f}"
