"""`kinema convert`: its options, what it prints, and what is left where it is stopped or killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.testing.amounts import each
from kinema.testing.programs.children import start_child


def test_a_file_of_another_format(files: Any, tmp_path: Path, run_kinema: Any) -> None:
    done = run_kinema("convert", files.xtc, "-o", tmp_path / "a.dcd", "-j", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        f"{tmp_path / 'a.dcd'}: DCD, 10 frames of 47,681 atoms (positions), 5,722,716 bytes in"
    )
    assert "GiB/s on 2 workers; 10 frames compared with the source" in done.stdout
    assert "note: " in done.stderr and "times are rounded" in done.stderr
    again = run_kinema("convert", files.xtc, "-o", tmp_path / "a.dcd")
    assert (again.returncode, again.stdout) == (2, "")
    assert "exists already; --force replaces it" in again.stderr
    assert run_kinema("convert", files.xtc, "-o", tmp_path / "a.dcd", "--force").returncode == 0


def test_frames_and_atoms(files: Any, tmp_path: Path, run_kinema: Any) -> None:
    words = ["-f", files.dcd, files.dcd, "--overlap", "all", "-n", files.ndx, "--group", "C-alpha", "--step", "7"]
    done = run_kinema("convert", *words, "-o", tmp_path / "ca.xtc", "--precision", "10000", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["format"], facts["n_frames"], facts["n_atoms"]) == ("XTC", 28, 214)
    assert facts["size"] == (tmp_path / "ca.xtc").stat().st_size
    assert set(facts["timings"]) == {"open", "io", "decode", "encode", "write", "wait"}
    assert facts["losses"][0] in facts["notes"]
    source = kn.open(files.dcd, stored=False)
    atoms = source.select(index_file=files.ndx, group="C-alpha")
    expected = np.concatenate([source.read(select=atoms)] * 2)[::7]
    assert np.abs(kn.open(tmp_path / "ca.xtc", stored=False).read() - expected).max() <= 0.00051
    done = run_kinema(
        "convert", files.dcd, "-s", files.psf, "--select", "name CA", "-b", "10", "-e", "20", "-o", tmp_path / "b.dcd"
    )
    assert done.returncode == 0, done.stderr
    assert np.array_equal(kn.open(tmp_path / "b.dcd", stored=False).read(), source.read(slice(9, 20), atoms))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "a.xyz"], "no writer of .xyz, expected XTC (.xtc), TRR (.trr), NetCDF"),
        (["-o", "a.pdb"], "PDB needs names of atoms; open the input with --topology"),
        (["-o", "a.dcd", "--fields", "velocities"], "lacks what is to be written"),
        (["-o", "a.dcd", "--strategy", "subfiles"], "DCD has no strategy 'subfiles'"),
        (["-o", "a.dcd", "-b", "1", "--step", "2"], "use one"),
        (["-o", "-"], "not into streams"),
        (["-o", "a.dcd", "--split", "3", "--sep"], "--sep is --split 1"),
        (["-o", "a.dcd", "--dump", "3", "-b", "1"], "--dump is one frame, and --begin chooses others"),
        (["-o", "a.dcd", "--verify", "all", "--no-verify"], "--verify all and --no-verify are both given"),
        (["-o", "a.dcd", "--compress", "zstd"], "DCD files do not have --compress"),
        (["-o", "a.h5md", "--precision", "100"], "convert to H5MD takes --layout"),
        (["-o", "a.h5md", "--compress", "zip"], "--compress is None or one of gzip"),
        (["-o", "a.h5md", "--compress", "gzip:high"], "--compress is a name and perhaps a level"),
        (["-o", "a.h5md", "--unit", "nm"], "--unit is that of --max-error"),
        (["-o", "a.xtc", "--topology-out", "a.pdb"], "open it with --topology (-s)"),
        (["-o", "a.xtc", "--topology-out", "a.top"], "--topology-out is a file .pdb or .gro"),
    ],
)
def test_what_is_refused(files: Any, tmp_path: Path, run_kinema: Any, words: list[str], said: str) -> None:
    (tmp_path / "out").mkdir()
    done = run_kinema("convert", files.dcd, *words, cwd=tmp_path / "out")
    assert done.returncode == 2
    assert said in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_h5md(files: Any, tmp_path: Path, run_kinema: Any) -> None:
    words = [
        "-s",
        files.psf,
        "--select",
        "name CA",
        "--compress",
        "zstd:5",
        "--layout",
        "atoms",
        "--max-error",
        "0.001",
    ]
    out = tmp_path / "a.h5md"
    done = run_kinema(
        "convert", files.dcd, "-o", out, *words, "--unit", "nm", "--length-unit", "nm", "--verify", "all", "--json"
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert (facts["format"], facts["n_frames"], facts["n_atoms"], facts["compared"]) == ("H5MD", 98, 214, 98)
    assert facts["size"] == out.stat().st_size
    assert facts["gib_per_second"] == pytest.approx(facts["size"] / facts["seconds"] / 2**30)
    assert "none by more than 0.001 nm" in " ".join(facts["losses"])
    source = kn.open(files.dcd, topology=files.psf, stored=False)
    copy = kn.open(out, stored=False)
    assert 0 < np.abs(copy.read() - source.read(select="name CA")).max() <= 0.01 * 1.001
    assert set(copy.atoms.names.tolist()) == {"CA"}
    again = run_kinema("convert", out, "-o", tmp_path / "b.h5md", "--compress", "none")
    assert again.returncode == 0
    assert "as by kinema repack" in again.stderr
    assert np.array_equal(kn.open(tmp_path / "b.h5md", stored=False).read(), copy.read())


def test_several_files_the_nearest_frame_and_a_topology(files: Any, tmp_path: Path, run_kinema: Any) -> None:
    import MDAnalysis

    words = ["-s", files.psf, "-n", files.ndx, "--group", "C-alpha", "--topology-out", tmp_path / "strip.pdb"]
    done = run_kinema("convert", files.dcd, "-o", tmp_path / "ca.xtc", *words, "--split", "40", "-j", "2")
    assert done.returncode == 0, done.stderr
    names = [tmp_path / f"ca{number}.xtc" for number in range(3)]
    assert f"in 3 files, {sum(name.stat().st_size for name in names):,} bytes" in done.stdout
    copy = MDAnalysis.Universe(str(tmp_path / "strip.pdb"), list(map(str, names)))
    assert (copy.trajectory.n_frames, set(copy.atoms.names)) == (98, {"CA"})
    np.testing.assert_allclose(
        MDAnalysis.Universe(str(tmp_path / "strip.pdb")).atoms.positions, copy.atoms.positions, atol=0.0051
    )
    for word, n_frames in (("--sep", 3), ("--dump", 1)):
        value = ["2.4"] if word == "--dump" else ["--stop", "3"]
        done = run_kinema("convert", files.dcd, "-o", tmp_path / "one.dcd", word, *value, "--no-verify")
        assert done.returncode == 0, done.stderr
        assert f"{n_frames} frame" in done.stdout
        assert "compared" not in done.stdout
    assert "the frame nearest to 2.4 ps is frame 1, at 2 ps" in done.stderr.replace("1.9999999", "2")
    assert sorted(path.name for path in tmp_path.glob("one*")) == ["one.dcd", "one0.dcd", "one1.dcd", "one2.dcd"]


# says when frames are written
AT_WORK = """
import sys
from contextlib import contextmanager
from kinema.files.conversion import blocks, records
from kinema.cli import main

