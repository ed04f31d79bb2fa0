"""Outputs of analyses whose rows last for some frames, such as hydrogen bonds: also how long they last."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kinema.base.errors import ArgumentError
from kinema.base.frozen_dataclass import dataclass
from kinema.cli.options import shared as options
from kinema.cli.options.analyses import ListOutputs
from kinema.storage.output_file import reserve

if TYPE_CHECKING:
    from kinema.analysis.declared import DeclaredAnalysis


@dataclass(frozen=True, eq=False, repr=False)
class LifetimeOutputs(ListOutputs):
    """Outputs of any number of rows per frame: also how long they last."""

    lifetime: options.Lifetime = None
    tau_max: options.TauMax = None
    window_step: options.WindowStep = None
    intermittency: options.Intermittency = None

    @property
    def written(self) -> list[str]:
        from kinema.storage.tables import table_files

        return super().written + ([] if self.lifetime is None else table_files(self.lifetime))

    def check(self, inputs: Sequence[Path | None]) -> None:
        if self.lifetime is None:
            for name in self._given():
                raise ArgumentError(f"--{name.replace('_', '-')} is for --lifetime; name its file")
        super().check(inputs)
        if self.lifetime is not None:
            from kinema.storage.tables import check_writable

            check_writable(self.lifetime, overwrite=self.force)
            reserve(self.lifetime)

    def save_more(self, analysis: "DeclaredAnalysis") -> None:
        super().save_more(analysis)
        if self.lifetime is not None:
            from kinema.analysis.pairs.hbonds import HydrogenBondAnalysis

            assert isinstance(analysis, HydrogenBondAnalysis), "others have no such option"
            unit = self.output_time_unit
            analysis.save_lifetime(self.lifetime, **self._given(), output_time_unit=unit, overwrite=self.force)

    def _given(self) -> dict[str, int]:
        names = ("tau_max", "window_step", "intermittency")
        return {name: value for name in names if (value := getattr(self, name)) is not None}
