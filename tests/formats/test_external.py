"""Formats that are read through MDAnalysis: the suite of formats, and real files against MDAnalysis itself."""

import bz2
import gzip
import pickle
import shlex
import shutil
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.cli.in_process import call_kinema
from kinema.formats.external.frames import reader_class
from kinema.formats.external.reading import Describer, ExternalOptions
from kinema.testing import FormatTests, Golden, random_walk
from kinema.testing.amounts import each
from kinema.testing.programs.children import start_child
from kinema.testing.programs.imports import lazy

MDAnalysis = lazy("MDAnalysis")
data = lazy("MDAnalysisTests.datafiles")

# file of MDAnalysisTests, MDAnalysis' format where its name does not say it, file that says how many atoms there are
FILES = {
    "XYZ": ("XYZ", None, None),
    "XYZ.bz2": ("XYZ_bz2", None, None),
    "PDB of several models": ("PDB_multiframe", None, None),
    "PDB": ("PDB_small", None, None),
    "GRO": ("GRO", None, None),
    "GRO with velocities": ("GRO_velocity", None, None),
    "LAMMPS dump": ("LAMMPSDUMP", "LAMMPSDUMP", None),
    "LAMMPS data": ("LAMMPSdata", "DATA", "LAMMPSdata"),
    "AMBER mdcrd": ("TRJ", None, "PRM"),
    "AMBER mdcrd with boxes": ("TRJpbc_bz2", None, "PRMpbc"),
    "AMBER restart": ("INPCRD", None, None),
    "TRZ": ("TRZ", None, "TRZ_psf"),
    "MOL2": ("mol2_molecules", None, None),
    "GAMESS": ("GMS_ASYMOPT", "GMS", None),
    "CHARMM CRD": ("CRD", None, None),
    "Tinker": ("TXYZ", None, None),
    "GROMOS": ("TRC_TRAJ1_VAC", None, None),
}


def write_trc(path, positions, first_step):
    """A GROMOS trajectory, in nm."""
    with open(path, "w") as file:
        file.write("TITLE\nmade\nEND\n")
        for number, frame in enumerate(positions):
            step = first_step + number
            file.write(f"TIMESTEP\n{step:15d}{step:20.9f}\nEND\nPOSITIONRED\n")
            for x, y, z in frame.astype(float) / 10:
                file.write(f"{x:20.9f}{y:20.9f}{z:20.9f}\n")
            file.write("END\nGENBOX\n    0\nEND\n")


def files_of(name):
    path, named, topology = FILES[name]
    return getattr(data, path), named, topology and getattr(data, topology)


def opened(name, **options):
    path, named, topology = files_of(name)
    if named == "DATA":
        topology = MDAnalysis.Universe(path)
    return kn.open(path, topology, format=named, stored=False, **options)


@pytest.fixture(autouse=True)
def _quiet():
    # of MDAnalysis, about files of its own tests
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


class TestGromos(FormatTests):
    suffix = ".trc"
    index = "structure"
    reads_bytes = False
    # nm in float32, times 10
    tolerance = 1e-4

    def write(self, path, positions, first_step):
        write_trc(path, positions, first_step)

    def write_synthetic(self, path, made):
        write_trc(path, made.positions, 0)
        return False, False

    def golden_files(self):
        universe = MDAnalysis.Universe(data.XYZ)
        return [Golden(Path(data.XYZ), np.array([step.positions.copy() for step in universe.trajectory]))]


