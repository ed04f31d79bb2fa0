"""Outputs of commands: streams, names of another format, outputs that are inputs, two commands with one output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.cli import main
from kinema.testing import random_walk, write_dcd
from kinema.testing.programs.children import start_child


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty one."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def rgyr(files: Any, *words: Any) -> list[str]:
    return ["rgyr", "-f", str(files.dcd), "--weights", "none", "--stop", "5", *map(str, words)]


@pytest.mark.parametrize(("name", "kind"), [("-", None), ("/dev/stdout", "csv"), ("-", "xvg"), ("-", "dat")])
def test_values_on_stdout(files: Any, folder: Path, run_kinema: Any, name: str, kind: str | None) -> None:
    words = [] if kind is None else ["--output-format", kind]
    done = run_kinema(*rgyr(files, "-o", name, *words), cwd=folder)
    assert done.returncode == 0, done.stderr
    run_kinema(*rgyr(files, "-o", folder / f"file.{kind or 'csv'}"))
    written = (folder / f"file.{kind or 'csv'}").read_text()

    def rows(text: str) -> list[str]:
        return [line for line in text.splitlines() if not line.startswith("#")]

    assert rows(done.stdout) == rows(written)
    assert "radius of gyration" in done.stderr
    assert os.listdir(folder) == [f"file.{kind or 'csv'}"]


def test_values_into_a_fifo(files: Any, folder: Path, run_kinema: Any) -> None:
    os.mkfifo(folder / "pipe")
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append((folder / "pipe").read_text()), daemon=True)
    reader.start()
    done = run_kinema(*rgyr(files, "-o", folder / "pipe", "--output-format", "xvg", "--json"))
    reader.join(120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["frames_used"] == 5
    assert "@TYPE xy" in found[0]
    assert os.listdir(folder) == ["pipe"]


def test_streams_for_what_is_no_table(files: Any, tmp_path: Path, run_kinema: Any) -> None:
    os.mkfifo(tmp_path / "pipe.h5")
    os.mkfifo(tmp_path / "pipe.dcd")
    for words in (
        rgyr(files, "-o", tmp_path / "pipe.h5"),
        ["join", str(files.dcd), "-o", "-"],
        ["check", str(files.dcd), "--salvage", "-o", tmp_path / "pipe.dcd"],
        rgyr(files, "--checkpoint", tmp_path / "pipe.h5"),
        rgyr(files, "--output-format", "csv"),
        rgyr(files, "-o", tmp_path / "a.h5", "--output-format", "csv"),
    ):
        done = run_kinema(*words)
        assert done.returncode == 2, done.stderr
        assert (
            "stream" in done.stderr
            or "is a pipe (FIFO)" in done.stderr
            or "--output-format is of tables" in done.stderr
        )


@pytest.mark.parametrize(
    ("option", "which"), [("-o", "-f"), ("--plot", "-s"), ("--report", "-n"), ("--checkpoint", "--reference")]
)
def test_an_output_that_is_an_input_is_refused(
    files: Any, tmp_path: Path, run_kinema: Any, option: str, which: str
) -> None:
    suffix = {"-o": ".csv", "--plot": ".png", "--report": ".json", "--checkpoint": ".ckpt"}[option]
    given = {"-f": files.dcd, "-s": files.psf, "-n": files.ndx, "--reference": files.psf}[which]
    same = tmp_path / f"input{suffix}"
    same.symlink_to(given)
    before = given.read_bytes()
    words = ["rmsd", *(["-f", files.dcd] if which != "-f" else []), which, same, option, same]
    done = run_kinema(*words)
    assert done.returncode == 2
    assert f"{same}: is the file that is read" in done.stderr
    assert given.read_bytes() == before and same.is_symlink()


# options and arguments of commands that name what they make
WRITTEN = {"--output", "--plot", "--report", "--timeline", "--folder", "target"}


def test_every_command_that_writes_takes_force() -> None:
    from kinema.cli.app import parser_of

    found = []

    def walk(command: Any, path: str) -> None:
        for name, one in getattr(command, "commands", {}).items():
            walk(one, f"{path} {name}")
        names = {name for one in command.params for name in (*one.opts, one.name)}
        if names & WRITTEN:
            found.append(path)
            assert "--force" in names, path

    walk(parser_of(()), "kinema")
    assert len(found) > 20


@pytest.mark.parametrize(
    "words",
    [
        ["rgyr", "-f", "none.dcd", "-o", "mine"],
        ["rgyr", "-f", "none.dcd", "-o", "mine", "--follow"],
        ["rgyr", "-f", "none.dcd", "--report", "mine"],
        ["rgyr", "-f", "none.dcd", "--plot", "mine"],
        ["report", "none.json", "--plot", "mine"],
        ["ml", "statistics", "none.npz", "-o", "mine"],
        ["convert", "none.dcd", "-o", "mine"],
    ],
    ids=" ".join,
)
def test_a_file_that_is_not_ours_is_refused_before_anything_is_read(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    suffix = {"--plot": "png", "--report": "json", "convert": "xtc"}
    name = f"mine.{next((end for word, end in suffix.items() if word in words), 'csv')}"
    Path(name).write_text("mine")
    line = [name if word == "mine" else word for word in words]
    with pytest.raises(SystemExit, match="2"):
        main(line)
    err = capsys.readouterr().err
    assert err.startswith(f"kinema: {name}: exists already") and err.endswith("; --force replaces it\n")
    # what comes next is the input
    with pytest.raises(SystemExit, match="2"):
        main([*line, "--force", *(["--follow-timeout", "0"] if "--follow" in line else [])])
    assert "none." in capsys.readouterr().err
    assert Path(name).read_text() == "mine"


def test_what_is_ours_is_replaced_and_trajectories_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    write_dcd("md.dcd", random_walk(20, 15))
    analysis = ["rgyr", "md.dcd", "--weights", "none", "-o", "a.csv", "--plot", "a.png", "--report", "a.json"]
    for _ in range(2):
        with pytest.raises(SystemExit, match="0"):
            main(analysis)
    for force, code in (([], 0), ([], 2), (["--force"], 0)):
        with pytest.raises(SystemExit, match=str(code)):
            main(["convert", "md.dcd", "-o", "a.trr", *force])
    for name in ("a.csv", "a.png", "a.json"):
        Path(name).write_text("mine")
    with pytest.raises(SystemExit, match="0"):
        main([*analysis, "--force"])
    assert "\n# kinema " in Path("a.csv").read_text()
    capsys.readouterr()


def test_a_job_is_forced_by_who_runs_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    write_dcd("md.dcd", random_walk(20, 15))
    Path("a.csv").write_text("mine")
    text = '[trajectory]\nfiles = ["md.dcd"]\n[[analysis]]\nname = "rgyr"\nweights = "none"\noutput = "a.csv"\n'
    Path("job.toml").write_text(text)
    with pytest.raises(SystemExit, match="2"):
        main(["run", "job.toml"])
    assert "a.csv: exists already" in capsys.readouterr().err
    Path("forced.toml").write_text("[run]\nforce = true\n" + text)
    with pytest.raises(SystemExit, match="2"):
        main(["run", "forced.toml"])
    assert "force" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(["run", "job.toml", "--force"])
    assert "\n# kinema " in Path("a.csv").read_text()


def test_an_output_that_is_an_input_is_refused_in_python(tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(5, 4))
    for name in ("in.csv", "in.png", "in.h5"):
        os.link(tmp_path / "a.dcd", tmp_path / name)
    rmsd = kn.analysis.RMSD(kn.open(tmp_path / "a.dcd"))
    before = (tmp_path / "a.dcd").read_bytes()
    for call in (
        lambda: rmsd.run(checkpoint=tmp_path / "in.csv"),
        lambda: rmsd.run(out=tmp_path / "in.h5"),
        lambda: rmsd.run().save(tmp_path / "in.csv"),
        lambda: rmsd.run().plot(tmp_path / "in.png"),
        lambda: rmsd.run().report().save(tmp_path / "in.csv"),
        lambda: rmsd.run().report().plot(tmp_path / "in.png"),
    ):
        with pytest.raises(kn.ArgumentError, match="is the file that is read"):
            call()
    assert (tmp_path / "a.dcd").read_bytes() == before
    assert (tmp_path / "in.csv").samefile(tmp_path / "a.dcd")


FIRST = """
import sys
import kinema.cli
from kinema.cli import analysis_run

