"""The picture of `ml_loading.py`: time of an epoch and time of its I/O, by layout and order.

It measures nothing. Alone: `python benchmarks/ml_loading_picture.py results/ml_loading-warm.json picture.png`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# samples of the epoch that is drawn: a file of the publication
EPOCH, BATCH = 8_000, 256
# colour of each program and order
BARS = {
    ("NumPy, a sample at a time", "random"): ("NumPy, a sample at a time", "#7b6d8d"),
    ("NumPy, whole files", "files"): ("NumPy, whole files", "#b8a9c9"),
    ("h5py, a sample at a time", "random"): ("h5py, a sample at a time", "#3d5a80"),
    ("h5py, sorted", "random"): ("h5py, sorted selection", "#6b8cae"),
    ("h5py, whole files", "files"): ("h5py, whole files", "#98c1d9"),
    ("Kinema", "random"): ("Kinema, random", "#c8452d"),
    ("zarr, sorted", "random"): ("zarr, sorted selection", "#5a8f69"),
    ("MDAnalysis", "random"): ("MDAnalysis, frames", "#d9a5b3"),
    ("MDTraj", "random"): ("MDTraj, frames", "#a0616a"),
    ("Kinema", "windowed"): ("Kinema, windows", "#f2a65a"),
}


def draw(rows: list[dict[str, Any]], path: Path, machine: str) -> None:
    """Two panels over the same layouts: time of an epoch with a step; of its I/O, with a step and without."""
    from matplotlib.figure import Figure

    alone = [row for row in rows if (row["program"], row["order"]) in BARS and row["trainers"] == 1]
    layouts = list(dict.fromkeys(row["layout"] for row in alone))
    figure = Figure(figsize=(12, 8), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    (step,) = {row["step"] for row in alone if row["step"]}
    works = EPOCH / BATCH * step
    waits = {_key(row): _waited_of_epoch(row) for row in alone if row["step"]}
    alone_io = {_key(row): _waited_of_epoch(row) for row in alone if not row["step"]}
    epochs = {key: works + waited for key, waited in waits.items()}
    places = _bars(above, layouts, epochs, 1.0, epochs)
    _bars(below, layouts, alone_io, 0.35, epochs)
    _bars(below, layouts, waits, 1.0, epochs, labels=False)
    above.set_ylabel(f"epoch, s\n(with {step} s a batch)")
    below.set_ylabel(f"its I/O, s (pale: alone,\nsolid: not hidden by {step} s a batch)")
    for ax in (above, below):
        ax.axhline(works, color="#222222", linestyle=":", linewidth=1.2)
    above.set_ylim(works / 2)
    above.text(0.002, works * 0.95, "computing alone", ha="left", va="top", fontsize=8, transform=_right(above))
    names = [
        name.replace(", ", ",\n").replace(" chunks of", "\nchunks\nof").replace("NPZ ", "NPZ\n") for name in layouts
    ]
    names = [name.replace("a sample a file", "a sample\na file") for name in names]
    below.set_xticks(places, names)
    for ax in (above, below):
        ax.tick_params(axis="x", length=0)
    there = {_key(row)[1] for row in alone}
    handles = [above.bar(0, 0, color=colour, label=label) for kind, (label, colour) in BARS.items() if kind in there]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(f"An epoch of {EPOCH:,} samples of 8,691 float64 in batches of {BATCH}\n{machine}", fontsize=11)
    figure.savefig(path, dpi=130)


def _waited_of_epoch(row: dict[str, Any]) -> float:
    """Seconds: the first batch once, the others as often as an epoch has them."""
    others = row["samples"] - BATCH
    if others <= 0:
        return float(EPOCH * row["waited"] / row["samples"])
    return float(row["waited_first"] + (row["waited"] - row["waited_first"]) * (EPOCH - BATCH) / others)


def _right(ax: Any) -> Any:
    """Across as parts of the panel, upwards as data."""
    return ax.get_yaxis_transform()


def _key(row: dict[str, Any]) -> tuple[str, tuple[str, str]]:
    return row["layout"], (row["program"], row["order"])


Values = dict[tuple[str, tuple[str, str]], float]


def _bars(
    ax: Any, layouts: list[str], values: Values, alpha: float, all_bars: Values, labels: bool = True
) -> list[float]:
    """A group of bars a layout, on a logarithmic axis; the middles of the groups."""
    left, middles = 0.0, []
    for layout in layouts:
        there = [kind for kind in BARS if (layout, kind) in all_bars]
        for place, kind in enumerate(there):
            value = values[layout, kind]
            ax.bar(left + place, value, 0.9, color=BARS[kind][1], alpha=alpha, zorder=2)
            if labels:
                ax.text(left + place, value * 1.08, _short(value), ha="center", va="bottom", fontsize=6.5)
        middles.append(left + (len(there) - 1) / 2)
        left += len(there) + 1.2
    ax.set_yscale("log")
    ax.margins(y=0.12)
    ax.grid(axis="y", alpha=0.25, zorder=0)
    ax.spines[["top", "right"]].set_visible(False)
    return middles


def _short(value: float) -> str:
    """Two digits, as many as fit over a bar."""
    if value >= 100:
        return f"{float(f'{value:.2g}'):,.0f}"
    return f"{value:.2g}" if value >= 0.001 else f"{value:.0e}"


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]), "from " + Path(sys.argv[1]).name)
