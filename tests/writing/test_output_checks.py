"""Checks of output paths before a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.storage.output_checks import check_not_input, check_plot_path, check_target, is_remade


def test_checks_before_a_run(tmp_path: Path) -> None:
    there = tmp_path / "there.csv"
    there.write_text("")
    check_target(there)
    check_target(tmp_path / "new.csv", overwrite=False)
    with pytest.raises(kn.ArgumentError, match=r"there\.csv: exists already; overwrite=True"):
        check_target(there, overwrite=False)
    with pytest.raises(kn.ArgumentError, match="is a directory, expected a file name"):
        check_target(tmp_path)
    with pytest.raises(kn.FileNotFound, match="its folder does not exist"):
        check_target(tmp_path / "none" / "new.csv")
    (tmp_path / "same.csv").symlink_to(there)
    check_not_input(str(tmp_path / "new.csv"), str(there))
    with pytest.raises(kn.ArgumentError, match="is the file that is read"):
        check_not_input(str(tmp_path / "same.csv"), str(there))
    check_plot_path(tmp_path / "plot.PNG")
    with pytest.raises(kn.UnsupportedFormatError, match=r"a file without suffix, choose one of \.png, \.pdf, \.svg"):
        check_plot_path(tmp_path / "plot")


def _results_file(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.attrs["format"] = "results of somebody else, not kinema results"


# by suffix, what another program writes: a file of that kind without the provenance of Kinema
FOREIGN: dict[str, Callable[[Path], object]] = {
    ".csv": lambda path: path.write_text("frame,time (ps),rmsd (angstrom)\n0,0.0,1.5\n"),
    ".xvg": lambda path: path.write_text('# This file was created by gmx rms\n@    title "RMSD"\n0 1.5\n'),
    ".dat": lambda path: path.write_text("#Frame  RMSD\n1  1.5\n"),
    ".npy": lambda path: np.save(path, np.zeros((3, 2))),
    ".parquet": lambda path: _foreign_parquet(path),
    ".png": lambda path: _drawn(path),
    ".svg": lambda path: _drawn(path, metadata={"Title": "kinema 1"}),
    ".pdf": lambda path: _drawn(path, metadata={"Title": "kinema 1"}),
    ".json": lambda path: path.write_text(json.dumps({"rmsd": 1.5, "kinema": "0"})),
    ".h5": _results_file,
}


def _drawn(path: Path, **options: Any) -> None:
    from matplotlib.figure import Figure

    Figure().savefig(path, **options)


def _foreign_parquet(path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"rmsd": [1.5]}), path)


def _write(analysis: kn.analysis.RMSD, path: Path, **options: bool) -> None:
    """Writes the output of that suffix."""
    if path.suffix == ".h5":
        analysis.run(out=path, **options)
    elif path.suffix == ".json":
        analysis.report().save(path, **options)
    elif path.suffix in (".png", ".svg", ".pdf"):
        analysis.plot(path, **options)
    else:
        analysis.save(path, **options)


@pytest.mark.parametrize("suffix", FOREIGN)
def test_tables_pictures_and_reports_are_replaced_if_they_are_ours(
    small: kn.Trajectory, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"rmsd{suffix}"
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    analysis = kn.analysis.RMSD(small).run(stop=5)
    _write(analysis, path)
    assert is_remade(path)
    _write(analysis, path)
    FOREIGN[suffix](path)
    foreign = path.read_bytes()
    assert not is_remade(path)
    with pytest.raises(kn.ArgumentError, match="is not a table, picture or report that kinema wrote; overwrite=True"):
        _write(analysis, path)
    assert path.read_bytes() == foreign
    _write(analysis, path, overwrite=True)
    assert is_remade(path)


def test_pictures_of_reports_and_other_files_carry_the_version(small: kn.Trajectory, tmp_path: Path) -> None:
    report = kn.analysis.RMSD(small).run().report()
    for suffix in (".png", ".svg", ".pdf"):
        report.plot(tmp_path / f"report{suffix}")
        assert is_remade(tmp_path / f"report{suffix}")
    (tmp_path / "bars.svg").write_text("<svg/>")
    with pytest.raises(kn.ArgumentError, match="exists already"):
        report.plot(tmp_path / "bars.svg")


def test_trajectories_are_never_taken_for_what_is_made_again(small: kn.Trajectory, tmp_path: Path) -> None:
    for name in ("a.xtc", "a.dcd", "a.trr", "a.h5md", "a.nc", "a.h5", "a.history"):
        kn.convert(small, tmp_path / name)
        assert not is_remade(tmp_path / name), name
        # as a table, under the name of one
        (tmp_path / name).rename(tmp_path / "a.csv")
        with pytest.raises(kn.ArgumentError, match="exists already"):
            kn.analysis.RMSD(small).run().save(tmp_path / "a.csv")


def test_the_file_of_a_run_is_refused_before_it_reads(
    small: kn.Trajectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.h5").write_bytes(b"mine")

    def scan(*_: object, **__: object) -> None:
        raise AssertionError("the trajectory was read")

    monkeypatch.setattr(kn.Trajectory, "scan", scan)
    with pytest.raises(kn.ArgumentError, match="exists already"):
        kn.analysis.RMSD(small).run(out=tmp_path / "rows.h5")
