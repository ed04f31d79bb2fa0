"""`kinema summarise` and `kinema histogram2d`: what they print, write and refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a.csv and b.csv of 400 frames, 2 ps apart; b begins at frame 10."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    for name, first, values in (("a", 0, rng.normal(5.0, 1.0, 400)), ("b", 10, rng.normal(50.0, 3.0, 400))):
        rows = [f"{first + i},{2.0 * (first + i)},{value:.7g},{i % 2}" for i, value in enumerate(values)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["frame,time (ps),rg (angstrom),even", *rows]))
    return tmp_path


def test_summary(here: Path, run_kinema: Any) -> None:
    done = run_kinema("summarise", "a.csv:rg", "b.csv:rg", "--output-unit", "nm", "-b", "20", "-o", "out.csv")
    assert done.returncode == 0, done.stderr
    head, first, second, written = done.stdout.splitlines()
    assert head.split()[:5] == ["unit", "values", "mean", "error", "deviation"]
    assert first.split()[:4] == ["a.csv", "rg", "nm", "390"] and second.split()[:4] == ["b.csv", "rg", "nm", "400"]
    assert written == "written: out.csv"
    text = (here / "out.csv").read_text()
    assert "# call: kinema summarise a.csv:rg b.csv:rg --output-unit nm -b 20 -o out.csv" in text
    assert "# input: b.csv (" in text
    done = run_kinema("--json", "summarise", "a.csv", "--equilibrated")
    one, even = json.loads(done.stdout)["columns"]
    assert (even["name"], even["unit"], even["mean"]) == ("even", "1", pytest.approx(0.5, abs=0.01))
    assert (one["name"], one["has_plateau"]) == ("rg", True)
    assert one["mean"] == pytest.approx(5.0, abs=0.2) and one["error"] == pytest.approx(0.05, rel=0.4)
    done = run_kinema("summarise", "a.csv", "-o", "-")
    assert done.stdout.startswith("column,unit,values") and "rg" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.csv", "-o", "a.csv", "--force"], "is the file that is read"),
        (["a.csv:even", "-o", "a.xvg"], "words beside numbers"),
        (["a.csv:mass"], "a.csv: no column 'mass', expected one of 'rg', 'even'"),
        (["c.csv"], "c.csv"),
        (["a.csv", "-b", "9e9"], "no frame from"),
        (["a.csv", "--periodic", "-1"], "--periodic"),
        ([], "FILE"),
    ],
)
def test_a_summary_is_refused(here: Path, run_kinema: Any, words: list[str], message: str) -> None:
    done = run_kinema("summarise", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr.splitlines()[-1]


def test_histogram(here: Path, run_kinema: Any) -> None:
    words = ("histogram2d", "a.csv:rg", "b.csv:rg", "--temperature", "300", "--bins", "8,6", "--y-range", "0", "60")
    done = run_kinema(*words, "-o", "out.npz", "--plot", "out.png")
    assert done.returncode == 0, done.stderr
    assert "note: a.csv: rg: 10 of 400 frames are not in the others and are left out" in done.stderr
    assert done.stdout.splitlines()[0].startswith("rg (angstrom) over rg (angstrom): ")
    assert done.stdout.splitlines()[-1] == "written: out.npz, out.png"
    with np.load(here / "out.npz") as arrays:
        assert arrays["counts"].shape == (8, 6) and arrays["counts"].sum() == 390
        assert arrays["y_edges"][-1] == 60.0
        assert any(line.startswith("call: kinema histogram2d a.csv:rg") for line in arrays["provenance"])
    facts = json.loads(run_kinema("--json", *words).stdout)
    assert (facts["frames"], facts["bins"], facts["temperature"]) == (390, [8, 6], 300.0)
    # what kinema wrote is replaced
    assert run_kinema(*words, "-o", "out.npz", "--plot", "out.png").returncode == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "needs --temperature in K; give it, or --quantity probability"),
        (["--temperature", "0"], "--temperature"),
        (["--temperature", "300", "-o", "a.csv", "--force"], "is the file that is read"),
        (["--temperature", "300", "--plot", "a.txt"], "plots are not written as .txt"),
        (["--temperature", "300", "--bins", "1,2,3"], "expected one value, or one for x and one for y"),
        (["--temperature", "300", "--bins", "0"], "--bins"),
        (["--temperature", "300", "--x-range", "3", "2"], "--x-range is two finite numbers"),
        (["--quantity", "counts", "--weights", "b.csv:none"], "no column 'none'"),
    ],
)
def test_a_histogram_is_refused(here: Path, run_kinema: Any, words: list[str], message: str) -> None:
    before = sorted(path.name for path in here.iterdir())
    done = run_kinema("histogram2d", "a.csv:rg", "b.csv:rg", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr.splitlines()[-1]
    assert sorted(path.name for path in here.iterdir()) == before


def test_the_summary_of_an_rdf_has_its_first_minimum(tmp_path: Path, run_kinema: Any) -> None:
    from kinema.testing.analyses import write_solvated_peptide

    topology, trajectory = write_solvated_peptide(tmp_path, 6)
    words = ("rdf", "-f", str(trajectory), "-s", str(topology), "--select", "name OH2", "--range", "0", "8")
    nm = json.loads(run_kinema("--json", *words, "--output-unit", "nm").stdout)
    found = json.loads(run_kinema("--json", *words).stdout)
    assert found["first_minimum"] == pytest.approx(10 * nm["first_minimum"])
    lines = run_kinema(*words).stdout.splitlines()
    assert lines[1] == (
        f"first minimum {found['first_minimum']:.4g} angstrom, coordination number there "
        f"{found['coordination_number_there']:.4g}"
    )
    none = run_kinema(*words[:-1], "1").stdout.splitlines()
    assert none[1] == "first minimum none, coordination number there none"
