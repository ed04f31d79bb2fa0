"""Saving and plotting results: every suffix, provenance, whole or not at all."""

import csv
import json
import os

import numpy as np
import pytest

import kinema as kn
from kinema import output


@pytest.fixture
def rmsd(small):
    return kn.analysis.RMSD(small, groups=[[3, 4, 5]]).run()


def numbers(path, comments=("#", "@"), separator=None):
    lines = [line for line in path.read_text().splitlines() if not line.startswith(comments)]
    return np.array([[float(word) for word in line.split(separator)] for line in lines])


def test_csv(rmsd, tmp_path):
    path = tmp_path / "rmsd.csv"
    rmsd.save(path)
    lines = path.read_text().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    assert comments[0] == f"# kinema {kn.__version__}"
    assert any("small.dcd" in line and "fingerprint" in line for line in comments)
    assert any(line.startswith("# selection: all (15 atoms)") for line in comments)
    rows = list(csv.reader(line for line in lines if not line.startswith("#")))
    assert rows[0] == ["frame", "time (ps)", "rmsd (angstrom)", "rmsd of 3 indices (angstrom)"]
    # the text reads back as the same numbers
    np.testing.assert_array_equal(np.array(rows[1:], dtype=float), rmsd.results.rmsd)


def test_xvg(rmsd, tmp_path):
    path = tmp_path / "rmsd.xvg"
    rmsd.save(path)
    text = path.read_text()
    assert '@    xaxis  label "time (ps)"' in text
    assert '@ s1 legend "rmsd of 3 indices"' in text
    np.testing.assert_array_equal(numbers(path), rmsd.results.rmsd[:, 1:])


def test_dat(rmsd, tmp_path):
    path = tmp_path / "rmsd.dat"
    rmsd.save(path)
    np.testing.assert_array_equal(numbers(path), rmsd.results.rmsd)


def test_npy(rmsd, tmp_path):
    path = tmp_path / "rmsd.npy"
    rmsd.save(path)
    np.testing.assert_array_equal(np.load(path), rmsd.results.rmsd)
    told = json.loads((tmp_path / "rmsd.npy.json").read_text())
    assert [column["name"] for column in told["columns"]] == ["frame", "time", "rmsd", "rmsd of 3 indices"]
    assert told["provenance"]["version"] == kn.__version__


def test_parquet(rmsd, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rmsd.parquet"
    rmsd.save(path)
    table = parquet.read_table(path)
    np.testing.assert_array_equal(np.column_stack([column.to_numpy() for column in table.columns]), rmsd.results.rmsd)
    assert json.loads(table.schema.metadata[b"kinema"])["inputs"][0]["path"].endswith("small.dcd")
    assert table.schema.field("time").metadata[b"unit"] == b"ps"


def test_command_is_told(rmsd, tmp_path):
    path = tmp_path / "rmsd.dat"
    rmsd.save(path, command="kinema rmsd -f a.dcd\nand a second line")
    assert "# call: kinema rmsd -f a.dcd and a second line\n" in path.read_text()


def test_rmsf_names_its_atoms(golden, tmp_path):
    traj = kn.open(golden / "ca.dcd", topology=golden / "ca.pdb", index="memory")
    rmsf = kn.analysis.RMSF(traj, select="name CA").run()
    for suffix in output.SUFFIXES:
        rmsf.save(tmp_path / f"rmsf{suffix}")
    lines = [line for line in (tmp_path / "rmsf.csv").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "atom,name,residue,residue name,rmsf (angstrom)"
    assert lines[1].startswith("0,CA,1,MET,")
    assert numbers(tmp_path / "rmsf.xvg").shape == (214, 2)


def test_all_save_before_run(small, tmp_path):
    with pytest.raises(kn.ArgumentError, match=r"call run\(\) first"):
        kn.analysis.RMSD(small).save(tmp_path / "x.csv")
    assert not list(tmp_path.glob("x*"))


def test_unknown_suffix(rmsd, tmp_path):
    with pytest.raises(kn.UnsupportedFormatError, match=r"\.csv, \.xvg, \.npy, \.parquet, \.dat"):
        rmsd.save(tmp_path / "rmsd.xlsx")
    with pytest.raises(kn.UnsupportedFormatError, match=r"\.png, \.pdf, \.svg"):
        rmsd.plot(tmp_path / "rmsd.csv")


def test_folders(rmsd, tmp_path):
    with pytest.raises(kn.FileNotFound, match="folder does not exist"):
        rmsd.save(tmp_path / "none" / "rmsd.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(kn.ArgumentError, match="is a directory"):
        rmsd.save(tmp_path / "folder.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_may_not_be_written(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(PermissionError, match="may not be written"):
        output.check_writable(closed / "rmsd.csv")


def test_nothing_half_written_stays(tmp_path):
    path = tmp_path / "whole.csv"
    path.write_text("before")

    def fail(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        output.write_whole(path, fail)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["whole.csv"]


def test_file_mode_is_that_of_other_files(tmp_path):
    other = tmp_path / "other"
    other.write_text("")
    output.write_whole(tmp_path / "mine", lambda file: file.write(b""))
    assert (tmp_path / "mine").stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_plot(rmsd, tmp_path, suffix):
    figure = rmsd.plot(tmp_path / f"rmsd{suffix}")
    assert (tmp_path / f"rmsd{suffix}").stat().st_size > 1000
    axes = figure.axes[0]
    assert axes.get_xlabel() == "time (ps)"
    assert axes.get_ylabel() == "RMSD (Å)"
    assert len(axes.lines) == 2
