"""Runs the attacks and prints their table; exit code 1 if a promise was broken.

python -m attack                                all, about a quarter of an hour on two cores
python -m attack --share 0.1                    a tenth of the trials
python -m attack --only "forged indices" --seed 123 --trials 1     one broken trial again
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Sequence

# one thread of libraries each, and nothing of the user's: before they are imported
os.environ.update({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="kinema-attack-cache-")

# each registers its attacks
from attack import cells, commands, faults, indices, kills, stopped  # noqa: F401
from attack.children import preload
from attack.trials import ATTACKS, Row, run_trials, table
from kinema.testing.programs.children import restore_sigint


def main(words: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="attack", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(ATTACKS), help="this attack; may be given again")
    parser.add_argument("--seed", type=int, help="of the first trial, the others count on; by default a random one")
    parser.add_argument("--trials", type=int, help="of each attack")
    parser.add_argument("--share", type=float, default=1.0, help="of the trials of a whole run")
    asked = parser.parse_args(words)
    seed = random.SystemRandom().randrange(1 << 31) if asked.seed is None else asked.seed
    print("seed", seed, flush=True)
    # ignored in what a shell starts in the background, and then by the commands that are to hear it
    restore_sigint()
    preload()
    rows: list[Row] = []
    for name, one in ATTACKS.items():
        if asked.only and name not in asked.only:
            continue
        trials = asked.trials or max(1, round(one.trials * asked.share))
        rows.append(run_trials(one, range(seed, seed + trials), lambda line: print(line, flush=True)))
        last = rows[-1]
        print(f"{name}: {last.held} of {last.trials} held, {last.seconds:.0f} s", file=sys.stderr, flush=True)
    print(table(rows))
    return int(any(row.broken for row in rows))


if __name__ == "__main__":
    sys.exit(main())
