"""The picture of the README: frames a second of one core by format and program, of the rows that `run.py` measured.

It measures nothing. Alone: `python benchmarks/picture.py results/bench-DATE.json picture.png`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

CASE = "3341 atoms, C-alpha"
# as they are called in the picture
FORMATS = {"xtc": "XTC", "trr": "TRR", "dcd": "DCD", "nc": "NetCDF", "h5md": "H5MD", "history": "DL_POLY\nHISTORY"}
PROGRAMS = {
    "kinema": ("Kinema", "#c8452d"),
    "mdanalysis": ("MDAnalysis", "#f2a65a"),
    "mdtraj": ("MDTraj", "#5b8e7d"),
    "chemfiles (reads only)": ("chemfiles (reads only)", "#8cb369"),
    "molly (reads only)": ("molly (reads only)", "#7b6d8d"),
    "cpptraj": ("cpptraj", "#3d5a80"),
    "warp-md": ("warp-md", "#98c1d9"),
}
_BEYOND = {"warp-md": "3341 atoms, C-alpha RMSD beside warp-md"}
_LIMIT = "plain read"


def draw(rows: list[dict[str, Any]], path: Path, machine: str) -> None:
    """Bars, a group a format; a mark where a plain read of the file's bytes is."""
    from matplotlib.figure import Figure

    rates = _rates(rows)
    formats = [kind for kind in FORMATS if any(kind == one for one, _ in rates)]
    programs = [name for name in PROGRAMS if any(name == one for _, one in rates)]
    figure = Figure(figsize=(9.5, 4.6), layout="constrained")
    ax = figure.subplots()
    left = 0.0
    ticks = []
    for kind in formats:
        there = [name for name in programs if (kind, name) in rates]
        for place, name in enumerate(there):
            rate = rates[kind, name]
            ax.bar(left + place, rate, 0.9, color=PROGRAMS[name][1], zorder=2)
            ax.text(left + place, rate * 0.94, _short(rate), ha="center", va="top", fontsize=7.5, color="white")
        if (kind, _LIMIT) in rates:
            ends = (left - 0.5, left + len(there) - 0.5)
            ax.hlines(rates[kind, _LIMIT], *ends, color="#222222", linestyle=":", linewidth=1.4, zorder=3)
        ticks.append(left + (len(there) - 1) / 2)
        left += len(there) + 1.2
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_ylim(0.4 * min(rates.values()), 2 * max(rates.values()))
    ax.set_xticks(ticks, [FORMATS[kind] for kind in formats])
    ax.tick_params(axis="x", length=0)
    ax.set_ylabel("frames/s, one core, CPU time")
    ax.grid(axis="y", alpha=0.25, zorder=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(f"RMSD of 214 C-alpha atoms in frames of 3341 atoms\n{machine}", fontsize=10)
    handles = [ax.bar(0, 0, color=colour, label=label) for label, colour in (PROGRAMS[name] for name in programs)]
    handles.append(ax.hlines([], 0, 0, color="#222222", linestyle=":", label="plain read of the file's bytes"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8.5)
    figure.savefig(path, dpi=130)


def _rates(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Frames a second by format and program."""
    rates = {}
    for row in rows:
        program = row.get("program", "")
        known = program in PROGRAMS or program == _LIMIT
        if known and row.get("unit") == "frames/s" and row["case"] == _BEYOND.get(program, CASE):
            rates[row["format"], program] = row["figure"]
    return rates


def _short(rate: float) -> str:
    if rate < 1000:
        return f"{rate:.0f}"
    return f"{rate / 1000:.0f}k" if rate >= 10_000 else f"{rate / 1000:.1f}k"


def machine_in_words(machine: dict[str, Any]) -> str:
    """The processor and the day."""
    return f"{machine['processor']}, {machine['date'][:10]}, Kinema {machine['kinema']}"


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    draw(found["rows"], Path(sys.argv[2]), machine_in_words(found["machine"]))
