"""Laws of every registered analysis: same bits on all runners, checkpoints, commands, what it declares."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.analysis import ANALYSES
from kinema.analysis.declaration import arguments_of, takes_select
from kinema.base.notes import collected
from kinema.cli import main
from kinema.execution.following import follow
from kinema.execution.results_file import ResultArray
from kinema.testing.amounts import LONG
from kinema.testing.analyses import every_analysis, examples_of, option_words, write_solvated_peptide
from kinema.testing.programs.children import start_child
from kinema.testing.runner_work import assert_same

# ten leaves, more than any number of workers here
N_FRAMES = 160

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis")


@pytest.fixture(autouse=True)
def noted() -> Iterator[None]:
    with collected():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a solvated peptide."""
    made = tmp_path_factory.mktemp("peptide")
    write_solvated_peptide(made, N_FRAMES)
    return made


def opened(folder: Path) -> kn.Trajectory:
    return kn.open(folder / "peptide.dcd", topology=folder / "peptide.psf", stored=False)


@pytest.fixture(scope="module")
def expected_first(folder: Path) -> list[Any]:
    """The first example of each analysis, run alone by one worker: its options are tried on threads."""
    with collected():
        return [one.run(runner="serial") for one in every_analysis(opened(folder), options=False)]


@pytest.fixture(scope="module")
def expected(folder: Path, expected_first: list[Any]) -> list[Any]:
    """All examples, each run alone by one worker."""
    first = np.cumsum([0, *(len(examples_of(analysis)) for analysis in ANALYSES.values())])[:-1]
    have = dict(zip(first.tolist(), expected_first, strict=True))
    with collected():
        made = every_analysis(opened(folder))
        return [have[n] if n in have else one.run(runner="serial") for n, one in enumerate(made)]


def assert_all_same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


# -- runners -----------------------------------------------------------------------------------------------------------


def test_together_on_threads_as_each_alone(folder: Path, expected: list[Any]) -> None:
    found = kn.run(every_analysis(opened(folder)), runner="threads", workers=3, memory="256 MiB")
    assert_all_same(found, expected)
    assert sum(np.asarray(one.summarised[0]).size for one in found) > len(found)


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_together_on_any_number_of_threads(folder: Path, expected_first: list[Any], workers: int) -> None:
    made = every_analysis(opened(folder), options=False)
    assert_all_same(kn.run(made, runner="threads", workers=workers, memory="64 MiB"), expected_first)


@pytest.mark.processes
@pytest.mark.parametrize(("runner", "workers"), [("processes", 2), ("processes", 3), ("processes", 7), ("dask", 2)])
def test_together_on_other_runners(folder: Path, expected_first: list[Any], runner: str, workers: int) -> None:
    made = every_analysis(opened(folder), options=False)
    assert_all_same(kn.run(made, runner=runner, workers=workers), expected_first)


RANKS = """
from kinema.base.notes import collected
from kinema.testing.analyses import every_analysis
from kinema.testing.runner_work import assert_same
with collected():
    traj = kn.open("peptide.dcd", topology="peptide.psf", stored=False)
    found = kn.run(every_analysis(traj, options=False), runner="mpi")
    if rank == 0:
        expected = kn.run(every_analysis(traj, options=False), runner="serial")
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        say("the same:", len(found))
"""


@pytest.mark.processes
def test_together_on_ranks(mpi: Any, folder: Path) -> None:
    assert mpi.compute(3, RANKS, folder) == f"the same: {len(ANALYSES)}\n"


# -- checkpoints and files ---------------------------------------------------------------------------------------------

KILLED = """
import sys, time
import kinema as kn
from kinema.testing.analyses import every_analysis

def slowly(done, total):
    # whoever kills this has the time to
    if done > 128:
        print("at work", flush=True)
        time.sleep(120)

folder = sys.argv[1]
traj = kn.open(folder + "/peptide.dcd", topology=folder + "/peptide.psf", stored=False)
analyses = every_analysis(traj, options=False)
kn.run(analyses, runner="threads", workers=2, checkpoint=sys.argv[2], checkpoint_interval=0, progress=slowly)
"""


