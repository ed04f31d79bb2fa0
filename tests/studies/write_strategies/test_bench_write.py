"""`kinema bench-write`: its cells, those that fail or run out of time, its report and its picture."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.base.errors import ArgumentError
from kinema.base.notes import collected
from kinema.cli import main
from kinema.formats.all_writers import Writer
from kinema.formats.strategies import strategies_of, uses_mpiio, verifying
from kinema.studies import launching, write_strategies
from kinema.studies.launching import mpi_launcher, run_bounded
from kinema.studies.write_strategies.checks import FileChecks
from kinema.studies.write_strategies.design import (
    DISK,
    FIELDS,
    KINDS,
    NETCDF_LIBRARY,
    PLACER,
    WITHOUT_ATOMS,
    WriteDesign,
    WriteSetting,
    parse_hints,
)
from kinema.studies.write_strategies.experiment import run_write_design
from kinema.studies.write_strategies.findings import (
    AGREES,
    DIFFERS,
    IN_PART,
    UNKNOWN,
    caption,
    findings_of,
    recommendations,
)
from kinema.studies.write_strategies.outcome import RankMemory, WriteRun
from kinema.studies.write_strategies.peers import formatted_writes, pnetcdf_program, write_values
from kinema.studies.write_strategies.pyrochlore import Pyrochlore
from kinema.studies.write_strategies.report import report_text
from kinema.studies.write_strategies.study import StudyFiles
from kinema.studies.write_strategies.summary import WriteStudy

QUICK = WriteDesign(
    particles=704, records=("ascii",), strategies=("serial", "direct"), ranks=(2,), time_limit=120, peers=False,
    repeats=1,
)  # fmt: skip


def heedless(_text: str) -> None:
    """Hears nothing of what is done."""


# -- a study that was not run -----------------------------------------------------------------------------------------


def a_run(
    records: str, strategy: str, ranks: int, seconds: float, size: int = 1 << 30, reason: str = "", **hints: str
) -> WriteRun:
    setting = WriteSetting(records, strategy, ranks, tuple(hints.items()))
    if reason:
        return WriteRun(setting, 0, reason)
    memory = (RankMemory(3 << 28, 1 << 28, 1 << 28),)
    phases = {"sort": 0.1, "communicate": 0.1, "encode": 0.25, "write": seconds / 4, "sync": seconds / 4}
    rounded = {"positions": 5e-8}
    return WriteRun(setting, 0, "", 1.0, seconds, seconds, size, phases, memory, "read back", rounded, "MPI")


def a_study(*runs: WriteRun, repeats: int = 5, **changed: Any) -> WriteStudy:
    """A study whose runs were repeated, each time a little slower."""
    strategies = tuple({run.setting.strategy: None for run in runs if run.setting.strategy not in WITHOUT_ATOMS})
    ranks = tuple(sorted({run.setting.ranks for run in runs}))
    design = WriteDesign(strategies=strategies, ranks=ranks, repeats=repeats, **changed)
    machine = {"allowed_cores": 2, "kinema": "0", "processor": "a processor"}
    done = [
        replace(run, repeat=number, seconds=run.seconds * (1 + (number - repeats // 2) / 50))
        for number in range(repeats)
        for run in runs
    ]
    return WriteStudy(design, Pyrochlore.from_particle_count(3_773_000), done, (), machine, "ext4 on a disk")


AS_IN_THE_PAPER = (
    a_run("ascii", "serial", 2, 12.0), a_run("ascii", "mpiio", 2, 4.0), a_run("ascii", "direct", 2, 2.0),
    a_run("ascii", DISK, 2, 1.0), a_run("ascii", PLACER, 2, 0.5), a_run("binary", "direct", 2, 0.75, 1 << 28),
    a_run("binary", "mpiio", 2, 9, reason="x"), a_run("netcdf", "netcdf-library", 2, 6.0),
    a_run("netcdf", "direct", 2, 1.0),
)  # fmt: skip


def test_findings_are_decided_by_the_numbers() -> None:
    found = findings_of(a_study(*AS_IN_THE_PAPER))
    assert [one.verdict for one in found] == [AGREES] * 6
    assert found[0].here == "2 ranks: direct 0.50 GiB/s, MPI-IO 0.25 GiB/s, serial 0.08 GiB/s"
    assert "6.0 times serial" in found[1].here and found[5].here == "1 of 9 cells have none"
    # as fast as each other, and the wrong way round
    changed = [
        replace(run, seconds=2.0) if run.setting.strategy == "mpiio" and not run.reason else run
        for run in AS_IN_THE_PAPER
    ]
    order = findings_of(a_study(*changed))[0]
    assert order.verdict == IN_PART and order.here.endswith("(direct and MPI-IO are a tie)")
    changed = [replace(run, seconds=1.5) if run.setting.label == "serial" else run for run in AS_IN_THE_PAPER]
    verdicts = [one.verdict for one in findings_of(a_study(*changed))]
    assert verdicts == [DIFFERS, DIFFERS, AGREES, DIFFERS, AGREES, AGREES]
    assert findings_of(a_study(AS_IN_THE_PAPER[0]))[0].verdict == UNKNOWN
    assert caption(a_study(AS_IN_THE_PAPER[0]))[-1].endswith("all 1 cells have a result: differs.")
    few = findings_of(a_study(*AS_IN_THE_PAPER, repeats=4))[0]
    assert few.verdict == UNKNOWN and few.here.endswith("not told apart by 4 repeats: at least 5 are needed")


def test_each_number_of_ranks_is_judged_by_itself() -> None:
    """MPI-IO of eight ranks is not compared with direct of two."""
    runs = [a_run("ascii", name, ranks, seconds) for name, ranks, seconds in (
        ("serial", 2, 12.0), ("mpiio", 2, 4.0), ("direct", 2, 2.0), ("serial", 8, 9.0), ("mpiio", 8, 0.5),
        ("direct", 8, 1.0),
    )]  # fmt: skip
    study = a_study(*runs)
    assert [(one.ranks, one.setting.strategy) for one in recommendations(study) if one.setting] == [
        (2, "direct"), (8, "mpiio"),
    ]  # fmt: skip
    order = findings_of(study)[0]
    assert (
        order.verdict == IN_PART and order.here.startswith("2 ranks: direct 0.50 GiB/s") and "; 8 ranks:" in order.here
    )


def test_hints_without_an_effect_are_not_recommended() -> None:
    runs = [
        a_run("ascii", "direct", 2, 1.0, cb_nodes="1", striping_factor="4"),
        a_run("ascii", "direct", 2, 1.0, cb_nodes="2", striping_factor="4"),
        a_run("ascii", "serial", 2, 9.0, cb_nodes="1", striping_factor="4"),
    ]
    (advice,) = recommendations(a_study(*runs))
    assert advice.setting == WriteSetting("ascii", "direct", 2)
    assert advice.notes == (
        "direct: follows no hint striping_factor", "serial: follows no hint striping_factor",
        "direct: hint cb_nodes had no effect",
    )  # fmt: skip
    # one that has, as the better value in every repeat
    (advice,) = recommendations(a_study(replace(runs[0], seconds=0.5), *runs[1:]))
    assert advice.setting == WriteSetting("ascii", "direct", 2, (("cb_nodes", "1"),))
    assert "direct cb_nodes=1 striping_factor=4 is the fastest in each of 5 repeats" in advice.verdict
    (advice,) = recommendations(a_study(*runs, repeats=4))
    assert advice.setting is None and advice.verdict == "not judged: 4 repeats, at least 5 are needed"
    (advice,) = recommendations(a_study(*runs[:2]))
    assert advice.setting is None and advice.verdict.startswith("a tie: direct cb_nodes=1")


def test_missing_libraries_are_neither_agreement_nor_gap() -> None:
    absent = replace(a_run("netcdf", "pnetcdf", 2, 0.0, reason="PnetCDF is not installed"), missing=True)
    study = a_study(AS_IN_THE_PAPER[0], absent)
    gaps = findings_of(study)[5]
    assert (gaps.verdict, gaps.here) == (DIFFERS, "all 1 cells have a result; 1 more need a library that is missing")
    assert study.gaps == [] and "left out: PnetCDF is not installed" in report_text(study, "x.png")
    assert findings_of(a_study(absent))[5].verdict == UNKNOWN


def test_the_report_names_what_chooses_the_fastest_and_what_is_lost() -> None:
    from kinema.studies.write_strategies.plotting import draw_strategies

    study = a_study(*AS_IN_THE_PAPER, step_time=0.49, every=1000, hints={})
    text = report_text(study, "x.png")
    assert "ASCII records (CONFIG), 2 ranks: direct is the fastest in each of 5 repeats" in text
    assert '`kn.Writer("CONFIG", n_atoms, comm=comm, strategy="direct")`' in text
    assert "| no result: x " in text
    # direct over serial, MPI-IO over direct, over the disk, over its calls alone, MB/s a core of time and of CPU
    (row,) = (line for line in text.split("\n") if line.startswith("| ascii   | 2     | 6.00"))
    assert [word.strip() for word in row.split("|")[3:-1]] == ["6.00", "0.50", "0.50", "0.25", "268", "537"]
    # 2 s of 492 s; the paper's 600 of 1090 s; 15,000,000 particles
    for words in ("0.41 %", "55 %", "7.95"):
        assert words in text
    found = StudyFiles(study, text).as_dict()
    assert json.loads(json.dumps(found, allow_nan=False))["cells"][2]["gib_per_second"] == 0.5
    rows = [[word.strip() for word in line.split("|")[1:-1]] for line in text.split("\n")]
    assert ["ascii", "direct", "2", "256", "512", f"{512 / 576:.2f}"] in rows
    figure = draw_strategies(study)
    drawn = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left").split("\n")[0] for axes in drawn] == [
        "ASCII records (CONFIG)", "native binary records", "NetCDF",
    ]  # fmt: skip
    assert "no result" in [text.get_text() for text in figure.legends[0].get_texts()]
    # one cross, where MPI-IO has no result
    assert [len(axes.texts) for axes in drawn] == [0, 1, 0]


def test_what_a_design_takes() -> None:
    assert parse_hints("cb_nodes=1/2, striping_factor=4") == {"cb_nodes": ("1", "2"), "striping_factor": ("4",)}
    design = WriteDesign(records=("ascii", "netcdf", "xtc"), ranks=(4,), hints=parse_hints("cb_nodes=1/2"))
    found = {(one.records, one.strategy, one.writers) for one in design.settings()}
    assert ("ascii", "direct", 1) in found and ("ascii", "direct", 2) in found and ("ascii", "serial", 1) in found
    assert {("netcdf", "netcdf-library", 1), ("netcdf", "pnetcdf", 4), ("xtc", "gather", 1)} <= found
    assert ("xtc", "gather", 2) not in found
    assert not any(strategy == "direct" for records, strategy, _ in found if records == "xtc")
    # what follows no hints is one cell
    named = WriteDesign(records=("xtc", "netcdf"), strategies=("direct", "netcdf-library"), hints=design.hints)
    cells = [(one.records, one.strategy, len(one.hints)) for one in named.settings() if one.ranks == 2]
    assert cells == [
        ("xtc", "direct", 0), ("netcdf", "direct", 1), ("netcdf", "direct", 1), ("netcdf", "netcdf-library", 0),
    ]  # fmt: skip
    names = {one.paper_name for one in design.settings()}
    assert names == {"SDAW", "PDAW", "MPIW", "MPIW, collective", "SNCW", ""}
    for changed, words in (
        ({"ranks": ()}, "ranks"), ({"strategies": ("magic",)}, "strategies"), ({"step_time": 1.0}, "belong together"),
        ({"time_limit": float("nan")}, "time_limit"), ({"records": ("ascii", "none")}, "records"),
        ({"records": ("ascii",), "strategies": ("netcdf-library",)}, "none of netcdf-library exists for ascii"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=words):
            WriteDesign(**changed)
    for text in ("cb_nodes", "cb_nodes=", "=1", "a=1,a=2"):
        with pytest.raises(ArgumentError, match="hints"):
            parse_hints(text)


def test_every_option_reaches_the_design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[WriteDesign] = []

    def noted(design: WriteDesign, _folder: Path, _notify: Any, *, overwrite: bool) -> StudyFiles:
        assert overwrite
        seen.append(design)
        study = a_study(*AS_IN_THE_PAPER)
        return StudyFiles(study, "")

    monkeypatch.setattr(write_strategies, "run_study", noted, raising=False)
    words = (
        "--particles 880 --strategies serial,gather --ranks 1,3 --records ascii --formats xtc,dcd --hints cb_nodes=2 "
        "--time-limit 5 --repeats 2 --verify --page-cache warm --ranks-per-node 8 --no-peers --step-time 0.5 --every 10"
    ).split()
    words += ["--launcher", "srun --mpi=pmix"]
    with pytest.raises(SystemExit, match="0"):
        main(["bench-write", *words, "-o", str(tmp_path / "out"), "--quiet", "--force"])
    expected = WriteDesign(
        particles=880, records=("ascii", "xtc", "dcd"), strategies=("serial", "gather"), ranks=(1, 3),
        hints={"cb_nodes": ("2",)}, time_limit=5.0, repeats=2, verify=True, page_cache="warm", ranks_per_node=8,
        step_time=0.5, every=10, peers=False, launcher=("srun", "--mpi=pmix"),
    )  # fmt: skip
    assert seen == [expected]


def test_files_with_other_values_are_found(tmp_path: Path) -> None:
    system = Pyrochlore((1, 1, 1))
    positions, velocities, forces = system.state(np.arange(88))
    checks = FileChecks(system, "drop")
    for name, shift, words in (("good", 0.0, ""), ("bad", 1e-5, "differ")):
        path = str(tmp_path / f"{name}.config")
        positions[60, 1] += shift
        with collected(), Writer(path, 88) as out:
            out.write(positions, velocities=velocities, forces=forces, cell=system.box, step=1)
        setting = WriteSetting("ascii", "direct", 2)
        if not words:
            assert checks.check(setting, path)[0] == "read back"
            assert checks.check(setting, path)[0] == "the bytes of direct on 2"
            assert 0 < checks.check(setting, path)[1]["positions"] < 1e-8
        else:
            with pytest.raises(
                OSError, match=r"positions differ from what was written, expected at most .*, found 1e-05"
            ):
                checks.check(setting, path)
    nuls = bytearray((tmp_path / "good.config").read_bytes())
    nuls[9000:9500] = bytes(500)
    (tmp_path / "good.config").write_bytes(nuls)
    with pytest.raises(Exception, match=r"good\.config"):
        checks.check(WriteSetting("ascii", "direct", 2), str(tmp_path / "good.config"))


# -- each strategy of each kind of file -------------------------------------------------------------------------------

EACH = """
import json
from kinema.base.errors import MissingPackageError
from kinema.studies.write_strategies.one_cell import carry_out

