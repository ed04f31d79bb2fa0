"""Caches that do not see each other leave NULs in a file that many nodes write, and the checks of Kinema find them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from kinema.base.errors import ArgumentError, CorruptFileError, Error
from kinema.formats.all_writers import Writer
from kinema.parallel.agreement import Agreement, WriterTimings
from kinema.parallel.rank_file import FileRequest
from kinema.parallel.verification import Verification
from kinema.studies.lab.client_caches import NodeWrite, assemble_file
from kinema.studies.lab.platform import read_platform
from kinema.studies.write_strategies.calls import atoms_of
from kinema.studies.write_strategies.checks import FileChecks
from kinema.studies.write_strategies.design import WriteSetting
from kinema.studies.write_strategies.pyrochlore import Pyrochlore

SYSTEM = Pyrochlore((2, 2, 2), 7)
N_NODES = 4
PAGE = read_platform("lustre").page_bytes
# four records of 73 bytes
ATOM = 292


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """CONFIG of the publication's system, as one process writes it."""
    path = tmp_path_factory.mktemp("config") / "CONFIG"
    ids = np.arange(SYSTEM.n_atoms)
    positions, velocities, forces = SYSTEM.state(ids)
    fields = ["positions", "velocities", "forces"]
    with Writer(path, SYSTEM.n_atoms, format="CONFIG", fields=fields, atoms=atoms_of("ascii", SYSTEM)) as out:
        out.write(positions, velocities=velocities, forces=forces, step=1000, time=0.49, cell=SYSTEM.box)
    return path.read_bytes()


def parts(config: bytes) -> Iterator[NodeWrite]:
    """Direct access: each node writes the records of its quarter of the atoms, node 0 the header too."""
    header = len(config) - SYSTEM.n_atoms * ATOM
    bounds = [0, *(header + SYSTEM.n_atoms * node // N_NODES * ATOM for node in range(1, N_NODES)), len(config)]
    for node in range(N_NODES):
        yield NodeWrite(node, bounds[node], config[bounds[node] : bounds[node + 1]])


def assembled(config: bytes, path: Path, page: int, order: tuple[int, ...]) -> bytes:
    with path.open("xb") as file:
        assemble_file(file, parts(config), page, order)
    return path.read_bytes()


def verify(config: bytes, path: Path) -> Error | None:
    """The error that `verify=True` of the writers finds."""
    agreement = Agreement(MPI.COMM_SELF, WriterTimings())
    request = FileRequest(
        str(path), SYSTEM.n_atoms, "CONFIG", "direct", {}, "w", False, True, 1, "sorted", True, None, None, {}
    )
    verification = Verification(agreement, request)
    for one in parts(config):
        verification.add(0, one.offset, one.data)
    return verification.found(str(path))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_pages_that_nodes_share_lose_bytes_and_the_checks_find_it(
    order: tuple[int, ...], config: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "CONFIG"
    found = assembled(config, path, PAGE, order)
    assert len(found) == len(config) and b"\0" not in config
    lost = np.flatnonzero(np.frombuffer(found, np.uint8) != np.frombuffer(config, np.uint8))
    # what is lost is NUL, and lies in the pages that two nodes have
    assert len(lost) and not np.frombuffer(found, np.uint8)[lost].any()
    assert {int(at) // PAGE for at in lost} == {one.offset // PAGE for one in parts(config)} - {0}
    error = verify(config, path)
    assert isinstance(error, CorruptFileError) and error.offset == lost[0]
    assert str(error).endswith("NULs") and "the file is not as it was written" in str(error)
    # reading back, as bench-write does
    with pytest.raises(Error):
        FileChecks(SYSTEM, "warm").check(WriteSetting("ascii", "direct", N_NODES), str(path))


def test_caches_that_see_each_other_lose_nothing(config: bytes, tmp_path: Path) -> None:
    path = tmp_path / "CONFIG"
    assert assembled(config, path, 1, (3, 1, 0, 2)) == config and verify(config, path) is None
    how, _ = FileChecks(SYSTEM, "warm").check(WriteSetting("ascii", "direct", N_NODES), str(path))
    assert how == "read back"


def test_nodes_whose_parts_end_with_pages_lose_nothing(tmp_path: Path) -> None:
    data = np.random.default_rng(1).bytes(4 * PAGE)
    with (tmp_path / "f").open("xb") as file:
        writes = [NodeWrite(node, node * PAGE, data[node * PAGE : (node + 1) * PAGE]) for node in range(4)]
        assemble_file(file, writes, PAGE, (2, 3, 0, 1))
    assert (tmp_path / "f").read_bytes() == data
    with (tmp_path / "g").open("xb") as file, pytest.raises(ArgumentError, match="each of the nodes"):
        assemble_file(file, writes, PAGE, (0, 1, 2))
