"""The items of the book and the experiments that they need, as `items.toml` declares them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KINDS = ("measured", "emulated", "published", "described", "not here")
"""measured: runs on this machine; emulated: the laboratory's virtual time; published: drawn from the authors' tables;
described: nothing to redo; not here: cannot be redone here, `why` says why."""

#: environments of their own, and how each is made
ENVIRONMENTS = {"hdf5-mpi": "make test-hdf5-mpi"}


@dataclass(frozen=True)
class Experiment:
    """Commands that make data or results, run once for all items that use them.

    `commands` are words for `kinema`, with {out} for the experiment's folder, {NAME} for the folder of another
    experiment, and the numbers of the chosen size. `environment` is a name of ENVIRONMENTS, if `kinema` needs other
    packages; `report`s that are drawn from the results need none.
    """

    name: str
    commands: Sequence[str]
    needs: Sequence[str] = ()
    environment: str = ""


@dataclass(frozen=True)
class Check:
    """A comparison of ours with a finding: the ratio of two numbers, and on which side of a bound it is.

    Each of `ratio` is a mapping. With "quantity": the mean of a quantity over reports of the item's experiment whose
    `extra` has the other values. With "file": a number of a JSON file in the folder of the experiment, at the keys
    "at", with dots between.
    """

    says: str
    ratio: Sequence[Mapping[str, Any]]
    below: float | None = None
    above: float | None = None


@dataclass(frozen=True)
class Item:
    """A figure or a table of a publication.

    Attributes
    ----------
    paper, number, title : str
    kind : one of KINDS
    theirs : what the publication shows
    experiment : name of the experiment that it is made from, or ""
    figure : words for `kinema` that draw it, with {picture}
    table : words for `kinema` that print it
    checks : findings of the publication that ours are compared with
    better : what Kinema does about it
    why : why it cannot be redone, for "not here"
    """

    paper: str
    number: str
    title: str
    kind: str
    theirs: str
    experiment: str = ""
    figure: str = ""
    table: str = ""
    checks: Sequence[Check] = ()
    better: str = ""
    why: str = ""

    @property
    def key(self) -> str:
        """Its name in file names."""
        return f"{self.paper}-{self.number}".lower().replace(" ", "-").replace("/", "")


@dataclass(frozen=True)
class Plan:
    """All of the book."""

    sizes: Mapping[str, Mapping[str, Any]]
    experiments: Mapping[str, Experiment]
    items: Sequence[Item]
    papers: Mapping[str, str] = field(default_factory=dict)


def read_plan(path: Path = HERE / "items.toml") -> Plan:
    """The plan. Raises ValueError for items that name unknown experiments or kinds, or have one name."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    experiments = {one["name"]: Experiment(**one) for one in found["experiment"]}
    items = [
        Item(**{**one, "checks": tuple(Check(**check) for check in one.get("checks", ()))}) for one in found["item"]
    ]
    for item in items:
        if item.kind not in KINDS:
            raise ValueError(f"{item.key}: kind must be one of {', '.join(KINDS)}, found {item.kind!r}")
        if item.experiment and item.experiment not in experiments:
            raise ValueError(f"{item.key}: no experiment {item.experiment!r}")
        if (item.kind == "not here") != bool(item.why):
            raise ValueError(f"{item.key}: an item that cannot be redone says why, and no other")
        if item.paper not in found["papers"]:
            raise ValueError(f"{item.key}: no paper {item.paper!r}")
    for one in experiments.values():
        if one.environment and one.environment not in ENVIRONMENTS:
            raise ValueError(f"{one.name}: no environment {one.environment!r}")
        for name in one.needs:
            if name not in experiments:
                raise ValueError(f"{one.name}: no experiment {name!r}")
    taken = {name for size in found["sizes"].values() for name in size}
    if clash := taken & {*experiments, "out", "picture"}:
        raise ValueError(f"a number and an experiment have one name: {', '.join(sorted(clash))}")
    if len({item.key for item in items}) != len(items) or len(experiments) != len(found["experiment"]):
        raise ValueError("two items or two experiments have one name")
    return Plan(found["sizes"], experiments, items, found["papers"])