@pytest.mark.parametrize("name", FILES)
def test_frames_are_those_of_mdanalysis(name):
    path, named, topology = files_of(name)
    traj = opened(name)
    assert traj.format == "MDAnalysis"
    options = {} if topology is None else {"n_atoms": traj.n_atoms}
    with reader_class(path, named)(path, **options) as reader:
        assert (traj.n_frames, traj.n_atoms) == (reader.n_frames, reader.n_atoms)
        fields = [field for field in ("positions", "velocities", "forces") if field in traj.fields]
        found = traj.read(fields=fields)
        for number, step in enumerate(reader):
            for field in fields:
                np.testing.assert_array_equal(found[field][number], getattr(step, field))
            assert [getattr(step, f"has_{field}") for field in ("positions", "velocities", "forces")] == [
                field in fields for field in ("positions", "velocities", "forces")
            ]
            if "step" in traj.fields:
                assert found["steps"][number] == step.data["step"]
            assert "time" in traj.fields or np.isnan(found["times"][number])
            if "time" in traj.fields:
                assert found["times"][number] == step.time
            assert found["present"]["cells"][number] == (step.dimensions is not None)
            if step.dimensions is not None:
                np.testing.assert_allclose(found["cells"][number], step.triclinic_dimensions, rtol=1e-5, atol=1e-4)
    assert any("read through MDAnalysis, frame by frame, which is slow" in note for note in traj.notes)
    # one frame alone, the last first
    for number in {traj.n_frames - 1, 0}:
        np.testing.assert_array_equal(traj[number].positions, found["positions"][number])


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("TRZ", {"time"}),
        ("LAMMPS dump", {"step"}),
        ("GROMOS", {"step", "time"}),
        *((name, set()) for name in ("XYZ", "PDB", "PDB of several models", "GRO", "AMBER mdcrd", "MOL2")),
    ],
)
def test_no_time_is_made_up(name, fields):
    traj = opened(name)
    assert set(traj.fields) & {"step", "time"} == fields
    assert np.isnan(traj.times).all() == ("time" not in fields)


@pytest.mark.parametrize(
    ("name", "noted"),
    [("XYZ", True), ("LAMMPS dump", True), ("AMBER mdcrd", True), ("PDB of several models", False), ("GRO", False)],
)
def test_times_that_are_not_there_are_noted_with_what_states_them(name, noted):
    remedy = "does not say times of frames, which are nan; state the time between with dt= (--timestep)"
    assert any(remedy in note for note in opened(name).notes) == noted
    assert not any(remedy in note for note in opened(name, dt=2.0).notes)


def test_stated_times_and_reader_options():
    traj = opened("XYZ", dt=2.0)
    np.testing.assert_array_equal(traj.times, 2.0 * np.arange(traj.n_frames))
    dump = opened("LAMMPS dump", reader_options={"dt": 0.5})
    np.testing.assert_array_equal(dump.times, 0.5 * dump.steps)
    assert dump.stated["reader_options"] == "dt 0.5"
    with pytest.raises(kn.ArgumentError, match=r"reader_options has time_offset, which is given as time_offset= of"):
        opened("XYZ", reader_options={"time_offset": 1.0})
    with pytest.raises(kn.ArgumentError, match="reader_options is for files that are read through MDAnalysis"):
        kn.open(data.XTC, reader_options={"x": 1}, stored=False)


def test_stated_units_replace_those_of_mdanalysis():
    plain = opened("XYZ").read()
    np.testing.assert_allclose(opened("XYZ", units={"length": "nm"}).read(), 10 * plain, rtol=1e-6)
    # TRZ is in nm, which MDAnalysis has applied
    np.testing.assert_allclose(opened("TRZ", units={"length": "nm"}).read(), opened("TRZ").read(), rtol=1e-6)
    halved = opened("TRZ", units={"length": "angstrom"}).read(fields=["positions", "velocities"])
    whole = opened("TRZ").read(fields=["positions", "velocities"])
    for field in halved:
        if field in ("positions", "velocities"):
            np.testing.assert_allclose(10 * halved[field], whole[field], rtol=1e-6)


def test_time_and_step_of_a_gro_title(tmp_path):
    path = tmp_path / "frame.gro"
    text = Path(data.two_water_gro).read_text().splitlines(keepends=True)
    path.write_text("".join(["water t=   12.50000 step= 6250\n", *text[1:], "\n"]))
    traj = kn.open(path, stored=False)
    assert (traj.times[0], traj.steps[0]) == (12.5, 6250)
    assert not any("this file has more" in note for note in traj.notes)
    path.write_text(path.read_text() * 2)
    assert any("only the first frame of a GRO file, and this file has more" in n for n in kn.open(path).notes)


@pytest.fixture(scope="module")
def gapped():
    """A format of MDAnalysis."""

    class GappedReader(MDAnalysis.coordinates.XYZ.XYZReader):
        """XYZ with velocities, which are the positions, in every second frame."""

        format = "GAPPED"

        def _read_next_timestep(self, ts=None):
            found = super()._read_next_timestep(ts)
            found.has_velocities = found.frame % 2 == 0
            if found.has_velocities:
                found.velocities = found.positions
            found.data["step"] = found.frame
            return found


