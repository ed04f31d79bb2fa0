"""Options as formats declare them, and what is made of these declarations."""

from __future__ import annotations

import inspect
import pydoc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as kn
from kinema.files.conversion.outputs import DECIDED, ConvertingOptions
from kinema.formats.all_formats import FORMATS
from kinema.formats.all_writers import Writer
from kinema.formats.declared import RanksWriting, ReadingOptions, WritingOptions, names_of
from kinema.formats.h5md.options import H5mdWriting
from kinema.formats.netcdf.format import Netcdf4Writing
from kinema.formats.options import OPEN_DEFAULTS, ConvertOptions, OpenOptions, WriteOptions
from kinema.formats.writer_choice import CLASSES, VARIANTS
from kinema.storage.hdf5.storage import CHUNK_BYTES

CALLS = {"open": kn.open, "Writer": kn.Writer.__init__, "convert": kn.convert}


def declared(kind: str) -> set[str]:
    formats = FORMATS.values()
    found: list[type] = [ReadingOptions, *(one.reading for one in formats)]
    if kind == "writing":
        found = [WritingOptions, RanksWriting, *(one.writing for one in formats if one.writing is not None)]
        found += [of for one in formats for of in one.writing_variants.values()]
    return {name for one in found for name in names_of(one)}


def test_a_writer_takes_what_its_format_declares() -> None:
    assert {name: one.takes for name, one in CLASSES.items()} == {
        name: one.writing for name, one in FORMATS.items() if one.writing is not None
    }
    variants = {name: {option: one.takes for option, one in found.items()} for name, found in VARIANTS.items()}
    assert variants == {name: one.writing_variants for name, one in FORMATS.items() if one.writing_variants}


def test_keywords_for_type_checkers_are_the_declared_ones() -> None:
    assert set(OpenOptions.__annotations__) == set(OPEN_DEFAULTS) == declared("reading")
    assert set(WriteOptions.__annotations__) == declared("writing")
    own = declared("writing") - {*DECIDED, *names_of(RanksWriting)}
    assert set(ConvertOptions.__annotations__) >= own | declared("reading") | set(names_of(ConvertingOptions))


@pytest.mark.parametrize("name", CALLS)
def test_a_call_names_at_most_14_arguments(name: str) -> None:
    named = [one for one in inspect.signature(CALLS[name]).parameters.values() if one.kind is not one.VAR_KEYWORD]
    assert len(named) - (named[0].name == "self") <= 14


@pytest.mark.parametrize("name", CALLS)
def test_no_option_has_the_name_of_an_argument_that_is_named(name: str) -> None:
    taken = {"open": OpenOptions, "Writer": WriteOptions, "convert": ConvertOptions}[name]
    assert not set(inspect.signature(CALLS[name]).parameters) & set(taken.__annotations__)


def test_help_shows_the_options_of_each_format() -> None:
    for thing, expected in (
        (kn.open, ("absent_particles : ", "Arguments of MDAnalysis' reader")),
        (kn.Writer, ("Numbers to a nm; 1000 by default", "NetCDF with netcdf4=True", "A Fletcher32 checksum")),
        (kn.convert, ("topology_out : path", "max_error, unit")),
    ):
        shown = pydoc.plain(pydoc.render_doc(thing))
        assert "Options by format" in shown
        assert [one for one in expected if one not in shown] == []


def test_defaults_that_are_said_twice_are_the_same() -> None:
    assert H5mdWriting().chunk_bytes == Netcdf4Writing().chunk_bytes == CHUNK_BYTES
    parallel = pytest.importorskip("kinema.parallel.writer", exc_type=ImportError).ParallelWriter
    taken = inspect.signature(parallel.__init__).parameters
    assert {name: taken[name].default for name in names_of(RanksWriting)} == vars(RanksWriting())


@pytest.mark.parametrize(
    ("call", "options", "message"),
    [
        (kn.open, {"partciles": "water"}, r"^open: no option partciles=, did you mean particles=\?$"),
        (kn.open, {"on_trucated": "drop"}, r"^open: no option on_trucated=, did you mean on_truncated=\?$"),
        (kn.open, {"xxxxxxxx": 1}, "^open: no option xxxxxxxx=$"),
        (kn.open, {"group": "a", "particles": "b"}, "^open: group= is the old name of particles="),
        (kn.Writer, {"precison": 3}, r"^Writer: no option precison=, did you mean precision=\?$"),
        (kn.Writer, {"compresion": "gzip"}, r"^Writer: no option compresion=, did you mean compression=\?$"),
        (
            kn.Writer,
            {"title": "a"},
            "XTC has no option title=.*title= is for DL_POLY HISTORY, DL_POLY CONFIG and G96 files$",
        ),
        (kn.Writer, {"group": "a", "particles": "b"}, "^Writer: group= is the old name of particles="),
    ],
)
def test_unknown_options_are_refused_before_a_file_is_touched(
    tmp_path: Path, call: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(kn.ArgumentError, match=message):
        call(tmp_path / "nowhere.xtc", **({"n_atoms": 3} if call is Writer else {}), **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "nearest"), [("precison", "precision"), ("skip_damged", "skip_damaged"), ("partciles", "particles")]
)
def test_unknown_options_of_convert(tmp_path: Path, name: str, nearest: str) -> None:
    with pytest.raises(kn.ArgumentError, match=rf"^convert: no option {name}=, did you mean {nearest}=\?$"):
        kn.convert(tmp_path / "nowhere.dcd", tmp_path / "a.xtc", **{name: 1})


def test_an_option_of_another_format_is_refused_unread_where_the_format_is_stated(tmp_path: Path) -> None:
    (tmp_path / "a.xtc").write_bytes(b"no frames of any format")
    with pytest.raises(kn.ArgumentError, match=r"a\.xtc: particles is for H5MD files, and this is XTC$"):
        kn.open(tmp_path / "a.xtc", format="xtc", particles="water")


def test_old_names_are_noted_once_where_they_are_written(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="Writer: the argument group= is called particles= now") as noted:
        out = kn.Writer(tmp_path / "a.h5md", 1, group="all")
    assert [(one.filename, str(one.message)[:6]) for one in noted] == [(__file__, "Writer")]
    with out:
        out.write(np.zeros((1, 3), np.float32))
    with pytest.warns(DeprecationWarning, match="open: the argument group= is called particles= now") as noted:
        assert kn.open(tmp_path / "a.h5md", group="all", stored=False).n_frames == 1
    assert [one.filename for one in noted if one.category is DeprecationWarning] == [__file__]
