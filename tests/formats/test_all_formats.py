"""The objects of formats."""

from __future__ import annotations

import pytest

import kinema as kn
from kinema.formats.all_formats import FORMATS, format_named
from kinema.formats.all_writers import Writer
from kinema.formats.format import Format
from kinema.formats.writer_choice import CLASSES


def test_each_format_has_its_own_name() -> None:
    assert {name: one.name for name, one in FORMATS.items()} == {name: name for name in FORMATS}
    assert format_named("XTC") is format_named("XTC")


def test_all_formats_that_are_read_or_written_here_have_an_object() -> None:
    own = {known.name for known in kn.formats() if not known.slow}
    assert Writer is kn.Writer and own | set(CLASSES) == set(FORMATS) - {"MDAnalysis", "made"}


def test_a_name_that_no_format_has_is_an_error() -> None:
    with pytest.raises(kn.errors.InternalError, match="no format is called 'g96', expected one of DL_POLY HISTORY"):
        format_named("g96")


def test_what_is_true_of_a_format_that_says_nothing_else() -> None:
    plain = Format()
    assert not plain.spliced and plain.usual_fields(["positions", "velocities"]) == ("positions", "velocities")