def test_frames_without_velocities(gapped, tmp_path):
    path = tmp_path / "some.gapped"
    shutil.copy(data.XYZ, path)
    strict = kn.open(path, stored=False)
    assert "velocities" in strict.fields
    assert strict.read().shape == (10, 1284, 3)
    with pytest.raises(kn.ArgumentError, match="frame 1: no velocities at this step"):
        strict.read(fields=["velocities"])
    absent = kn.open(path, stored=False, absent="nan").read(fields=["velocities"])
    np.testing.assert_array_equal(np.isnan(absent["velocities"]).all(axis=(1, 2)), np.arange(10) % 2 == 1)
    np.testing.assert_array_equal(absent["present"]["velocities"], np.arange(10) % 2 == 0)
    held = kn.open(path, stored=False, absent="hold").read(fields=["velocities"])["velocities"]
    np.testing.assert_array_equal(held[1::2], held[::2])
    np.testing.assert_array_equal(kn.open(path, stored=False, axis="velocities").steps, np.arange(0, 10, 2))


def test_another_number_of_atoms_is_refused_with_its_frame(tmp_path):
    path = tmp_path / "changes.lammpsdump"
    frame = "ITEM: TIMESTEP\n{0}\nITEM: NUMBER OF ATOMS\n{1}\nITEM: BOX BOUNDS pp pp pp\n" + 3 * "0 9\n"
    path.write_text(
        "".join(
            frame.format(step, n_atoms)
            + "ITEM: ATOMS id x y z\n"
            + "".join(f"{i + 1} {i} {i} {i}\n" for i in range(n_atoms))
            for step, n_atoms in ((0, 3), (1, 3), (2, 4))
        )
    )
    with pytest.raises(kn.Error, match=r"frame 2: .*[Nn]umber of atoms") as caught:
        kn.open(path, stored=False)
    assert (caught.value.path, caught.value.format, caught.value.frame) == (str(path), "MDAnalysis", 2)


def xyz(*sizes):
    return "".join(f"{n}\nmade\n" + "".join(f"C {i} {f} 0\n" for i in range(n)) for f, n in enumerate(sizes))


def tinker(*sizes):
    atoms = lambda n: "".join(f"{i + 1} C {i}.0 0.0 0.0 1\n" for i in range(n))  # noqa: E731
    return "".join(f"{n} made\n{atoms(n)}" for n in sizes)


def dump(*sizes):
    frame = "ITEM: TIMESTEP\n{}\nITEM: NUMBER OF ATOMS\n{}\nITEM: BOX BOUNDS pp pp pp\n" + 3 * "0 9\n"
    atoms = lambda n: "".join(f"{i + 1} {i} {i} {i}\n" for i in range(n))  # noqa: E731
    return "".join(f"{frame.format(10 * f, n)}ITEM: ATOMS id x y z\n{atoms(n)}" for f, n in enumerate(sizes))


def amber(*sizes):
    numbers = lambda n: "".join(f"{i:8.3f}" + "\n" * (i % 10 == 9) for i in range(3 * n))  # noqa: E731
    return "made\n" + "".join(f"{numbers(n)}\n" for n in sizes)


@pytest.mark.parametrize(("made", "name"), [(xyz, "a.xyz"), (tinker, "a.arc"), (dump, "a.lammpsdump")])
@pytest.mark.parametrize("sizes", [(2, 3), (3, 2), (3, 3, 1), (2, 2, 8, 8), (4, 5, 3)])
def test_frames_of_other_atoms_are_refused_and_none_is_lost(tmp_path, made, name, sizes):
    path = tmp_path / name
    path.write_text(made(*sizes))
    frame = next(i for i, size in enumerate(sizes) if size != sizes[0])
    said = f"{path}: MDAnalysis frame {frame}: number of atoms, expected {sizes[0]} as in frame 0, found {sizes[frame]}"
    with pytest.raises(kn.UnsupportedFormatError) as caught:
        kn.open(path, stored=False)
    assert str(caught.value) == said
    assert (caught.value.path, caught.value.frame) == (str(path), frame)
    (problem,) = kn.check(path).problems
    assert (problem.kind, problem.frame, str(problem)) == ("atoms", frame, said)


