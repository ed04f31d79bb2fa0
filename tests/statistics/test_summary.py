"""Summaries of results: values of analyses and of every kind of file, units, periods, notes, tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.statistics import FrameSeries, block_error, circular_moments, detect_equilibration, statistical_inefficiency
from kinema.storage.tables import Column, Table


def test_statistics_of_an_array() -> None:
    values = np.random.default_rng(1).normal(5.0, 2.0, size=2000)
    (found,) = kn.summarise(values)
    assert found.mean == values.mean() and found.deviation == np.std(values, ddof=1)
    assert (found.least, found.most, found.n_values) == (values.min(), values.max(), 2000)
    blocks = block_error(values)
    assert (found.error, found.has_plateau, found.block_length) == (blocks.error, True, blocks.block_length)
    assert found.inefficiency == statistical_inefficiency(values)
    assert found.n_effective == 2000 / found.inefficiency
    assert found.equilibrated == detect_equilibration(values).start
    assert found.equilibrated_frame is None and np.isnan(found.equilibrated_time)


def test_errors_that_are_lower_bounds_are_noted() -> None:
    drift = FrameSeries("drift", np.arange(1000.0))
    with pytest.warns(kn.Note, match="the error of drift is a lower bound: the run is too short"):
        found = kn.summarise(drift)
    assert not found["drift"].has_plateau and f">{found['drift'].error:.2g}" in str(found)
    noise = FrameSeries("noise", np.random.default_rng(1).normal(size=1000))
    with pytest.warns(kn.Note, match="1 of 2 errors are lower bounds"):
        assert kn.summarise([drift, noise])["noise"].has_plateau


def test_equilibrated_leaves_out_the_start() -> None:
    values = np.concatenate([np.linspace(50.0, 0.0, 300), np.random.default_rng(1).normal(size=1700)])
    series = FrameSeries("value", values, "angstrom", frames=np.arange(0, 20_000, 10), time=np.arange(2000.0))
    (found,) = kn.summarise(series, equilibrated=True)
    start = detect_equilibration(values).start
    assert 250 <= start <= 300
    assert (found.equilibrated, found.n_values) == (start, 2000 - start)
    assert (found.equilibrated_frame, found.equilibrated_time) == (10 * start, start)
    assert found.mean == values[start:].mean()
    (whole,) = kn.summarise(series)
    assert (whole.equilibrated, whole.n_values, whole.mean) == (start, 2000, values.mean())


def test_times_choose_values() -> None:
    series = FrameSeries("value", np.arange(100.0), time=np.arange(0.0, 200.0, 2.0))
    (found,) = kn.summarise(series, begin=20.0, end=40.0)
    assert (found.least, found.most, found.n_values) == (10.0, 20.0, 11)
    with pytest.raises(kn.ArgumentError, match=r"no frame from 300.0 to the last ps"):
        kn.summarise(series, begin=300.0)
    with pytest.raises(kn.ArgumentError, match="has no times"):
        kn.summarise([1.0, 2.0], begin=1.0)


def test_periodic_values_have_circular_moments() -> None:
    rng = np.random.default_rng(4)
    values = (rng.normal(178.0, 8.0, size=3000) + 180.0) % 360.0 - 180.0
    moments = circular_moments(values)
    (found,) = kn.summarise(FrameSeries("phi", values, "degree", 360.0))
    assert (found.mean, found.deviation) == (moments.mean, moments.deviation)
    assert found.error == block_error(moments.linearised).error == pytest.approx(8.0 / np.sqrt(3000), rel=0.3)
    assert np.isnan(found.least) and np.isnan(found.most)
    (stated,) = kn.summarise(values, periodic=360.0)
    assert stated.mean == found.mean
    (plain,) = kn.summarise(FrameSeries("phi", values, "degree", 360.0), periodic=0)
    assert plain.mean == values.mean()
    with pytest.warns(kn.Note, match="periodic=360 gives the circular mean"):
        kn.summarise(FrameSeries("phi", values, "degree"))
    (uniform,) = kn.summarise(FrameSeries("phi", np.tile([0.0, 90.0, 180.0, 270.0], 100), "degree", 360.0))
    assert np.isnan(uniform.mean) and np.isnan(uniform.error)


def test_values_that_are_not_finite_are_left_out() -> None:
    values = np.random.default_rng(4).normal(size=1000)
    values[[3, 7]] = np.nan
    with pytest.warns(kn.Note, match="value: 2 of 1,000 values are not finite numbers and are left out"):
        (found,) = kn.summarise(values)
    assert found.n_values == 998 and found.mean == pytest.approx(np.nanmean(values))
    with pytest.warns(kn.Note, match="2 of 2 values"):
        (none,) = kn.summarise([np.nan, np.nan])
    assert none.n_values == 0 and np.isnan(none.mean)


@pytest.mark.parametrize("frames", [[0, 1, 3], [2, 1, 0], [0, 10, 11]])
def test_frames_that_are_not_equally_spaced_are_noted(frames: Any) -> None:
    with pytest.warns(kn.Note, match="not equally spaced"):
        kn.summarise(FrameSeries("value", np.array([1.0, 1.0, 1.0]), frames=np.array(frames)))


def test_an_analysis_and_its_files(adk_dcd: Any, tmp_path: Path) -> None:
    traj = kn.open(adk_dcd.trajectory, adk_dcd.topology, stored=False)
    analysis = kn.analysis.Dihedrals(traj, quadruples=[[1, 5, 9, 11], [20, 22, 24, 26]])
    analysis.run(out=tmp_path / "out.h5")
    expected = kn.summarise(analysis)
    assert [one.unit for one in expected] == ["degree"] * 2
    assert np.isnan(expected.columns[0].least), "not periodic"
    assert str(analysis.statistics().columns) == str(expected.columns)
    for suffix in ("csv", "dat", "xvg", "npy", "parquet"):
        analysis.save(tmp_path / f"out.{suffix}")
    for suffix in ("csv", "dat", "xvg", "npy", "parquet", "h5"):
        found = kn.summarise(tmp_path / f"out.{suffix}")
        for one, ours in zip(found, expected, strict=True):
            assert one.mean == pytest.approx(ours.mean, rel=1e-5), suffix
            assert one.error == pytest.approx(ours.error, rel=1e-4), suffix
            assert (one.unit, one.equilibrated) == ("degree", ours.equilibrated), suffix
            assert one.equilibrated_time == pytest.approx(ours.equilibrated_time, rel=1e-6), suffix
        assert [Path(one.path).name for one in found.inputs] == [f"out.{suffix}"]
        # .xvg has times alone
        assert (found.columns[0].equilibrated_frame is None) == (suffix == "xvg")
    name = expected.columns[1].name
    alone = kn.summarise(f"{tmp_path / 'out.h5'}:{name}")
    assert [one.name for one in alone] == [name]
    assert [one.name for one in kn.summarise(tmp_path / "out.h5", columns=[name])] == [name]
    with pytest.raises(kn.ArgumentError, match="no column 'x', expected one of"):
        kn.summarise(f"{tmp_path / 'out.csv'}:x")


def test_results_that_are_not_a_value_for_each_frame(small: kn.Trajectory, tmp_path: Path) -> None:
    rmsf = kn.analysis.RMSF(small).run()
    with pytest.raises(kn.ArgumentError, match="its rows are not frames but index"):
        rmsf.statistics()
    rmsf.save(tmp_path / "rmsf.csv")
    with pytest.raises(kn.ArgumentError, match="its rows are not frames but atom"):
        kn.summarise(tmp_path / "rmsf.csv")
    columns = (Column("frame", np.array([1, 2, 2])), Column("distance", np.ones(3), "angstrom"))
    with pytest.raises(kn.ArgumentError, match="frame 2 has 2 rows"):
        kn.summarise(Table("Pairs", columns))
    with pytest.raises(kn.ArgumentError, match=r"call run\(\) first"):
        kn.analysis.RMSF(small).statistics()


def test_units() -> None:
    values = np.random.default_rng(4).normal(20.0, 1.0, size=1000)
    series = [FrameSeries("a", values, "angstrom"), FrameSeries("b", values, "angstrom^2"), FrameSeries("c", values)]
    found = kn.summarise(series, output_unit="nm")
    assert [one.unit for one in found] == ["nm", "nm^2", ""]
    assert [one.mean / values.mean() for one in found] == pytest.approx([0.1, 0.01, 1.0])


FILES = {
    # as gmx writes it
    "gmx.xvg": '# gmx\n@    title "RMSD"\n@    xaxis  label "Time (ps)"\n@    yaxis  label "RMSD (nm)"\n@TYPE xy\n'
    "   0.0    0.1\n  10.0    0.3\n",
    "two.xvg": '@ xaxis label "Time (ns)"\n@ yaxis label "(nm)"\n@ s0 legend "Rg"\n@ s1 legend "Rg x"\n'
    "0 0.1 0.2\n1 0.3 0.4\n",
    # as PLUMED writes it
    "COLVAR.dat": "#! FIELDS time d1\n#! SET min_phi -pi\n 0.0 0.1\n 1.0 0.3\n",
    "pandas.csv": ",Time (ps),value\n0,0.0,0.1\n1,1.0,0.3\n",
    "names.csv": 'frame,resname,"a, b"\n0,ALA,0.1\n1,"G,Y",0.3\n',
}


@pytest.mark.parametrize(
    ("name", "column", "unit"),
    [
        ("gmx.xvg", "RMSD", "nm"), ("two.xvg", "Rg", "nm"), ("COLVAR.dat", "d1", "1"), ("pandas.csv", "value", "1"),
        ("names.csv", "a, b", "1"),
    ],
)  # fmt: skip
def test_files_of_other_programs(name: str, column: str, unit: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(FILES[name])
    found = kn.summarise(tmp_path / name).columns[0]
    assert (found.name, found.unit, found.n_values) == (column, unit, 2)
    assert found.mean == pytest.approx(0.2)
    assert found.equilibrated_time == 0.0 or name == "names.csv"


def test_arrays_of_numpy(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", frames=np.arange(3), time=np.arange(3.0), x=np.arange(3.0), pair=np.ones((3, 2)))
    found = kn.summarise(tmp_path / "a.npz")
    assert [one.name for one in found] == ["x", "pair 1", "pair 2"]
    np.save(tmp_path / "a.npy", np.arange(4.0))
    with pytest.warns(kn.Note, match="no column frame or time"):
        (alone,) = kn.summarise(tmp_path / "a.npy")
    assert (alone.name, alone.mean) == ("value", 1.5)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"frame,x\n0,1\n1,a\n", "not a table of numbers"),
        ("a.csv", b"frame,x\n0\n", "the first row has 1 cells, expected 2"),
        ("a.csv", b"", "no line with the names of columns"),
        ("a.csv", b"frame,x\n\xff\xfe,1\n", "byte 8: not text in UTF-8"),
        ("a.csv", b"frame,name\n0,A\n", "no column is a quantity"),
        ("a.xvg", b'@ xaxis label "Residue"\n1 2\n', "its rows are not frames but Residue"),
        ("a.xvg", b"0 1\n&\n0 1\n", "several sets of data"),
        ("a.npy", b"no array", "not an array of numbers"),
        ("a.npz", b"no archive", "not an array of numbers"),
        ("a.h5", b"no HDF5", "a.h5"),
        ("a.parquet", b"no parquet", "not a parquet file"),
        ("a.pdb", b"", "results are not read from .pdb"),
    ],
)
def test_damaged_files(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(kn.Error, match=message):
        kn.summarise(tmp_path / name)


def test_names_with_colons(tmp_path: Path) -> None:
    file = tmp_path / "a:b.csv"
    file.write_text("frame,x:y,z\n0,1,2\n1,3,4\n")
    assert [one.name for one in kn.summarise(file)] == ["x:y", "z"]
    assert [one.name for one in kn.summarise(f"{file}:x:y")] == ["x:y"]
    with pytest.raises(kn.Error, match=r"none\.csv: "):
        kn.summarise(tmp_path / "none.csv:x")


def test_the_table_is_saved(tmp_path: Path) -> None:
    values = np.random.default_rng(4).normal(size=1000)
    found = kn.summarise([FrameSeries("a", values, "angstrom"), FrameSeries("b", values)])
    assert found["b"] is found.columns[1] and len(found) == 2
    with pytest.raises(KeyError):
        found["c"]
    found.save(tmp_path / "s.csv", command="kinema summarise ...")
    lines = [line for line in (tmp_path / "s.csv").read_text().splitlines() if not line.startswith("#")]
    assert lines[0].startswith("column,unit,values,mean,error,plateau,block_length,deviation,min,max,inefficiency")
    assert lines[1].startswith(f"a,angstrom,1000,{values.mean():.7g},") and len(lines) == 3
    assert "call: kinema summarise ..." in (tmp_path / "s.csv").read_text()
    pandas = pytest.importorskip("pandas")
    assert list(found.to_dataframe()["column"]) == ["a", "b"] and isinstance(found.to_dataframe(), pandas.DataFrame)
    for suffix in ("npy", "xvg"):
        with pytest.raises(kn.UnsupportedFormatError, match="words beside numbers"):
            found.save(tmp_path / f"s.{suffix}")
    assert str(found).splitlines()[0].split()[:4] == ["unit", "values", "mean", "error"]


@pytest.mark.parametrize("source", [b"a.csv", {"a": 1}, "a.csv".join, [[1.0], [2.0]][:1][0:0]])
def test_other_objects_are_refused(source: Any) -> None:
    with pytest.raises(kn.ArgumentError):
        kn.summarise(source)


def test_periods_are_written(tmp_path: Path) -> None:
    from kinema.storage.provenance import Provenance
    from kinema.storage.tables import write_table

    phi = Column("phi 1", np.array([1.0]), "degree", period=360.0)
    table = Table("Angles", (Column("frame", np.array([0])), phi), x="frame")
    for suffix in ("csv", "xvg", "dat"):
        write_table(tmp_path / f"a.{suffix}", table, Provenance("0", "call"))
        assert '# periods: {"phi 1": 360.0}' in (tmp_path / f"a.{suffix}").read_text().splitlines()
    assert '# units: {"phi 1": "degree"}' in (tmp_path / "a.dat").read_text().splitlines()
    write_table(tmp_path / "a.npy", table, Provenance("0", "call"))
    columns = json.loads((tmp_path / "a.npy.json").read_text())["columns"]
    assert columns[1] == {"name": "phi 1", "unit": "degree", "period": 360.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"columns": [', "not the columns of an array"),
        ('{"columns": [{"name": "phi"}]}', "not the columns of an array"),
        ('{"columns": [{"name": "phi", "unit": "degree", "period": 360}]}', "names 1 columns of an array that has 2"),
    ],
)
def test_damaged_names_of_columns_are_no_silent_loss_of_periods(tmp_path: Path, text: str, message: str) -> None:
    np.save(tmp_path / "a.npy", np.ones((4, 2)))
    (tmp_path / "a.npy.json").write_text(text)
    with pytest.raises(kn.errors.CorruptFileError, match=rf"a\.npy\.json: {message}"):
        kn.summarise(tmp_path / "a.npy")
