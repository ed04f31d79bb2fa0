"""`LabelColumns`: labels of frames by name, with their units."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kinema.base.errors import ArgumentError
from kinema.formats.h5md.units import parse

# "rmsd (angstrom)"
_WITH_UNIT = re.compile(r"(.*\S) +\(([^()]*[A-Za-z°µ%][^()]*)\)")


class LabelColumns(dict[str, Any]):
    """Columns of labels by name, with the units of their file.

    A column "energy (eV)", as in tables of results, is also found as "energy", unless another column has that name.

    `units`: units of the columns that have one.
    """

    def __init__(self, columns: Mapping[str, Any], units: Mapping[str, str | None] | None = None) -> None:
        super().__init__(columns)
        self._spelled: dict[str, list[str]] = {}
        found = {name: unit for name, unit in (units or {}).items() if unit is not None}
        for name in columns:
            with_unit = _WITH_UNIT.fullmatch(str(name))
            if with_unit and _is_unit(with_unit[2]):
                self._spelled.setdefault(with_unit[1], []).append(name)
                found.setdefault(name, with_unit[2])
        self.units: Mapping[str, str] = found

    @classmethod
    def from_mapping(cls, columns: Mapping[str, Any]) -> LabelColumns:
        """The columns of a mapping; the mapping itself if it is of this class."""
        return columns if isinstance(columns, cls) else cls(columns)

    def column(self, name: str) -> str | None:
        """The column found under a name; None if there is none. Raises ArgumentError if there are several."""
        if name in self:
            return name
        spelled = self._spelled.get(name, [])
        if len(spelled) > 1:
            raise ArgumentError(f"label {name} may be {' or '.join(spelled)}; give the whole name of one")
        return spelled[0] if spelled else None


def _is_unit(text: str) -> bool:
    try:
        parse(text, length_a=True)
    except ArgumentError:
        return False
    return True
