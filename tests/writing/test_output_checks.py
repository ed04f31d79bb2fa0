"""Checks of output paths before a run."""

from __future__ import annotations

from pathlib import Path

import pytest

import kinema as kn
from kinema.writing.output_checks import check_not_input, check_plot_path, check_target


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
