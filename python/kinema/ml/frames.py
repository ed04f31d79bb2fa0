"""`FrameDataset`: frames of trajectories of any format as samples, with labels joined by step and pairs with a lag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kinema import _core
from kinema.base.errors import ArgumentError
from kinema.base.resources import worker_count
from kinema.cache.counts import emit_troubles
from kinema.cache.node_cache import NodeCache, NodeCacheChoice, node_cache_of
from kinema.ml.batch import Batch, row_of
from kinema.ml.catalogue.catalogue import Catalogue
from kinema.ml.dataset import Dataset, Extents, Reading
from kinema.ml.fields.computed import ComputedFields
from kinema.ml.fields.labels import CatalogueNumbers, Table, atomic_numbers_of, label_values
from kinema.ml.pairs import lagged_positions
from kinema.ml.processes import ProcessLocal
from kinema.ml.sample_numbers import sample_numbers
from kinema.ml.samples import Transform, transformed
from kinema.ml.systems import CatalogueSystems, OpenTrajectories, System, systems_of
from kinema.model.frame import VECTOR_FIELDS, float_name
from kinema.model.selection.atoms import AtomChoice
from kinema.model.selection.frames import FrameSelection
from kinema.trajectory import UNITS, Trajectory

if TYPE_CHECKING:
    from kinema.analysis.declared import UnboundAnalysis

LAGGED = "_lagged"
"""Suffix of the fields of the second frame of a pair, as in "positions_lagged"."""

# in every batch
_STAMPS = ("cell", "step", "time")
_UNITS = {"velocities": "velocity", "forces": "force", "time": "time"}
_PLANNED = 64


class FrameDataset(Dataset):
    """Frames of trajectories as samples: one trajectory or many, of any format, of the same or of different systems.

    Values are the same as those of `Trajectory.read`, in angstrom, ps and kJ/(mol angstrom). A batch has the fields,
    "cell" (n, 3, 3) in angstrom, "step" (n,) and "time" (n,) in ps. If the systems have different numbers of atoms, the
    atoms of all samples are concatenated, as in torch_geometric: "positions" is (atoms of all samples, 3), "batch"
    (atoms of all samples,) int64 is the sample of each atom, and "ptr" (n + 1,) int64 is where each sample begins.

    Parameters
    ----------
    trajectories : Trajectory, path, what `kinema.ml.mdcath` lists, or a list of these; Catalogue
        A view has only its own frames. A trajectory of a catalogue is opened when it is first read, unless `select`,
        labels or `lag` need all trajectories at once.
    select : as `Trajectory.select`
        Applied to each trajectory.
    fields : str, analysis without its trajectory, or a list of these
        "positions", "velocities", "forces"; "atomic_numbers"; names of labels. Atomic numbers are added by themselves
        if the systems differ and all state their elements, but not for catalogues. A label is a column of `labels`,
        otherwise an observable of H5MD files, in the unit of the file. An analysis with one row per frame,
        `Dihedrals.of("protein", phi=True)`, is bound to each trajectory with its own atoms, and computed of the frames
        of a batch: (n, columns), the values of its `run` to the bit, under the name of its command, "dihedrals".
    transform : callable, optional
        Takes each batch and changes its arrays, or returns a mapping of other arrays.
    dtype : float32 or float64
        Type of positions, velocities and forces.
    labels : table, or a list with one table for each trajectory, optional
        A table is a mapping of columns, or a CSV file, with a column "step" and columns of values. The values are
        joined to the frames by step.
    missing : {"error", "drop"}
        If a label has no value for the step of a frame: raise an error, or leave the frame out.
    lag : float, ps, optional
        Samples are pairs of the frames at t and t + lag. Fields of the later frame are named "positions_lagged" and so
        on. No pair crosses a gap, a part or a trajectory.
    weights : (trajectories,) floats, optional
        Shares of the trajectories among the samples that `draw` draws; by default proportional to their numbers of
        samples.
    ragged : bool, optional
        Whether the atoms of all samples are concatenated; by default if the systems have different numbers of atoms.
    node_cache : kinema.cache.NodeCache or path, optional
        As for `kinema.open`; used for trajectories that were opened without a node cache.

    Raises
    ------
    ArgumentError, and as `kinema.open`

    Examples
    --------
    >>> frames = kinema.ml.FrameDataset("md.xtc")
    >>> frames.read([7, 0, 7])["positions"].shape
    (3, 3341, 3)
    """

    def __init__(
        self,
        trajectories: Any,
        select: AtomChoice = None,
        fields: str | UnboundAnalysis | Sequence[str | UnboundAnalysis] = "positions",
        *,
        transform: Transform | None = None,
        dtype: DTypeLike = "float32",
        labels: Table | Sequence[Table] | None = None,
        missing: str = "error",
        lag: float | None = None,
        weights: ArrayLike | None = None,
        ragged: bool | None = None,
        node_cache: NodeCacheChoice = None,
    ) -> None:
        names, unbound = _names_and_analyses(fields)
        self._dtype = float_name(dtype)
        self._transform = transform
        self._lag = lag
        self._vectors = tuple(name for name in names if name in VECTOR_FIELDS)
        wanted = tuple(dict.fromkeys(name for name in names if name not in (*VECTOR_FIELDS, *_STAMPS)))
        label_names = tuple(name for name in wanted if name != "atomic_numbers")
        cache = node_cache_of(node_cache)
        self._systems: Sequence[System]
        opened: list[tuple[System, Trajectory]] = []
        whole = select is None and lag is None and not unbound
        if isinstance(trajectories, Catalogue) and not (label_names or labels) and whole:
            self._systems = of_catalogue = CatalogueSystems(trajectories, self._vectors, cache and cache.sized(1))
            # whether the other trajectories can be opened is known when they are first read
            of_catalogue[0].snapshot.open()
            lengths, self._counts = of_catalogue.n_frames, of_catalogue.n_atoms
        else:
            opened = systems_of(trajectories, select, self._vectors, cache)
            self._systems = [system for system, _ in opened]
            lengths = np.array([len(system.frames) for system in self._systems], np.int64)
            self._counts = np.array([system.n_atoms for system in self._systems], np.int64)
        self._frame_bounds = _bounds(lengths)
        self._labels, there, self._label_units = label_values(opened, label_names, labels, missing)
        self._computed = ComputedFields(unbound, opened)
        twice = [name for name in self._computed.names if name in (*self._labels, *VECTOR_FIELDS, *_STAMPS)]
        if twice:
            raise ArgumentError(f"{twice[0]} is the name of a label and of an analysis; give the label another name")
        self._label_units |= self._computed.units
        few, many = self._counts.min(), self._counts.max()
        self._ragged = bool(few != many) if ragged is None else ragged
        if not self._ragged and few != many:
            raise ArgumentError(f"the trajectories have {few} to {many} atoms: leave out ragged=False")
        self._numbers: Sequence[NDArray[np.int64]] | None
        if isinstance(self._systems, CatalogueSystems):
            self._numbers = CatalogueNumbers(self._systems) if "atomic_numbers" in wanted else None
        else:
            self._numbers = atomic_numbers_of(
                opened,
                required="atomic_numbers" in wanted,
                wanted="atomic_numbers" in wanted or self._ragged,
            )
        self._set_samples([trajectory for _, trajectory in opened], there)
        self._node_cache = self._systems[0].node_cache
        self._weights = _checked_weights(weights, len(self._systems))
        self._opened: ProcessLocal[OpenTrajectories] = ProcessLocal(self._open)

    def _set_samples(self, trajectories: list[Any], there: NDArray[np.bool_] | None) -> None:
        """Sets the frame of each sample, and for pairs the second frame, as numbers among all frames."""
        self._first: NDArray[np.int64] | None = None
        self._second: NDArray[np.int64] | None = None
        if self._lag is not None:
            pairs = [lagged_positions(trajectory, self._lag) for trajectory in trajectories]
            offsets = self._frame_bounds[:-1]
            self._first = np.concatenate([begin + pair[0] for begin, pair in zip(offsets, pairs, strict=True)])
            self._second = np.concatenate([begin + pair[1] for begin, pair in zip(offsets, pairs, strict=True)])
            if not len(self._first):
                raise ArgumentError(f"{self._systems[0].name}: no two frames are {self._lag:g} ps apart within a part")
        if there is not None:
            first = np.arange(self._frame_bounds[-1]) if self._first is None else self._first
            kept = there[first] if self._second is None else there[first] & there[self._second]
            self._first = first[kept]
            self._second = None if self._second is None else self._second[kept]

    # -- what it is ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._frame_bounds[-1]) if self._first is None else len(self._first)

    @property
    def n_trajectories(self) -> int:
        """Number of trajectories."""
        return len(self._systems)

    @property
    def is_ragged(self) -> bool:
        """Whether the atoms of all samples are concatenated."""
        return self._ragged

    @property
    def bounds(self) -> NDArray[np.int64]:
        """(trajectories + 1,) number of the first sample of each trajectory, then the number of samples."""
        if self._first is None:
            return self._frame_bounds.copy()
        return np.searchsorted(self._first, self._frame_bounds).astype(np.int64)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the trajectories in errors: the first file, and the group of particles."""
        return tuple(system.name for system in self._systems)

    @property
    def fields(self) -> tuple[str, ...]:
        """Vectors of the atoms, in the order asked for."""
        return self._vectors

    @property
    def label_units(self) -> Mapping[str, str | None]:
        """Names of labels and of values of analyses, with their units; None if a file does not state the unit."""
        return self._label_units

    @property
    def units(self) -> Mapping[str, str | None]:
        """The unit of each array with one: vectors, cell, time, labels and values of analyses."""
        known = {name: UNITS[_UNITS.get(name, "length")] for name in (*self._vectors, "cell", "time")}
        return {**known, **self._label_units}

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the columns of values of analyses, for the first trajectory; atoms count from 0."""
        return self._computed.columns

    @property
    def has_pairs(self) -> bool:
        """Whether samples are pairs of frames."""
        return self._second is not None

    @property
    def n_atoms(self) -> NDArray[np.int64]:
        """(trajectories,) number of atoms of each trajectory."""
        return self._counts.copy()

    @property
    def atomic_numbers(self) -> tuple[NDArray[np.int64], ...] | None:
        """(atoms,) for each trajectory; None if they were not asked for or are not known."""
        return None if self._numbers is None else tuple(self._numbers)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, in the order of the trajectories; a file may appear more than once."""
        return tuple(path for system in self._systems for path in system.paths)

    def facts(self) -> list[str]:
        """Identifies the samples, together with the content of the files: frames, atoms, pairs and labels."""
        facts = [f"lag {self._lag}"]
        for system in self._systems:
            atoms = b"" if system.atoms is None else system.atoms.tobytes()
            frames = _digest(np.ascontiguousarray(system.frames.numbers()).tobytes())
            facts += [system.group, frames, _digest(atoms), *map(_digest, system.transforms)]
        for name, values in sorted(self._labels.items()):
            facts += [name, _digest(np.ascontiguousarray(values).tobytes())]
        if self._first is not None:
            facts.append(_digest(self._first.tobytes()))
        return facts + self._computed.facts()

    def numbering(self) -> list[str]:
        """The part of `facts` that decides which frames a sample number means: without atoms, transforms and labels."""
        facts = [f"lag {self._lag}"]
        for system in self._systems:
            facts += [system.group, _digest(np.ascontiguousarray(system.frames.numbers()).tobytes())]
        if self._first is not None:
            facts.append(_digest(self._first.tobytes()))
        return facts

    @property
    def times(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(n,) times of the first and the last frame of each sample, in ps, for splits."""
        if isinstance(self._systems, CatalogueSystems):
            each = [self._systems.times(number) for number in range(len(self._systems))]
        else:
            each = [system.times for system in self._systems if system.times is not None]
        times = np.concatenate(each)
        first = times if self._first is None else times[self._first]
        return first, first if self._second is None else times[self._second]

    @property
    def sample_bytes(self) -> int:
        frames = np.diff(self._frame_bounds)
        atoms = float(np.average(self._counts, weights=frames if frames.any() else None))
        item = 4 if self._dtype == "float32" else 8
        each = atoms * 3 * item * len(self._vectors) + 9 * 8 + 16
        each += sum(values[:1].nbytes for values in self._labels.values()) + self._computed.sample_bytes
        return int(each * (1 if self._lag is None else 2))

    @property
    def chunk_samples(self) -> int:
        opened = self._opened.get()
        coupled = 1
        for number, system in enumerate(self._systems[:_PLANNED]):
            if len(system.frames):
                core = opened.core(number)
                one = FrameSelection(range(system.frames[0], system.frames[0] + 1))
                coupled = max(coupled, _core.plan_frames(core, one, atoms=system.atoms, fields=self._vectors)[1])
        return coupled

    @property
    def rows_stand_alone(self) -> bool:
        return self._transform is None

    @property
    def weights(self) -> NDArray[np.float64]:
        """(n,) probability of drawing each sample; they sum to 1. Also fit for torch's WeightedRandomSampler."""
        lengths = np.diff(self.bounds)
        shares = lengths if self._weights is None else np.where(lengths > 0, self._weights, 0.0)
        shares = shares / shares.sum()
        each: NDArray[np.float64] = np.repeat(shares / np.maximum(lengths, 1), lengths)
        return each

    def draw(self, n: int, seed: int = 0) -> NDArray[np.int64]:
        """Draws samples with `weights`, with replacement.

        Parameters
        ----------
        n : int
            Number of samples to draw.
        seed : int

        Returns
        -------
        (n,) int64
        """
        edges = np.cumsum(self.weights)
        uniform = np.random.Generator(np.random.Philox(seed)).random(n)
        drawn: NDArray[np.int64] = np.searchsorted(edges, uniform * edges[-1], side="right").astype(np.int64)
        drawn[drawn == len(self)] = len(self) - 1
        return drawn

    def __repr__(self) -> str:
        pairs = "" if self._lag is None else f"pairs {self._lag:g} ps apart, "
        what = ", ".join((*self._vectors, *self._label_units))
        number = self.n_trajectories
        return f"<FrameDataset {self._systems[0].name}: {len(self)} samples of {number} trajectories, {pairs}{what}>"

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, ids: ArrayLike, *, out: Batch | None = None, workers: int | None = None) -> Batch:
        numbers = sample_numbers(ids, len(self))
        batch = (Batch() if out is None else out).start(numbers)
        frames = self._frames_of(numbers)
        system = np.searchsorted(self._frame_bounds, frames, side="right") - 1
        counts = self._counts[system]
        ptr = np.zeros(len(frames) + 1, np.int64)
        np.cumsum(counts, out=ptr[1:])
        vectors = {name: batch.scratch(name, (int(ptr[-1]), 3), self._dtype) for name in self._vectors}
        stamps = self._read(system, frames, vectors, worker_count(workers))
        computed = self._compute(system, frames, worker_count(workers))
        n = len(numbers)
        for suffix, part in (("", slice(0, n)), (LAGGED, slice(n, 2 * n)))[: 1 if self._second is None else 2]:
            atoms = slice(int(ptr[part.start]), int(ptr[part.stop]))
            for name, values in vectors.items():
                rows = values[atoms]
                batch.put(name + suffix, rows if self._ragged else rows.reshape(n, self._counts[0], 3))
            for name, stored in zip(_STAMPS, ("cells", "steps", "times"), strict=True):
                batch.put(name + suffix, stamps[stored][part])
            for name, labels in self._labels.items():
                batch.put(name + suffix, labels[frames[part]])
            for name, values in computed.items():
                batch.put(name + suffix, values[part])
        self._put_atoms(batch, system[:n], ptr[: n + 1])
        if self._node_cache is not None:
            emit_troubles()
        return transformed(batch, self._transform)

    def _frames_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers among the frames of all trajectories; for pairs, all first frames and then all second frames."""
        first: NDArray[np.int64] = numbers if self._first is None else self._first[numbers]
        return first if self._second is None else np.concatenate([first, self._second[numbers]])

    def _read(
        self, system: NDArray[np.intp], frames: NDArray[np.int64], out: Mapping[str, NDArray[Any]], workers: int
    ) -> dict[str, NDArray[Any]]:
        touched, which = np.unique(system, return_inverse=True)
        own = frames - self._frame_bounds[system]
        opened = self._opened.get()
        used = [opened.get(int(number)) for number in touched]
        for number, (one, _) in zip(touched, used, strict=True):
            here = system == number
            own[here] = one.numbers(own[here])
        return _core.read_frames(
            [core for _, core in used],
            which.astype(np.int64),
            own,
            atoms=[one.atoms for one, _ in used],
            fields=list(out),
            dtype=self._dtype,
            out=[values.reshape(-1) for values in out.values()],
            workers=workers,
        )

    def _compute(self, system: NDArray[np.intp], frames: NDArray[np.int64], workers: int) -> dict[str, NDArray[Any]]:
        """Values of analyses, one row a frame."""
        out = self._computed.room(len(frames))
        opened = self._opened.get()
        for number in np.unique(system).tolist() if out else ():
            one, core = opened.get(number)
            rows = np.flatnonzero(system == number)
            self._computed.compute(
                number, core, one.numbers(frames[rows] - self._frame_bounds[number]), out, rows, workers
            )
        return out

    def _put_atoms(self, batch: Batch, system: NDArray[np.intp], ptr: NDArray[np.int64]) -> None:
        if self._ragged:
            batch.put("batch", np.repeat(np.arange(len(system), dtype=np.int64), np.diff(ptr)))
            batch.put("ptr", ptr)
        if self._numbers is not None:
            parts = [self._numbers[number] for number in system]
            joined = np.concatenate(parts) if parts else np.zeros(0, np.int64)
            batch.put("atomic_numbers", joined if self._ragged else joined.reshape(len(system), self._counts[0]))

    def _sample(self, batch: Batch, place: int) -> dict[str, NDArray[Any]]:
        if not self._ragged:
            return super()._sample(batch, place)
        if "ptr" not in batch:
            raise ArgumentError("single samples need ptr, which the transform has taken out of the batch")
        begin, end = batch["ptr"][place : place + 2].tolist()
        own = {"batch": np.zeros(end - begin, np.int64), "ptr": np.array([0, end - begin], np.int64)}
        of_atoms = {*self._vectors, *(name + LAGGED for name in self._vectors), "atomic_numbers"}
        for name, array in batch.items():
            if name not in own:
                own[name] = array[begin:end] if name in of_atoms else row_of(name, array, place, batch.n_samples)
        return {name: own[name] for name in batch}

    def plan(self, ids: ArrayLike) -> Reading:
        frames = np.unique(self._frames_of(sample_numbers(ids, len(self))))
        system = np.searchsorted(self._frame_bounds, frames, side="right") - 1
        item = 4 if self._dtype == "float32" else 8
        opened = self._opened.get()
        useful = read = decoded = reads = 0
        for number in np.unique(system):
            one, core = opened.get(int(number))
            own = one.numbers(frames[system == number] - self._frame_bounds[number])
            chosen = FrameSelection(own.astype(np.uint64))
            found = _core.plan_frames(core, chosen, atoms=one.atoms, fields=self._vectors)
            frame_bytes = one.n_atoms * 3 * item * len(self._vectors)
            useful += len(own) * frame_bytes
            read += found[0]
            decoded += found[2] * frame_bytes
            reads += len(own)
            for atoms in self._computed.atoms(int(number)):
                # which are read and decoded a second time
                found = _core.plan_frames(core, chosen, atoms=atoms, fields=("positions",))
                read += found[0]
                decoded += found[2] * len(atoms) * 3 * 4
                reads += len(own)
        return Reading(useful, read, decoded, reads)

    @property
    def node_cache(self) -> NodeCache | None:
        return self._node_cache

    def extents(self, ids: NDArray[np.int64]) -> Extents:
        """See `Dataset.extents`; for HDF5 files, the first chunk of each frame."""
        frames = self._frames_of(ids)
        system = np.searchsorted(self._frame_bounds, frames, side="right") - 1
        own, opened = frames - self._frame_bounds[system], self._opened.get()
        files: dict[str, int] = {}
        rows = np.empty((len(frames), 3), np.int64)
        for number in np.unique(system):
            one, core = opened.get(int(number))
            here = np.flatnonzero(system == number)
            for place, frame in zip(here.tolist(), one.numbers(own[here]).tolist(), strict=True):
                path, _, offset, length = core.locate(frame)
                rows[place] = files.setdefault(path, len(files)), offset, length
        sample = np.arange(len(frames)) % max(1, len(ids))
        return Extents.from_runs(list(files), [(sample, rows[:, 0], rows[:, 1], rows[:, 2])])

    def _open(self) -> OpenTrajectories:
        return OpenTrajectories(self._systems)


def _names_and_analyses(fields: Any) -> tuple[tuple[str, ...], list[UnboundAnalysis]]:
    """Names of fields, and analyses. Raises ArgumentError for anything else."""
    given = [fields] if isinstance(fields, str) or not isinstance(fields, Sequence) else fields
    analyses = [one for one in given if not isinstance(one, str)]
    for one in analyses:
        if not callable(getattr(one, "bind", None)):
            found = type(one).__name__
            how = f"; {found}.of(...) is one" if hasattr(one, "trajectory") else ""
            raise ArgumentError(
                f"fields are names, or analyses with one row per frame without a trajectory{how}, found {found}"
            )
    return tuple(one for one in given if isinstance(one, str)), analyses


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _bounds(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _checked_weights(weights: ArrayLike | None, n: int) -> NDArray[np.float64] | None:
    if weights is None:
        return None
    array = np.asarray(weights, np.float64)
    if array.shape != (n,) or not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise ArgumentError(f"weights are {n} numbers from 0 up, one for each trajectory, found {weights!r}")
    return array
