"""`kinema ml` and `kinema ml convert` as a person calls them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema.ml
from kinema.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        random = np.random.default_rng(number)
        np.savez(f"{number}.npz", x=random.standard_normal((20, 1000)), y=np.arange(20))


def run(capsys: Any, *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


def test_an_archive_is_made_and_described(capsys: Any) -> None:
    code, out, err = run(capsys, "ml", "convert", "0.npz", "1.npz", "2.npz", "-o", "train.h5")
    assert (code, err) == (0, "")
    assert out.startswith("train.h5: 60 samples of 3 files, ") and "GiB/s" in out and "read back and compared" in out
    assert "x 60 x 1000 float64, contiguous" in out
    code, out, err = run(capsys, "ml", "convert", "0.npz", "1.npz", "-o", "train.h5", "--force", "--json",
                         "--layout", "samples:4", "--compress", "zstd:5", "--fields", "x", "--dtype", "x=float32",
                         "-j", "1", "--memory", "64MiB", "--no-verify")  # fmt: skip
    facts = json.loads(out)
    assert (code, facts["n_samples"], facts["fields"], facts["verified"]) == (0, 40, ["x"], False)
    assert facts["layout"] == ["x 40 x 1000 float32, chunks of 4 samples"] and facts["gib_per_second"] > 0
    assert len(facts["notes"]) == 1 and err == f"note: {facts['notes'][0]}\n"
    found = kinema.ml.SampleDataset("train.h5")
    assert found.read([25])["x"].tobytes() == np.load("1.npz")["x"][5:6].astype("f4").tobytes()
    assert run(capsys, "ml", "convert", "0.npz", "-o", "quiet.h5", "--quiet") == (0, "", "")


def test_explain_writes_nothing(capsys: Any) -> None:
    before = sorted(os.listdir())
    code, out, err = run(capsys, "ml", "convert", "0.npz", "1.npz", "--explain", "--compress", "gzip")
    assert (code, err) == (0, "")
    assert "40 samples of 2 files" in out and "chunks of 8 samples" in out and "exact random order" in out
    assert json.loads(run(capsys, "--json", "ml", "convert", "0.npz", "--explain")[1])["plan"]
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["ml", "conver"], "No such command 'conver'"),
        (["ml", "--wrong"], "No such option: --wrong (see kinema ml --help)"),
        (["ml", "convert", "0.npz", "--wrong"], "--wrong (see kinema ml convert --help)"),
        (["ml", "convert", "0.npz"], "no archive is named; give -o FILE.h5, or --explain"),
        (["ml", "convert", "0.npz", "-o", "a.h5", "--output", "b.h5"], "-o/--output was given 2 times"),
        (["ml", "convert", "-o", "a.h5"], "SAMPLES"),
        (["ml", "convert", "no.npz", "-o", "a.h5"], "no.npz"),
        (["ml", "convert", "0.npz", "-o", "a.npz"], "a.npz: archives are HDF5 files"),
        (["ml", "convert", "0.npz", "-o", "1.npz.h5", "--fields", "z"], "there is no member z, only x, y"),
        (["ml", "convert", "0.npz", "-o", "taken.h5"], "--force replaces it"),
        (["ml", "convert", "0.npz", "-o", "a.h5", "--layout", "atoms"], "--layout is contiguous, samples"),
        (["ml", "convert", "0.npz", "-o", "a.h5", "--layout", "4x4x4"], "--layout is contiguous, samples"),
        (["ml", "convert", "0.npz", "-o", "a.h5", "--layout", "contiguous", "--compress", "lz4"],
         "--layout contiguous cannot be compressed"),
        (["ml", "convert", "0.npz", "-o", "a.h5", "--dtype", "y=x=3,"], "--dtype takes a type, or ARRAY=TYPE"),
        (["ml", "convert", "0.npz", "-o", "a.h5", "--checkpoint-interval", "3"], "name the file with --checkpoint"),
        (["ml", "convert", "cut.npz", "-o", "a.h5"], "cut.npz: byte 100000: the .npz archive has no directory"),
        (["ml", "convert", ".", "-o", "a.h5"], "cut.npz"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)  # fmt: skip
def test_what_a_newcomer_does_wrong(words: list[str], line: str, capsys: Any) -> None:
    Path("taken.h5").touch()
    Path("cut.npz").write_bytes(Path("0.npz").read_bytes()[:100_000])
    before = sorted(os.listdir())
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "") and len(err.splitlines()) == 1
    assert line in err
    assert sorted(os.listdir()) == before


def test_patterns_that_the_shell_has_left(capsys: Any) -> None:
    code, out, _ = run(capsys, "ml", "convert", "[0-9].npz", "-o", "all.h5", "--json")
    assert (code, json.loads(out)["n_samples"]) == (0, 60)
    code, out, _ = run(capsys, "ml", "statistics", "*.h5", "-o", "all.json", "--json")
    assert (code, json.loads(out)["n_samples"]) == (0, 60)
    code, _, err = run(capsys, "ml", "statistics", "none*.npz", "-o", "none.json")
    assert code == 2 and "none*.npz: no file fits this pattern" in err


@pytest.mark.parametrize(
    "words", [["convert", "-o", "a.h5"], ["statistics", "-o", "a.json"], ["bench", "--batch", "2", "-o", "out"]]
)
def test_a_folder_of_archives_is_refused_until_told(words: list[str], capsys: Any) -> None:
    os.mkdir("archives")
    for number in range(3):
        os.rename(f"{number}.npz", f"archives/{number}.npz")
    command = ["ml", words[0], "archives", *words[1:]]
    code, _, err = run(capsys, *command)
    assert code == 2 and "3 files with 20 rows in each array may be archives of 20 samples" in err
    assert "--no-file-is-sample" in err and "--file-is-sample" in err
    assert not os.path.exists("a.h5") and not os.path.exists("a.json")
    if words[0] != "bench":
        for option, n in (("--no-file-is-sample", 60), ("--file-is-sample", 3)):
            code, out, _ = run(capsys, *command, option, "--force", "--json")
            assert (code, json.loads(out)["n_samples"]) == (0, n)


def test_the_group_without_a_command_says_what_there_is(capsys: Any) -> None:
    for words in (["ml"], ["ml", "--help"]):
        code, out, err = run(capsys, *words)
        assert (code, err) == (0, "") and "convert" in out
    assert "--layout" in run(capsys, "ml", "convert", "--help")[1]
