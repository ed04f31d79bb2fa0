"""The page of the book: a section for each publication, with commands, findings, pictures and verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from book.items import Check, Item, Plan
from book.running import Runs

#: parts of the publications without a section
LEFT_OUT = {
    "masked arrays in MDAnalysis' Timestep": "`select=` reads the subset of atoms (2021, Figs 3 and 4)",
    "RDMA": "it needs a network that has it; the laboratory's links have a bandwidth and a latency",
    "Dask's own multiprocessing scheduler": "the runner `processes` and Dask's distributed scheduler are in its place",
    "interference of MPI and I/O": "a hypothesis of 2020; the laboratory's shared link shows what it would do",
    "MuMMI, Flux and DLIO": "`kinema demo --case mummi` makes such data, and `kinema ml bench` reads as they do",
    "MMTK's NetCDF, pytraj, HiMach, `.pcz` files": "other programs and their files, which the publications only name",
}


@dataclass(frozen=True)
class Verdict:
    """An item of the book, redone: sentences on each check, whether all agree, and what is missing."""

    agrees: bool | None
    sentences: Sequence[str]
    missing: str = ""


def judge(item: Item, runs: Runs) -> Verdict:
    """Compares the numbers of an experiment with the findings of the publication."""
    sentences, all_agree = [], True
    for check in item.checks:
        try:
            above, below = (runs.numbers_of(item.experiment, one) for one in check.ratio)
        except (LookupError, OSError, ValueError) as error:
            return Verdict(None, sentences, f"{check.says}: not to be judged, {error}")
        if below == 0:
            return Verdict(None, sentences, f"{check.says}: not to be judged, nothing was measured")
        agrees = _agrees(check, above / below)
        all_agree &= agrees
        sentences.append(f"{check.says}: {'agrees' if agrees else 'does not agree'}, ratio {above / below:.3g}")
    return Verdict(all_agree if item.checks else None, sentences)


def _agrees(check: Check, ratio: float) -> bool:
    return (check.below is None or ratio < check.below) and (check.above is None or ratio > check.above)


def write_page(plan: Plan, runs: Runs, page: Path, pictures: Path, size: str, notify: Callable[[str], None]) -> int:
    """Completes the experiments, draws the pictures and writes the page. Returns the number of items that failed."""
    pictures.mkdir(parents=True, exist_ok=True)
    lines = [
        "# The publications' figures",
        "",
        "`make book` writes this page. Each section is a figure or a table of one of the five publications: the",
        "commands that redo it, what theirs shows, what ours shows, whether they agree, and what Kinema does about it.",
        "*Measured* sections ran on the machine that wrote the page, at a small size: they show order and sign, not",
        "the times of a cluster. *Emulated* sections ran in the virtual time of [the laboratory](laboratory.md).",
        "",
    ]
    n_failed = 0
    for paper, title in plan.papers.items():
        lines += [f"## {title}", ""]
        for item in (one for one in plan.items if one.paper == paper):
            section, failed = _section(item, runs, page, pictures)
            notify(f"{item.key}: {failed or 'done'}")
            lines += section
            n_failed += bool(failed)
    lines += ["## Left out", "", "| part | instead |", "|---|---|"]
    lines += [f"| {part} | {instead} |" for part, instead in LEFT_OUT.items()]
    if size != "smallest":
        lines += ["", f"Numbers of this size: {', '.join(f'{name} {value}' for name, value in runs.numbers.items())}."]
    page.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return n_failed


def _reduce(picture: Path) -> None:
    """Stores a picture with 64 colours, in a third of its bytes: all of them lie in the repository."""
    from PIL import Image

    with Image.open(picture) as image:
        image.convert("RGB").quantize(64).save(picture, optimize=True)


def _section(item: Item, runs: Runs, page: Path, pictures: Path) -> tuple[list[str], str]:
    """The lines of an item, and why it failed, or ""."""
    where = runs.environment_of(item.experiment)
    how = f"{item.kind}, in the environment of `{where}`" if where else item.kind
    lines = [f"### {item.number}: {item.title}", "", f"*{how}.* Theirs: {item.theirs}", ""]
    if item.kind in ("described", "not here"):
        return [*lines, *([f"Not redone: {item.why}.", ""] if item.why else [])], ""
    if item.experiment and (why := runs.missing(item.experiment)):
        return [*lines, f"Not redone: {why}.", ""], ""
    failed, commands = "", []
    if item.experiment:
        done = runs.complete(item.experiment)
        failed, commands = done.failed, [*runs.shown(item.experiment)]
    for command in filter(None, (item.figure, item.table)):
        if failed:
            break
        picture = pictures / f"{item.key}.png"
        printed, failed = runs.show(command, item.experiment, picture)
        commands.append(command.replace("{picture}", picture.name).replace("{out}", item.experiment))
        if command == item.table:
            # its title is the section's
            printed = printed.replace(f"{runs.folder}/", "")
            lines += [*(line for line in printed.rstrip().splitlines() if not line.startswith("#")), ""]
        elif not failed:
            _reduce(picture)
            lines += [f"![{item.title}]({picture.relative_to(page.parent).as_posix()})", ""]
    if commands:
        lines += ["```", *(f"kinema {command}" for command in commands), "```", ""]
    if failed:
        return [*lines, f"Gap: {failed}", ""], failed
    verdict = judge(item, runs)
    lines += [f"- {sentence}" for sentence in verdict.sentences]
    lines += [f"- {verdict.missing}"] if verdict.missing else []
    lines += [f"- Kinema: {item.better}"] if item.better else []
    return [*lines, ""], ""
