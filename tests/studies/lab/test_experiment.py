"""`kinema scaling --lab` carries out a design in virtual time."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from kinema.cli.in_process import call_kinema
from kinema.report import Report
from kinema.testing import random_walk, write_xtc

STATED = "--lab lustre --runner mpi --cpu-per-frame 100,20 --no-stored".split()


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("walk") / "walk.xtc"
    write_xtc(path, random_walk(500, 200), dt=1.0)
    return path


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_a_design_runs_on_an_emulated_cluster(walk: Path, tmp_path: Path) -> None:
    words = ["scaling", str(walk), *STATED, "--workers", "1,24,96", "--stripes", "1,48", "--formats", "as is,subfiles"]
    done = call_kinema(*words, "-o", str(tmp_path / "a"))
    assert done.returncode == 0 and "lab lustre, stripes 48" in done.stdout
    found = lines(tmp_path / "a")
    assert len(found) == 2 * 2 * 3 and {one["emulated"] for one in found} == {"lustre"}
    reports = sorted((tmp_path / "a" / "reports").iterdir())
    report = Report.load(reports[0])
    assert report.extra["lab"] == "lustre" and report.extra["cpu_per_frame"] == [100_000, 20_000]
    assert report.timings.frames == 500 and str(report).count("straggler") and (tmp_path / "a" / "scaling.png").exists()
    # the same input gives the same files
    assert call_kinema(*words, "-o", str(tmp_path / "b")).returncode == 0
    for one in reports:
        assert one.read_bytes() == (tmp_path / "b" / "reports" / one.name).read_bytes()


def test_times_of_frames_are_taken_from_the_paper_or_measured(walk: Path, tmp_path: Path) -> None:
    words = ["scaling", str(walk), "--lab", "ssd", "--runner", "mpi", "--workers", "2", "--nodes", "1", "--no-stored"]
    done = call_kinema(*words, "--cpu-per-frame", "paper", "-o", str(tmp_path / "a"))
    assert done.returncode == 0 and "Concurrency Computat. 2020" in done.stderr and "nodes 1" in done.stdout
    done = call_kinema(*words, "-o", str(tmp_path / "b"))
    assert done.returncode == 0 and "measured on one core of this machine, 500 frames" in done.stderr
    (report,) = (tmp_path / "b" / "reports").iterdir()
    assert all(ns > 0 for ns in Report.load(report).extra["cpu_per_frame"])


def test_readers_times_and_ranks_of_a_node_are_emulated(walk: Path, tmp_path: Path) -> None:
    words = "--workers 8 --reader kinema,mdanalysis --times 1,3 --ranks-per-node 2,8 --formats chain".split()
    done = call_kinema("scaling", walk, *STATED, *words, "-o", tmp_path / "a")
    assert done.returncode == 0, done.stderr
    found = {(one["reader"], one["times"], one["ranks_per_node"]): one for one in lines(tmp_path / "a")}
    assert len(found) == 2 * 2 * 2 == done.stdout.count("R_comp/IO")
    reports = {key: Report.load(tmp_path / "a" / "reports" / f"{one['name']}.json") for key, one in found.items()}
    for (reader, times, of_node), report in reports.items():
        assert report.timings.frames == 500 * times and report.run["emulated"]["nodes"] == 8 // of_node
        # every rank opens all files of a chain, or those of its frames
        opened = report.quantities.t_open
        assert opened > 0 and (reader == "kinema" or opened > reports["kinema", times, of_node].quantities.t_open)


def test_cutting_has_seconds_and_the_number_of_analyses_that_pay_it_off(walk: Path, tmp_path: Path) -> None:
    words = "--workers 1,24,48 --task rmsd,split --formats".split()
    done = call_kinema("scaling", walk, *STATED, *words, "as is,subfiles", "--json", "-o", tmp_path / "a")
    assert done.returncode == 0, done.stderr
    seconds = {(one["task"], one["format"], one["workers"]): one["quantities"] for one in lines(tmp_path / "a")}
    assert len(seconds) == 3 * 3
    found = {one["parts"]: one for one in json.loads(done.stdout)["split"]}
    for parts, one in found.items():
        cut, whole, of_parts = (
            seconds[key]["t_total"]
            for key in (("split", "as is", parts), ("rmsd", "as is", parts), ("rmsd", "subfiles", parts))
        )
        assert (one["seconds"], one["whole_seconds"], one["parts_seconds"]) == (cut, whole, of_parts)
        gained = whole - of_parts
        assert one["analyses"] == (math.ceil(cut / gained) if gained > 0 else None)
    # many ranks that open one file wait for each other, and a part has one rank
    assert sorted(found) == [1, 24, 48] and found[48]["analyses"] is not None
    report = Report.load(next((tmp_path / "a" / "reports").glob("*split*48*")))
    assert report.timings.frames == 500 and report.run["analyses"] == ["split"] and report.extra["task"] == "split"
    assert sum(worker.bytes_read for worker in report.timings.passes[0].workers) == walk.stat().st_size
    done = call_kinema("scaling", walk, *STATED, "--workers", 501, "--task", "split", "-o", tmp_path / "b")
    assert done.returncode == 2 and "500 frames cannot be cut into 501 parts" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--nodes 2", "--nodes and --recorded are for an emulated cluster: they need --lab"),
        ("--lab gpfs", "a platform is lustre, beegfs, nfs, hdd, ssd or a file NAME.toml, found 'gpfs'"),
        ("--lab nfs", "runner in the laboratory: expected mpi, found threads"),
        ("--lab nfs --runner mpi --stripes 2", "stripes must be from 1 to the 1 targets of nfs, found 2"),
        ("--lab nfs --runner mpi --nodes 2", "nodes must be from 1 to the smallest number of workers, 1, found 2"),
        ("--lab nfs --runner mpi --nodes 1 --ranks-per-node 1", "both say how ranks are placed; give one"),
        ("--lab nfs --runner mpi --formats dcd", "formats in the laboratory: expected as is or subfiles or chain"),
        ("--lab nfs --runner mpi --source synthetic", "source in the laboratory: expected file, found synthetic"),
        (
            "--lab nfs --runner mpi --task convert --formats dcd",
            "task convert in the laboratory replays real ranks: add --recorded auto",
        ),
        ("--lab nfs --runner mpi --task empty", "task in the laboratory: expected rmsd or split, found empty"),
        ("--lab nfs --runner mpi --task split --recorded t", "task in the laboratory: expected rmsd, found split"),
        ("--lab nfs --runner mpi --storage a=b", "storage in the laboratory: expected none, found a"),
        ("--lab nfs --runner mpi --recorded t --reader mdanalysis", "a recorded run was made with one reader"),
        ("--lab nfs --runner mpi --dry-run", "--dry-run estimates real runs"),
        ("--lab nfs --runner mpi --continue", "takes seconds and is not continued"),
        ("--lab nfs --runner mpi --cpu-per-frame fast", "expected measured, paper, or microseconds as in 20.5,3"),
        ("--lab nfs --runner mpi --cpu-per-frame 1,nan", "expected numbers of microseconds from 0 on"),
    ],
)
def test_what_cannot_be_emulated_is_refused(words: str, said: str, walk: Path, tmp_path: Path) -> None:
    done = call_kinema("scaling", walk, "--no-stored", *words.split(), "-o", str(tmp_path / "out"))
    assert done.returncode == 2 and said in done.stderr
    assert not (tmp_path / "out").exists()
