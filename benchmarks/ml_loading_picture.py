"""The pictures of `ml_loading.py`: samples a second, and time that a training loop waits, by layout and order.

It measures nothing. Alone: `python benchmarks/ml_loading_picture.py results/ml_loading-warm.json picture.png`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# colour of each program and order
BARS = {
    ("NumPy, a sample at a time", "random"): ("NumPy, a sample at a time", "#7b6d8d"),
    ("NumPy, whole files", "files"): ("NumPy, whole files", "#b8a9c9"),
    ("h5py, a sample at a time", "random"): ("h5py, a sample at a time", "#3d5a80"),
    ("h5py, sorted", "random"): ("h5py, sorted selection", "#6b8cae"),
    ("h5py, whole files", "files"): ("h5py, whole files", "#98c1d9"),
    ("Kinema", "random"): ("Kinema, random", "#c8452d"),
    ("Kinema", "windowed"): ("Kinema, windows", "#f2a65a"),
}


def draw(rows: list[dict[str, Any]], path: Path, machine: str) -> None:
    """Two panels over the same layouts."""
    from matplotlib.figure import Figure

    alone = [row for row in rows if (row["program"], row["order"]) in BARS]
    layouts = list(dict.fromkeys(row["layout"] for row in alone))
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    rates = {_key(row): row["samples"] / row["seconds"] for row in alone if row["step"] == 0}
    # per batch of 256 samples, the first one of a run included
    waits = {_key(row): 256 * row["waited"] / row["samples"] for row in alone if row["step"] > 0}
    places = _bars(above, layouts, rates)
    _bars(below, layouts, waits)
    above.set_ylabel("samples/s, loop without work")
    below.set_ylabel("seconds waited a batch of 256,\nloop with a step of 0.133 s")
    below.axhline(0.133, color="#222222", linestyle=":", linewidth=1.2)
    names = [
        name.replace(", ", ",\n").replace("5 c", "5\nc").replace("Z ", "Z\n").replace("e a f", "e\na f")
        for name in layouts
    ]
    below.set_xticks(places, names)
    below.tick_params(axis="x", length=0)
    handles = [above.bar(0, 0, color=colour, label=label) for label, colour in BARS.values()]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(f"Samples of 8,691 float64 in batches of 256\n{machine}", fontsize=11)
    figure.savefig(path, dpi=130)


def _key(row: dict[str, Any]) -> tuple[str, tuple[str, str]]:
    return row["layout"], (row["program"], row["order"])


def _bars(ax: Any, layouts: list[str], values: dict[tuple[str, tuple[str, str]], float]) -> list[float]:
    """A group of bars a layout, on a logarithmic axis; the middles of the groups."""
    left, middles = 0.0, []
    for layout in layouts:
        there = [kind for kind in BARS if (layout, kind) in values]
        for place, kind in enumerate(there):
            value = values[layout, kind]
            ax.bar(left + place, value, 0.9, color=BARS[kind][1], zorder=2)
            ax.text(left + place, value * 1.08, _short(value), ha="center", va="bottom", fontsize=6.5)
        middles.append(left + (len(there) - 1) / 2)
        left += len(there) + 1.2
    ax.set_yscale("log")
    ax.set_ylim(min(values.values()) / 2, 3 * max(values.values()))
    ax.grid(axis="y", alpha=0.25, zorder=0)
    ax.spines[["top", "right"]].set_visible(False)
    return middles


def _short(value: float) -> str:
    """Two digits, as many as fit over a bar."""
    for limit, factor, letter in ((1e3, 1e-3, "k"), (1e-3, 1.0, "")):
        if value >= limit:
            return f"{float(f'{value:.2g}') * factor:g}{letter}"
    return f"{1e6 * value:.0f}µ"


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]), "from " + Path(sys.argv[1]).name)
