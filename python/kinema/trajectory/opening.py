"""`open`: makes a `Trajectory` from file names and checks the arguments. It reads no frame."""

from __future__ import annotations

import functools
import inspect
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, cast

from kinema import _core
from kinema.base.choices import INDEX, ON_TRUNCATED, OVERLAP, check_choice
from kinema.base.errors import ArgumentError, CorruptFileError, Error, FileNotFound, UnsupportedFormatError
from kinema.base.input_files import file_names
from kinema.base.notes import emit
from kinema.base.resources import default_open_files
from kinema.formats import h5md
from kinema.formats.all_formats import FORMATS, format_named
from kinema.formats.atoms import topology_of
from kinema.formats.declared import chosen, current_names, documented, names_of, unknown_option
from kinema.formats.external.frames import EXTERNAL, check_stated
from kinema.formats.external.reading import Describer, ExternalOptions
from kinema.formats.format import Format
from kinema.formats.h5md.description import H5mdReading
from kinema.formats.options import OPEN_DEFAULTS, OPEN_OLD_NAMES, OPEN_TABLE
from kinema.model.frame import VECTOR_FIELDS, Frame
from kinema.model.topology import Topology, is_atom_group, is_universe
from kinema.model.universe import files_of_universe, options_of_universe
from kinema.storage.output_file import write_index
from kinema.trajectory import Trajectory
from kinema.trajectory.following.patterns import GivenFiles
from kinema.trajectory.transform import Transform

if TYPE_CHECKING:
    from typing import Unpack

    from kinema.cache.node_cache import NodeCache, NodeCacheChoice
    from kinema.formats.options import OpenOptions

P = ParamSpec("P")

# whether `files_stay`
_FILES_STAY: ContextVar[bool] = ContextVar("_FILES_STAY", default=False)
# transformations of MDAnalysis -> the equivalent in Kinema
_INSTEAD = {
    "unwrap": "kinema.transforms.whole(...)",
    "wrap": "kinema.transforms.wrap(..., ur='tric')",
    "center_in_box": "kinema.transforms.center(...)",
    "fit_rot_trans": "kinema.transforms.superpose(...)",
    "fit_translation": "kinema.transforms.superpose(..., mode='trans')",
    "NoJump": "kinema.transforms.nojump()",
}


def _checked(opened: Callable[P, Trajectory]) -> Callable[P, Trajectory]:
    """Decorator of `open`: refuses options that no format declares, renames old ones, and opens a Universe's files.

    The Universe's arguments and transforms are applied too; the caller's arguments override them.
    """

    @functools.wraps(opened)
    def called(*args: P.args, **kwargs: P.kwargs) -> Trajectory:
        of_caller: Callable[..., Trajectory] = opened
        options = current_names("open", kwargs, OPEN_OLD_NAMES, warned_at=2)
        for name in options:
            if name not in open_arguments():
                raise unknown_option("open", name, open_arguments())
        universe = args[0] if args else options.get("paths")
        if not is_universe(universe):
            return of_caller(*args, **options)
        # given arguments, even if equal to their defaults, override the reader's
        given = inspect.signature(opened).bind(*args, **options).arguments
        given = given | given.pop("options", {})
        given = {name: value for name, value in given.items() if name != "paths" and value is not None}
        own = options_of_universe(universe)
        if given.get("t0") is not None:
            own.pop("time_offset", None)
        options = own | given
        names: Any = files_of_universe(universe)
        for name in options.keys() - set(open_arguments()):
            raise ArgumentError(
                f"the universe was loaded with {name}={options[name]!r}, which kn.open does not have: its frames are "
                "not those of its files; open the files themselves, or load the universe without it"
            )
        transforms = _transforms_of(universe)
        return of_caller(names, **({"topology": universe} | options)).with_transform(*transforms)

    return called