@pytest.mark.processes
def test_a_run_of_all_that_was_killed_goes_on(folder: Path, expected_first: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    package = str(Path(kn.__file__).parent.parent)
    child = start_child(
        [sys.executable, "-c", KILLED, str(folder), str(path)], env={**os.environ, "PYTHONPATH": package}
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "at work\n", child.communicate()
    child.send_signal(signal.SIGKILL)
    child.wait()
    found = kn.run(every_analysis(opened(folder), options=False), runner="threads", workers=3, checkpoint=path)
    assert found[0].timings.frames_restored > 0
    assert not path.exists()
    assert_all_same(found, expected_first)


def test_rows_in_a_file_are_those_in_memory(folder: Path, expected_first: list[Any], tmp_path: Path) -> None:
    per_frame = [one for one in every_analysis(opened(folder), options=False) if one.is_per_frame]
    kn.run(per_frame, out=tmp_path / "rows.h5")
    in_memory = [one for one in expected_first if one.is_per_frame]
    for one, other in zip(per_frame, in_memory, strict=True):
        assert isinstance(one.results.time, ResultArray)
        assert one.results.keys() == other.results.keys()
        for name in other.results:
            np.testing.assert_array_equal(np.asarray(one.results[name]), other.results[name], err_msg=name)
            np.testing.assert_array_equal(one.results[name][5:9], other.results[name][5:9], err_msg=name)


def test_a_quantity_has_its_values_alone_under_its_name(expected: list[Any]) -> None:
    for one in expected:
        if not one.is_per_frame or one.is_list:
            continue
        found, width = one.results, 0
        assert (found.frames.shape, found.time.shape) == ((N_FRAMES,), (N_FRAMES,))
        for quantity in one.quantities:
            if quantity.name not in found or isinstance(one, kn.analysis.RMSD):
                continue
            values = found[quantity.name]
            # columns that an option makes may be missing
            has_columns = bool(quantity.columns) and not ("with --" in quantity.columns and values.ndim == 1)
            assert values.ndim == 1 + has_columns + isinstance(one, kn.analysis.Centers), quantity
            width += values[0].size
        if isinstance(one, kn.analysis.RMSD):
            # as in MDAnalysis, whose class has frame and time in its table
            np.testing.assert_array_equal(found.rmsd[:, :2], np.column_stack([found.frames, found.time]))
            width = found.rmsd.shape[1] - 2
        assert width == found.values.shape[1], one


def test_rows_of_any_number_have_columns_of_their_own(expected: list[Any]) -> None:
    lists = [one for one in expected if one.is_list]
    for one in lists:
        found = one.results
        np.testing.assert_array_equal(np.cumsum(found.counts), found.first_row[1:])
        for column in (*one.keys, *one.quantities):
            assert found[column.name].shape == (found.first_row[-1],), (one, column)
    assert sum(len(one.occupancy()) for one in lists) > len(lists)


def test_pickled_before_and_after_a_run(folder: Path, expected: list[Any]) -> None:
    for one, made in zip(expected, every_analysis(opened(folder)), strict=True):
        before, after = pickle.loads(pickle.dumps(made)), pickle.loads(pickle.dumps(one))
        assert not before.results and (repr(after), after.notes) == (repr(one), one.notes)
        assert after.provenance().json() == one.provenance().json()
        assert_same(after, one)
        assert_same(before.run(step=60, runner="serial"), made.run(step=60, runner="serial"))


def test_followed_as_they_are_run(folder: Path) -> None:
    followed, run = ([one for one in every_analysis(opened(folder)) if one.n_passes == 1] for _ in range(2))
    follow(followed, 112, 60.0, options={"workers": 2})
    assert_all_same(followed, kn.run(run, stop=112))


# -- commands ----------------------------------------------------------------------------------------------------------

# each analysis is drawn once, with its required arguments alone; in a long run with all of its examples
COMMANDS = [
    pytest.param(name, given, LONG or number == 0, id=f"{name} {' '.join(given)}".strip())
    for name, analysis in ANALYSES.items()
    for number, given in enumerate(examples_of(analysis))
]


@pytest.mark.parametrize(("name", "given", "drawn"), COMMANDS)
def test_the_command_gives_what_the_class_gives(
    folder: Path, name: str, given: dict[str, Any], drawn: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    analysis = ANALYSES[name]
    table, picture = tmp_path / "values.csv", tmp_path / "values.png"
    files = [str(folder / "peptide.dcd"), "-s", str(folder / "peptide.psf")]
    words = [name, *files, "--step", str(N_FRAMES // 10), "--no-stored", "--json"]
    words += option_words(analysis, given, tmp_path)
    with pytest.raises(SystemExit) as end:
        main([*words, "-o", str(table), *(["--plot", str(picture)] if drawn else [])])
    assert end.value.code == 0, capsys.readouterr().err
    facts = json.loads(capsys.readouterr().out)
    traj = opened(folder)
    made = analysis(traj, **given).run(step=N_FRAMES // 10)
    assert (facts["quantity"], facts["frames_used"], facts["n_atoms"]) == (made.subject, 10, traj.n_atoms)
    if made.summarised_over is None:
        assert not {"mean", "circular_mean", "min", "max", "over"} & set(facts)
    elif made.quantities[0].period:
        assert -180 <= facts["circular_mean"] <= 180 and not {"mean", "min", "max"} & set(facts)
    else:
        assert facts["min"] <= facts["mean"] <= facts["max"] and facts["over"] == made.summarised_over
    assert picture.read_bytes().startswith(b"\x89PNG") if drawn else not picture.exists()
    head, *rows = (line for line in table.read_text().splitlines() if not line.startswith("#"))
    columns = made.table().from_one().columns
    assert head == ",".join(f'"{one.label}"' if "," in one.label else one.label for one in columns)
    texts = np.array([one.values.astype(str) for one in columns if one.values.dtype.kind == "U"])
    assert len(rows) == len(columns[0].values) and texts.shape[0] < len(columns)
    # text has the digits of float32
    expected = [float(f"{value:.7g}") for value in columns[-1].values]
    np.testing.assert_array_equal([float(row.split(",")[-1]) for row in rows], expected)


def test_help_has_what_is_declared(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    for words in (["--help"], []):
        with pytest.raises(SystemExit):
            main(words)
        listed = capsys.readouterr()
        for name, analysis in ANALYSES.items():
            assert re.search(rf"^│ {name} +{re.escape(analysis.summary)}", listed.out + listed.err, re.MULTILINE)
    for name, analysis in ANALYSES.items():
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])
        printed = " ".join(capsys.readouterr().out.replace("│", " ").split())
        assert analysis.summary in printed
        for one in arguments_of(analysis):
            assert one.flag in printed and one.help.split()[0] in printed


# -- what they declare -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ANALYSES)
def test_what_is_declared_is_complete(name: str) -> None:
    analysis = ANALYSES[name]
    module = sys.modules[analysis.__module__]
    assert analysis.command_name == name == analysis.__module__.rpartition(".")[2].replace("_", "-")
    assert analysis.__name__ in module.__all__ and getattr(kn.analysis, analysis.__name__) is analysis
    assert module.__doc__ and analysis.__doc__
    assert re.fullmatch(r"[A-Z].*\.", analysis.summary) and len(analysis.summary) < 110
    assert analysis.reference and analysis.quantities
    # of the constructor all is documented, and each option is called as its argument, but for lists
    parameters = list(inspect.signature(analysis.__init__).parameters)[1:]
    assert parameters[:2] == ["trajectory", *(["select"] if takes_select(analysis) else parameters[1:2])]
    for parameter in parameters:
        assert re.search(rf"^    (.*, )?{parameter}\b.*:", analysis.__doc__, re.MULTILINE), parameter
    for one in arguments_of(analysis):
        assert one.kind == "list of atoms" or one.flag == f"--{one.name.replace('_', '-')}"
        assert re.fullmatch(r"[A-Z].*[.:]", one.help), one.help
        assert one.kind != "choice" or one.required or one.written_default in one.choices


def test_names_of_the_package() -> None:
    assert {*ANALYSES.class_names} <= {*kn.analysis.__all__}
    assert len(set(kn.analysis.__all__)) == len(kn.analysis.__all__)
    for name in kn.analysis.__all__:
        assert getattr(kn.analysis, name) is not None
    with pytest.raises(AttributeError, match="'Distance'"):
        _ = kn.analysis.Distance
    with pytest.raises(KeyError):
        _ = ANALYSES["distance"]
