"""Design of an experiment on the stages of training: samples, step, epochs, workers and ranks; the stages."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.base.choices import check_choice
from kinema.base.errors import ArgumentError
from kinema.studies.sample_loading.design import PAGE_CACHES


@dataclass(frozen=True)
class Stage:
    """One stage.

    `files`: {"npz", "h5", "one"}; an NPZ for each sample, an HDF5 file for each sample, or one HDF5 file of all.
    `loop`: {"NumPy", "h5py", "Kinema", "torch"}; the reader: NumPy and h5py on a pool of threads, Kinema's loader, or
        torch's DataLoader over Kinema's data set.
    `node_cache`: whether the files are read through a cache on the node, which is empty before the first epoch.
    `talk`: the stage of the talk whose figures stand beside this one; "" for none.
    """

    files: str
    loop: str
    node_cache: bool = False
    talk: str = ""

    @property
    def name(self) -> str:
        """The stage in words."""
        words = {"npz": "NPZ files", "h5": "HDF5 files", "one": "one HDF5"}[self.files]
        return f"{words}{', node cache' if self.node_cache else ''}, {self.loop}"

    @property
    def folder(self) -> str:
        """Name of the folder of its trace."""
        return self.name.lower().replace(",", "").replace(" ", "-")


STAGES = (
    Stage("npz", "NumPy", talk="NPZ"),
    Stage("npz", "Kinema"),
    Stage("h5", "h5py"),
    Stage("h5", "Kinema"),
    Stage("one", "Kinema", talk="HDF5"),
    Stage("one", "torch"),
    Stage("one", "Kinema", node_cache=True, talk="HDF5, node-local cache"),
)


@dataclass(frozen=True)
class TalkFigures:
    """Figures of the talk, on 32 nodes: 600 files of 8,000 samples, 320 GB; texts, "-" for what it does not give."""

    total: str
    io: str
    bandwidth: str
    transfers: str


TALK = {
    "NPZ": TalkFigures("2701 s", "883 s (application-level 2610 s)", "2.2 GB/s", "1,000,000 reads of 4 MB"),
    "HDF5": TalkFigures("-", "30 s", "8 GB/s", "reads of 512 MB"),
    "HDF5, node-local cache": TalkFigures("1.9 times less than HDF5", "4.6 s", "62 GB/s", "-"),
}


@dataclass(frozen=True)
class StagesDesign:
    """Settings of the stages. Raises ArgumentError for numbers that do not make an experiment.

    `sources`, `fields`, `file_is_sample`, `size`, `page_cache`, `seed`: as in `LoadingDesign`.
    `batch`: samples per batch of one rank.
    `step`: seconds of a step of training after each batch: a sleep, as in DLIO, with which the talk measured.
    `workers`: threads that read for a rank; processes of torch's DataLoader.
    `ranks`: processes that train, each on its share of the samples.
    `limit`: seconds after which a stage that is not done is ended, as an error.
    """

    sources: tuple[str, ...]
    fields: tuple[str, ...] | None = None
    file_is_sample: bool | None = None
    batch: int = 256
    step: float = 0.133
    epochs: int = 2
    workers: int = 6
    ranks: int = 1
    size: int = 256 << 20
    page_cache: str = "drop"
    seed: int = 0
    limit: float = 3600.0

    def __post_init__(self) -> None:
        check_choice("page_cache", self.page_cache, PAGE_CACHES)
        if not self.sources:
            raise ArgumentError("no samples are named; give their files, or a folder of them")
        counts = {"batch": self.batch, "epochs": self.epochs, "workers": self.workers, "ranks": self.ranks}
        for name, value in (counts | {"size": self.size}).items():
            if value < 1:
                raise ArgumentError(f"{name} must be at least 1, found {value}")
        if not 0 <= self.step < float("inf"):
            raise ArgumentError(f"step must be 0 s or more, found {self.step:g}")