with open("cells.json") as file:
    cells = json.load(file)
for number, settings in enumerate(cells):
    try:
        carry_out(MPI.COMM_WORLD, settings)
        reason = ""
    except MissingPackageError as error:
        reason = str(error)
    if rank == 0:
        say(number, reason)
"""


@pytest.mark.processes
def test_each_strategy_of_each_kind_of_file(mpi: Any, tmp_path: Path) -> None:
    """On ranks of one program, which takes a second for all of them."""
    system = Pyrochlore.from_particle_count(704)
    design = WriteDesign(particles=704, records=tuple(KINDS), ranks=(3,), hints={"cb_nodes": ("2",)}, peers=False)
    every = {(kind, strategy) for kind in KINDS for strategy in strategies_of(KINDS[kind].written)}
    settings = list(dict.fromkeys([*design.settings(), *(WriteSetting(*pair, 3) for pair in sorted(every))]))
    assert {(one.records, one.strategy) for one in settings} == every | {("netcdf", NETCDF_LIBRARY)}
    cells = []
    for number, one in enumerate(settings):
        (tmp_path / str(number)).mkdir()
        cells.append(
            {
                "records": one.records, "strategy": one.strategy, "hints": dict(one.hints), "cells": system.cells,
                "seed": 1, "verify": one.strategy in verifying(KINDS[one.records].written),
                "path": str(tmp_path / str(number) / KINDS[one.records].file),
                "result": str(tmp_path / str(number) / "result.json"), "warm_bytes": 0,
            }
        )  # fmt: skip
    (tmp_path / "cells.json").write_text(json.dumps(cells))
    said = dict(line.split(" ", 1) for line in mpi.compute(3, EACH, tmp_path).splitlines())
    assert len(said) == len(settings)
    checks, written = FileChecks(system, "drop"), set()
    for number, one in enumerate(settings):
        if said[str(number)]:
            # this h5py, and no other reason
            assert one.records == "h5md" and uses_mpiio(one.strategy) and "parallel HDF5" in said[str(number)]
            continue
        checked, roundings = checks.check(one, cells[number]["path"])
        assert set(roundings) == set(FIELDS.get(one.records, ("positions", "velocities", "forces")))
        found = json.loads(Path(cells[number]["result"]).read_text())
        # with those of the ranks: XTC's atoms take at least four bytes
        assert len(found["ranks"]) == 3 and found["bytes"] >= 704 * 4, one
        written.add((one.records, checked == "read back"))
    # the first is read back, and others have its bytes
    assert written == {(kind, first) for kind in KINDS for first in (True, False)}


# -- runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.processes
def test_a_quick_look(tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "out"
    words = (
        "--particles 700 --ranks 2 --records ascii,binary --formats none --strategies direct --step-time 1 --every 9 "
        "--hints cb_nodes=1/2 --ranks-per-node 2"
    )
    with pytest.raises(SystemExit, match="0"):
        main(["bench-write", *words.split(), "-o", str(folder), "--time-limit", "120", "--no-peers", "--repeats", "1"])
    printed = capsys.readouterr()
    assert sorted(path.name for path in folder.iterdir()) == [
        "bandwidth.png", "report.md", "results.json", "results.jsonl",
    ]  # fmt: skip
    assert (folder / "bandwidth.png").read_bytes()[:4] == b"\x89PNG"
    first, report = (folder / "report.md").read_text().split("\n", 1)
    assert first.startswith("<!-- kinema ")
    assert report in printed.out and "704 particles" in report
    for section in ("Speed", "Sizes and precision", "Memory", "Time that a simulation loses", "Ratios of speeds"):
        assert f"## {section}" in report
    found = json.loads((folder / "results.json").read_text())
    assert "The launcher places 2 ranks on each node." in report
    every = [one for one in found["cells"] if one["strategy"] == "direct"]
    assert [(one["hints"], one["writers"]) for one in every] == 2 * [({"cb_nodes": "1"}, 1), ({"cb_nodes": "2"}, 2)]
    assert "the bytes of direct cb_nodes=1 on 2" in {one["checked"] for one in every}
    cells = {(one["records"], one["strategy"]): one for one in found["cells"] if one["hints"] != {"cb_nodes": "2"}}
    assert set(cells) == {(records, name) for records in ("ascii", "binary") for name in ("direct", "disk", "placer")}
    assert all(not one["failures"] for one in cells.values()), cells
    # a head of 5 records, 4 records of 73 bytes an atom; 5 and 4 of 24
    assert [cells["ascii", name]["bytes"] for name in ("direct", "disk", "placer")] == [73 * (5 + 4 * 704)] * 3
    assert cells["binary", "direct"]["bytes"] == 24 * (5 + 4 * 704)
    assert cells["binary", "direct"]["roundings"] == {"positions": 0, "velocities": 0, "forces": 0}
    assert 0 < cells["ascii", "direct"]["roundings"]["forces"] <= 5.1e-8
    assert {one["checked"] for name, one in cells.items() if name[1] == "direct"} == {"read back"}
    assert cells["ascii", "direct"]["phases"]["encode"] > 0
    share = 704 // 2 * 80
    assert [one["share"] for one in found["runs"][0]["memory"]] == [share, share]
    assert (folder / "results.jsonl").read_text().count("\n") == 8


@pytest.mark.processes
def test_a_cell_that_fails_and_one_out_of_time_stay_in_the_table(tmp_path: Path) -> None:
    from kinema.studies.write_strategies.plotting import draw_strategies

    design = replace(QUICK, strategies=("direct", "subfiles"), hints={"nonsense": ("1",)})
    failed, absent = run_write_design(design, tmp_path / "failed", heedless)
    assert failed.reason.startswith("no hint 'nonsense', expected one of cb_nodes"), failed.reason
    assert failed.job_seconds > 0 and absent.job_seconds == 0
    assert absent.reason == "DL_POLY CONFIG has no strategy 'subfiles' with atoms over ranks"
    (late,) = run_write_design(replace(QUICK, strategies=("serial",), time_limit=0.05), tmp_path / "late", heedless)
    assert late.reason == "out of time: not done after 0.05 s", late.reason
    study = WriteStudy(
        QUICK, Pyrochlore.from_particle_count(704), [failed, late], (), {"allowed_cores": 2, "kinema": "0"}, ""
    )
    text = report_text(study, "x.png")
    assert text.count("no result: ") == 2 and "out of time" in text and "2 of 2 cells have none" in text
    draw_strategies(study)
    # nothing is left of their files
    assert sorted(path.name for path in (tmp_path / "failed").iterdir()) == ["results.jsonl"]


@pytest.mark.processes
def test_a_program_out_of_time_is_ended_with_what_it_has_started(
    tmp_path: Path, mpi: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # they hear no SIGTERM
    monkeypatch.setattr(launching, "_GRACE", 0.5)
    file = tmp_path / "ranks"
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "from mpi4py import MPI\n"
        f"os.close(os.open({str(file)!r} + str(os.getpid()), os.O_CREAT))\n"
        "time.sleep(600)\n"
    )

    words = [*mpi_launcher(None)(2), sys.executable, "-c", code]
    ended = run_bounded(words, mpi.environment(), 3.0)
    assert ended.code is None
    ranks = [int(one.name.removeprefix("ranks")) for one in tmp_path.glob("ranks*")]
    assert all(mpi.is_gone(rank) for rank in ranks)


def test_formatted_writes_of_others(tmp_path: Path) -> None:
    fortran, python = formatted_writes(tmp_path, 500, os.environ, 60.0)
    assert python.bytes == 500 * 292 and python.rate > 0
    assert fortran.reason == "gfortran is not installed" or (fortran.bytes, fortran.rate > 0) == (500 * 292, True)
    missing, _ = formatted_writes(tmp_path, 5, {"PATH": str(tmp_path)}, 60.0)
    assert missing.reason == "gfortran is not installed"


# -- PnetCDF -----------------------------------------------------------------------------------------------------------


def needed(name: str) -> str:
    """A program of PnetCDF; the test is skipped if it is missing."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: apt-get install pnetcdf-bin libpnetcdf-dev")
    return found


