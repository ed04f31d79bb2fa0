"""Which other files an HDF5 file may draw in: external storage, links and virtual data sets of every kind."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

import kinema as kn
from kinema.base.errors import ArgumentError, CorruptFileError, UnsupportedFormatError
from kinema.storage.hdf5.trust.other_files import drawn_in
from kinema.testing.h5md_files.building import add_element, start_h5md

N = 4
VALUES = np.arange(5 * N * 3, dtype=np.float32).reshape(5, N, 3)
STEPS = np.arange(5)


def _h5md(path: Path, *, value: bool = True) -> Path:
    """An H5MD file; without `value` its positions have none yet."""
    with h5py.File(path, "w") as file:
        group = start_h5md(file).create_group("particles/all")
        add_element(group, "position", VALUES, steps=STEPS, times=STEPS * 0.5, unit="Angstrom")
        if not value:
            del file["particles/all/position/value"]
    return path


def _values(path: Path, name: str = "x") -> Path:
    """A file with positions as a bare data set."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file[name] = VALUES
        file[name].attrs["unit"] = "Angstrom"
    return path


def _link(path: Path, file: str, target: str = "x") -> Path:
    _h5md(path, value=False)
    with h5py.File(path, "r+") as holder:
        holder["particles/all/position/value"] = h5py.ExternalLink(file, target)
    return path


def _virtual(path: Path, file: str, target: str = "x") -> Path:
    _h5md(path, value=False)
    with h5py.File(path, "r+") as holder:
        layout = h5py.VirtualLayout(VALUES.shape, "f4")
        layout[:] = h5py.VirtualSource(file, target, shape=VALUES.shape, dtype="f4")
        made = holder.create_virtual_dataset("particles/all/position/value", layout)
        made.attrs["unit"] = "Angstrom"
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the H5MD files; what is beside it is somebody else's."""
    (tmp_path / "own").mkdir()
    return tmp_path / "own"


@pytest.mark.parametrize("external", ["folder", "any"])
@pytest.mark.parametrize("place", ["parameters/p", "observables/o/value", "particles/all/velocity/value"])
def test_external_storage_is_refused_by_all(folder: Path, place: str, external: str) -> None:
    secret = folder.parent / "secret"
    secret.write_bytes(bytes(range(240)))
    path = _h5md(folder / "a.h5md")
    with h5py.File(path, "r+") as file:
        file.create_dataset(place, (5, N, 3), "f4", external=[(str(secret), 0, 240)])
    for called in (
        lambda: kn.open(path, external=external).scan(),
        lambda: kn.repack(path, folder / "out.h5md", external=external),
        lambda: kn.split(path, folder / "parts", parts=2, external=external),
        lambda: kn.join([path], folder / "out.h5md", external=external),
        lambda: kn.convert(path, folder / "out.xtc", external=external),
        lambda: kn.layout_of(path, external=external),
    ):
        with pytest.raises(UnsupportedFormatError, match="external storage"):
            called()
    assert not (folder / "out.h5md").exists() and not (folder / "out.xtc").exists()


