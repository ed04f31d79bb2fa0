"""The publications' experiments with one call: RMSD on several numbers of workers; repeats, work, storage varied.

Each run is a program of its own. It analyses nothing: `kinema.profile` reckons with the reports of the runs.
"""

from kinema.experiments.design import Design, Setting
from kinema.experiments.running import Outcome, run_design

__all__ = ["Design", "Outcome", "Setting", "run_design"]
