"""Saving and plotting results: every suffix, provenance, whole or not at all."""

import csv
import json
import os
import pickle
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.storage import output_file, tables
from kinema.testing import random_walk, write_dcd


@pytest.fixture
def rmsd(small):
    return kn.analysis.RMSD(small, groups=[[3, 4, 5]]).run()


def numbers(path, comments=("#", "@"), separator=None):
    lines = [line for line in path.read_text().splitlines() if not line.startswith(comments)]
    return np.array([[float(word) for word in line.split(separator)] for line in lines])


seven_digits = np.vectorize(lambda value: float(f"{value:.7g}"))


def text_rows(rows):
    """Rows of frame, time and numbers computed from float32, rounded as text rounds them."""
    return np.hstack([rows[:, :2], seven_digits(rows[:, 2:])])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_text_has_the_digits_that_positions_have(tmp_path, dtype):
    positions = random_walk(3, 4).astype(dtype) + dtype(1 / 3)
    with kn.Writer(tmp_path / "a.h5md", 4, dtype=np.dtype(dtype).name) as out:
        out.write(positions=positions)
    rgyr = kn.analysis.RadiusOfGyration(kn.open(tmp_path / "a.h5md"), weights=None).run()
    found = {}
    for suffix in (".csv", ".dat", ".xvg"):
        rgyr.save(tmp_path / f"rgyr{suffix}")
        found[suffix] = numbers(tmp_path / f"rgyr{suffix}", ("#", "@", "f"), "," if suffix == ".csv" else None)[:, -1]
    of_text = seven_digits(rgyr.results.rgyr) if dtype == np.float32 else rgyr.results.rgyr
    for values in found.values():
        np.testing.assert_array_equal(values, of_text)
    rgyr.save(tmp_path / "rgyr.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "rgyr.npy")[:, -1], rgyr.results.rgyr)


def test_csv(rmsd, tmp_path):
    path = tmp_path / "rmsd.csv"
    rmsd.save(path)
    lines = path.read_text().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    assert lines[1] == comments[0] == f"# kinema {kn.__version__}"
    assert any("small.dcd" in line and "fingerprint" in line for line in comments)
    assert any(line.startswith("# selection: all (15 atoms)") for line in comments)
    rows = list(csv.reader(line for line in lines if not line.startswith("#")))
    assert rows[0] == ["frame", "time (ps)", "rmsd (angstrom)", "rmsd of 3 indices (angstrom)"]
    np.testing.assert_array_equal(np.array(rows[1:], dtype=float), text_rows(rmsd.results.rmsd))
    np.testing.assert_array_equal(np.loadtxt(path, delimiter=",", skiprows=1), text_rows(rmsd.results.rmsd))
    named = np.genfromtxt(path, names=True, delimiter=",")
    assert named.dtype.names == ("frame", "time_ps", "rmsd_angstrom", "rmsd_of_3_indices_angstrom")
    np.testing.assert_array_equal(named["rmsd_angstrom"], seven_digits(rmsd.results.rmsd[:, 2]))
    # replaced, as it is ours; so is one of a version that wrote provenance first
    rmsd.save(path)
    path.write_text("\n".join([*comments, lines[0], *lines[len(comments) + 1 :]]))
    rmsd.save(path)
    assert path.read_text().splitlines()[0] == lines[0]


@pytest.mark.parametrize("suffix", ["csv", "dat"])
def test_a_table_of_many_columns_is_replaced(tmp_path, suffix):
    """Its names alone take more than is read of other files to know them."""
    write_dcd(tmp_path / "wide.dcd", random_walk(2, 100))
    distances = kn.analysis.Distances(kn.open(tmp_path / "wide.dcd"), ag1=range(60), ag2=range(60, 100), all_pairs=True)
    distances.run().save(tmp_path / f"wide.{suffix}")
    line = (tmp_path / f"wide.{suffix}").read_text().splitlines()[0]
    assert len(line) > 1 << 14
    # as if there were more of them
    text = (tmp_path / f"wide.{suffix}").read_text()
    (tmp_path / f"wide.{suffix}").write_text(line + 2**16 * " " + text[len(line) :])
    distances.save(tmp_path / f"wide.{suffix}")
    (tmp_path / f"wide.{suffix}").write_text(line + 2**16 * " ")
    with pytest.raises(kn.ArgumentError, match="is not a table, picture or report that kinema wrote"):
        distances.save(tmp_path / f"wide.{suffix}")


def test_csv_in_pandas(rmsd, tmp_path):
    pandas = pytest.importorskip("pandas")
    rmsd.save(tmp_path / "rmsd.csv")
    table = pandas.read_csv(tmp_path / "rmsd.csv", comment="#")
    assert list(table) == ["frame", "time (ps)", "rmsd (angstrom)", "rmsd of 3 indices (angstrom)"]
    # pandas before 3 may miss the nearest float64 by one
    np.testing.assert_allclose(table.to_numpy(), text_rows(rmsd.results.rmsd), rtol=2.3e-16, atol=0)


def test_xvg(rmsd, tmp_path):
    path = tmp_path / "rmsd.xvg"
    rmsd.save(path)
    text = path.read_text()
    assert '@    xaxis  label "time (ps)"' in text
    assert '@    yaxis  label "RMSD (angstrom)"' in text
    assert '@ s1 legend "rmsd of 3 indices"' in text
    np.testing.assert_array_equal(numbers(path), text_rows(rmsd.results.rmsd)[:, 1:])


def test_dat(rmsd, tmp_path):
    path = tmp_path / "rmsd.dat"
    rmsd.save(path)
    np.testing.assert_array_equal(numbers(path), text_rows(rmsd.results.rmsd))
    np.testing.assert_array_equal(np.loadtxt(path), text_rows(rmsd.results.rmsd))
    named = np.genfromtxt(path, names=True)
    assert named.dtype.names == ("frame", "time", "rmsd", "rmsd_of_3_indices")
    np.testing.assert_array_equal(named["rmsd"], seven_digits(rmsd.results.rmsd[:, 2]))
    # replaced, as it is ours
    rmsd.save(path)


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


def test_parquet_without_pyarrow(rmsd, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        kn.MissingPackageError, match=r"rmsd\.parquet: .* needs pyarrow .*'kinema\[parquet\]'"
    ) as caught:
        rmsd.save(tmp_path / "rmsd.parquet")
    assert isinstance(caught.value, ImportError)
    assert list(tmp_path.glob("rmsd.parquet*")) == []


def test_command_is_told(rmsd, tmp_path):
    path = tmp_path / "rmsd.dat"
    rmsd.save(path, command="kinema rmsd -f a.dcd\nand a second line")
    assert "# call: kinema rmsd -f a.dcd\\nand a second line\n" in path.read_text()


def test_rmsf_names_its_atoms(golden, tmp_path):
    traj = kn.open(golden / "ca.dcd", topology=golden / "ca.pdb", stored=False)
    rmsf = kn.analysis.RMSF(traj, select="name CA").run()
    for suffix in tables.SUFFIXES:
        rmsf.save(tmp_path / f"rmsf{suffix}")
    lines = [line for line in (tmp_path / "rmsf.csv").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "atom,name,residue,resname,segment,rmsf (angstrom)"
    assert lines[1].startswith("1,CA,1,MET,SYST,")
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
        tables.check_writable(closed / "rmsd.csv")


def test_nothing_half_written_stays(tmp_path):
    path = tmp_path / "whole.csv"
    path.write_text("before")

    def fail(file):
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        output_file.write_whole(path, fail)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["whole.csv"]


def test_file_mode_is_that_of_other_files(tmp_path):
    other = tmp_path / "other"
    other.write_text("")
    output_file.write_whole(tmp_path / "mine", lambda file: file.write(b""))
    assert (tmp_path / "mine").stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_plot(rmsd, tmp_path, suffix):
    figure = rmsd.plot(tmp_path / f"rmsd{suffix}")
    assert (tmp_path / f"rmsd{suffix}").stat().st_size > 1000
    axes = figure.axes[0]
    assert axes.get_xlabel() == "time (ps)"
    assert axes.get_ylabel() == "RMSD (Å)"
    assert len(axes.lines) == 2


def test_names_of_atoms_are_drawn_as_they_are(adk_dcd, tmp_path):
    """A `$` is the beginning of mathematics for matplotlib, and `\\x` none that it knows."""
    wrong = tmp_path / "wrong.psf"
    wrong.write_text(Path(adk_dcd.topology).read_text().replace(" MET ", r" $\x$ ").replace(" ARG ", " $_^$ "))
    traj = kn.open(adk_dcd.trajectory, topology=wrong)
    few = kn.analysis.RMSF(traj, select="resid 1:6", by="residue").run()
    many = kn.analysis.Dihedrals(traj, phi=True, select="resid 1:30").run()
    one = kn.analysis.Dihedrals(traj, phi=True, select="resid 1:2").run()
    for number, analysis in enumerate((few, many, one)):
        analysis.plot(tmp_path / f"{number}.png")
    (axes,) = few.plot().axes
    assert axes.xaxis.get_major_formatter()(1.0) == r"\$\x\$ 1"


@pytest.mark.parametrize("suffix", [".csv", ".xvg", ".dat", ".npy"])
def test_units_that_are_asked_for(rmsd, tmp_path, suffix):
    path = tmp_path / f"rmsd{suffix}"
    rmsd.save(path, output_unit="nm", output_time_unit="ns")
    expected = rmsd.results.rmsd / [1.0, 1000.0, 10.0, 10.0]
    if suffix == ".npy":
        np.testing.assert_array_equal(np.load(path), expected)
        columns = json.loads((tmp_path / "rmsd.npy.json").read_text())["columns"]
        assert [column["unit"] for column in columns] == ["", "ns", "nm", "nm"]
        return
    text = path.read_text()
    if suffix == ".xvg":
        assert '@    xaxis  label "time (ns)"' in text and '@    yaxis  label "RMSD (nm)"' in text
        np.testing.assert_array_equal(numbers(path), text_rows(expected)[:, 1:])
    elif suffix == ".csv":
        assert "frame,time (ns),rmsd (nm),rmsd of 3 indices (nm)" in text
    else:
        np.testing.assert_array_equal(numbers(path), text_rows(expected))


def test_pictures_have_the_units_that_are_asked_for(rmsd):
    (axes,) = rmsd.plot(output_unit="nm", output_time_unit="ns").axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time (ns)", "RMSD (nm)")
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), rmsd.results.time / 1000)
    for wrong in ({"output_unit": "m"}, {"output_time_unit": "nm"}):
        with pytest.raises(kn.ArgumentError, match=f"{next(iter(wrong))} must be"):
            rmsd.plot(**wrong)


