"""MDAnalysisTests' own base classes for readers and writers, run over Kinema's on MDAnalysisTests' own files.

Nothing is left out of them. Differences from the references of MDAnalysis' own readers:

- DCD: the reference's `ext` is "xtc" although its writer is for DCD, as MDAnalysis' `DCDReader.Writer` heeds no ending;
  Kinema's reader asks MDAnalysis for the writer that the ending names.
- `test_frame_collect_all_same` is expected to fail for MDAnalysis' `DCDReader`; here it passes for DCD as well.
- `test_timeseries_values` skips slices that are longer than the five frames of the files, for any reader.
"""

from __future__ import annotations

import shutil
from functools import partial
from typing import Any

import MDAnalysis
import pytest
from MDAnalysis.coordinates.TRJ import NCDFReader, NCDFWriter
from MDAnalysisTests.coordinates.base import BaseWriterTest, MultiframeReaderTest
from MDAnalysisTests.coordinates.test_dcd import DCDReference
from MDAnalysisTests.coordinates.test_h5md import H5MDReference
from MDAnalysisTests.coordinates.test_xdr import TRRReference, XTCReference

from kinema.interop.mdanalysis import KinemaReader, KinemaWriter

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis.*"),
    pytest.mark.filterwarnings("ignore::UserWarning:MDAnalysis.*"),
]


def kinema_reference(reference: Any, folder: Any, extension: str) -> Any:
    """A reference of MDAnalysisTests with Kinema's reader, over a copy of its file."""
    # MDAnalysis' own reader, which some tests make, stores its offsets beside the file
    reference.trajectory = shutil.copy(reference.trajectory, folder)
    reference.reader = partial(KinemaReader, stored=False)
    reference.ext = extension
    return reference


class TestXTC(MultiframeReaderTest):  # type: ignore[misc]
    @staticmethod
    @pytest.fixture
    def ref(tmp_path: Any) -> Any:
        return kinema_reference(XTCReference(), tmp_path, "xtc")


class TestDCD(MultiframeReaderTest):  # type: ignore[misc]
    @staticmethod
    @pytest.fixture
    def ref(tmp_path: Any) -> Any:
        return kinema_reference(DCDReference(), tmp_path, "dcd")


class TestH5MD(MultiframeReaderTest):  # type: ignore[misc]
    @staticmethod
    @pytest.fixture
    def ref(tmp_path: Any) -> Any:
        return kinema_reference(H5MDReference(), tmp_path, "h5md")


class NetCDFReference(TRRReference):  # type: ignore[misc]
    """The frames of MDAnalysisTests' TRR file as NetCDF, by MDAnalysis' own writer: it ships none of them."""

    def __init__(self, folder: Any) -> None:
        super().__init__()
        universe = MDAnalysis.Universe(self.topology, self.trajectory)
        path = str(folder / "coordinates.ncdf")
        universe.atoms.write(path, frames="all", velocities=True, forces=True)
        self.trajectory, self.ext = path, "ncdf"
        self.reader, self.writer = NCDFReader, NCDFWriter


class TestTRR(MultiframeReaderTest):  # type: ignore[misc]
    @staticmethod
    @pytest.fixture
    def ref(tmp_path: Any) -> Any:
        return kinema_reference(TRRReference(), tmp_path, "trr")


class TestNetCDF(MultiframeReaderTest):  # type: ignore[misc]
    @staticmethod
    @pytest.fixture
    def ref(tmp_path: Any, tmp_path_factory: Any) -> Any:
        return kinema_reference(NetCDFReference(tmp_path_factory.mktemp("netcdf")), tmp_path, "ncdf")


def written_by_kinema(reference: Any) -> Any:
    """A reference with Kinema's writer, and the reader that it has."""
    reference.writer = KinemaWriter
    # one of the tests names its file without the dot: MDAnalysis' writers have one format each, ours goes by the name
    reference.ext = f".{reference.ext}"
    return reference


class TestXTCWriter(BaseWriterTest):  # type: ignore[misc]
    """Written by Kinema, read by Kinema; so are the others but those for MDAnalysis."""

    @staticmethod
    @pytest.fixture
    def ref(tmp_path: Any) -> Any:
        return written_by_kinema(kinema_reference(XTCReference(), tmp_path, "xtc"))


class TestXTCWriterForMDAnalysis(BaseWriterTest):  # type: ignore[misc]
    """Written by Kinema, read by MDAnalysis' own reader."""

    @staticmethod
    @pytest.fixture
    def ref() -> Any:
        return written_by_kinema(XTCReference())


class TestTRRWriter(BaseWriterTest):  # type: ignore[misc]
    @staticmethod
    @pytest.fixture
    def ref(tmp_path: Any) -> Any:
        return written_by_kinema(kinema_reference(TRRReference(), tmp_path, "trr"))


class TestTRRWriterForMDAnalysis(BaseWriterTest):  # type: ignore[misc]
    @staticmethod
    @pytest.fixture
    def ref() -> Any:
        return written_by_kinema(TRRReference())


class TestDCDWriter(BaseWriterTest):  # type: ignore[misc]
    @staticmethod
    @pytest.fixture
    def ref(tmp_path: Any) -> Any:
        return written_by_kinema(kinema_reference(DCDReference(), tmp_path, "dcd"))


class TestNetCDFWriter(BaseWriterTest):  # type: ignore[misc]
    @staticmethod
    @pytest.fixture
    def ref(tmp_path: Any, tmp_path_factory: Any) -> Any:
        return written_by_kinema(kinema_reference(NetCDFReference(tmp_path_factory.mktemp("netcdf")), tmp_path, "ncdf"))


class TestNetCDFWriterForMDAnalysis(BaseWriterTest):  # type: ignore[misc]
    @staticmethod
    @pytest.fixture
    def ref(tmp_path: Any) -> Any:
        return written_by_kinema(NetCDFReference(tmp_path))


class TestH5MDWriter(BaseWriterTest):  # type: ignore[misc]
    """Written by Kinema, read by Kinema."""

    @staticmethod
    @pytest.fixture
    def ref(tmp_path: Any) -> Any:
        reference = kinema_reference(H5MDReference(), tmp_path, "h5md")
        reference.writer = KinemaWriter
        return reference


class TestH5MDWriterForMDAnalysis(BaseWriterTest):  # type: ignore[misc]
    """Written by Kinema, read by MDAnalysis' own reader."""

    @staticmethod
    @pytest.fixture
    def ref() -> Any:
        reference = H5MDReference()
        reference.writer = KinemaWriter
        return reference


def test_the_references_are_read_by_the_reader_that_they_name(tmp_path: Any) -> None:
    reference = kinema_reference(XTCReference(), tmp_path, "xtc")
    assert isinstance(reference.reader(reference.trajectory), KinemaReader)
    assert not isinstance(MDAnalysis.coordinates.core.reader(reference.trajectory), KinemaReader)