@documented(OPEN_TABLE)
@_checked
def open(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Any,
    topology: str | os.PathLike[str] | Any | None = None,
    *,
    format: str | None = None,
    overlap: str = "last",
    on_truncated: str = "drop",
    index: str = "auto",
    stored: bool = True,
    max_open_files: int | None = None,
    node_cache: NodeCacheChoice = None,
    units: Mapping[str, str] | None = None,
    dt: float | None = None,
    time_offset: float | None = None,
    t0: float | None = None,
    absent: str = "error",
    **options: Unpack[OpenOptions],
) -> Trajectory:
    """Opens one or several trajectory files as one trajectory. Only the first file's header is read now.

    Parameters
    ----------
    paths : path, list of paths, or MDAnalysis Universe
        The files, parts of one trajectory in their order; or a pattern of their names, "md.part*.xtc", in the order of
        the numbers in the names. For a Universe: the files of its trajectory and its topology, with its own loading
        arguments (several files without continuous=True: overlap="all") unless they are given here, and with its Kinema
        transforms. Transformations of MDAnalysis, and loading arguments that change frames and that `open` does not
        have, raise an ArgumentError that names them.
    topology : path or MDAnalysis Universe, optional
        For selection strings and masses; anything that MDAnalysis reads. It is read when first needed. An H5MD file
        that holds names or elements needs none. A file larger than 16 GiB, or than the machine's memory, is refused,
        unless it is a trajectory, of which MDAnalysis reads the header.
    format : str, optional
        "XTC", "DCD", ...; by default found from the file's first bytes. A file in no format of Kinema is read through
        MDAnalysis, if that has a reader: by the suffix of the file's name, or by MDAnalysis' name of the format,
        "LAMMPSDUMP". Opening such a file reads it once as a whole; then it is read frame by frame, slowly.
    overlap : {"last", "first", "all"}
        Frames to keep where a part begins before its predecessor ends, as restarted simulations write.
    on_truncated : {"drop", "error"}
        If the last frame of a file is incomplete, because a simulation still runs or was killed: leave it out with a
        note that names frame and byte, or raise an error.
    index : {"auto", "rebuild"}
        "auto" loads, extends or builds the frame index and stores it; "rebuild" does not load it. The same applies to
        the places of chunks of HDF5 files, and to the record of which frames were decoded.
    stored : bool
        False: nothing stored about the files is used, and nothing is stored.
    max_open_files : int, optional
        Largest number of files open at once; parts are opened when touched and closed again. By default a quarter of
        the number that the process may open, at least 64 and at most 4096.
    node_cache : kinema.cache.NodeCache or path, optional
        Keep blocks of the files in a folder of this node, and fetch them once for all its processes, workers included.
        Files that another node has published and keeps (`kinema.cache.publish(local=)`) are fetched to it as a whole.
        h5py and MDAnalysis read from the files themselves; a note says so if everything is read that way.

    units : mapping, optional
        Units of the files, if they state none or wrong ones: {"length": "nm", "time": "fs"}, also "velocity"
        ("nm ps-1") and "force" ("kJ mol-1 nm-1"). Units that are not given are the format's own; the unit of
        velocities follows from length and time.
    dt : float, ps, optional
        Time between neighbouring frames of a file, in place of the file's times. Each file begins at its own first
        time (DCD: dt times its first step, counted in strides), or if it has none, after the file before. With `t0`
        and overlap="all" nothing of the files' times is left: frames continue from file to file.
    time_offset : float, ps, optional
        Added to all times, as by MDAnalysis.
    t0 : float, ps, optional
        Time of the first frame, as --t0 of commands: all times are shifted by the same amount, which only a scan of the
        files can find. Not with `time_offset`.

        Both, and `dt`, change the times that Kinema returns; observables follow both, but not `dt`. The order of files
        follows from the stored times.

    absent : {"error", "nan", "hold"}
        Values of a quantity in frames for which it was not written: an error, NaN, or the values of the last frame
        before that has it. It makes no difference for formats that have all quantities in every frame, such as XTC and
        DCD. In TRR files, `Frame` and `Block` say what a frame has, without an error, and `kinema.convert` keeps that.

    **options
        Options that formats declare, listed below. An option that the format of the files lacks is refused.

    Raises
    ------
    FileNotFound, FileAccessError, UnsupportedFormatError, CorruptFileError, TruncatedFileError, ArgumentError

    Examples
    --------
    >>> traj = kn.open("md.xtc", topology="top.psf")
    >>> traj.n_frames, traj.n_atoms, traj.dt
    (196, 3341, 100.0)
    >>> whole = kn.open(["md1.xtc", "md2.xtc"], topology="top.psf")
    >>> whole.n_frames  # the parts overlap; frames that both have count once
    196
    """
    if is_atom_group(paths):
        raise ArgumentError("open takes file names or a Universe, found an AtomGroup; pass it as select= instead")
    patterns = file_names(paths)
    cache = None if node_cache is None else _chosen_cache(node_cache, patterns)
    files = GivenFiles(tuple(patterns), None if cache is None else cache.root)
    names = files.checked()
    for name in names[1:]:
        # it would be opened only when its frames are asked for
        if topology_named := _topology_by_name(name):
            raise ArgumentError(f"{topology_named}", at=name)
    policy = _index_policy(index, stored)
    for option, value, allowed in (
        ("overlap", overlap, OVERLAP),
        ("on_truncated", on_truncated, ON_TRUNCATED),
        ("axis", options.get("axis"), (None, "positions", "velocities", "forces")),
        ("absent", absent, ("error", "nan", "hold")),
    ):
        check_choice(option, value, allowed)
    if max_open_files is None:
        max_open_files = default_open_files()
    elif max_open_files < 1:
        raise ArgumentError(f"max_open_files must be at least 1, found {max_open_files}")
    factors = _unit_factors(units or {})
    _check_times(dt, time_offset, t0)
    known = None if topology is None else topology_of(topology, index=policy)
    hdf5 = h5md.H5mdOptions(
        **chosen(H5mdReading, options),
        units=None if units is None else dict(units),
        absent=cast('Literal["error", "nan", "hold"]', absent),
        stored=policy != "memory",
    )
    hdf5.check()
    core_format = check_stated(format)
    if (stated_format := _full_name(core_format)) in FORMATS:
        _check_options(names[0], FORMATS[stated_format], stated_format, options)
    others = _external_options(format, options, hdf5, known, timed=dt is not None)
    began = time.perf_counter()
    describe = functools.partial(h5md.describe, options=hdf5, index=policy)
    with _exchange_noted(known):
        if cache is not None and cache.block is None:
            first = _core.Trajectory(
                names[:1], format=core_format, index="memory", describe=describe, external=Describer(others)
            )
            from kinema.cache.trajectories import sized_for

            cache = sized_for(cache, first)
        core = _core.Trajectory(
            names,
            format=core_format,
            overlap=overlap,
            on_truncated=on_truncated,
            absent=absent,
            index=policy,
            max_open_files=max_open_files,
            units=factors,
            dt=dt,
            time_offset=time_offset,
            first_time=t0,
            describe=describe,
            external=Describer(others),
            write_index=write_index if stored else None,
            settled=_FILES_STAY.get(),
            node_cache=None if cache is None else cache.core,
        )
    opening = {"trajectory": time.perf_counter() - began}
    found = format_named(core.format)
    if found.through_mdanalysis:
        _refuse_exchanged(names[0], known)
    stated = _stated_of(hdf5, {"dt": dt, "time_offset": time_offset, "t0": t0}, units, options.get("reader_options"))
    _check_options(names[0], found, core.format, options)
    if known is None and (own_atoms := found.own_atoms(names[0], core.n_atoms)) is not None:
        known = Topology(own_atoms)
    if core.hdf5:
        own = h5md.atoms_source(names[0], hdf5) if known is None else None
        known = known if own is None else Topology(own)
        return Trajectory(core, known, hdf5=hdf5, opening=opening, stated=stated, given=files)
    if hdf5.axis is not None:
        _check_axis(names[0], core, hdf5.axis)
    if cache is not None and found.through_mdanalysis:
        emit([f"{names[0]}: is read by MDAnalysis, from the file itself: the node cache {cache.root} is not used"])
    return Trajectory(core, known, opening=opening, stated=stated, given=files)