def test_one_frame_has_a_marker(small):
    (axes,) = kn.analysis.RMSD(small).run(frames=[3]).plot().axes
    assert axes.lines[0].get_marker() == "o"


def test_no_line_is_drawn_back(small):
    (axes,) = kn.analysis.RMSD(small).run(frames=[0, 1, 2, 3, 1, 2]).plot().axes
    time = small.times
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [*time[:4], np.nan, *time[1:3]])


def test_rmsf_by_residue(adk_dcd, tmp_path):
    traj = kn.open(adk_dcd.trajectory, topology=adk_dcd.topology, stored=False)
    rmsf = kn.analysis.RMSF(traj, select="resid 10:14 20", align="average", by="residue").run()
    atoms = traj.topology.universe.atoms[rmsf.results.indices]
    expected = [np.sqrt(np.mean(rmsf.results.rmsf[atoms.resids == number] ** 2)) for number in (10, 11, 12, 13, 14, 20)]
    rmsf.save(tmp_path / "rmsf.csv")
    rows = list(csv.reader(line for line in (tmp_path / "rmsf.csv").read_text().splitlines() if line[0] != "#"))
    assert rows[0] == ["residue", "resname", "segment", "atoms", "rmsf (angstrom)"]
    assert [row[:4] for row in rows[1:3]] == [["10", "GLY", "4AKE", "7"], ["11", "ALA", "4AKE", "10"]]
    np.testing.assert_allclose([float(row[4]) for row in rows[1:]], seven_digits(expected), rtol=1e-12)
    (axes,) = rmsf.plot(tmp_path / "rmsf.png").axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("residue", "RMSF (Å)")
    assert [label.get_text() for label in axes.get_xticklabels()][:2] == ["GLY 10", "ALA 11"]
    assert rmsf.results.rmsf.shape == (len(atoms),)


