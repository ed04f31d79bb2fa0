"""Bad input: one line on stderr that names the place and what to do, exit code 2, nothing written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Asserts that the process ended as bad input ends, and that its one line has all the words."""
    assert done.returncode == 2, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("kinema: ")
    assert not lines[0].endswith(".")
    for word in words:
        assert word in lines[0]
    assert done.stdout == ""


def test_missing_file(run_kinema: Any, tmp_path: Path) -> None:
    refused(run_kinema("info", tmp_path / "nope.xtc"), "nope.xtc", "no such file")


def test_directory(run_kinema: Any, tmp_path: Path) -> None:
    refused(run_kinema("info", tmp_path), str(tmp_path), "directory")


def test_empty_file(run_kinema: Any, tmp_path: Path) -> None:
    empty = tmp_path / "empty.xtc"
    empty.touch()
    refused(run_kinema("info", empty), "empty")


def test_text_named_xtc(run_kinema: Any, tmp_path: Path) -> None:
    text = tmp_path / "text.xtc"
    text.write_text("this is not a trajectory\n" * 100)
    refused(run_kinema("info", text), "text.xtc", "XTC")


def test_truncated_file(run_kinema: Any, files: Any) -> None:
    files.xtc.write_bytes(files.xtc.read_bytes()[:-1000])
    refused(run_kinema("info", files.xtc, "--on-truncated", "error"), "adk.xtc", "frame 9")
    done = run_kinema("info", files.xtc, "--json")
    assert done.returncode == 0, done.stderr
    assert "adk.xtc: XTC frame 9, byte " in done.stderr
    assert '"n_frames": 9' in done.stdout


def test_atom_counts_differ(run_kinema: Any, files: Any) -> None:
    words = ("rmsd", "-s", files.psf, "-f", files.xtc, "--select", "name CA")
    refused(run_kinema(*words), "3341", "47681")


def test_atom_counts_differ_without_selection(run_kinema: Any, files: Any) -> None:
    refused(run_kinema("rmsd", "-s", files.psf, "-f", files.xtc), "3341", "47681")


@pytest.mark.parametrize("command", ["info", "rmsd"])
def test_topology_and_trajectory_exchanged(run_kinema: Any, files: Any, command: str) -> None:
    done = run_kinema(command, "-f", files.psf, "-s", files.xtc)
    refused(done, "not a format that Kinema reads", "a trajectory (XTC)", "first argument (-f)", "second (-s)")


def test_a_trajectory_as_topology_has_no_names(run_kinema: Any, files: Any) -> None:
    done = run_kinema("rmsd", "-f", files.dcd, "-s", files.dcd, "--select", "protein")
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith("selection 'protein' needs resnames, which this topology does not have")


def test_empty_selection(run_kinema: Any, files: Any) -> None:
    refused(run_kinema("rmsd", "-s", files.psf, "-f", files.dcd, "--select", "name NOPE"), "name NOPE", "no atoms")


def test_selection_that_changes_with_the_frame(run_kinema: Any, files: Any) -> None:
    words = ("rmsd", "-s", files.psf, "-f", files.dcd, "--select", "around 5 resid 1")
    refused(run_kinema(*words), "around")


def test_selection_without_topology(run_kinema: Any, files: Any) -> None:
    refused(run_kinema("rmsd", "-f", files.dcd, "--select", "name CA"), "topology")


def test_unknown_group(run_kinema: Any, files: Any) -> None:
    refused(run_kinema("rmsd", "-f", files.dcd, "-n", files.ndx, "--group", "nope"), "nope", "C-alpha")


def test_group_without_index_file(run_kinema: Any, files: Any) -> None:
    refused(run_kinema("rmsd", "-f", files.dcd, "--group", "C-alpha"), "-n")


@pytest.mark.parametrize("words", [("--ref-frame", "98"), ("-b", "1000"), ("--start", "98")])
def test_frame_out_of_range(run_kinema: Any, files: Any, words: tuple[str, ...]) -> None:
    refused(run_kinema("rmsd", "-f", files.dcd, "-n", files.ndx, "--group", "first", *words), "frame")