scanned = analysis_run.kn.Trajectory.scan

def scan(self, *words, **options):
    print("begun", flush=True)
    sys.stdin.readline()
    return scanned(self, *words, **options)

analysis_run.kn.Trajectory.scan = scan
kinema.cli.main(sys.argv[1:])
"""


@pytest.mark.processes
@pytest.mark.parametrize("option", ["-o", "--plot", "--report"])
def test_the_second_command_is_refused_before_it_reads(
    files: Any, folder: Path, run_kinema: Any, environment: dict[str, str], option: str
) -> None:
    out = folder / {"-o": "a.csv", "--plot": "a.png", "--report": "a.json"}[option]
    words = rgyr(files, option, out)
    first = start_child([sys.executable, "-c", FIRST, *words], stdin=subprocess.PIPE, env=environment)
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "begun\n"
        done = run_kinema("rgyr", "-f", folder / "is not read.dcd", option, out)
        assert done.returncode == 2
        assert f"{out}: is being written by process {first.pid}" in done.stderr
        _, error = first.communicate("go on\n", timeout=120)
        assert first.returncode == 0, error
    finally:
        first.kill()
        first.communicate(timeout=120)
    assert os.listdir(folder) == [out.name]


def test_a_command_that_fails_leaves_nothing(folder: Path, run_kinema: Any) -> None:
    done = run_kinema("rgyr", "-f", folder / "none.dcd", "-o", folder / "a.csv", "--plot", folder / "a.png")
    assert done.returncode == 2
    assert os.listdir(folder) == []


# -- names of another format --------------------------------------------------------------------------------------


def test_names_of_another_format_are_refused(tmp_path: Path, run_kinema: Any) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(4, 5))
    with kn.Writer(tmp_path / "a.h5md", 5) as out:
        out.write(random_walk(4, 5))
    before = sorted(os.listdir(tmp_path))
    for words, written in (
        (["join", "a.dcd", "-o", "c.xtc"], "DCD"),
        (["join", "a.h5md", "-o", "c.xtc"], "H5MD"),
        (["join", "--copy", "a.h5md", "-o", "c.dcd"], "H5MD"),
        (["repack", "a.h5md", "c.xtc"], "H5MD"),
        (["repack", "a.h5md", "c.pdb"], "H5MD"),
    ):
        done = run_kinema(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert f"{words[-1]}: this version writes {written} here, expected a name that ends with ." in done.stderr
    with pytest.raises(kn.UnsupportedFormatError, match=r"x\.xyz: no writer of \.xyz, expected .*H5MD .*\.h5"):
        kn.Writer(tmp_path / "x.xyz", 5)
    assert sorted(os.listdir(tmp_path)) == before


def test_repack_says_what_it_takes_and_what_was_given(tmp_path: Path, run_kinema: Any) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(4, 5))
    (tmp_path / "text.h5md").write_text("no trajectory")
    for source, message in (
        ("a.dcd", "a.dcd: repack takes H5MD and other HDF5 files, and this is DCD"),
        ("text.h5md", "text.h5md: not H5MD in spite of its name"),
        ("none.h5md", "none.h5md: no such file"),
    ):
        done = run_kinema("repack", source, "out.h5md", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith(f"kinema: {message}")
    with pytest.raises(kn.UnsupportedFormatError, match="layout_of takes H5MD and other HDF5 files, and this is DCD"):
        kn.layout_of(tmp_path / "a.dcd")
    assert not (tmp_path / "out.h5md").exists()


def test_parts_have_the_suffix_of_their_format(tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.xtc", random_walk(4, 5))
    done = kn.split(tmp_path / "a.xtc", tmp_path / "parts", parts=2)
    assert [os.path.basename(path) for path in done.paths] == ["a.000.dcd", "a.001.dcd"]
    assert kn.open(done.paths).n_frames == 4


def test_both_files_of_an_array_are_listed(files: Any, tmp_path: Path, run_kinema: Any) -> None:
    done = run_kinema("rmsd", "-f", files.dcd, "-o", "a.npy", "--report", "a.json", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "written: a.npy, a.npy.json, a.json"
    assert {path.name for path in tmp_path.glob("a.*")} == {"a.json", "a.npy", "a.npy.json"}
    done = run_kinema("rmsd", "-f", files.dcd, "-o", "b.npy", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["outputs"] == ["b.npy", "b.npy.json"]


# -- what outputs say ---------------------------------------------------------------------------------------------


def test_provenance_names_all_files_with_fingerprints(files: Any, tmp_path: Path, run_kinema: Any) -> None:
    reference = tmp_path / "reference.dcd"
    reference.write_bytes(files.dcd.read_bytes())
    index = tmp_path / "index.ndx"
    index.write_text(files.ndx.read_text())
    words = ["rmsd", "-f", files.dcd, "-n", index, "--group", "C-alpha", "--reference", reference, "--stop", 3]
    found = []
    for number in range(2):
        out = tmp_path / f"{number}.h5"
        done = run_kinema(*words, "-o", out)
        assert done.returncode == 0, done.stderr
        with h5py.File(out) as file:
            inputs = json.loads(file["rmsd"].attrs["provenance"])["inputs"]
        found.append({one["path"]: one["fingerprint"] for one in inputs})
        assert all(one["size"] == os.path.getsize(one["path"]) for one in inputs)
        with index.open("a") as file:
            file.write("[ other ]\n1 2 3\n")
    assert set(found[0]) == {str(files.dcd), str(index), str(reference)}
    assert all(found[0].values())
    assert {path for path in found[0] if found[0][path] != found[1][path]} == {str(index)}
    done = run_kinema("rgyr", "-s", files.psf, "-f", files.dcd, "--stop", 3, "-o", "-")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"# input: {files.psf}")]
    assert f"({os.path.getsize(files.psf)} bytes, fingerprint " in line


def test_messages_do_not_contradict_each_other(tmp_path: Path) -> None:
    write_dcd(tmp_path / "a.dcd", random_walk(90, 4))
    traj, kept, out = kn.open(tmp_path / "a.dcd"), tmp_path / "run.ckpt", tmp_path / "rows.h5"

    class Stop(Exception):
        pass

    def stop(done: int, _total: int) -> None:
        if done:
            raise Stop

    with pytest.raises(Stop) as stopped:
        kn.analysis.RMSD(traj).run(checkpoint=kept, checkpoint_interval=0, out=out, progress=stop)
    assert any("the same call continues from there" in note for note in stopped.value.__notes__)
    (part,) = tmp_path.glob("rows.part-*.h5")
    part.rename(tmp_path / "away")
    with pytest.raises(kn.ArgumentError, match="bring it back, or remove the checkpoint to start again") as caught:
        kn.analysis.RMSD(traj).run(checkpoint=kept, out=out)
    assert not any("continues" in note for note in getattr(caught.value, "__notes__", []))
    (tmp_path / "away").rename(part)
    assert kn.analysis.RMSD(traj).run(checkpoint=kept, out=out).timings.frames_restored == 90
    assert np.asarray(kn.analysis.RMSD(traj).run().results.rmsd).shape == (90, 3)


def test_results_of_an_experiment_need_a_folder(files: Any, tmp_path: Path, run_kinema: Any) -> None:
    (tmp_path / "r.csv").write_text("a file")
    done = run_kinema("scaling", "-f", files.dcd, "-o", tmp_path / "r.csv")
    assert done.returncode == 2 and "r.csv: is a file, expected a folder" in done.stderr
    assert (tmp_path / "r.csv").read_text() == "a file"