@pytest.mark.processes
def test_pnetcdf_has_a_row_or_a_reason(mpi: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = mpi.environment()
    absent = pnetcdf_program(tmp_path, {**environment, "PATH": str(tmp_path)}, None)
    assert absent.reason == "PnetCDF is not installed (no pnetcdf-config)"
    # one that names no compiler that fits
    config = tmp_path / "pnetcdf-config"
    config.write_text("#!/bin/sh\necho nothing\n")
    config.chmod(0o755)
    unfit = pnetcdf_program(tmp_path, {**environment, "PATH": f"{tmp_path}:/bin"}, None)
    assert unfit.reason.startswith("PnetCDF is installed, and no program with it can be run; ") or not unfit.reason
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    design = replace(QUICK, records=("netcdf",), strategies=("pnetcdf",), ranks=(3,))
    found = list(run_write_design(design, tmp_path / "out", heedless))
    if shutil.which("pnetcdf-config") is None:
        assert [one.reason for one in found] == [absent.reason]
        return
    (run,) = found
    assert (run.reason, run.checked) == ("", "read back") and run.mpi.startswith("PnetCDF 1."), run
    assert len(run.memory) == 3 and sum(one.share for one in run.memory) == 704 * 72
    assert 0 < run.roundings["positions"] < 1e-5 and 0 < run.phases["write"] < run.seconds
    assert 704 * 36 < run.bytes < 704 * 36 + 4096


@pytest.mark.processes
def test_pnetcdf_finds_our_file_valid_and_the_same(mpi: Any, tmp_path: Path) -> None:
    """A file of three ranks that write directly, beside the file of one process and that of PnetCDF."""
    validator, compare = needed("ncvalidator"), needed("ncmpidiff")
    system = Pyrochlore.from_particle_count(704)
    write_values(tmp_path, system)
    program = pnetcdf_program(tmp_path, mpi.environment(), None)
    if program.reason:
        pytest.skip(program.reason)
    text = (
        "from kinema.studies.write_strategies.pyrochlore import Pyrochlore\n"
        f"system = Pyrochlore({system.cells})\n"
        "for name, comm in (('ranks.nc', MPI.COMM_WORLD), ('one.nc', MPI.COMM_SELF)):\n"
        "    if rank and comm == MPI.COMM_SELF:\n"
        "        break\n"
        "    own = system.atoms(comm.Get_rank(), (comm.Get_size(), 1, 1))\n"
        "    with kn.Writer(name, system.n_atoms, comm=comm, strategy='direct') as out:\n"
        "        out.write(own.positions, ids=own.ids, velocities=own.velocities, forces=own.forces, time=0.49,\n"
        "                  cell=system.box)\n"
    )
    mpi.compute(3, text, tmp_path)
    peer = run_bounded(
        program.words(2, str(tmp_path / "peer.nc"), tmp_path / "r.json", 5_000_000), mpi.environment(), 120.0
    )
    assert peer.code == 0, peer.printed

    def said(*words: str) -> str:
        return run_bounded(words, mpi.environment(), 120.0).printed

    ranks = str(tmp_path / "ranks.nc")
    assert "is a valid NetCDF classic CDF-2 file" in said(validator, ranks)
    assert "are the same" in said(compare, ranks, str(tmp_path / "one.nc"))
    variables = "time,coordinates,velocities,forces,cell_lengths,cell_angles"
    assert "Compared variable(s) are the same" in said(compare, "-v", variables, ranks, str(tmp_path / "peer.nc"))
    # and it does see a difference: the last number of the forces
    data = bytearray(Path(ranks).read_bytes())
    at = data.rfind(np.diag(system.box).astype(">f8").tobytes())
    data[at - 2] ^= 1
    (tmp_path / "other.nc").write_bytes(data)
    assert "DIFF" in said(compare, "-v", variables, ranks, str(tmp_path / "other.nc"))
