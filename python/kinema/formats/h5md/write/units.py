"""Units in which H5MD files are written: their text for the units module, and their size in Kinema's own units."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.base.errors import ArgumentError, UnsupportedFormatError

# name -> (text in the file, size in angstrom). MDAnalysis and ZnH5MD understand "Angstrom"; the table of the units
# module has "Ang", which none of the tested programs understands.
LENGTHS = {"angstrom": ("Angstrom", 1.0), "nm": ("nm", 10.0), "pm": ("pm", 0.01)}
# name, which is also the text -> size in ps
TIMES = {"ps": 1.0, "fs": 1e-3, "ns": 1e3}


@dataclass(frozen=True)
class FileUnits:
    """Unit of length ("angstrom", "nm", "pm") and of time ("ps", "fs", "ns") of a file; energies are in kJ/mol.

    native: whether values are given in these units, or in Kinema's own.
    """

    length: str = "angstrom"
    time: str = "ps"
    native: bool = False

    def __post_init__(self) -> None:
        for kind, value, known in (("length_unit", self.length, LENGTHS), ("time_unit", self.time, TIMES)):
            if value not in known:
                raise ArgumentError(f"{kind} is one of {', '.join(known)}, found {value!r}")

    def text(self, field: str) -> str:
        """The `unit` attribute of "positions" (also of box edges), "velocities", "forces" or "times"."""
        length = LENGTHS[self.length][0]
        return {
            "positions": length,
            "velocities": f"{length} {self.time}-1",
            "forces": f"kJ mol-1 {length}-1",
            "times": self.time,
        }[field]

    def size(self, field: str) -> float:
        """Size of the unit in angstrom, angstrom/ps, kJ/(mol angstrom) or ps: values are divided by it."""
        length, time = LENGTHS[self.length][1], TIMES[self.time]
        return {"positions": length, "velocities": length / time, "forces": 1.0 / length, "times": time}[field]

    def divisor(self, field: str) -> float:
        """Divisor of values as they are written: `size`, or 1 if values are in the file's units."""
        return 1.0 if self.native else self.size(field)

    @classmethod
    def from_texts(cls, length: str, time: str, path: str) -> FileUnits:
        """The units with these texts; raises UnsupportedFormatError for texts that this module does not write."""
        for name, (text, _) in LENGTHS.items():
            if text == length and time in TIMES:
                return cls(name, time)
        raise UnsupportedFormatError(
            f"cannot append in units {length!r} and {time!r}, expected lengths in "
            f"{', '.join(text for text, _ in LENGTHS.values())} and times in {', '.join(TIMES)}",
            at=path,
            format="H5MD",
        )