@pytest.mark.parametrize(
    ("made", "name"), [(xyz, "a.xyz"), (tinker, "a.arc"), (dump, "a.lammpsdump"), (amber, "a.mdcrd")]
)
@pytest.mark.parametrize("lacking", ["a line", "all but a line", "the end of its last line"])
def test_a_last_frame_that_is_not_whole_is_left_out(tmp_path, made, name, lacking):
    if lacking.startswith("the end") and made in (dump, amber):
        pytest.skip("MDAnalysis says what is wrong")
    whole, third = made(4, 4), made(4, 4, 4).removeprefix(made(4, 4))
    lines = third.splitlines(keepends=True)
    cut = {"a line": lines[:-1], "all but a line": lines[:1], "the end of its last line": [*lines[:-1], lines[-1][:3]]}
    path = tmp_path / name
    path.write_text(whole + "".join(cut[lacking]))
    if made is dump:
        # steps are 0, 10, 20
        assert whole.count("TIMESTEP") == 2
    topology = MDAnalysis.Universe.empty(4) if made is amber else None
    with collected() as notes:
        traj = kn.open(path, topology, stored=False)
        assert len(traj.read()) == 2
    place = f"MDAnalysis frame 2, byte {len(whole)}: the file ends within a frame"
    assert any(place in note for note in notes)
    with pytest.raises(kn.TruncatedFileError, match=place):
        kn.open(path, topology, stored=False, on_truncated="error").scan()
    if topology is None:
        assert [problem.kind for problem in kn.check(path).problems] == ["truncated"]
    # whole, with and without a last end of line, and empty lines at the end
    for end in ("", "\n\n"):
        path.write_text(whole.rstrip() + end)
        assert kn.open(path, topology, stored=False).n_frames == 2


def test_lines_between_frames_that_are_none_are_damage(tmp_path):
    path = tmp_path / "a.xyz"
    for between, message in (
        ("\n\n", "byte 23: empty lines"),
        ("what\n", "byte 23: number of atoms, expected a whole"),
    ):
        path.write_text(xyz(2) + between + xyz(2))
        with pytest.raises(kn.CorruptFileError, match=f"frame 1, {message}"):
            kn.open(path, stored=False)


@pytest.mark.parametrize("name", FILES)
def test_a_count_of_frames_that_nobody_checks_is_noted(name):
    noted = any("no more frames than it finds is not checked" in note for note in opened(name).notes)
    assert noted == (name in ("GAMESS", "GROMOS"))


def test_what_nobody_reads_is_refused_as_ever(tmp_path):
    path = tmp_path / "letter.foo"
    path.write_text("dear reader")
    known = r"not a format that Kinema reads \(.*XTC.*\): the first bytes are \"dear reader\""
    with pytest.raises(kn.UnsupportedFormatError, match=known):
        kn.open(path)
    path = path.rename(tmp_path / "letter.xyz")
    with pytest.raises(kn.CorruptFileError, match=r"letter.xyz: MDAnalysis frame 0: ValueError: .*begins with 'dear"):
        kn.open(path)
    with pytest.raises(kn.ArgumentError, match="TRJ files do not say how many atoms they have; give a topology"):
        kn.open(data.TRJ)
    with pytest.raises(kn.ArgumentError, match='no format "FOO"'):
        kn.open(data.XTC, format="FOO")


@pytest.mark.parametrize("named", ["MDAnalysis", "XYZ", "PDB"])
def test_what_kinema_reads_is_never_read_through_mdanalysis(named, tmp_path):
    with pytest.raises(kn.ArgumentError, match="this is XTC, which Kinema reads itself"):
        kn.open(data.XTC, format=named)
    disguised = tmp_path / "named.xyz"
    shutil.copy(data.DCD, disguised)
    assert kn.open(disguised, stored=False).format == "DCD"
    for name in ("XTC", "DCD", "LAMMPS", "H5MD", "MEMORY"):
        assert reader_class("file", name) is None


@pytest.mark.parametrize("name", ["a.dump", "a.lammpstrj", "a.LAMMPSTRJ", "a.out", "a.xyz", "a.dcd", "HISTORY", "a.gz"])
def test_a_lammps_dump_is_one_whatever_its_name(tmp_path, name):
    path = tmp_path / name
    written = dump(3, 3).encode()
    path.write_bytes(gzip.compress(written) if name.endswith(".gz") else written)
    traj = kn.open(path, stored=False)
    assert traj.parts[0].variant.startswith("LAMMPSDUMP")
    assert traj.steps.tolist() == [0, 10]
    again = pickle.loads(pickle.dumps(traj))
    np.testing.assert_array_equal(again.read(), traj.read())
    # a format that is stated counts more
    with pytest.raises(kn.Error, match="reading XYZ"):
        kn.open(path, format="XYZ", stored=False)


