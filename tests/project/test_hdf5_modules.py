"""Few modules write HDF5: others describe what is to be written."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python/kinema"

# calls of h5py that make a file, a group, a data set, an attribute, a link or rows; our functions that make data sets
WRITES = re.compile(
    r"""h5py\.File\([^)]*("w"|"r\+"|"a"|\bmode\b)|\.(create_group|require_group)\(|h5[dga]\.create\(|h5o\.copy\("""
    r"""|\.attrs\.(create|modify|update)\(|(?<!frame)\.attrs\[[^]]+\] = |h5py\.(Soft|External)Link\("""
    r"""|\.write_direct(_chunk)?\(|\.resize\([^)]*axis|\.set_extent\(|\.id\.write\("""
    r"""|[^\w.](create_dataset|replace_dataset|write_dataset|write_chunks)\("""
)
MODULES = {
    "storage/hdf5/output.py": "files",
    "storage/hdf5/storage.py": "data sets, and files of whole arrays",
    "storage/hdf5/copying.py": "copies of structures: links, references",
    "storage/hdf5/object_copies.py": "copies of objects as they are",
    "storage/hdf5/trust/walk.py": "copies in memory, which try whether an object can be copied",
    "formats/hdf5/series.py": "rows",
    "formats/h5md/write/metadata.py": "groups, data sets and attributes of H5MD",
    "formats/h5md/write/steps.py": "steps and times, which elements share by links",
    "formats/h5md/write/virtual_fields.py": "fields whose values are in other files",
    "formats/netcdf4/structure.py": "dimensions and variables of NetCDF-4",
    "files/h5md/rewrite.py": "data sets of a file that is rewritten",
    "files/h5md/transfer.py": "their values",
    "execution/results_file.py": "results per frame",
    "ml/archives/writers.py": "archives of samples",
    "ml/export/array_formats.py": "exported samples",
    "parallel/hdf5/mpiio.py": "values of many ranks through MPI-IO",
}


def test_these_modules_write_hdf5_and_no_others() -> None:
    """Studies write files as other programs do, and `kinema.testing` files of other programs."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not re.match(r"\s*(#|def )", line)]
        if not name.startswith(("studies/", "testing/")):
            found |= {name} if any(WRITES.search(line) for line in lines) else set()
    assert found == MODULES.keys()
