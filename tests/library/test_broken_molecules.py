"""The look for broken molecules: frames that cannot be looked at hide no others."""

import numpy as np

from kinema.trajectory.bonds import Bonds
from kinema.trajectory.broken_molecules import MoleculeSearch

PAIR = Bonds(np.array([[0, 1]], np.uint32), (), True)


def test_a_frame_that_cannot_be_followed_is_not_seen_and_the_others_of_its_block_are() -> None:
    positions = np.zeros((4, 2, 3), np.float32)
    # whole; too far away to be followed; broken over a face; whole
    positions[:, 1, 0] = 1.0, 1e30, 9.0, 2.0
    cells = np.tile(np.diag([10.0, 10.0, 10.0]), (4, 1, 1))
    search = MoleculeSearch(2, PAIR, None)
    search.add(positions, cells, np.ones((4, 3), bool), np.array([20, 21, 22, 23]))
    found = search.found
    assert found is not None
    assert (found.frame, found.broken, found.frames, found.seen, found.most) == (22, 1, 1, 3, 1)
