"""A conversion that takes about half a second and has a checkpoint."""

from __future__ import annotations

import shutil
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import pytest

import kinema as kn
from kinema.base.notes import collected
from kinema.execution.checkpoint.file import load
from kinema.testing import random_walk, write_dcd


class Stopped(Exception):
    """A call was ended on its way."""


def _stop(done: int, total: int) -> None:
    if done:
        raise Stopped


class Conversion:
    """A source whose frames take some tenths of a second, what is made of it, and a checkpoint."""

    _wholes: ClassVar[dict[str, Any]] = {}

    def __init__(self, path: Path, suffix: str, source: Path) -> None:
        self.path, self.source = path, path / "in.xtc"
        self.out, self.saved = path / "made" / f"a.{suffix}", path / "made" / "a.ckpt"
        self.out.parent.mkdir()
        self.options: dict[str, Any] = {"overlap": "all", "select": range(19_000, 20_000), "workers": 1}
        # some tests change it
        shutil.copyfile(source, self.source)
        # the index of the file is there: a call has no scan, of which there is progress, too
        kn.open(self.source).scan()
        self.n_parts = 120

    @property
    def parts(self) -> list[Path]:
        return [self.source] * self.n_parts

    @property
    def n_frames(self) -> int:
        return 20 * self.n_parts

    @staticmethod
    def convert(source: Any, out: Path, **options: Any) -> kn.Converted:
        with collected():
            return kn.convert(source, out, **options)

    def run(self, **options: Any) -> kn.Converted:
        """All of it, or what is left to be done."""
        return self.convert(
            self.parts, self.out, checkpoint=self.saved, checkpoint_interval=0, **(self.options | options)
        )

    def interrupt(self, **options: Any) -> int:
        """Ends a call on its way; how many frames it has saved."""
        with pytest.raises(Stopped) as stopped:
            self.run(progress=_stop, **options)
        assert stopped.value.__notes__ == [f"what was done is in {self.saved}; the same call continues from there"]
        content = load(str(self.saved))
        assert content is not None
        ((_, _, (state,)),) = content.passes[0].nodes
        return int.from_bytes(state[:8], "little")

    @property
    def content(self) -> Any:
        """A digest of the file; of H5MD of all values that it has."""
        return _content(self.out)

    def whole(self) -> Any:
        """The content of what a call makes that nobody ends: made once of each kind, as sources are equal."""
        key = f"{self.out.suffix} {self.n_parts} {self.options}"
        if key not in self._wholes:
            whole = self.path / f"whole{self.out.suffix}"
            assert self.convert(self.parts, whole, **self.options).n_restored == 0
            self._wholes[key] = _content(whole)
            whole.unlink()
        return self._wholes[key]

    @property
    def left(self) -> set[str]:
        return {path.name for path in self.out.parent.iterdir() if path.suffix != ".kinema-index"}

    @property
    def part(self) -> Path:
        (part,) = self.out.parent.glob(f"a.part-*{self.out.suffix}")
        return part


def _content(path: Path) -> Any:
    if path.suffix != ".h5md":
        return blake2b(path.read_bytes()).hexdigest()
    with collected():
        opened = kn.open(path, stored=False)
        blocks = list(opened.blocks())
    frames = [(block.positions.tobytes(), block.cells.tobytes()) for block in blocks]
    digests = [blake2b(b"".join(of_all)).hexdigest() for of_all in zip(*frames, strict=True)]
    return opened.n_frames, digests, opened.steps.tolist(), opened.times.tobytes()


@pytest.fixture(scope="session")
def many_atoms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An XTC file of 20 frames of 20,000 atoms: to write the last ones, all atoms before them are decoded."""
    path = tmp_path_factory.mktemp("many_atoms")
    write_dcd(path / "in.dcd", random_walk(20, 20_000))
    Conversion.convert(path / "in.dcd", path / "in.xtc")
    return path / "in.xtc"


@pytest.fixture(params=["dcd", "xtc", "h5md"])
def conversion(tmp_path: Path, many_atoms: Path, request: pytest.FixtureRequest) -> Conversion:
    """Thousands of frames to a DCD, an XTC or an H5MD file."""
    return Conversion(tmp_path, request.param, many_atoms)