@contextmanager
def reporting(*given, **more):
    said = []
    def report(done, total):
        if done and not said:
            said.append(print("at work", file=sys.stderr, flush=True))
    yield report

blocks.reporting = records.reporting = reporting
main(sys.argv[1:])
"""


def stopped(
    files: Any, environment: dict[str, str], output: Path, number: signal.Signals, more: Sequence[str] = ()
) -> tuple[int, str]:
    """Exit code and last line of a run that gets a signal when it has written some of 147,000 frames."""
    words = ["convert", "-f", *[files.dcd.name] * 1500, "--overlap", "all", "-n", str(files.ndx), "--group", "first"]
    process = start_child(
        [sys.executable, "-c", AT_WORK, *words, "-o", str(output), "-j", "1", "--force", *more],
        env=environment,
        cwd=files.dcd.parent,
        stdout=subprocess.DEVNULL,
    )
    assert process.stderr is not None
    while (line := process.stderr.readline()) != "at work\n":
        assert line, "the run has not begun"
    process.send_signal(number)
    last = process.stderr.read().splitlines()
    return process.wait(timeout=120), last[-1] if last else ""


@pytest.mark.processes
@pytest.mark.parametrize(("suffix", "name"), each(["dcd", "xtc", "h5md"], ["SIGINT", "SIGTERM"]))
def test_a_run_that_is_stopped_leaves_the_old_file(
    files: Any, tmp_path: Path, environment: dict[str, str], suffix: str, name: str
) -> None:
    number = signal.Signals[name]
    output = tmp_path / "out" / f"a.{suffix}"
    output.parent.mkdir()
    output.write_bytes(b"before")
    assert stopped(files, environment, output, number) == (128 + number, "kinema: stopped, nothing was written")
    assert [path.name for path in output.parent.iterdir()] == [output.name]
    assert output.read_bytes() == b"before"


@pytest.mark.processes
def test_a_run_with_a_checkpoint_goes_on(
    files: Any, tmp_path: Path, environment: dict[str, str], run_kinema: Any
) -> None:
    output, saved = tmp_path / "out" / "a.xtc", tmp_path / "out" / "run.ckpt"
    output.parent.mkdir()
    words = ["--checkpoint", str(saved), "--checkpoint-interval", "0"]
    code, last = stopped(files, environment, output, signal.SIGTERM, words)
    assert (code, last) == (143, f"kinema: stopped; what was done is in {saved}; the same call continues from there")
    (part,) = (path.name for path in output.parent.iterdir() if path != saved)
    assert part.startswith("a.part-")
    done = run_kinema("convert", files.dcd, "-o", output, *words)
    assert done.returncode == 2
    assert "the checkpoint is of another run: the number of files, expected 1500, found 1" in done.stderr
    assert {path.name for path in output.parent.iterdir()} == {part, saved.name}
    done = run_kinema("convert", files.dcd, "-o", output, "--checkpoint-interval", "3")
    assert done.returncode == 2 and "name the file with --checkpoint" in done.stderr


@pytest.mark.processes
@pytest.mark.parametrize("suffix", ["dcd", "xtc", "h5md"])
def test_a_run_that_is_killed_leaves_its_temporary_file_alone(
    files: Any, tmp_path: Path, environment: dict[str, str], run_kinema: Any, suffix: str
) -> None:
    output = tmp_path / "out" / f"a.{suffix}"
    output.parent.mkdir()
    output.write_bytes(b"before")
    assert stopped(files, environment, output, signal.SIGKILL)[0] == -signal.SIGKILL
    (left,) = (path for path in output.parent.iterdir() if path != output)
    assert left.name.startswith("a.part-") and left.suffix == output.suffix
    assert output.read_bytes() == b"before"
    if suffix != "h5md":  # which is no HDF5 file before it was closed
        # written by one worker, in order: whole frames are read, also before they were counted
        source = kn.open(files.dcd, stored=False).read(select=[0, 1, 2, 3, 4])
        part = kn.open(left, stored=False)
        with collected():  # a frame that is not whole, a count that is not yet that of the frames
            n_frames = min(part.n_frames, 98)
        assert n_frames > 0
        assert np.abs(part.read(slice(0, n_frames)) - source[:n_frames]).max() < 1e-5
    # the next run removes it
    assert run_kinema("convert", files.dcd, "-o", output, "--force").returncode == 0
    index = {".a.xtc.kinema-index"} if suffix == "xtc" else set()
    assert {path.name for path in output.parent.iterdir()} == {output.name} | index


@pytest.mark.parametrize(
    ("convention", "variant"), [("amber", "AMBER convention 1.0"), ("dl_poly", "DL_POLY convention 0.0")]
)
def test_netcdf4(files: Any, tmp_path: Path, run_kinema: Any, convention: str, variant: str) -> None:
    path = tmp_path / "a.nc"
    words = ["--netcdf4", "--convention", convention, "--compress", "gzip", "--step", "7", "--verify", "all"]
    done = run_kinema("convert", files.dcd, "-o", path, *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{path}: NetCDF, 14 frames of 3,341 atoms (positions)")
    assert "14 frames compared with the source" in done.stdout
    shown = run_kinema("info", path)
    assert f"format   NetCDF, {variant}, NetCDF-4 (HDF5), written by Kinema" in shown.stdout
    checked = run_kinema("check", path)
    assert (checked.returncode, checked.stderr) == (0, "")
    found = kn.open(path, stored=False).read()
    assert np.array_equal(found, kn.open(files.dcd, stored=False).read(slice(0, None, 7)))
    refused = run_kinema("convert", files.dcd, "-o", tmp_path / "b.nc", "--convention", convention)
    assert (refused.returncode, "NetCDF has --convention with --netcdf4 only" in refused.stderr) == (2, True)