@pytest.mark.parametrize("make", [_link, _virtual])
@pytest.mark.parametrize("name", ["absolute", "relative", "symbolic link", "folder through a link", "prefix", "none"])
def test_files_outside_of_the_folder(
    folder: Path, make: Callable[..., Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = _values(folder.parent / "other" / "x.h5")
    (folder / "link.h5").symlink_to(other)
    (folder / "sub").symlink_to(other.parent)
    if name == "prefix":
        for variable in ("HDF5_EXT_PREFIX", "HDF5_VDS_PREFIX"):
            monkeypatch.setenv(variable, str(other.parent))
    named = {
        "absolute": str(other),
        "relative": "../other/x.h5",
        "symbolic link": "link.h5",
        "folder through a link": "sub/x.h5",
        "prefix": "x.h5",
        "none": str(_values(folder / "below" / "x.h5")),
    }[name]
    path = make(folder / "a.h5md", named)
    if name == "none":  # within the folder
        assert np.array_equal(kn.open(path).read(), VALUES)
        with pytest.raises(ArgumentError, match='external="none" allows no other'):
            kn.open(path, external="none").scan()
        return
    for called in (
        lambda: kn.open(path).scan(),
        lambda: kn.repack(path, folder / "out.h5md"),
        lambda: kn.split(path, folder / "parts", parts=2),
        lambda: kn.join([path], folder / "out.h5md", copy=True),
        lambda: kn.layout_of(path),
        lambda: kn.open(path, dataset="particles/all/position/value").scan(),
    ):
        with pytest.raises(ArgumentError, match=r'x\.h5, expected files in .*own or below; external="any" reads it'):
            called()
    traj = kn.open(path, external="any")
    assert np.array_equal(traj.read(), VALUES)
    assert drawn_in(str(path), "any") == (str(other),)
    done = kn.repack(path, folder / "out.h5md", external="any")
    assert any(f"draws in other files by links or virtual data sets: {other}" in note for note in done.notes)
    assert kn.layout_of(path, external="any").draws_in == (str(other),)
    assert any("draws in other files" in note for note in kn.check(path, external="any").notes)


def test_what_a_drawn_in_file_draws_in_counts(folder: Path) -> None:
    other = _values(folder.parent / "other.h5")
    with h5py.File(folder / "second.h5", "w") as file:
        file["x"] = h5py.ExternalLink(str(other), "x")
    for make in (_link, _virtual):
        path = make(folder / f"{make.__name__}.h5md", "second.h5")
        with pytest.raises(ArgumentError, match=r"second.h5: external link /x leads to .*other.h5"):
            kn.open(path).scan()
        assert drawn_in(str(path), "any") == (str(folder / "second.h5"), str(other))


def test_raw_storage_of_a_source_is_refused(folder: Path) -> None:
    (folder / "raw").write_bytes(bytes(240))
    with h5py.File(folder / "second.h5", "w") as file:
        file.create_dataset("x", VALUES.shape, "f4", external=[("raw", 0, 240)])
    path = _virtual(folder / "a.h5md", "second.h5")
    with pytest.raises(UnsupportedFormatError, match=r"second.h5: /x is kept in external storage \(raw\)"):
        kn.open(path, external="any").scan()


def test_loops_chains_and_what_is_missing_are_no_error(folder: Path) -> None:
    path = _h5md(folder / "a.h5md")
    with h5py.File(path, "r+") as file:
        file["loop"] = h5py.ExternalLink("b.h5", "back")
        file["self"] = h5py.ExternalLink("a.h5md", "/")
        file["missing"] = h5py.ExternalLink("nothing.h5", "/")
        file["soft"] = h5py.SoftLink("/soft")
        layout = h5py.VirtualLayout((5,), "i8")
        layout[:] = h5py.VirtualSource(".", "particles/all/position/step", shape=(5,))
        file.create_virtual_dataset("virtual", layout)
    with h5py.File(folder / "b.h5", "w") as file:
        file["back"] = h5py.ExternalLink("a.h5md", "loop")
    assert np.array_equal(kn.open(path).read(), VALUES)
    assert drawn_in(str(path), "folder") == (str(folder / "b.h5"),)


def test_numbered_sources(folder: Path) -> None:
    path = _h5md(folder / "a.h5md")
    outside = _values(folder.parent / "outside.h5")
    for number in range(3):
        _values(folder / f"part{number}.h5")
    with h5py.File(path, "r+") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        space = h5py.h5s.create_simple((5, N, 3), (h5py.h5s.UNLIMITED, N, 3))
        whole = h5py.h5s.create_simple((5, N, 3), (h5py.h5s.UNLIMITED, N, 3))
        whole.select_hyperslab((0, 0, 0), (h5py.h5s.UNLIMITED, 1, 1), (5, 1, 1), (5, N, 3))
        plist.set_virtual(whole, b"part%b.h5", b"x", h5py.h5s.create_simple((5, N, 3)))
        h5py.h5d.create(file.id, b"virtual", h5py.h5t.IEEE_F32LE, space, plist)
    assert drawn_in(str(path), "folder") == tuple(str(folder / f"part{number}.h5") for number in range(3))
    (folder / "part3.h5").symlink_to(outside)
    with pytest.raises(ArgumentError, match=r"leads to .*outside.h5"):
        drawn_in(str(path), "folder")


def test_objects_that_only_a_reference_leads_to(folder: Path) -> None:
    (folder.parent / "raw").write_bytes(bytes(240))
    path = _h5md(folder / "a.h5md")
    with h5py.File(path, "r+") as file:
        hidden = file.create_dataset("hidden", (60,), "f4", external=[(str(folder.parent / "raw"), 0, 240)])
        file["particles/all"].attrs["points"] = hidden.ref
        kind = h5py.h5t.special_dtype(vlen=h5py.ref_dtype)
        listed = file.create_dataset("listed", (1,), kind)
        listed[0] = [hidden.ref]
        # the name that links to it goes, the object stays: another name counts as well
        file["kept"] = h5py.SoftLink("/hidden")
    with pytest.raises(UnsupportedFormatError, match="external storage"):
        kn.open(path).scan()


def test_user_defined_links_are_refused(folder: Path) -> None:
    path = _h5md(folder / "a.h5md")
    with h5py.File(path, "r+") as file:
        file["special"] = h5py.ExternalLink("some.h5", "/")
    data = bytearray(path.read_bytes())
    # link message: version 1, flags, class of the link (64 is external), length of the name, name
    place = data.index(b"\x07special") - 1
    assert data[place] == 64
    data[place] = 77
    path.write_bytes(data)
    with pytest.raises(UnsupportedFormatError, match=r"/special is a user-defined link \(class 77\)"):
        kn.open(path, external="any").scan()


def test_a_file_reached_by_a_symbolic_link(folder: Path) -> None:
    """Its own folder is that of the file."""
    _values(folder / "x.h5")
    path = _virtual(folder / "a.h5md", "x.h5")
    elsewhere = folder.parent / "links"
    elsewhere.mkdir()
    (elsewhere / "a.h5md").symlink_to(path)
    assert np.array_equal(kn.open(elsewhere / "a.h5md").read(), VALUES)
    # libhdf5 takes the one beside the link first
    _values(elsewhere / "x.h5")
    with pytest.raises(ArgumentError, match="expected files in"):
        kn.open(elsewhere / "a.h5md").scan()


def test_join_says_that_it_refers_to_files_outside(folder: Path) -> None:
    part = _h5md(folder.parent / "part.h5md")
    done = kn.join([part], folder / "whole.h5md")
    assert any("--external any" in note and "--copy" in note for note in done.notes)
    with pytest.raises(ArgumentError):
        kn.open(folder / "whole.h5md").scan()
    assert len(kn.open(folder / "whole.h5md", external="any")) == 5
    beside = kn.join([_h5md(folder / "part.h5md")], folder / "near.h5md")
    assert not beside.notes and len(kn.open(folder / "near.h5md")) == 5


def test_an_unreadable_object_is_damage(folder: Path) -> None:
    """An object that cannot be listed could name anything."""
    path = _h5md(folder / "a.h5md")
    with h5py.File(path, "r+") as file:
        address = h5py.h5g.get_objinfo(file.create_group("late").id).objno[0]
    data = bytearray(path.read_bytes())
    data[address] = 9
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match="/late cannot be read"):
        kn.open(path).scan()