def test_endings_of_amber_files(tmp_path):
    for ending in ("rst7", "inpcrd", "restrt"):
        path = shutil.copy(data.INPCRD, tmp_path / f"a.{ending}")
        assert kn.open(path, stored=False).parts[0].variant.startswith("INPCRD")
    traj = kn.open(shutil.copy(data.TRJ, tmp_path / "a.mdcrd"), data.PRM, stored=False)
    np.testing.assert_array_equal(traj.read(), opened("AMBER mdcrd").read())


def compress_zstd(written):
    """In one frame, as a block that is not compressed: RFC 8878."""
    assert len(written) < 1 << 17
    block = (len(written) << 3 | 1).to_bytes(3, "little")
    return b"\x28\xb5\x2f\xfd\x80\x58" + len(written).to_bytes(4, "little") + block + written


@pytest.mark.parametrize(
    ("ending", "compressed", "command"),
    [("gz", gzip.compress, "gunzip -k"), ("bz2", bz2.compress, "bunzip2 -k"), ("zst", compress_zstd, "unzstd")],
)
def test_compressed_files_are_refused_with_what_is_in_them_and_the_remedy(tmp_path, ending, compressed, command):
    own = {"a.xtc": data.XTC, "b c.dcd": data.DCD, "restart": data.TRR, "d.txt": None}
    for name, source in own.items():
        path = tmp_path / f"{name}.{ending}"
        path.write_bytes(compressed(Path(source).read_bytes()[:100_000] if source else b"dear reader"))
        found = {"a.xtc": "XTC", "b c.dcd": "DCD", "restart": "TRR"}.get(name, "no format that Kinema knows")
        with pytest.raises(kn.UnsupportedFormatError) as caught:
            kn.open(path, stored=False)
        said = f"{path}: is compressed ({ {'gz': 'gzip', 'bz2': 'bzip2', 'zst': 'zstd'}[ending] }) and holds {found}"
        assert str(caught.value).startswith(said)
        assert str(caught.value).endswith(f"decompress it first: {command} {shlex.quote(str(path))}")
    # what MDAnalysis reads compressed is read as ever, and what it does not is named
    path = tmp_path / f"a.xyz.{ending}"
    path.write_bytes(compressed(xyz(2, 2).encode()))
    if ending == "zst":
        with pytest.raises(kn.UnsupportedFormatError, match="holds XYZ; decompress"):
            kn.open(path, stored=False)
    else:
        assert kn.open(path, stored=False).n_frames == 2
    path.write_bytes(compressed(data.__name__.encode())[:8])
    with pytest.raises(kn.Error, match="cannot be decompressed"):
        kn.open(path, stored=False)


def test_descriptions_travel_and_are_made_once(tmp_path, monkeypatch):
    path = tmp_path / "made.xyz"
    shutil.copy(data.XYZ, path)
    describe = Describer(ExternalOptions())
    first = describe(path)
    assert describe(path) is first
    other = pickle.loads(pickle.dumps(describe))
    monkeypatch.setattr(sys.modules["kinema.formats.external.reading"], "_described", None)
    np.testing.assert_array_equal(other(path).positions.reader(np.array([3])), first.positions.reader(np.array([3])))
    monkeypatch.undo()
    path.write_text("1\nnew\nC 0 0 0\n")
    assert describe(path).n_frames == 1


@pytest.mark.parametrize("name", ["XYZ", "TRZ", "AMBER mdcrd"])
def test_pickled_trajectories(name):
    traj = opened(name)
    again = pickle.loads(pickle.dumps(traj[::2]))
    np.testing.assert_array_equal(again.read(), traj[::2].read())


@pytest.mark.parametrize("name", ["XYZ", "TRZ", "LAMMPS dump", "AMBER mdcrd", "PDB of several models"])
def test_results_have_the_same_bits_on_threads(name):
    traj = opened(name)
    one = kn.analysis.RMSD(traj).run(runner="serial").results.rmsd
    np.testing.assert_array_equal(kn.analysis.RMSD(traj).run(runner="threads", workers=3).results.rmsd, one)