@functools.cache
def open_arguments() -> tuple[str, ...]:
    """All arguments of `open`: its own, and the options that formats declare."""
    named = inspect.signature(open).parameters.values()
    return (*(one.name for one in named if one.kind is not one.VAR_KEYWORD), *OPEN_DEFAULTS)


def _external_options(
    format: str | None, options: Mapping[str, Any], hdf5: h5md.H5mdOptions, topology: Topology | None, *, timed: bool
) -> ExternalOptions:
    """The options for files that are read through MDAnalysis."""
    own = format is None or check_stated(format) != EXTERNAL or format.upper() == EXTERNAL.upper()
    return ExternalOptions(
        format=None if own else format,
        reader=dict(options.get("reader_options") or {}),
        units=hdf5.units,
        axis=hdf5.axis,
        absent=hdf5.absent,
        topology=topology,
        timed=timed,
    )


def _stated_of(
    hdf5: h5md.H5mdOptions,
    times: Mapping[str, float | None],
    units: Mapping[str, str] | None,
    reader: Mapping[str, Any] | None,
) -> dict[str, str]:
    """The user's statements about files, by option, in the order of records of runs."""
    order = dict.fromkeys(("particles", "dataset", "units", "axis", "absent", *names_of(H5mdReading)))
    defaults = h5md.H5mdOptions()
    stated = {name: str(getattr(hdf5, name)) for name in order if getattr(hdf5, name) != getattr(defaults, name)}
    stated |= {name: f"{value:g} ps" for name, value in times.items() if value is not None}
    if units:
        stated["units"] = ", ".join(f"{name} {unit}" for name, unit in sorted(units.items()))
    if reader:
        stated["reader_options"] = ", ".join(f"{name} {value!r}" for name, value in sorted(reader.items()))
    return stated


