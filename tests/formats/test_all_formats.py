"""The objects of formats."""

from __future__ import annotations

import kinema as kn
from kinema.formats.all_formats import FORMATS, format_named
from kinema.formats.all_writers import Writer
from kinema.formats.writer_choice import CLASSES


def test_each_format_has_its_own_name() -> None:
    assert {name: one.name for name, one in FORMATS.items()} == {name: name for name in FORMATS}
    assert format_named("XTC") is format_named("XTC")


def test_all_formats_that_are_read_or_written_here_have_an_object() -> None:
    own = {known.name for known in kn.formats() if not known.slow}
    assert Writer is kn.Writer and own | set(CLASSES) == set(FORMATS) - {"MDAnalysis"}


def test_what_a_format_without_an_object_gets() -> None:
    plain = format_named("G96 of another program")
    assert not plain.spliced and plain.usual_fields(["positions", "velocities"]) == ("positions", "velocities")
