"""`histogram2d`: the joint histogram of two quantities of a run, as counts, probability and free energy."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from kinema._core import __version__
from kinema.base.choices import check_choice, positive_number
from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.base.notes import returns_notes
from kinema.base.printable import counted, shortest
from kinema.statistics.bins import (
    count_frames,
    filled_range,
    moved_into_range,
    numbers_of_bins,
    periods_of,
    range_of,
    refuse_not_finite,
)
from kinema.statistics.series import FrameSeries, join_series
from kinema.statistics.sources import SeriesSource, one_series
from kinema.storage.output_checks import check_not_input, check_plot_path
from kinema.storage.output_file import write_whole
from kinema.storage.provenance import Input, Provenance
from kinema.storage.tables import NO_UNIT, Column, Table, check_writable, write_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

QuantityOfBins = Literal["free-energy", "probability", "counts"]
QUANTITIES_OF_BINS: tuple[QuantityOfBins, ...] = get_args(QuantityOfBins)
#: files other than tables that `Histogram2D.save` writes
OTHER_FORMATS = (".npz", ".h5")

# molar gas constant, kJ/mol/K: exact since the SI of 2019
_GAS_CONSTANT = 8.31446261815324e-3


@dataclass(frozen=True, eq=False, repr=False)
class Histogram2D:
    """A histogram of two quantities.

    Attributes
    ----------
    counts : (x bins, y bins) int64
        Frames in each bin.
    probability : (x bins, y bins) float64
        Share of each bin of the frames in all bins, or of their weights. It adds up to 1.
    x_edges, y_edges : (bins + 1,) float64
        Bins are half open, the last one closed, as in numpy.histogram2d.
    x, y : FrameSeries
        The quantities, at the frames that were used.
    temperature : float or None
        K.
    n_outside : int
        Frames outside of the edges.
    quantity : {"free-energy", "probability", "counts"}
        The quantity that `plot` draws.
    parameters : mapping of str to str
        The arguments, in words.
    inputs : tuple of Input
        The files that the values depend on.
    notes : tuple of str
    """

    counts: NDArray[np.int64]
    probability: NDArray[np.float64]
    x_edges: NDArray[np.float64]
    y_edges: NDArray[np.float64]
    x: FrameSeries
    y: FrameSeries
    temperature: float | None
    n_outside: int
    quantity: QuantityOfBins
    parameters: dict[str, str]
    inputs: tuple[Input, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def free_energy(self) -> NDArray[np.float64]:
        """(x bins, y bins) -RT ln(probability), kJ/mol, with 0 as its least value; nan in empty bins.

        Raises ArgumentError without a temperature.
        """
        if self.temperature is None:
            raise ArgumentError("a free energy needs temperature=, in K")
        with np.errstate(divide="ignore"):
            found = -_GAS_CONSTANT * self.temperature * np.log(self.probability / self.probability.max())
        found[self.probability == 0] = math.nan
        # -0.0 in the most probable bin
        return np.asarray(found + 0.0)

    @property
    def n_frames(self) -> int:
        """Frames in the bins."""
        return int(self.counts.sum())

    def table(self) -> Table:
        """A row for each bin: its centre, counts, probability, and the free energy if there is a temperature."""
        centres = [(edges[1:] + edges[:-1]) / 2 for edges in self._edges]
        places = np.meshgrid(*centres, indexing="ij")
        names = [self.x.name, self.y.name]
        if names[0] == names[1]:
            names = [f"{name} {axis}" for name, axis in zip(names, "xy", strict=True)]
        axes = [
            Column(name, place.ravel(), one.unit or NO_UNIT)
            for name, place, one in zip(names, places, (self.x, self.y), strict=True)
        ]
        values = [
            Column("counts", self.counts.ravel(), NO_UNIT),
            Column("probability", self.probability.ravel(), NO_UNIT),
        ]
        if self.temperature is not None:
            values.append(Column("free_energy", self.free_energy.ravel(), "kJ/mol"))
        return Table(self._title, (*axes, *values), x=names[0])

    @property
    def _title(self) -> str:
        return f"{self.y.name} over {self.x.name}"

    def facts(self) -> dict[str, Any]:
        """Numbers of the histogram, for programs: frames, bins, the most probable bin."""
        place = np.unravel_index(int(np.argmax(self.probability)), self.counts.shape)
        centres = [
            (float(edges[i]) + float(edges[i + 1])) / 2 for edges, i in zip(self._edges, map(int, place), strict=True)
        ]
        found: dict[str, Any] = {
            "x": self.x.label,
            "y": self.y.label,
            "bins": list(self.counts.shape),
            "frames": self.n_frames,
            "frames_outside": self.n_outside,
            "bins_with_frames": int(np.sum(self.counts > 0)),
            "most_probable": centres,
            "probability": float(self.probability.max()),
        }
        if self.temperature is not None:
            found["temperature"] = self.temperature
            found["highest_free_energy"] = float(np.nanmax(self.free_energy))
        return found

    def lines(self) -> list[str]:
        """The same in words."""
        found = self.facts()
        first, second = found["bins"]
        x, y = found["most_probable"]
        lines = [
            f"{self.y.label} over {self.x.label}: {counted(self.n_frames, 'frame')} in "
            f"{found['bins_with_frames']:,} of {first:,} x {second:,} bins",
            f"most probable: {x:.5g}, {y:.5g}, with {found['probability']:.3g} of the frames",
        ]
        if self.temperature is not None:
            lines.append(f"free energy at {self.temperature:g} K: up to {found['highest_free_energy']:.4g} kJ/mol")
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return f"<Histogram2D {self._title}: {counted(self.n_frames, 'frame')}>"

    @property
    def _edges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.x_edges, self.y_edges

    def provenance(self, command: str | None = None) -> Provenance:
        """The origin of the numbers: version, call, files with fingerprints."""
        arguments = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        return Provenance(
            version=__version__,
            call=command or f"kinema.statistics.histogram2d({arguments})",
            inputs=self.inputs,
            frames=counted(self.n_frames + self.n_outside, "frame"),
            parameters={} if command is None else self.parameters,
            notes=self.notes,
        )

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        command: str | None = None,
        overwrite: bool = False,
    ) -> None:
        """Writes a table with a row for each bin, or the arrays as .npz or .h5.

        The arrays are `counts`, `probability`, `free_energy` (kJ/mol, if there is a temperature), `x_edges`, `y_edges`,
        and `provenance`.

        Raises ArgumentError for an input and for a file that Kinema did not write, without `overwrite`;
        UnsupportedFormatError for another suffix.
        """
        check_histogram_path(path, format, self.inputs, overwrite=overwrite)
        suffix = os.path.splitext(os.fspath(path))[1].lower()
        if format is None and suffix in OTHER_FORMATS:
            write = self._write_npz if suffix == ".npz" else self._write_hdf5
            write(path, self.provenance(command))
            return
        write_table(path, self.table(), self.provenance(command), format=format, overwrite=overwrite)

    def _arrays(self) -> dict[str, tuple[NDArray[Any], str]]:
        """The arrays with their units."""
        energy = {} if self.temperature is None else {"free_energy": (self.free_energy, "kJ/mol")}
        return {
            "counts": (self.counts, NO_UNIT),
            "probability": (self.probability, NO_UNIT),
            **energy,
            "x_edges": (self.x_edges, self.x.unit or NO_UNIT),
            "y_edges": (self.y_edges, self.y.unit or NO_UNIT),
        }

    def _write_npz(self, path: str | os.PathLike[str], provenance: Provenance) -> None:
        arrays: dict[str, Any] = {name: values for name, (values, _) in self._arrays().items()}
        arrays["provenance"] = np.array(provenance.lines())
        write_whole(path, lambda file: np.savez(file, **arrays))

    def _write_hdf5(self, path: str | os.PathLike[str], provenance: Provenance) -> None:
        import io

        from kinema.storage.hdf5.storage import write_results

        content = io.BytesIO()
        attributes = {"format": "kinema results", "version": 1, "kinema": __version__, "complete": True}
        attributes["provenance"] = provenance.json()
        arrays = {name: (values, {"unit": unit}) for name, (values, unit) in self._arrays().items()}
        write_results(content, attributes, arrays, ordered=False)
        write_whole(path, lambda file: file.write(content.getbuffer()))

    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        quantity: QuantityOfBins | None = None,
        command: str | None = None,
        overwrite: bool = False,
    ) -> Figure:
        """A map of the free energy, the probability or the counts; empty bins stay white.

        It is written to `path` (.png, .pdf, .svg) if one is given. By default it shows `self.quantity`.
        """
        from kinema.statistics.picture import draw_histogram

        if path is not None:
            check_not_input(path, *(one.path for one in self.inputs))
            check_plot_path(path, overwrite=overwrite)
        wanted = self.quantity if quantity is None else quantity
        check_choice("quantity", wanted, QUANTITIES_OF_BINS)
        figure = draw_histogram(self, wanted)
        if path is not None:
            from kinema.report.figures.style import write

            write(figure, path, self.provenance(command).lines())
        return figure


def check_histogram_path(
    path: str | os.PathLike[str], format: str | None, inputs: Sequence[Input] = (), *, overwrite: bool = False
) -> None:
    """Checks, before the values are computed, that a histogram can be written to `path`."""
    check_not_input(path, *(one.path for one in inputs))
    check_writable(path, format, overwrite=overwrite, more=OTHER_FORMATS)


@returns_notes
def histogram2d(
    x: SeriesSource,
    y: SeriesSource,
    *,
    bins: int | tuple[int, int] = 50,
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
    periodic: float | tuple[float | None, float | None] | None = None,
    weights: SeriesSource | None = None,
    temperature: float | None = None,
    quantity: QuantityOfBins = "free-energy",
) -> Histogram2D:
    """The joint histogram of two quantities, and the free energy -RT ln P of its bins.

    The quantities may be of different runs over the same trajectory: values of one frame belong together, by the number
    of the frame, or by its time where a file has no numbers. Frames that only one of them has are left out, with a
    note. Arrays are joined by their order.

    Parameters
    ----------
    x, y : Analysis, path, or (frames,) array_like
        An analysis after `run` with one quantity, or (analysis, "column"); a file of results with one quantity, or
        "FILE:COLUMN"; values.
    bins : int or (int, int)
        Number of bins along x and y; 2^32 altogether at most.
    x_range, y_range : (float, float), optional
        First and last edge; by default the least and the largest value, and a whole period about 0 for periodic
        values. Frames outside are not counted, with a note.
    periodic : float or (float, float), optional
        Periods of both, or of x and y: 360 for dihedral angles, 0 for none; None: as the quantity says. Periodic values
        are moved by whole periods into the range.
    weights : as x, optional
        Weights of the frames, from 0 on: of a biased run, exp(bias / RT).
    temperature : float, optional
        K, for the free energy.
    quantity : {"free-energy", "probability", "counts"}
        The quantity that `plot` draws by default; a free energy needs a temperature.

    Returns
    -------
    Histogram2D

    Raises
    ------
    ArgumentError
        Without a temperature for a free energy; for values or weights that are not finite, naming the frame; for
        ranges that are empty or not finite, or wider than a period; without bins or frames in them.
    MemoryLimitError
        If the bins do not fit into memory.

    Examples
    --------
    >>> rmsd = kn.analysis.RMSD(traj, select="name CA").run()
    >>> rgyr = kn.analysis.RadiusOfGyration(traj, select="name CA", weights=None).run()
    >>> surface = kn.histogram2d(rmsd, rgyr, bins=20, temperature=300.0)
    >>> surface.free_energy.shape, float(np.nanmin(surface.free_energy))
    ((20, 20), 0.0)
    """
    if temperature is not None:
        positive_number("temperature", temperature)
    check_choice("quantity", quantity, QUANTITIES_OF_BINS)
    if quantity == "free-energy" and temperature is None:
        raise ArgumentError(
            "a free energy needs temperature= in K; give it, or quantity='probability' for a histogram without one"
        )
    numbers = numbers_of_bins(bins)
    ranges = [range_of(name, one) for name, one in (("x_range", x_range), ("y_range", y_range))]
    periods = periods_of(periodic)
    given = [one_series(x, "x"), one_series(y, "y")]
    given += [] if weights is None else [one_series(weights, "weights")]
    joined, notes = join_series(given)
    for one in joined:
        refuse_not_finite(one)
    for place, axis in enumerate("xy"):
        period = joined[place].period if periods[place] is None else float(periods[place] or 0.0)
        ranges[place] = filled_range(axis, joined[place].values, ranges[place], period)
        joined[place] = moved_into_range(joined[place], period, ranges[place])
    edges = [np.linspace(*ends, number + 1) for ends, number in zip(ranges, numbers, strict=True) if ends is not None]
    counts, weighed, n_outside = count_frames(joined, edges)
    total = float(weighed.sum())
    if not total > 0:
        raise ArgumentError(
            "no frame is in the bins; widen x_range= and y_range=" if not counts.any() else "all weights are 0"
        )
    if n_outside:
        number = len(joined[0].values)
        notes.append(f"{n_outside:,} of {counted(number, 'frame')} lie outside of the bins and are not counted")
    parameters = {
        "x": given[0].title, "y": given[1].title, "bins": f"{numbers[0]} x {numbers[1]}",
        "x_range": _in_words(edges[0]), "y_range": _in_words(edges[1]),
        **({} if weights is None else {"weights": given[2].title}),
        **({} if temperature is None else {"temperature": f"{temperature:g} K"}),
    }  # fmt: skip
    return Histogram2D(
        counts=counts,
        probability=weighed / total,
        x_edges=edges[0],
        y_edges=edges[1],
        x=joined[0],
        y=joined[1],
        temperature=None if temperature is None else float(temperature),
        n_outside=n_outside,
        quantity=quantity,
        parameters=parameters,
        inputs=tuple(dict.fromkeys(item for one in given for item in one.inputs)),
        notes=tuple(notes),
    )


def _in_words(edges: NDArray[np.float64]) -> str:
    return f"{shortest(float(edges[0]))} to {shortest(float(edges[-1]))}"
