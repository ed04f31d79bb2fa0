"""`ANALYSES`: the analyses that are commands, by the name of the command, each imported when it is asked for.

Which there are stands in `analyses.pyi`, one a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinema.analysis.declared import DeclaredAnalysis

_LINE = re.compile(r"^from (kinema\.analysis\.\w+\.)(\w+) import (\w+) as \3$", re.MULTILINE)


class AnalysisRegistry(Mapping[str, "type[DeclaredAnalysis]"]):
    """Classes of analyses by command, as "end-to-end": all names are known, and a class is imported for its own."""

    def __init__(self, lines: str) -> None:
        found = _LINE.findall(lines)
        self.class_names = {name: module.replace("_", "-") for _, module, name in found}
        self._classes = {self.class_names[name]: (topic + module, name) for topic, module, name in found}

    def __getitem__(self, command: str) -> type[DeclaredAnalysis]:
        module, name = self._classes[command]
        found: type[DeclaredAnalysis] = getattr(import_module(module), name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


ANALYSES = AnalysisRegistry(Path(__file__).with_name("analyses.pyi").read_text(encoding="utf-8"))