def _check_axis(path: str, core: _core.Trajectory, axis: str) -> None:
    """Raises ArgumentError if a file that is not HDF5 cannot have its frames chosen by this field."""
    if core.may_lack_fields:
        raise ArgumentError(
            f"{path}: axis is not for {core.format}, each frame of which says what it has; choose frames with frames="
        )
    if axis not in core.fields:
        vectors = ", ".join(name for name in core.fields if name in VECTOR_FIELDS)
        raise ArgumentError(f"{path}: {core.format} has no {axis} for axis=, only {vectors or 'nothing'}")


def _full_name(format: str | None) -> str:
    """The name of a format that was stated by its name, in upper or lower case, or by a suffix; "" for others."""
    wanted = (format or "").lstrip(".").upper()
    known = ((one["name"], {name.upper() for name in (one["name"], *one["extensions"])}) for one in _core.formats())
    return next((name for name, names in known if wanted in names), "")


def _check_options(path: str, format: Format, name: str, options: Mapping[str, Any]) -> None:
    """Raises ArgumentError for options of another format, unless they have their default values."""
    # an empty mapping states nothing; "axis" has an error of its own
    given = [one for one, default in OPEN_DEFAULTS.items() if one in options and options[one] not in (default, {})]
    wrong = [one for one in given if one not in ("axis", *names_of(format.reading))]
    if wrong:
        owner = next(one for one in FORMATS.values() if wrong[0] in names_of(one.reading))
        files = "files that are read through MDAnalysis" if owner.through_mdanalysis else f"{owner.name} files"
        raise ArgumentError(f"{path}: {', '.join(wrong)} is for {files}, and this is {name}")


@contextmanager
def files_stay() -> Iterator[None]:
    """Within the block, files opened with stored=False are read at once: nobody may change them while they are open.

    Opening other files waits until a later change would show in their times, 20 ms after the last change.
    """
    token = _FILES_STAY.set(True)
    try:
        yield
    finally:
        _FILES_STAY.reset(token)


def _chosen_cache(choice: NodeCacheChoice, names: Sequence[str]) -> NodeCache | None:
    """The cache; makes its folder if it is missing. Before that, raises FileNotFound for a file that does not exist."""
    from kinema.cache.markers import marker_path
    from kinema.cache.node_cache import node_cache_of

    for name in names if isinstance(choice, (str, os.PathLike)) else ():
        files = GivenFiles((name,))
        if files.patterns and not files.names():
            files.checked()
        elif not files.patterns and not os.path.lexists(name) and not os.path.lexists(marker_path(name)):
            raise FileNotFound("no such file; check the name", at=name)
    return node_cache_of(choice)


def _index_policy(index: str, stored: bool) -> str:
    """The core's word for both arguments. Raises ArgumentError if they exclude each other."""
    if index == "memory":
        raise ArgumentError(
            'index="memory" is stored=False now: nothing that was stored is used, and nothing is stored'
        )
    check_choice("index", index, INDEX)
    if stored:
        return index
    if index != "auto":
        raise ArgumentError(f"index={index!r} stores what it finds, which stored=False forbids; give one of them")
    return "memory"


