"""`kinema run`: job files, their mistakes with keys, templates; results as those of the single commands."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tests.cli.test_checkpoints import SCRIPT

from kinema.analysis import ANALYSES
from kinema.base.errors import ArgumentError, Error
from kinema.cli.jobs.job import Job, checked_job
from kinema.cli.jobs.keys import keys_of
from kinema.cli.jobs.template import template
from kinema.cli.jobs.text import MOST_BYTES, read_text, with_settings

JOB = """\
[trajectory]
files = ["{dcd}"]
topology = "{psf}"
index_file = "{ndx}"
start = 10
stop = -3
step = 2

[run]
workers = 2
report = "{out}/report.json"

[[analysis]]
name = "rmsd"
select = "protein and name CA"
groups = ["name CB", {{group = "first"}}]
weights = "mass"
output = "{out}/rmsd.npy"

# the same kind again
[[analysis]]
name = "rmsf"
group = "C-alpha"
align = "average"
output = "{out}/rmsf.npy"
plot = "{out}/rmsf.svg"

[[analysis]]
name = "rgyr"
select = "name CA"
axes = true
output = "{out}/rgyr.npy"
output_unit = "nm"
"""


def checked(path: Path, text: str) -> Job:
    path.write_text(text)
    return checked_job(read_text(str(path)))


def test_results_are_those_of_the_single_commands(files: Any, tmp_path: Path, run_kinema: Any) -> None:
    out, single = tmp_path / "out", tmp_path / "single"
    out.mkdir()
    single.mkdir()
    job = tmp_path / "job.toml"
    job.write_text(JOB.format(dcd=files.dcd, psf=files.psf, ndx=files.ndx, out=out))
    done = run_kinema("run", job, "--json")
    assert done.returncode == 0, done.stderr
    together = json.loads(done.stdout)
    common = (files.dcd, "-s", files.psf, "--start", 10, "--stop", -3, "--step", 2, "--json")
    own = {
        "rmsd": (
            *("-n", files.ndx, "--select", "protein and name CA", "--rmsd-select", "name CB", "--groups", "first"),
            *("--weights", "mass"),
        ),
        "rmsf": ("-n", files.ndx, "--group", "C-alpha", "--align", "average"),
        "rgyr": ("--select", "name CA", "--axes", "--output-unit", "nm"),
    }
    alone = {}
    for name, words in own.items():
        if name == "rmsd":  # the command takes atoms from the index file or by words; the job either for each
            words = tuple(word for word in words if word not in ("-n", files.ndx, "--groups", "first"))
            words = (*words, "--rmsd-select", "bynum 1:5")
        done = run_kinema(name, *common, *words, "-o", single / f"{name}.npy")
        assert done.returncode == 0, done.stderr
        alone[name] = json.loads(done.stdout)
        assert (out / f"{name}.npy").read_bytes() == (single / f"{name}.npy").read_bytes()
    made = {path.name for path in out.iterdir()}
    assert made == {f"{name}.npy{end}" for name in own for end in ("", ".json")} | {"rmsf.svg", "report.json"}
    for found in together["analyses"]:
        name = next(name for name, one in alone.items() if one["quantity"] == found["quantity"])
        assert {key: found[key] for key in ("mean", "min", "max", "unit", "frames_used")} == {
            key: alone[name][key] for key in ("mean", "min", "max", "unit", "frames_used")
        }
    # frames are read for all of them together: twice for the one that takes two passes
    assert together["analyses"][0]["bytes_read"] <= alone["rmsf"]["bytes_read"] * 1.01


def test_stdin_settings_and_rows(files: Any, tmp_path: Path, environment: dict[str, str]) -> None:
    text = f'[trajectory]\nfiles = "{files.dcd}"\n[run]\nout = "all.h5"\n'
    text += '[[analysis]]\nname = "rgyr"\nweights = "none"\n[[analysis]]\nname = "rmsd"\noutput = "-"\n'
    words = [sys.executable, "-m", "kinema", "run", "-", "--set", "trajectory.stop=7", "--set", "run.runner=serial"]
    words += ["--set", "analysis.1.superposition=false"]
    done = subprocess.run(words, input=text, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line[0].isdigit()]
    assert len(rows) == 7
    with h5py.File(tmp_path / "all.h5", "r") as file:
        assert file["rgyr"].shape[0] == file["rmsd"].shape[0] == 7
        np.testing.assert_allclose(file["rmsd"][:, 0], [float(row.split(",")[2]) for row in rows], rtol=1e-6)
    assert "radius of gyration of all 3341 atoms" in done.stderr


TOP = '[trajectory]\nfiles = "a.dcd"\n'
MISTAKES = {
    "no TOML": (TOP + "[run\n", "", "expected TOML: Expected ']' at the end of a table declaration (at line 3, column"),
    "twice": (
        TOP + "[run]\nworkers = 1\nworkers = 2\n",
        "",
        "expected TOML: Cannot overwrite a value (at line 5, column",
    ),
    "unknown table": (TOP + "[runs]\n", "runs", "'runs' is not known in a job file, expected one of trajectory, run"),
    "unknown key": (TOP + "[run]\n\nworkres = 1\n", "run.workres", "'workres' is not known in [run]"),
    "near name": (TOP + "[run]\nworkres = 1\n", "run.workres", "did you mean 'workers'?"),
    "type": (TOP + '[run]\nworkers = "2"\n', "run.workers", "workers in [run]: expected a whole number, found '2'"),
    "flag as number": (TOP + "[run]\nworkers = true\n", "run.workers", "expected a whole number, found True"),
    "range": (TOP + "[run]\nworkers = 0\n", "run.workers", "expected a whole number from 1 to 65536, found '0'"),
    "not a number": (TOP + "begin = nan\n", "trajectory.begin", "expected a number, found nan"),
    "choice": (TOP + '[run]\nrunner = "thread"\n', "run.runner", "expected one of 'threads', 'processes'"),
    "memory": (TOP + '[run]\nmemory = "1 MiBs"\n', "run.memory", "memory in [run]: "),
    "no files": (
        "[trajectory]\nstop = 3\n[[analysis]]\nname = 'rgyr'\n",
        "trajectory",
        "files is missing in [trajectory]",
    ),
    "empty": (
        TOP + 'topology = ""\n',
        "trajectory.topology",
        "topology in [trajectory]: expected text in quotes, found ''",
    ),
    "no analysis": (TOP, "analysis", "expected a table [[analysis]] for each analysis, found none"),
    "one bracket": (TOP + '[analysis]\nname = "rgyr"\n', "analysis", "expected a table [[analysis]] for each analysis"),
    "no name": (TOP + '[[analysis]]\nselect = "all"\n', "analysis.0", "name is missing in [[analysis]]"),
    "name": (TOP + '[[analysis]]\nname = "rgyro"\n', "analysis.0.name", "did you mean 'rgyr'?"),
    "argument": (
        TOP + '[[analysis]]\nname = "rgyr"\n[[analysis]]\nname = "rmsf"\n\nalgn = "average"\n',
        "analysis.1.algn",
        "'algn' is not known in [[analysis]] of rmsf",
    ),
    "its value": (
        TOP + '[[analysis]]\nname = "rmsf"\nalign = "mean"\n',
        "analysis.0.align",
        "align in [[analysis]] of rmsf: expected one of 'none'",
    ),
    "after a list": (
        TOP + '[[analysis]]\nname = "rmsd"\ngroups = [\n  "a]",  # [\n  "b"\n]\nweights = 3\n',
        "analysis.0.weights",
        "weights in [[analysis]] of rmsd",
    ),
    "after text of several lines": (
        TOP + '[[analysis]]\nname = "rmsd"\nselect = """\n[run]\nworkers = 1\n"""\nmatch = 1\n',
        "analysis.0.match",
        "match in [[analysis]] of rmsd",
    ),
    "exclusive": (
        TOP + '[[analysis]]\nname = "rmsd"\nref_frame = 3\nreference = "a.pdb"\n',
        "analysis.0",
        "[[analysis]] of rmsd: ",
    ),
    "inline": ('trajectory = {files = "a", stop = "b"}\n', "trajectory.stop", "expected a whole number, found 'b'"),
    "dotted": (
        'trajectory.files = "a"\ntrajectory."stop" = 1.5\n',
        "trajectory.stop",
        "expected a whole number, found 1.5",
    ),
    "quoted": (TOP + '"a.b\\n" = 1\n', "trajectory.'a.b\\n'", "'a.b\\n' is not known in [trajectory]"),
    "a group that is none": (
        TOP + '[[analysis]]\nname = "rmsd"\ngroups = [{grup = "x"}]\n',
        "analysis.0.groups",
        "groups in [[analysis]] of rmsd: expected {group",
    ),
    # from strangers
    "nested": (TOP + f"x = {'[' * 50_000}\n", "", "values are nested too deeply"),
    "nested tables": (TOP + f"x = {'{a=' * 50_000}\n", "", "values are nested too deeply"),
    "long name": ("a." * 60_000 + "a = 1\n", "", "expected keys of at most 100 parts"),
    "long name in a header": (f"[{'a . ' * 60_000}a]\n", "", "expected keys of at most 100 parts"),
    "quoted parts": ('"a=".' * 50_000 + "a = 1\n", "", "expected keys of at most 100 parts"),
    "after a quote": (f'x = ["\\"", {{{"a." * 60_000}a = ""}}]\n', "", "expected keys of at most 100 parts"),
    "after four quotes": (f'x = ["""a"""", {{{"a." * 60_000}a = ""}}]\n', "", "expected keys of at most 100 parts"),
    "after quotes in lines": (f'x = ["""\n""", {{{"a." * 60_000}a = ""}}]\n', "", "expected keys of at most 100 parts"),
    "a long word": (f"{'a' * 60_000} = 1\n", f"'{'a' * 59}...", "is not known in a job file"),
    "many brackets": (
        "[" * 60_000 + "\n",
        "",
        "expected TOML: Invalid initial character for a key part (at line 1, column",
    ),
    "long number": (TOP + f"stop = {'9' * 5000}\n", "", "expected TOML: Exceeds the limit"),
    "beyond integers": (TOP + f"stop = {'9' * 900}\n", "trajectory.stop", "expected a whole number from"),
    "quotes": (TOP + '"""' * 30_001 + "\n", "", "expected TOML: "),
    "quotes in a value": (TOP + 'topology = ""' + '"""' * 30_000 + "\n", "", "expected TOML: "),
    "escaped quotes": (TOP + 'topology = """' + '\\"' * 120_000 + "\n", "", "expected TOML: Unterminated string"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_names_its_key(tmp_path: Path, name: str) -> None:
    text, key, what = MISTAKES[name]
    path = tmp_path / "job.toml"
    with pytest.raises(ArgumentError) as caught:
        checked(path, text)
    message = str(caught.value)
    assert message.startswith(f"{path}: {key}: " if key else f"{path}: {what}"), message[:300]
    assert what in message
    assert len(message) < 2500


@pytest.mark.parametrize("depth", [1, 50, 99])
def test_text_and_comments_may_have_many_dots(tmp_path: Path, depth: int) -> None:
    dots = "." * 300
    text = f'trajectory.files = ["{dots}a.dcd", \'{dots}\', """\n{dots}""""]  # {dots}\n[[analysis]]\nname = "rgyr"\n'
    job = checked(tmp_path / "job.toml", text)
    assert job.trajectory["files"] == [Path(f"{dots}a.dcd"), Path(dots), Path(f'{dots}"')]
    with pytest.raises(ArgumentError, match=r"job\.toml: trajectory\.x: 'x' is not known"):
        checked(tmp_path / "job.toml", f"trajectory.{'x.' * (depth - 1)}x = 1\n")


def test_files_that_are_no_job(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_bytes(b"[run]\nmemory = '\xff'\n")
    with pytest.raises(ArgumentError, match="line 2: expected text in UTF-8"):
        read_text(str(path))
    path.write_bytes(b"#" * (MOST_BYTES + 1))
    with pytest.raises(ArgumentError, match=r"job\.toml"):
        read_text(str(path))
    for name in ("/dev/zero", str(tmp_path), str(tmp_path / "none.toml")):
        with pytest.raises(Error, match=re.escape(name)):
            read_text(name)


def test_settings_take_the_place_of_values(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(TOP + '[[analysis]]\nname = "rmsd"\nweights = "mass"\n')

    def set_to(*settings: str) -> Job:
        return checked_job(with_settings(read_text(str(path)), list(settings)))

    job = set_to("run.memory=2 GiB", "trajectory.files=['b.dcd', 'c.dcd']", "analysis.0.select=name CA")
    assert (job.run["memory"], job.trajectory["files"]) == ("2 GiB", [Path("b.dcd"), Path("c.dcd")])
    assert job.analyses[0].given == {"weights": "mass", "select": "name CA"}
    for setting, what in (
        ("run.workers=many", "job.toml: --set run.workers: workers in [run]: expected a whole number, found 'many'"),
        ("analysis.1.select=all", "there is no such table"),
        ("workers=1", "--set takes TABLE.KEY=VALUE"),
        ("run.workers", "--set takes TABLE.KEY=VALUE"),
        ("trajectory.files.x=1", "there is no such table"),
    ):
        with pytest.raises(ArgumentError, match=re.escape(what)):
            set_to(setting)


@pytest.mark.parametrize("name", ANALYSES)
def test_a_template_passes_the_schema(tmp_path: Path, name: str) -> None:
    text = template([name])
    job = checked(tmp_path / "job.toml", text)
    assert [one.name for one in job.analyses] == [name]
    lines = text.splitlines()
    keys = [number for number, line in enumerate(lines) if re.match(r"#\w+ = ", line)]
    assert len(keys) > 30
    own = keys_of(ANALYSES[name])
    for number in keys:
        written = tomllib.loads(lines[number].removeprefix("#"))
        ((key, value),) = written.items()
        if key in own and own[key].argument is not None:
            # some are for others alone, which the analysis says
            own[key].convert(value)
            continue
        one = [*lines]
        one[number] = one[number].removeprefix("#")
        found = checked(tmp_path / "job.toml", "\n".join(one))
        count = sum(map(len, (job.trajectory, job.run, job.analyses[0].given)))
        assert sum(map(len, (found.trajectory, found.run, found.analyses[0].given))) == count + 1, lines[number]


@pytest.mark.parametrize(
    ("table", "key", "value", "what"),
    [
        ("run", "scheduler", "tcp://127.0.0.1:8786", "a scheduler may run code as you, so a job file names none"),
        ("run", "report", "../report.json", "is outside of the working folder and that of the job file"),
        ("run", "checkpoint", "link/job.checkpoint", "is outside of the working folder"),
        ("run", "report", "run.sh", "is not a file that ends in .json"),
        ("run", "out", "/values.h5", "is outside of the working folder"),
        ("analysis.0", "output", ".bashrc", "is hidden"),
        ("analysis.0", "output", ".config/x.csv", "is hidden"),
        ("analysis.0", "output", "run.sh", "is not a file that ends in .csv, .xvg, "),
        ("analysis.0", "plot", "link/x.png", "is outside of the working folder"),
    ],
)  # fmt: skip
def test_a_job_file_alone_does_not_say_who_runs_code_and_which_files_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, key: str, value: str, what: str
) -> None:
    """It may come from a stranger; `--set` is of the user."""
    (tmp_path / "other").mkdir()
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "link").symlink_to(tmp_path / "other")
    monkeypatch.chdir(tmp_path / "job")
    path = tmp_path / "job" / "job.toml"
    text = 'trajectory.files = ["a.dcd"]\n[[analysis]]\nname = "rgyr"\n'
    own = f'{key} = "{value}"\n' + ('output_format = "csv"\n' if key == "output" else "")
    path.write_text(text + (own if table == "analysis.0" else f"[run]\n{own}"))
    said = re.escape(f"job.toml: {table}.{key}: {value if 'is' in what else what}")
    with pytest.raises(ArgumentError, match=said) as refused:
        checked_job(read_text(str(path)))
    assert what in str(refused.value)
    assert f"give it with --set {table}.{key}={value}" in str(refused.value)
    checked_job(with_settings(read_text(str(path)), [f"{table}.{key}={value}"]))


def test_outputs_in_the_folder_of_the_job_file_and_below(tmp_path: Path) -> None:
    text = f'trajectory.files = ["a.dcd"]\nrun.checkpoint = "{tmp_path}/job.ckpt"\n[[analysis]]\nname = "rgyr"\n'
    for output in (tmp_path / "a.csv", tmp_path / "below" / "a.npy", "a.csv", "below/a.xvg", "-", "/dev/stdout"):
        (one,) = checked(tmp_path / "job.toml", f'{text}output = "{output}"\n').analyses
        assert str(one.given["output"]) == str(output)


def test_templates_and_what_a_command_refuses(files: Any, tmp_path: Path, run_kinema: Any) -> None:
    done = run_kinema("run", "--template", "rgyr", "rmsf")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == template(["rgyr", "rmsf"])
    job = tmp_path / "job.toml"
    job.write_text(done.stdout)
    # outputs are refused before anything is read
    done = run_kinema("run", job, "--set", "analysis.1.output='none/x.csv'", cwd=tmp_path)
    assert done.returncode == 2
    assert f"{job}: analysis.1: none/x.csv: " in done.stderr
    done = run_kinema("run", job, "--set", "analysis.1.output='rgyr.csv'", cwd=tmp_path)
    assert "rgyr.csv: is named twice, give each output a file of its own" in done.stderr
    done = run_kinema(
        "run", job, "--set", f"trajectory.files='{files.dcd}'", "--set", "analysis.0.select=nome", cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"kinema: {job}: analysis.0: [[analysis]] of rgyr: ")
    assert [path.name for path in tmp_path.glob("*.csv*")] == []
    done = run_kinema("run", "--template", "rgry")
    assert (done.returncode, "rgry is not an analysis" in done.stderr) == (2, True)


def test_a_job_that_was_stopped_goes_on(
    files: Any, tmp_path: Path, run_kinema: Any, environment: dict[str, str]
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    job = tmp_path / "job.toml"
    parts = json.dumps([str(files.dcd)] * 250)
    job.write_text(
        f'[trajectory]\nfiles = {parts}\noverlap = "all"\n[run]\nworkers = 1\ncheckpoint = "{folder}/job.checkpoint"\n'
        f'[[analysis]]\nname = "rmsd"\noutput = "{folder}/rmsd.npy"\n'
        f'[[analysis]]\nname = "rgyr"\nweights = "none"\noutput = "{folder}/rgyr.npy"\n'
    )
    script = SCRIPT.format(name="SIGINT", words=["run", str(job)])
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 128 + signal.SIGINT, done.stderr
    assert done.stderr.splitlines()[-1] == (
        f"kinema: stopped; what was done is in {folder}/job.checkpoint; the same call continues from there"
    )
    assert [path.name for path in folder.iterdir()] == ["job.checkpoint"]
    done = run_kinema("run", job)
    assert done.returncode == 0, done.stderr
    assert f"frames were done already: {folder}/job.checkpoint" in done.stdout
    assert {path.suffix for path in folder.iterdir()} == {".npy", ".json"}
    for name in ("rmsd", "rgyr"):
        found = np.load(folder / f"{name}.npy")
        values = (found[found.dtype.names[-1]] if found.dtype.names else found[:, -1]).reshape(250, 98)
        np.testing.assert_array_equal(values, np.tile(values[0], (250, 1)))


def test_the_job_of_the_documents_passes_the_schema(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/jobs.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert [one.name for one in checked(tmp_path / "job.toml", found).analyses] == ["rmsd", "rmsf", "rgyr"]
    misspelt = found.replace("weights", "weigths")
    (message,) = re.findall(r"kinema: job\.toml: (analysis\.\d+\.\w+: '.*?), expected", text)
    with pytest.raises(ArgumentError, match=re.escape(message)):
        checked(tmp_path / "job.toml", misspelt)
