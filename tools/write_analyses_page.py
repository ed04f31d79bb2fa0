"""Writes docs/analyses.md, the table of all registered analyses and a section for each, from their declarations."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from kinema.analysis.declaration import Argument, arguments_of, takes_select
from kinema.analysis.declared import DeclaredAnalysis
from kinema.analysis.registry import ANALYSES

_HEAD = """\
# Analyses

Written by `python tools/write_analyses_page.py` from the declarations of the classes of `kinema.analysis`; a test keeps
it current. Each analysis is a Python class and a command; `kinema COMMAND --help` lists the options that all commands
share: files, frames, workers, outputs. Lengths are in angstrom, times in ps, angles in degrees; `output_unit="nm"` and
`--output-unit nm` change the written values. Results of one row per frame can be written as they are computed (`out=`,
`-o values.h5`) and followed (`--follow`).

Tables and pictures count atoms from 1, as `--pairs` and PDB do: `atom` of RMSF, `1-100` of distances. Python counts
from 0, and so do saved arrays (`.npy` with its column `index`, `.npz`, columns of `.h5`).

Each quantity is a result under its own name, values alone: (frames,), or (frames, columns) if columns are given below;
`results.frames` and `results.time` are beside, and `results.values` has all columns. Classes of MDAnalysis keep their
shapes: `results.rmsd` of `RMSD` is (frames, 3) with frame and time before the values (more with groups), `results.rmsf`
of `RMSF` is (atoms,), `results.angles` of `Ramachandran` is (frames, residues, 2). `results.distances` of `Distances`
is (frames, pairs), as of `AtomicDistances`.

An analysis with any number of rows a frame has a result for each column, (rows,): atoms from 0, and numbers.
`results.counts` is the number of rows of each frame, and frame i has the rows `first_row[i]:first_row[i + 1]`.
`occupancy()` and `--occupancy FILE` tell how often each distinct row occurs, in how many runs of frames, and the means
of its numbers, by atoms or residues (`by=`, `--by`). The picture has a row for each, the most frequent on top.

`kinema.analysis.Features` puts several with one row per frame side by side, as columns for principal components,
clusters and models: [features.md](features.md). [add-a-kernel.md](add-a-kernel.md) shows how one is added.
"""


def analyses_page() -> str:
    """The page."""
    lines = [*_HEAD.splitlines(), ""]
    lines += ["| command | class | results | rows are |", "|---|---|---|---|"]
    for name, analysis in ANALYSES.items():
        keys = [f"`{one.name}`: {one.of}s" for one in getattr(analysis, "keys", ())]
        results = "; ".join([*keys, *(_quantity(one.name, one.unit, one.columns) for one in analysis.quantities)])
        lines.append(f"| [`kinema {name}`](#{name}) | `{analysis.__name__}` | {results} | {_rows(analysis)} |")
    for name, analysis in ANALYSES.items():
        lines += ["", f"## {name}", "", *_section(analysis)]
    return "\n".join(lines) + "\n"


def _rows(analysis: type[DeclaredAnalysis]) -> str:
    if analysis.is_list:
        return "any number a frame"
    return "frames" if analysis.is_per_frame else "not frames"


def _section(analysis: type[DeclaredAnalysis]) -> list[str]:
    documented = inspect.cleandoc(sys.modules[analysis.__module__].__doc__ or "").splitlines()
    lines = [analysis.summary, "", "```text", *documented, "```", "", f"Source: {analysis.reference}."]
    options = arguments_of(analysis)
    if not options:
        return lines
    lines += ["", "| option | argument | default | |", "|---|---|---|---|"]
    if takes_select(analysis):
        lines.append("| `--select`, or `-n` with `--group` | `select` | all atoms | Atoms. |")
    return lines + [_row(one) for one in options]


def _row(argument: Argument) -> str:
    flags = " or ".join(f"`{flag}`" for flag in (*argument.option.flag.split("/"), argument.option.by_group) if flag)
    of = ", ".join(f"`{one}`" for one in argument.choices)
    default = f"`{argument.written_default}`"
    if argument.kind == "flag" or argument.written_default is None:
        default = "must be given" if argument.required else "on" if argument.default is True else ""
    unit = f", {argument.option.unit}" if argument.option.unit else ""
    says = f"{argument.help.rstrip('.')}{unit}{f': {of}' if of else ''}."
    return f"| {flags} | `{argument.name}` | {default} | {says} |"


def _quantity(name: str, unit: str, columns: str) -> str:
    of_unit = "" if unit == "1" else f", {unit}"
    return f"`{name}`{of_unit}{f': {columns}' if columns else ''}"


if __name__ == "__main__":
    (Path(__file__).resolve().parent.parent / "docs/analyses.md").write_text(analyses_page(), encoding="utf-8")
