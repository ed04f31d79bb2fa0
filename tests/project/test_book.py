"""The book of the publications' figures: its items are complete, and its smallest size runs."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from kinema.cli.in_process import call_kinema
from kinema.testing.amounts import LONG

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

from book.items import Check, Plan, read_plan  # noqa: E402
from book.page import judge, write_page  # noqa: E402
from book.running import Runs  # noqa: E402

# items that a usual run makes: four measured runs, virtual time, rows without commands; a long run makes all
FEW = ("2021-fig-9", "2020-fig-2", "2020-fig-c7", "2020-fig-1", "2020-fig-6", "2020-fig-5", "2024-bandwidth-hdf5")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return read_plan()


def test_every_numbered_figure_and_table_has_a_row(plan: Plan) -> None:
    wanted = {
        "2021": [*(f"Fig {n}" for n in range(1, 14)), "Table 1", "Table 2", "Table 3"],
        "2020": [
            *(f"Fig {n}" for n in (*range(1, 10), "A1", "A2", "A3", "A4", "B5", "B6", "C7")),
            *(f"Table {n}" for n in (*range(1, 6), "B1")),
        ],
        "dlpoly": ["Fig 1"],
    }
    for paper, numbers in wanted.items():
        assert set(numbers) <= {item.number for item in plan.items if item.paper == paper}
    assert Counter(item.paper for item in plan.items)["2017"] >= 7
    assert Counter(item.paper for item in plan.items)["2024"] >= 6


def _called(words: Any) -> CompletedProcess[str]:
    return call_kinema(*words)


def test_the_smallest_book(plan: Plan, tmp_path: Path) -> None:
    if not LONG:
        plan = replace(plan, items=[item for item in plan.items if item.key in FEW])
    said: list[str] = []
    runs = Runs(plan, tmp_path / "runs", "smallest", _called, said.append)
    failed = write_page(plan, runs, tmp_path / "page.md", tmp_path / "pictures", "smallest", said.append)
    assert failed == 0, said
    page = (tmp_path / "page.md").read_text()
    for item in plan.items:
        assert f"### {item.number}: {item.title}" in page
        if item.figure and not runs.missing(item.experiment):
            assert (tmp_path / "pictures" / f"{item.key}.png").stat().st_size > 5000
    # a second call runs nothing again
    said.clear()
    again = Runs(plan, tmp_path / "runs", "smallest", _called, said.append)
    for name in {item.experiment for item in plan.items if item.experiment and not runs.missing(item.experiment)}:
        assert not again.complete(name).failed
    assert said == []


def test_an_environment_that_is_not_there_is_said_and_no_failure(plan: Plan, tmp_path: Path) -> None:
    few = replace(plan, items=[item for item in plan.items if item.key == "2020-fig-5"])
    asked: list[Any] = []

    def run(words: Any) -> CompletedProcess[str]:
        asked.append(words)
        return CompletedProcess(list(words), 0, "", "")

    runs = Runs(few, tmp_path / "runs", "smallest", run, lambda text: None)
    assert write_page(few, runs, tmp_path / "page.md", tmp_path / "pictures", "smallest", lambda text: None) == 0
    assert "Not redone: needs the environment of `make test-hdf5-mpi`" in (tmp_path / "page.md").read_text()
    assert asked == []
    with_it = Runs(few, tmp_path / "runs", "smallest", _fails, lambda text: None, {"hdf5-mpi": run})
    # its data are made by the usual interpreter
    assert with_it.complete("parallel-hdf5").failed.startswith("adk failed") and asked == []


def _fails(words: Any) -> CompletedProcess[str]:
    return CompletedProcess(list(words), 3, "", "kinema: no such thing\n")


def test_an_experiment_that_fails_is_a_gap(plan: Plan, tmp_path: Path) -> None:
    few = replace(plan, items=[item for item in plan.items if item.experiment == "layouts"][:2])
    runs = Runs(few, tmp_path / "runs", "smallest", _fails, lambda text: None)
    assert write_page(few, runs, tmp_path / "page.md", tmp_path / "pictures", "smallest", lambda text: None) == 2
    assert "Gap: yiip failed: exit 3: kinema: no such thing" in (tmp_path / "page.md").read_text()


@pytest.mark.parametrize(
    ("bounds", "agrees"), [({"below": 3.0}, True), ({"above": 2.5}, False), ({"below": 3.0, "above": 1.0}, True)]
)
def test_checks_are_ratios(plan: Plan, tmp_path: Path, bounds: dict[str, float], agrees: bool) -> None:
    item = next(item for item in plan.items if item.experiment == "splitting")
    numbers = [{"file": "some.json", "at": "rows.1.seconds"}, {"file": "some.json", "at": "rows.0.seconds"}]
    item = replace(item, checks=(Check("the second is longer", numbers, **bounds),))
    runs = Runs(plan, tmp_path, "smallest", _fails, lambda text: None)
    runs.folder_of("splitting").mkdir()
    assert "not to be judged" in judge(item, runs).missing
    (tmp_path / "splitting" / "some.json").write_text(json.dumps({"rows": [{"seconds": 2}, {"seconds": 4}]}))
    verdict = judge(item, runs)
    assert verdict.agrees is agrees
    assert verdict.sentences == [f"the second is longer: {'agrees' if agrees else 'does not agree'}, ratio 2"]