# suffixes of files that describe atoms and have no positions
_TOPOLOGIES = (".psf", ".tpr", ".prmtop", ".parm7", ".top", ".itp")


@contextmanager
def _exchange_noted(topology: Topology | None) -> Iterator[None]:
    """Adds a hint to the error of a file that is not a trajectory: trajectory and topology may be exchanged."""
    try:
        yield
    except (CorruptFileError, UnsupportedFormatError) as error:
        place = {name: getattr(error, name) for name in ("path", "format", "frame", "offset")}
        if exchanged := _exchanged(topology):
            raise type(error)(f"{error}; {exchanged}", **place) from None
        if topology_named := _topology_by_name(error.path or ""):
            raise type(error)(f"{error}; {topology_named}", **place) from None
        raise


def _topology_by_name(path: str) -> str:
    """A hint if the file's name is a topology's name; else an empty text."""
    if os.path.splitext(path)[1].lower() in _TOPOLOGIES:
        return "by its name it is a topology: the trajectory is the first argument (-f), the topology the second (-s)"
    return ""


def _exchanged(topology: Topology | None) -> str:
    """A hint if the topology is a trajectory in a format of Kinema; else an empty text."""
    if topology is not None and os.path.isfile(topology.name):
        with suppress(Error):
            found = _core.Trajectory([topology.name], index="memory", describe=h5md.describe).format
            return (
                f"{topology.name}, given as topology, is a trajectory ({found}): trajectories are the first "
                "argument (-f), the topology is the second (-s)"
            )
    return ""


def _refuse_exchanged(path: str, topology: Topology | None) -> None:
    """Raises ArgumentError if a PDB file or the like is given as trajectory, and a trajectory as its topology."""
    if exchanged := _exchanged(topology):
        raise ArgumentError(f"is read through MDAnalysis alone, and {exchanged}", at=path)


def _unit_factors(units: Mapping[str, str]) -> dict[str, float]:
    """Factors to Kinema's units. Raises ArgumentError for unknown units, and for units of another dimension."""
    if not units:
        return {}
    from kinema.formats.h5md.units import Dimension, scale_to_kinema

    dimensions: tuple[Dimension, ...] = ("length", "time", "velocity", "force")
    for name in units:
        if name not in dimensions:
            raise ArgumentError(f"units= is given for {', '.join(dimensions)}, found {name!r}")
    return {name: scale_to_kinema(units[name], name) for name in dimensions if name in units}


def _check_times(dt: float | None, time_offset: float | None, t0: float | None) -> None:
    """Raises ArgumentError for invalid times, and for both `time_offset` and `t0`."""
    if dt is not None and not (math.isfinite(dt) and dt > 0):
        raise ArgumentError(f"dt must be above 0 ps, found {dt:g}")
    for name, value in (("time_offset", time_offset), ("t0", t0)):
        if value is not None and not math.isfinite(value):
            raise ArgumentError(f"{name} must be a number of ps, found {value:g}")
    if time_offset is not None and t0 is not None:
        raise ArgumentError("time_offset= and t0= cannot be combined; give one of them")


def _transforms_of(universe: Any) -> list[Transform | Callable[[Frame], Frame]]:
    """The changes that a Universe's trajectory makes to its frames, for `Trajectory.with_transform`.

    Raises ArgumentError for transformations of MDAnalysis and functions of time steps; the error names them.
    """
    reader = universe.trajectory
    parts = getattr(reader, "readers", None) or []
    if any(getattr(one, "_transforms", ()) for one in parts):
        raise ArgumentError(
            "the universe reads each of its files with transforms= of its own; load it with format=KinemaReader, the "
            "class, which takes all files as one trajectory"
        )
    added = tuple(getattr(reader, "transformations", None) or ())
    others = [one for one in added if not isinstance(one, Transform)]
    if others:
        named = [getattr(one, "__qualname__", type(one).__qualname__) for one in others]
        instead = dict.fromkeys(_INSTEAD.get(name, "kinema.transforms.function(f)") for name in named)
        raise ArgumentError(
            f"the universe's trajectory has transformations that work on its own time steps: {', '.join(named)}; "
            f"give {', '.join(instead)} to add_transformations in their place, or open the files themselves to read "
            "them untransformed"
        )
    return [*getattr(reader, "_transforms", ()), *added]