def test_rmsf_by_residue_needs_residues(small):
    with pytest.raises(kn.ArgumentError, match="needs residues"):
        kn.analysis.RMSF(small, by="residue")
    with pytest.raises(kn.ArgumentError, match="by must be"):
        kn.analysis.RMSF(small, by="chain")


# -- numbers of atoms --------------------------------------------------------------------------------------------------


def test_tables_and_pictures_count_atoms_from_1_and_arrays_from_0(small, tmp_path):
    rmsf = kn.analysis.RMSF(small, select=[0, 2]).run()
    pairs = kn.analysis.Distances(small, [[0, 3], [2, 1]]).run(out=tmp_path / "pairs.h5")
    for suffix in (".csv", ".dat", ".xvg", ".npy"):
        rmsf.save(tmp_path / f"rmsf{suffix}")
        pairs.save(tmp_path / f"pairs{suffix}")
    for suffix, separator in ((".csv", ","), (".dat", None), (".xvg", None)):
        text = (tmp_path / f"rmsf{suffix}").read_text()
        assert "atom" in text and "index" not in text.replace("indices", "")
        assert numbers(tmp_path / f"rmsf{suffix}", ("#", "@", "a"), separator)[:, 0].tolist() == [1, 3]
        names = (tmp_path / f"pairs{suffix}").read_text()
        assert "1-4" in names and "3-2" in names and "0-3" not in names
    stream, _ = tables.table_lines("-", pairs.table(), pairs.provenance())
    assert b"1-4 (angstrom),3-2 (angstrom)" in stream
    assert np.load(tmp_path / "rmsf.npy")[:, 0].tolist() == rmsf.results.indices.tolist() == [0, 2]
    told = json.loads((tmp_path / "rmsf.npy.json").read_text())
    assert (told["columns"][0]["name"], told["atoms_counted_from"]) == ("index", 0)
    for names in (
        [one["name"] for one in json.loads((tmp_path / "pairs.npy.json").read_text())["columns"]][2:],
        h5py.File(tmp_path / "pairs.h5")["distances"].attrs["columns"].tolist(),
        [one.name for one in pairs.table().columns][2:],
    ):
        assert names == ["0-3", "2-1"]
    (axes,) = rmsf.plot().axes
    assert axes.get_xlabel() == "atom" and axes.lines[0].get_xdata().tolist() == [1, 3]
    assert [text.get_text() for text in pairs.plot().axes[0].get_legend().get_texts()] == ["1-4", "3-2"]


def test_results_as_a_data_frame(small, monkeypatch):
    analysis = kn.analysis.Distances(small, [[0, 3], [2, 7]])
    with pytest.raises(kn.ArgumentError, match=r"run\(\) has not been called"):
        analysis.results.to_dataframe()
    results = analysis.run().results
    frame = results.to_dataframe()
    assert list(frame.columns) == ["frame", "time", "0-3", "2-7"]
    np.testing.assert_array_equal(frame[["0-3", "2-7"]].to_numpy(), results.distances)
    assert frame.attrs["units"] == {"time": "ps", "0-3": "angstrom", "2-7": "angstrom"}
    atoms = kn.analysis.RMSF(small).run().results.to_dataframe()
    np.testing.assert_array_equal(atoms["index"], np.arange(small.n_atoms))
    copy = pickle.loads(pickle.dumps(results))
    np.testing.assert_array_equal(copy.distances, results.distances)
    with pytest.raises(kn.ArgumentError, match="were pickled"):
        copy.to_dataframe()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"needs pandas .* pip install 'kinema\[pandas\]'"):
        results.to_dataframe()