def test_times_and_frame_numbers_together(run_kinema: Any, files: Any) -> None:
    words = ("rmsd", "-f", files.dcd, "-n", files.ndx, "--group", "first", "-b", "5", "--stop", "7")
    refused(run_kinema(*words), "-b", "--stop")


def test_reference_frame_and_file_together(run_kinema: Any, files: Any) -> None:
    words = ("rmsd", "-s", files.psf, "-f", files.dcd, "--reference", files.gro, "--ref-frame", "1")
    refused(run_kinema(*words), "--ref-frame", "--reference")


def test_coordinates_that_are_no_numbers(run_kinema: Any, files: Any, tmp_path: Path) -> None:
    data = bytearray(files.dcd.read_bytes())
    # the last frame's z plane ends before the record's closing length
    data[-8:-4] = np.array(np.nan, dtype="<f4").tobytes()
    data[-408:-404] = np.array(np.nan, dtype="<f4").tobytes()
    files.dcd.write_bytes(data)
    output = tmp_path / "rmsd.csv"
    done = run_kinema("rmsd", "-s", files.psf, "-f", files.dcd, "-o", output)
    refused(done, "frame 97")
    assert not output.exists()


def test_output_folder_that_is_not_there_is_told_before_the_run(run_kinema: Any, files: Any) -> None:
    # the trajectory is missing as well: the output is looked at first
    done = run_kinema("rmsd", "-f", "nope.dcd", "-n", files.ndx, "-o", files.ndx.parent / "nowhere/rmsd.csv")
    refused(done, "nowhere")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_output_folder_that_may_not_be_written(run_kinema: Any, files: Any, tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o555)
    done = run_kinema("rmsd", "-f", files.dcd, "-n", files.ndx, "--group", "first", "-o", folder / "rmsd.csv")
    refused(done, "closed")


@pytest.mark.parametrize(("option", "name"), [("-o", "rmsd.docx"), ("--plot", "rmsd.txt"), ("-o", "rmsd")])
def test_unknown_suffix(run_kinema: Any, files: Any, option: str, name: str) -> None:
    done = run_kinema("rmsd", "-f", files.dcd, "-n", files.ndx, "--group", "first", option, name)
    refused(done, "choose one of")


def test_bad_memory(run_kinema: Any, files: Any) -> None:
    done = run_kinema("rmsd", "-f", files.dcd, "-n", files.ndx, "--group", "first", "--memory", "much")
    refused(done, "memory")


@pytest.mark.parametrize("words", [("nope",), ("info",), ("rmsd", "--nope"), ("rmsd", "-j", "many", "-f", "a")])
def test_words_that_are_not_understood(run_kinema: Any, words: tuple[str, ...]) -> None:
    refused(run_kinema(*words), "--help")


def test_radius_of_gyration_needs_masses(run_kinema: Any, files: Any) -> None:
    refused(run_kinema("rgyr", "-f", files.dcd, "-n", files.ndx, "--group", "first"), "--weights none")


@pytest.mark.parametrize("word", ["--cache", "--cache=drop"])
def test_an_option_that_has_moved(run_kinema: Any, tmp_path: Path, word: str) -> None:
    refused(
        run_kinema("scaling", "-f", tmp_path / "md.xtc", word), "--cache of kinema scaling is called --page-cache now"
    )


def test_traceback_with_debug_alone(run_kinema: Any, tmp_path: Path) -> None:
    done = run_kinema("info", tmp_path / "nope.xtc", "--debug")
    assert done.returncode == 2
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["rmsd", "-f", "a.dcd", "--select", "name A", "--select", "name B"], "--select"),
        (["rmsd", "-f", "a.dcd", "-o", "a.csv", "--output", "b.csv"], "-o/--output"),
        (["rmsd", "-f", "a.dcd", "--superposition", "--no-superposition"], "--superposition/--no-superposition"),
        (["info", "a.dcd", "--overlap=last", "--overlap", "all"], "--overlap"),
    ],
)
def test_a_single_option_is_given_once(run_kinema: Any, tmp_path: Path, words: list[str], names: str) -> None:
    refused(run_kinema(*words, cwd=tmp_path), f"kinema: {names} was given 2 times")