@pytest.mark.processes
@pytest.mark.parametrize(("name", "runner"), each(("XYZ", "AMBER mdcrd"), ("processes", "dask")))
def test_results_have_the_same_bits_on_processes(name, runner):
    traj = opened(name)
    one = kn.analysis.RMSD(traj).run(runner="serial").results.rmsd
    np.testing.assert_array_equal(kn.analysis.RMSD(traj).run(runner=runner, workers=2).results.rmsd, one)


def test_files_that_change_are_noticed(tmp_path):
    path = tmp_path / "made.trc"
    write_trc(path, random_walk(4, 5), 0)
    data_of = pickle.dumps(kn.open(path, stored=False))
    write_trc(path, random_walk(3, 5), 0)
    with pytest.raises(kn.Error, match="has changed since it was opened"):
        pickle.loads(data_of).read()


def test_trajectory_and_topology_exchanged():
    with pytest.raises(kn.ArgumentError, match=r"adk_oplsaa.xtc, given as topology, is a trajectory \(XTC\)"):
        kn.open(data.GRO, data.XTC)


def test_listed_formats_are_those_of_mdanalysis():
    listed = [one for one in kn.formats() if one.slow]
    for one in listed:
        assert reader_class("file", one.name) is not None
        for ending in one.extensions:
            assert reader_class(f"file.{ending}") is reader_class("file", one.name)
    of_tests = {
        kn.open(path, topology, format=named, stored=False).parts[0].variant.split(",")[0]
        for path, named, topology in (files_of(name) for name in FILES if name != "LAMMPS data")
    }
    assert of_tests <= {one.name for one in listed}


def test_check_and_info_of_files_without_times():
    assert not kn.check(data.XYZ).problems
    shown = call_kinema("info", data.XYZ).stdout
    assert "10 frames of 1284 atoms\n" in shown.replace(",", "")
    assert "nan" not in shown


MPI_PROGRAM = """
import sys
import numpy as np
import kinema as kn
with kn.runners.MPI() as mpi:
    if mpi.is_root:
        for path, topology in zip(sys.argv[1::2], sys.argv[2::2]):
            traj = mpi.open(path, topology or None, stored=False)
            found = kn.analysis.RMSD(traj).run(runner=mpi).results.rmsd
            one = kn.analysis.RMSD(kn.open(path, topology or None, stored=False)).run(runner="serial").results.rmsd
            assert len(one) > 5
            np.testing.assert_array_equal(found, one)
        print("same bits")
"""


@pytest.mark.processes
def test_results_have_the_same_bits_on_ranks(mpi, tmp_path):
    (tmp_path / "program.py").write_text(MPI_PROGRAM)
    words = [str(tmp_path / "program.py"), data.XYZ, "", data.TRJ, data.PRM, data.TRZ, data.TRZ_psf]
    code, out, err = mpi.ended(mpi.started(3, words, tmp_path))
    assert (code, "same bits" in out) == (0, True), err


def test_they_are_neither_cut_nor_joined(tmp_path):
    path = tmp_path / "a.xyz"
    path.write_text(xyz(2, 2))
    with pytest.raises(
        kn.UnsupportedFormatError, match=r"a\.xyz: files that MDAnalysis reads are not cut; kinema conv"
    ):
        kn.split(path, tmp_path / "parts", parts=2)
    with pytest.raises(
        kn.UnsupportedFormatError, match=r"a\.xyz: files that MDAnalysis reads are not joined; kinema c"
    ):
        kn.join([path, path], tmp_path / "b.xyz", overlap="all")
    assert [one.name for one in tmp_path.iterdir()] == ["a.xyz"]


def test_convert_takes_them(tmp_path):
    kn.convert(data.XYZ, tmp_path / "out.dcd", progress=False)
    np.testing.assert_array_equal(kn.open(tmp_path / "out.dcd", stored=False).read(), kn.open(data.XYZ).read())


def test_universes_of_such_files():
    universe = MDAnalysis.Universe(data.PRM, data.TRJ)
    np.testing.assert_array_equal(kn.open(universe).read([5])[0], universe.trajectory[5].positions)
    names = {"format": "LAMMPSDUMP", "topology_format": "LAMMPSDUMP", "dt": 0.5, "unwrap_images": True}
    path = data.LAMMPSDUMP_image_vf
    universe = MDAnalysis.Universe(path, path, **names)
    traj = kn.open(universe, stored=False)
    for frame, step in zip(traj, universe.trajectory, strict=True):
        np.testing.assert_array_equal(frame.positions, step.positions)
        assert frame.time == step.time
    assert not np.array_equal(kn.open(path, format="LAMMPSDUMP", stored=False).read(), traj.read())


