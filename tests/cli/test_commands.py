"""The commands do what they say: values, files with provenance, windows of frames, summaries."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.cli import main
from kinema.cli.app import application
from kinema.testing import random_walk, write_dcd, write_xtc
from kinema.testing.programs.children import start_child


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    """The output of a process, asserted to have ended well."""
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def mdanalysis_rmsd() -> np.ndarray:
    """(98,) RMSD of the C-alphas to frame 0 by MDAnalysis, angstrom."""
    import MDAnalysis
    from MDAnalysis.analysis.rms import RMSD
    from MDAnalysisTests.datafiles import DCD, PSF

    universe = MDAnalysis.Universe(PSF, DCD)
    return RMSD(universe, select="protein and name CA", ref_frame=0).run().results.rmsd[:, 2]


def test_rmsd_by_topology_and_by_index_file(
    run_kinema: Any, files: Any, tmp_path: Path, mdanalysis_rmsd: np.ndarray
) -> None:
    for name, atoms in (
        ("by_name.npy", ("-s", files.psf, "--select", "protein and name CA")),
        ("by_index.npy", ("-n", files.ndx, "--group", "C-alpha")),
    ):
        succeeded(run_kinema("rmsd", "-f", files.dcd, *atoms, "-o", tmp_path / name, "--quiet"))
        values = np.load(tmp_path / name)
        np.testing.assert_allclose(values[:, 2], mdanalysis_rmsd, atol=1e-4)
        np.testing.assert_array_equal(values[:, 0], np.arange(98))


@pytest.mark.parametrize("name", ["rmsd.csv", "rmsd.xvg", "rmsd.dat", "rmsd.npy", "rmsd.parquet"])
def test_every_output_tells_where_it_comes_from(run_kinema: Any, files: Any, tmp_path: Path, name: str) -> None:
    output = tmp_path / name
    words = ("rmsd", "-f", files.dcd, "-n", files.ndx, "--group", "C-alpha", "-o", output)
    succeeded(run_kinema(*words))
    sidecar = Path(f"{output}.json")
    text = (sidecar if sidecar.exists() else output).read_bytes().decode(errors="replace")
    assert f"kinema rmsd -f {files.dcd} -n {files.ndx} --group C-alpha -o {output}" in text
    assert "fingerprint" in text
    assert not list(tmp_path.glob(".*.part"))


def test_plot(run_kinema: Any, files: Any, tmp_path: Path) -> None:
    plot = tmp_path / "rmsd.png"
    succeeded(run_kinema("rmsd", "-f", files.dcd, "-n", files.ndx, "--group", "C-alpha", "--plot", plot))
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "frames"),
    [
        (("--start", "10", "--stop", "20", "--step", "3"), [10, 13, 16, 19]),
        # frame i has the time i + 1 ps
        (("-b", "11", "-e", "14"), [10, 11, 12, 13]),
        (("-b", "11", "--dt", "40"), [10, 50, 90]),
        (("-e", "1"), [0]),
    ],
)
def test_windows_of_frames(
    run_kinema: Any, files: Any, tmp_path: Path, words: tuple[str, ...], frames: list[int]
) -> None:
    output = tmp_path / "rmsd.npy"
    succeeded(run_kinema("rmsd", "-f", files.dcd, "-n", files.ndx, "--group", "C-alpha", *words, "-o", output))
    np.testing.assert_array_equal(np.load(output)[:, 0], frames)


def test_several_files_are_parts(run_kinema: Any, files: Any) -> None:
    words = ("-n", files.ndx, "--group", "first", "--overlap", "all", "--json")
    done = run_kinema("rmsd", "-f", files.xtc, files.xtc, *words)
    found = json.loads(succeeded(done))
    assert found["n_frames"] == 20
    assert found["files"] == [str(files.xtc)] * 2


def test_more_groups_after_superposition(run_kinema: Any, files: Any, tmp_path: Path) -> None:
    output = tmp_path / "rmsd.npy"
    words = ("-s", files.psf, "--select", "name CA", "--rmsd-select", "backbone", "-o", output)
    succeeded(run_kinema("rmsd", "-f", files.dcd, *words, "--rmsd-select", "resid 1-10"))
    assert np.load(output).shape == (98, 5)


def test_summary_for_machines(run_kinema: Any, files: Any, mdanalysis_rmsd: np.ndarray) -> None:
    words = ("rmsd", "-f", files.dcd, "-n", files.ndx, "--group", "C-alpha", "-j", "2", "--json")
    found = json.loads(succeeded(run_kinema(*words)))
    assert (found["n_frames"], found["frames_used"], found["n_atoms"]) == (98, 98, 3341)
    assert found["min"] == pytest.approx(0.0, abs=1e-4)
    assert found["max"] == pytest.approx(mdanalysis_rmsd.max(), abs=1e-4)
    assert found["peak_memory"] > 0


def test_rmsf(run_kinema: Any, files: Any, tmp_path: Path) -> None:
    output = tmp_path / "rmsf.csv"
    words = ("--select", "name CA", "--align", "reference", "--ref-frame", "5")
    done = run_kinema("rmsf", "-s", files.psf, "-f", files.dcd, *words, "-o", output)
    assert "RMSF of 214 atoms" in succeeded(done)
    rows = [line for line in output.read_text().splitlines() if not line.startswith("#")]
    assert len(rows) == 1 + 214


def test_atoms_of_an_index_group_are_given_in_its_order(run_kinema: Any, files: Any, tmp_path: Path) -> None:
    files.ndx.write_text("[ order ]\n9 2 5 1\n[ sorted ]\n1 2 5 9\n")
    rows = {}
    for group in ("order", "sorted"):
        output = tmp_path / f"{group}.csv"
        succeeded(run_kinema("rmsf", "-f", files.dcd, "-n", files.ndx, "--group", group, "-o", output))
        rows[group] = [line.split(",") for line in output.read_text().splitlines() if line[0].isdecimal()]
    assert [row[0] for row in rows["order"]] == ["9", "2", "5", "1"]
    assert sorted(rows["order"]) == rows["sorted"]


def test_info(run_kinema: Any, files: Any) -> None:
    assert "98 frames of 3,341 atoms" in succeeded(run_kinema("info", files.dcd))
    found = json.loads(succeeded(run_kinema("info", files.xtc, "--json")))
    assert (found["n_frames"], found["n_atoms"], found["dt"]) == (10, 47681, pytest.approx(100.0, rel=1e-5))


def test_formats(run_kinema: Any) -> None:
    text = succeeded(run_kinema("formats"))
    assert "XTC" in text
    assert "DCD" in text
    # columns begin where their names do
    own, slow = text.split("\n\nslow, frame by frame through MDAnalysis (also others that it reads):\n")
    assert "XYZ" in slow
    for table in (own, slow):
        head, *rows = table.splitlines()
        assert all(
            row[head.index(name) - 1] == " " != row[head.index(name)]
            for row in rows
            for name in ("reads", "description")
        )


def test_index_is_stored_and_used(run_kinema: Any, files: Any) -> None:
    (first,) = json.loads(succeeded(run_kinema("index", files.xtc, "--json")))
    assert first["index"] == "built"
    assert Path(first["index_path"]).exists()
    (second,) = json.loads(succeeded(run_kinema("index", files.xtc, "--json")))
    assert second["index"] == "stored"
    (third,) = json.loads(succeeded(run_kinema("index", files.xtc, "--json", "--rebuild")))
    assert third["index"] == "built"


def test_index_stores_checksums_that_check_compares(run_kinema: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.dcd"
    write_dcd(path, random_walk(5, 20))
    (plain,) = json.loads(succeeded(run_kinema("index", path, "--json")))
    assert plain["checksums"] is None
    (stored,) = json.loads(succeeded(run_kinema("index", path, "--json", "--checksums")))
    assert (stored["checksums"]["n_frames"], stored["checksums"]["n_added"]) == (5, 5)
    assert "checksums of 5 frames, 0 of them new" in succeeded(run_kinema("index", path, "--checksums"))
    assert "no problems" in succeeded(run_kinema("check", path))
    content = bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(content)
    found = run_kinema("check", path)
    assert found.returncode == 1 and "checksum: " in found.stdout and "frame 4: its bytes" in found.stdout
    refused = run_kinema("index", path, "--checksums")
    assert refused.returncode == 2 and "kinema index --checksums --rebuild" in refused.stderr
    assert "checksums of 5 frames" in succeeded(run_kinema("index", path, "--checksums", "--rebuild"))
    assert "no problems" in succeeded(run_kinema("check", path))
    refused = run_kinema("index", path, "--checksums", "--no-stored")
    assert refused.returncode == 2 and "--no-stored forbids" in refused.stderr


def test_index_makes_atom_checkpoints_when_they_are_asked_for(run_kinema: Any, tmp_path: Path) -> None:
    path = tmp_path / "large.xtc"
    write_xtc(path, random_walk(4, 5000))
    (none,) = json.loads(succeeded(run_kinema("index", path, "--json")))
    assert none["atom_checkpoints"] is None
    (built,) = json.loads(succeeded(run_kinema("index", path, "--json", "--atom-checkpoints")))
    assert (built["atom_checkpoints"]["state"], built["atom_checkpoints"]["number"]) == ("built", 4)
    assert Path(built["atom_checkpoints"]["path"]).exists()
    assert "atom checkpoints stored" in succeeded(run_kinema("index", path, "--atom-checkpoints"))
    assert "4 atom checkpoints built" in succeeded(run_kinema("index", path, "--atom-checkpoints", "--rebuild"))
    small = tmp_path / "small.xtc"
    write_xtc(small, random_walk(4, 50))
    assert "not needed" in succeeded(run_kinema("index", small, "--atom-checkpoints"))


def test_quiet_says_nothing(run_kinema: Any, files: Any) -> None:
    done = run_kinema("rmsd", "-f", files.dcd, "-n", files.ndx, "--group", "C-alpha", "--quiet")
    assert succeeded(done) == done.stderr == ""


def test_no_progress_in_a_pipe(run_kinema: Any, files: Any) -> None:
    done = run_kinema("rmsd", "-f", files.dcd, "-n", files.ndx, "--group", "C-alpha")
    succeeded(done)
    assert done.stderr == ""


def test_version(run_kinema: Any) -> None:
    assert succeeded(run_kinema("--version")).startswith("kinema ")
    # to make them all takes twice as long as the rest
    assert not application(["--version"]).registered_commands


def test_a_run_from_indices_imports_nothing_heavy(files: Any, environment: dict[str, str]) -> None:
    script = (
        "import sys\n"
        "from kinema.cli import main\n"
        "try:\n"
        f"    main(['rmsd', '-f', {str(files.dcd)!r}, '-n', {str(files.ndx)!r}, '--group', 'C-alpha'])\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "heavy = {'MDAnalysis', 'matplotlib', 'pyarrow', 'scipy', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    succeeded(done)


@pytest.mark.processes
def test_progress_on_a_terminal(files: Any, environment: dict[str, str]) -> None:
    import pty

    words = ["rmsd", "-f", *[str(files.dcd)] * 50, "--overlap", "all", "-n", str(files.ndx), "--group", "C-alpha"]
    terminal, stderr = pty.openpty()
    environment = {**environment, "TERM": "xterm", "COLUMNS": "200"}
    command = [sys.executable, "-m", "kinema", *words]
    try:
        process = start_child(command, env=environment, stdout=subprocess.DEVNULL, stderr=stderr, text=False)
    finally:
        os.close(stderr)
    said = bytearray()
    with open(terminal, "rb", buffering=0) as reader, contextlib.suppress(OSError):
        # all of it, as a terminal that nobody reads makes the command wait; it ends with an error when the command has
        while part := reader.read(1 << 16):
            said += part
    assert process.wait(timeout=120) == 0
    assert b"frames/s" in said


def test_units_of_outputs(files, run_kinema, tmp_path):
    out = tmp_path / "rmsd.xvg"
    words = ["--json", "rmsd", "-f", files.dcd, "-s", files.psf, "--select", "name CA", "--output-unit", "nm"]
    facts = json.loads(succeeded(run_kinema(*words, "--output-time-unit", "ns", "-o", out)))
    assert facts["unit"] == "nm"
    assert facts["max"] == pytest.approx(0.68334, abs=1e-5)
    text = out.read_text()
    assert '@    xaxis  label "time (ns)"' in text and '@    yaxis  label "RMSD (nm)"' in text
    rows = run_kinema(*words, "-o", tmp_path / "rmsd.h5")
    assert rows.returncode == 2 and "--output-unit" in rows.stderr
    by_residue = tmp_path / "rmsf.csv"
    words = ["rmsf", "-f", files.dcd, "-s", files.psf, "--by", "residue", "-o", by_residue]
    done = run_kinema(*words)
    assert "nothing was superposed" in done.stderr
    assert "RMSF of all 3341 atoms" in succeeded(done)
    assert len([line for line in by_residue.read_text().splitlines() if line[0] != "#"]) == 1 + 214


def test_without_select_the_summary_says_all_atoms(files, run_kinema):
    words = ["rmsd", "-f", files.dcd, "-s", files.psf]
    assert "RMSD of all 3341 atoms: mean" in succeeded(run_kinema(*words))
    assert "RMSD of 214 atoms: mean" in succeeded(run_kinema(*words, "--select", "name CA"))


def test_a_reference_of_another_order_is_refused(files, run_kinema, tmp_path):
    import MDAnalysis

    universe = MDAnalysis.Universe(str(files.psf), str(files.dcd))
    order = np.arange(universe.atoms.n_atoms)
    order[[4, 5]] = [5, 4]
    shuffled = tmp_path / "shuffled.pdb"
    universe.atoms[order].write(shuffled)
    words = ["rmsd", "-f", files.dcd, "-s", files.psf, "--reference", shuffled]
    refused = run_kinema(*words)
    assert refused.returncode == 2, refused.stderr
    assert "adk.psf (CA MET 1 mass 12.011) is atom 5 of" in refused.stderr
    assert "shuffled.pdb (HA MET 1 mass 1.008), the first of 2 that differ" in refused.stderr
    taken = run_kinema("--json", *words, "--match", "order")
    assert taken.returncode == 0, taken.stderr
    lone = run_kinema("rmsd", "-f", files.dcd, "--match", "names")
    assert lone.returncode == 2 and "--reference" in lone.stderr


def test_a_summary_has_the_error_of_the_mean(files: Any, run_kinema: Any, tmp_path: Path) -> None:
    table = str(tmp_path / "rgyr.csv")
    words = ("rgyr", "-f", str(files.dcd), "-s", str(files.psf), "--select", "name CA", "--output-unit", "nm")
    found = json.loads(run_kinema("--json", *words, "-o", table).stdout)
    (expected,) = json.loads(run_kinema("--json", "summarise", table).stdout)["columns"]
    assert found["error"] == pytest.approx(expected["error"], rel=1e-5)
    assert found["error_has_plateau"] is expected["has_plateau"] is False
    # the error of one frame is not known
    alone = json.loads(run_kinema("--json", *words, "--stop", "1").stdout)
    assert "error" not in alone


@pytest.mark.parametrize(
    ("words", "summary"),
    [
        ("rgyr", "radius of gyration of all 3341 atoms: mean N +- at least E, min N, max N angstrom over 5 frames"),
        ("rmsf --select 'name CA'", "RMSF of 214 atoms: mean N, min N, max N angstrom over 214 atoms"),
        (
            "distances --ag1 'bynum 1:2' --ag2 'bynum 9:10'",
            "distance of 2 pairs: mean N, min N, max N angstrom over all pairs and 5 frames",
        ),
        (
            "angles --ag1 'bynum 1' --ag2 'bynum 5' --ag3 'bynum 9'",
            "angle of 1 triple: mean N, min N, max N degree over 5 frames",
        ),
        (
            "dihedrals --phi --select 'resid 5'",
            "dihedral angle of 1 quadruple: circular mean N degree over 5 frames",
        ),
        # a mean of several angles, or of x, y and z together, says nothing
        ("dihedrals --phi", "dihedral angle of 213 quadruples"),
        ("ramachandran", "phi and psi of 212 residues"),
        ("centers", "coordinates of centres of all 3341 atoms"),
    ],
)
def test_a_summary_says_what_it_is_of_and_over_what(
    files: Any, capsys: pytest.CaptureFixture[str], words: str, summary: str
) -> None:
    with pytest.raises(SystemExit) as end:
        main([*shlex.split(words), "-f", str(files.dcd), "-s", str(files.psf), "--stop", "5", "--no-stored"])
    assert end.value.code == 0
    found = capsys.readouterr().out.splitlines()[0]
    assert re.fullmatch(re.escape(summary).replace("N", r"-?\d+\.\d{4}").replace("E,", r"0\.\d+,"), found)
