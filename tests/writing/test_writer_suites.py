"""The writers of all formats against the suite of writers, and what is special of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kinema.testing import WriterTests

ALL = ("positions", "velocities", "forces")


class TestXtcWriter(WriterTests):
    suffix = ".xtc"
    exact = ()
    tolerance = 5.1e-3
    steps = "32 bits"
    times = "float32"
    cell_tolerance = 1e-15
    always_lost = frozenset({"positions"})
    table = True


class TestTrrWriter(WriterTests):
    suffix = ".trr"
    fields = ALL
    fields_of_each = True
    exact = ()
    steps = "32 bits"
    times = "float32"
    cell_tolerance = 1e-15
    table = True


class TestNetcdfWriter(WriterTests):
    suffix = ".nc"
    fields = ALL
    steps = "counted"
    times = "float32"
    cell_tolerance = 1e-14


class TestDcdWriter(WriterTests):
    suffix = ".dcd"
    fields = ("positions", "velocities")
    one_field = True
    steps = "even"
    times = "even"
    cell_tolerance = 1e-12
    always_lost = frozenset({"times"})


class TestH5mdWriter(WriterTests):
    suffix = ".h5md"
    fields = ALL
    exact = ALL
    wide: ClassVar[Mapping[str, Any] | None] = {"dtype": "float64"}
    cells_of_some = False
    times_go_on = False
    records = False