@pytest.fixture(scope="module")
def read_forward():
    """A format of MDAnalysis."""

    class ForwardReader(MDAnalysis.coordinates.XYZ.XYZReader):
        """Frames of an XYZ file, one after the other only."""

        format = "FORWARD"
        _read_frame = MDAnalysis.coordinates.base.ProtoReader._read_frame


@pytest.fixture
def forward(read_forward, tmp_path):
    return kn.open(shutil.copy(data.XYZ, tmp_path / "a.forward"), stored=False)


def test_files_that_are_read_forward_are_read_by_one_worker(forward):
    expected = [step.positions.copy() for step in MDAnalysis.Universe(data.XYZ).trajectory]
    assert len(expected) == 10
    ones = np.ones(forward.n_atoms)
    run = kn.RadiusOfGyration(forward, weights=ones).run(workers=4)
    many = kn.RadiusOfGyration(kn.open(data.XYZ, stored=False), weights=ones).run(workers=4)
    np.testing.assert_array_equal(run.results, many.results)
    assert "1 instead of 4 workers, as frames of" in run.plan and "from its front only" in run.plan
    assert "from its front only" not in many.plan
    # in any order, on any number of threads
    order = [7, 0, 1, 1, 9]
    np.testing.assert_array_equal(forward.read(frames=order, workers=4), np.array(expected)[order])


def test_frames_read_forward_are_converted_by_one_worker(forward, tmp_path):
    with collected():
        done = kn.convert(forward, tmp_path / "a.dcd", workers=4)
        many = kn.convert(data.XYZ, tmp_path / "b.dcd", workers=2)
    assert (done.workers, many.workers, done.compared) == (1, 2, 10)


# argv: folder, what is called; a reader whose file has no end
ENDLESS = """
import sys, time
import numpy as np
from MDAnalysis.coordinates.base import ReaderBase

class Endless(ReaderBase):
    format = "ENDLESS"
    units = {"time": "ps", "length": "Angstrom"}
    n_frames = 3

    def __init__(self, filename, **kwargs):
        super().__init__(filename, **kwargs)
        self.endless, self.n_atoms = "/endless." in filename, 5
        self._reopen()
        self._read_next_timestep()

    def _reopen(self):
        self.ts = self._Timestep(5, **self._ts_kwargs)
        self.ts.frame = -1

    def _read_next_timestep(self, ts=None):
        if self.ts.frame == 2 and not self.endless:
            raise EOFError
        if self.ts.frame == 2:
            print("at work", flush=True)
        if self.endless:
            time.sleep(0.01)
        self.ts.frame += 1
        self.ts.positions = np.full((5, 3), self.ts.frame, np.float32)
        self.ts.time = float(self.ts.frame)
        return self.ts

    def close(self):
        pass

import kinema as kn
folder, how = sys.argv[1:]
if how == "open":
    kn.open(folder + "/endless.endless")
elif how == "scan":
    kn.open([folder + "/one.endless", folder + "/endless.endless"], overlap="all").scan(workers=2)
else:
    done = []
    files = [folder + f"/{name}.endless" for name in ("one", "two")]
    traj = kn.open(files, overlap="all")
    traj.scan(progress=lambda *both: done.append(both))
    print(traj.n_frames, done[-1])
"""


def endless(folder, how):
    """A command that opens or scans files whose last never ends."""
    for name in ("one", "two", "endless"):
        (folder / f"{name}.endless").write_text("x" * 100)
    return [sys.executable, "-c", ENDLESS, str(folder), how]


@pytest.mark.processes
@pytest.mark.parametrize("how", ["open", "scan"])
def test_the_pass_over_all_frames_is_ended_by_an_interrupt(tmp_path, how):
    with start_child(endless(tmp_path, how), seconds=60) as process:
        assert process.stdout.readline() == "at work\n"
        process.send_signal(signal.SIGINT)
        process.stdout.close()
        assert "KeyboardInterrupt" in process.stderr.read()
    assert process.returncode in (1, -signal.SIGINT)


@pytest.mark.processes
def test_the_pass_over_all_frames_shows_progress(tmp_path):
    with start_child(endless(tmp_path, "progress"), seconds=60) as process:
        assert process.stdout.read() == "6 (200, 200)\n"
