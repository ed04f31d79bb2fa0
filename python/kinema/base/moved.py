"""Old paths of public modules: for one release they import the moved module, with a DeprecationWarning."""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# old path -> new path, of modules and of folders with all below them
MOVED = {
    "kinema.errors": "kinema.base.errors",
    "kinema.following": "kinema.trajectory.following",
    "kinema.frame": "kinema.model.frame",
    "kinema.notes": "kinema.base.notes",
    "kinema.opening": "kinema.trajectory.opening",
    "kinema.profile": "kinema.report",
    "kinema.selection": "kinema.model.selection",
    "kinema.tracing": "kinema.base.tracing",
    "kinema.writing.tables": "kinema.storage.tables",
    **{
        f"kinema.analysis.{name}": f"kinema.analysis.{topic}.{name}"
        for topic, names in {
            "geometry": ("angles", "centers", "dihedrals", "distances", "end_to_end", "ramachandran"),
            "structure": ("gyration", "rgyr", "rmsd", "rmsf"),
        }.items()
        for name in names
    },
    "kinema.analysis.reference": "kinema.transforms.reference",
}


def install() -> None:
    """Makes old paths importable."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        # first: otherwise modules below an old path would be found a second time in the folder to which it leads
        sys.meta_path.insert(0, _MovedModules())


class _MovedModules:
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("kinema."):
            return None
        parts = fullname.split(".")
        for length in range(2, len(parts) + 1):
            new = MOVED.get(".".join(parts[:length]))
            if new is not None:
                moved = ".".join([new, *parts[length:]])
                # imported late: no start of a program needs it
                from importlib.util import find_spec

                if find_spec(moved) is None:
                    return None
                # frames of the import itself do not count
                warnings.warn(
                    f"{fullname} is {moved} now; the old path goes with the next release", DeprecationWarning, 2
                )
                # importlib.abc, which has the class of loaders, imports tempfile
                loader: Any = _MovedModule(moved)
                return ModuleSpec(fullname, loader)
        return None


class _MovedModule:
    """Provides the module at its new path under the old path as well."""

    def __init__(self, moved: str) -> None:
        self._module = import_module(moved)
        self._spec = self._module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        # which the import has replaced by the spec of the old path
        module.__spec__ = self._spec
