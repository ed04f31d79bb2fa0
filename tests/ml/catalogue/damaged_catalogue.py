"""A catalogue with entries changed at random, sealed again, and read: a program of its own, whose memory is bounded.

python damaged_catalogue.py CATALOGUE FOLDER SEED NUMBER
"""

from __future__ import annotations

import random
import resource
import sys
import warnings
from pathlib import Path

from kinema.base.errors import CorruptFileError, Error, FileNotFound, InternalError
from kinema.ml import Catalogue
from kinema.ml.catalogue.container import CatalogueWriter, write_catalogue

_MEMORY = 3 << 30


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The bytes with one to four of them, or a run of digits, changed."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(changed))
        kind = chance.randrange(4)
        if kind == 0:
            changed[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            changed[place] = chance.choice(b'0123456789-[]{},"')
        elif kind == 2:
            changed[place : place + 8] = chance.choice([2**63, 2**64 - 1, 1 << 40, 0]).to_bytes(8, "little")
        else:
            # a number of the text gets more digits: dimensions, counts
            digits = [at for at, byte in enumerate(changed[: len(changed) // 2]) if chr(byte).isdigit()]
            if digits:
                at = chance.choice(digits)
                del changed[at]
                changed[at:at] = str(chance.choice([10**6, 10**12, 2**63, 10**30, -1])).encode()
    return bytes(changed)


def main(catalogue: str, folder: str, seed: int, number: int) -> None:
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    sound = Catalogue(catalogue)
    refused = 0
    for i in range(number):
        chance = random.Random(seed * 1_000_003 + i)
        which = chance.randrange(len(sound))
        path = Path(folder) / "damaged.kinema-catalogue"

        def fill(writer: CatalogueWriter, which: int = which, chance: random.Random = chance) -> None:
            row = sound.file.row(which)
            writer.add("one", row.n_frames, row.n_atoms, mutated(sound.file.entry(which), chance))

        write_catalogue(path, fill)
        try:
            traj = Catalogue(path, folder=sound.folder)["one"]
            traj[-1]
            _ = traj.times, traj.steps, traj.parts, traj.notes
        except InternalError as error:
            raise SystemExit(f"seed {seed}, {i}, entry {which}: {error}") from error
        except Error as error:
            refused += 1
            assert str(error)
            if "catalogue" in str(error) and not isinstance(error, (CorruptFileError, FileNotFound)):
                assert str(path) in str(error) or error.path, repr(error)
    print(refused)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
