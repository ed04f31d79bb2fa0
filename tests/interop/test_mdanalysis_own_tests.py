"""MDAnalysisTests' own test modules, run in a process in which Kinema is installed as the reader of its formats.

Left out, each for the reason that stands beside it: tests of the insides of MDAnalysis' readers, and two choices that
Kinema makes otherwise. Tests of writers alone are not collected.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import kinema

HEADER = "reads the header through the reader's `_file`, which is MDAnalysis' own"
WORDS = "wants the words of MDAnalysis' error; Kinema raises an error of its own"
CLOSED = "wants an OSError for a closed reader; Kinema's ArgumentError is a ValueError, as for its other formats"
MADE_UP = "wants times of 1 ps a frame for files without times; here they are unknown, NaN"
FACTORS = "wants the scale factors of the source in a file that is written; Kinema's has the factors of the convention"
BESIDE = "wants an error for what lies beside the positions; Kinema reads these, and notes what is wrong"
FORCES = "wants forces in DL_POLY's unit, which MDAnalysis does not convert; Kinema gives them in kJ/(mol angstrom)"
H5MD = "TestH5MDReaderWithRealTrajectory"
LEFT_OUT = {
    "TestXTCReader::test_rewind_xdrtrj": "reads the position in the file from the reader's `_xdr`",
    "TestTRRReader::test_rewind_xdrtrj": "as above",
    "test_write_istart": HEADER,
    "test_reader_set_dt": HEADER,
    "test_ts_time": HEADER,
    "test_dcd_writer_angle_cosines": HEADER,
    "TestDCDReader::test_empty_dcd": "wants an OSError for an empty file; Kinema's TruncatedFileError is an EOFError",
    "test_write_random_unitcell": "wants cells back whose angles no cell can have; here such a frame has none",
    f"{H5MD}::test_unknown_unit": WORDS,
    f"{H5MD}::test_changing_n_atoms": BESIDE,
    f"{H5MD}::test_2D_box": BESIDE,
    f"{H5MD}::test_no_groups": WORDS,
    f"{H5MD}::test_no_units_but_convert_units_true_error": WORDS,
    f"{H5MD}::test_parse_n_atoms_error": WORDS,
    f"{H5MD}::test_wrong_driver": "HDF5 drivers are not used: bytes are read without libhdf5",
    f"{H5MD}::test_open_with_driver": "as above",
    "TestChainReaderContinuous::test_mixed_filetypes": "XTC and TRR have one reader here",
    "TestConfigReader2::test_for": FORCES,
    "TestDLPolyHistory::test_force": FORCES,
    "TestDLPolyHistoryOrder::test_force": FORCES,
    "test_periodic": "an attribute of MDAnalysis' AMBER readers alone",
    "test_metadata": "reads the header through the reader's `trjfile`, which is MDAnalysis' own",
    "test_mmap_kwarg": "reads `_mmap` of MDAnalysis' reader; the argument is taken and ignored",
    "test_read_on_closed": CLOSED,
    "test_ioerror": CLOSED,
    "TestNCDFReader4::test_chain_times": MADE_UP,
    "TestNCDFReader4::test_dt": MADE_UP,
    "TestNCDFReader4::test_warn_user_no_time_information": MADE_UP,
    "TestNCDFReaderExceptionsWarnings::test_no_dt_warning": MADE_UP,
    "TestScaleFactorImplementation::test_scale_factor_not_float": WORDS,
    "TestScipyScaleFactors::test_write_read_factors_default": FACTORS,
    "TestScipyScaleFactors::test_write_read_write": FACTORS,
    "TestH5PYNotInstalled::test_reader_no_h5py": "takes h5py away from MDAnalysis' module alone",
}
MODULES = (
    "coordinates.test_xdr",
    "coordinates.test_netcdf",
    "coordinates.test_dlpoly",
    "coordinates.test_dcd",
    "coordinates.test_h5md",
    "coordinates.test_chainreader",
)
CODE = """
import sys
import pytest
import MDAnalysisTests
from MDAnalysis.core import universe
from MDAnalysis.guesser.default_guesser import DefaultGuesser
from kinema.interop.mdanalysis import install

# most of the time would go into parsing their topologies again and again, and into elements of the same names
parse, parsed, guess, guessed = universe._topology_from_file_like, {}, DefaultGuesser.guess_atom_element, {}

def parse_once(file, topology_format=None, **options):
    if options or not str(file).startswith(MDAnalysisTests.__path__[0]):
        return parse(file, topology_format, **options)
    if (str(file), topology_format) not in parsed:
        parsed[str(file), topology_format] = parse(file, topology_format)
    return parsed[str(file), topology_format].copy()

def guess_once(self, name):
    if name not in guessed:
        guessed[name] = guess(self, name)
    return guessed[name]

universe._topology_from_file_like, DefaultGuesser.guess_atom_element = parse_once, guess_once

class LeaveOut:
    def pytest_collection_modifyitems(self, config, items):
        names = sys.argv[1].split(",")
        gone = [item for item in items if any(item.nodeid.split("[")[0].endswith("::" + name) for name in names)]
        print("left out:", ",".join(sorted({name for name in names for item in gone if name in item.nodeid})))
        items[:] = [item for item in items if item not in gone]

install()
options = ["-q", "-p", "no:cacheprovider", "-W", "ignore", "--tb=short", "-k", "not Writer", "--pyargs"]
sys.exit(pytest.main([*options, *sys.argv[2:]], plugins=[LeaveOut()]))
"""


def test_their_modules_pass_over_our_reader(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(kinema.__file__).parents[1])}
    words = [sys.executable, "-c", CODE, ",".join(LEFT_OUT), *(f"MDAnalysisTests.{name}" for name in MODULES)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=280)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed.group(1)) > 150, done.stdout[-500:]
    # what is named above is there to be left out
    assert re.search(r"left out: (.*)", done.stdout).group(1).split(",") == sorted(LEFT_OUT)  # type: ignore[union-attr]
