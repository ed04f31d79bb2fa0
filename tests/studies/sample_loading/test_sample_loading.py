"""`kinema ml bench`: loops give the samples, the recommendation follows from the rates, nothing is left behind."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from kinema.base.errors import ArgumentError, CorruptFileError, UnsupportedFormatError
from kinema.ml import SampleDataset
from kinema.studies.sample_loading import LoadingDesign, run_study
from kinema.studies.sample_loading.design import AS_THEY_ARE, LAYOUTS
from kinema.studies.sample_loading.findings import recommended
from kinema.studies.sample_loading.layouts import take_samples, write_layout
from kinema.studies.sample_loading.loops import Loop, Taken, loops_of
from kinema.studies.sample_loading.measuring import LoopRow, LoopRun, check_loop
from kinema.testing.programs.children import start_child

N, BATCH = 130, 16


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two archives with two arrays each."""
    chance = np.random.default_rng(1)
    paths = []
    for number, n in enumerate((N, 70)):
        paths.append(str(tmp_path / f"{number}.npz"))
        np.savez(paths[-1], x=chance.normal(size=(n, 5, 2)), y=chance.integers(0, 9, n))
    return paths


def design_of(files: list[str], **options: object) -> LoadingDesign:
    return LoadingDesign(sources=tuple(files), batch=BATCH, time_limit=0.05, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_each_loop_gives_every_sample_once_an_epoch(layout: object, files: list[str], tmp_path: Path) -> None:
    assert layout in LAYOUTS
    design = design_of(files, size=88 * 100)
    samples = take_samples(SampleDataset(files), design)
    assert len(samples) == 100 and samples.of == 200 and samples.sample_bytes == 88
    assert (np.diff(samples.ids) > 0).all() and samples.ids[0] == 0 and samples.ids[-1] == 199
    paths = write_layout(layout, samples, tmp_path / "files", BATCH)  # type: ignore[arg-type]
    loops = list(loops_of(layout, paths, samples.bounds, ["x", "y"], batch=BATCH, seed=3, longest=9.0))  # type: ignore[arg-type]
    assert {"Kinema"} < {loop.program for loop in loops}
    for loop in loops:
        batches = loop.start()
        seen: list[int] = []
        # whole batches of an epoch; of whole files all samples
        epoch = len(samples) if loop.order == "files" else len(samples) - len(samples) % BATCH
        while len(seen) < 2 * epoch:
            ids, values = next(batches)
            for name, array in samples.arrays.items():
                np.testing.assert_array_equal(np.asarray(values[name]).reshape(array[ids].shape), array[ids])
            seen += ids.tolist()
        batches.close()
        for start in (0, epoch):
            assert len(set(seen[start : start + epoch])) == epoch
        assert seen[:epoch] != sorted(seen[:epoch])
    if layout.kind == "hdf5":  # type: ignore[attr-defined]
        with h5py.File(paths[0]) as file:
            expected = {None: None, 1: (1, 5, 2), 0: (BATCH, 5, 2)}[layout.chunk]  # type: ignore[attr-defined]
            assert file["x"].chunks == expected
            assert (file["x"].compression == "gzip") == ("gzip" in layout.name)  # type: ignore[attr-defined]


def test_a_wrong_value_is_an_error(files: list[str]) -> None:
    design = design_of(files)
    samples = take_samples(SampleDataset(files), design)

    def wrong() -> Iterator[Taken]:
        values = {name: array[:BATCH].copy() for name, array in samples.arrays.items()}
        values["x"][3, 2, 1] += 1e-12
        while True:
            yield np.arange(BATCH), values

    with pytest.raises(CorruptFileError, match="some layout: a loop: array x of a batch has other values"):
        check_loop("some layout", Loop("a loop", "random", wrong), samples)


def row(layout: str, rate: float, order: str = "random", program: str = "Kinema", repeats: int = 5) -> LoopRow:
    """Five repeats that differ a little, all loops alike."""
    runs = (LoopRun(round(rate * (1 + number / 50)), 1.0, 1.0, 0.1, 0.0) for number in range(repeats))
    return LoopRow(layout, program, order, tuple(runs))


def test_the_recommendation_follows_from_the_rates(files: list[str]) -> None:
    design = design_of(files)
    samples = take_samples(SampleDataset(files), design)
    sizes = {layout.name: 1000 for layout in LAYOUTS} | {AS_THEY_ARE: 1000}
    rows = [
        row(AS_THEY_ARE, 1000),
        row("NPZ", 50000),
        row("HDF5, contiguous", 10000),
        row("HDF5, a batch a chunk, gzip", 8500, "windowed"),
        row("HDF5, contiguous", 4000, program="h5py, sorted"),
        row("HDF5, contiguous", 40000, "files", "h5py, whole files"),
    ]
    found = recommended(design, rows, sizes, samples, 20800)
    # NPZ is none that is made, and whole files are in no random order
    assert (found.layout, found.order) == ("HDF5, contiguous", "random")
    assert "50 % of a plain read" in found.reasons[0] and "2.5 times the fastest other loop" in found.reasons[1]
    assert found.command.endswith("0.npz " + files[1] + " --layout contiguous -o train.h5")
    smaller = recommended(design, rows, sizes | {"HDF5, a batch a chunk, gzip": 300}, samples, 2000)
    assert smaller.layout == "HDF5, contiguous" and any("smaller files, 30 %" in one for one in smaller.reasons)
    # in one repeat the other one is as fast: a tie, and nothing is recommended
    once = replace(rows[3], runs=(*rows[2].runs[:1], *rows[3].runs[1:]))
    tie = recommended(design, [*rows[:3], once, *rows[4:]], sizes, samples, 2000)
    assert (tie.layout, tie.order, tie.command) == ("", "", "")
    assert tie.leaders == (("HDF5, contiguous", "random"), ("HDF5, a batch a chunk, gzip", "windowed"))
    assert tie.reasons[-1] == "each of them is faster than the files as they are"
    assert "--layout samples:16 --compress gzip:1" in tie.reasons[1]
    as_fast = recommended(design, [replace(rows[2], layout=AS_THEY_ARE), *rows[1:]], sizes, samples, 2000)
    assert as_fast.command == "" and "the files as they are belong to the tie" in as_fast.reasons[-1]
    fastest = recommended(design, [row(AS_THEY_ARE, 30000), *rows[1:]], sizes, samples, 2000)
    assert (fastest.layout, fastest.command) == (AS_THEY_ARE, "")
    few = recommended(design, [replace(one, runs=one.runs[:4]) for one in rows], sizes, samples, 2000)
    assert (few.layout, few.verdict) == (
        "", "no recommendation, not judged: 4 repeats, at least 5 are needed"
    )  # fmt: skip


def test_twenty_runs_never_give_two_recommendations_that_contradict(files: list[str]) -> None:
    """By recorded times of one loop, measured twice; then with one of the two at twice the speed."""
    design = design_of(files)
    samples = take_samples(SampleDataset(files), design)
    sizes = {layout.name: 1000 for layout in LAYOUTS} | {AS_THEY_ARE: 1000}
    recorded = json.loads((Path(__file__).resolve().parents[2] / "data/recorded_times/busy.json").read_text())
    for gain, expected in ((1.0, None), (2.0, "HDF5, contiguous"), (0.5, AS_THEY_ARE)):
        found = set()
        for run in recorded:
            rows = [
                LoopRow(layout, "Kinema", "random", tuple(LoopRun(1, one * slower, one, 0.1, 0.0) for one in seconds))
                for layout, slower, seconds in zip(
                    (AS_THEY_ARE, "HDF5, contiguous"), (gain, 1.0), run.values(), strict=True
                )
            ]
            found.add(recommended(design, rows, sizes, samples, 2000).layout)
        assert found == {expected} if expected else len(found - {""}) <= 1


def test_what_makes_no_experiment_is_refused(files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ArgumentError, match="two batches of 101 samples are needed, and the data set has 200"):
        run_study(replace(design_of(files), batch=101), out, print)
    with pytest.raises(ArgumentError, match="88 bytes hold 1; give a smaller batch or a larger size"):
        run_study(design_of(files, size=88), out, print)
    with pytest.raises(ArgumentError, match="page_cache"):
        design_of(files, page_cache="copy")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises((ArgumentError, UnsupportedFormatError, CorruptFileError), match=r"a\.txt"):
        run_study(design_of([str(tmp_path / "a.txt")]), out, print)
    assert not out.exists()


@pytest.mark.processes
def test_the_command_writes_report_results_and_picture(files: list[str], tmp_path: Path) -> None:
    scratch, out = tmp_path / "scratch", tmp_path / "out"
    scratch.mkdir()
    words = [
        "--batch",
        "16",
        "--time-limit",
        "0.01",
        "--repeats",
        "2",
        "--page-cache",
        "warm",
        "--scratch",
        str(scratch),
        "-o",
        str(out),
        "--json",
    ]
    child = start_child([sys.executable, "-m", "kinema", "ml", "bench", *files, *words])
    said, wrong = child.communicate(timeout=150)
    assert child.returncode == 0, wrong
    assert list(scratch.iterdir()) == []
    results = json.loads((out / "results.json").read_text())
    assert json.loads(said)["recommendation"] == results["recommendation"]
    assert {row["layout"] for row in results["rows"]} == {AS_THEY_ARE, *(layout.name for layout in LAYOUTS)}
    assert all(len(row["runs"]) == 2 and row["samples_per_second"] > 0 for row in results["rows"])
    assert results["recommendation"]["verdict"].startswith("no recommendation, not judged: 2 repeats")
    assert (out / "loading.png").read_bytes().startswith(b"\x89PNG")
    report = (out / "report.md").read_text()
    assert "![samples a second by layout](loading.png)" in report and "| NPZ, deflated | Kinema |" in report
