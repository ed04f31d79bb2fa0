# The analyses that are commands, one a line, in the order of `kinema --help`: the module is called as the command.
# `kinema.analysis.registry` reads this file, and type checkers know by it what `kinema.analysis` has.
# ruff: noqa: I001

from kinema.analysis.rmsd import RMSD as RMSD
from kinema.analysis.rmsf import RMSF as RMSF
from kinema.analysis.rgyr import RadiusOfGyration as RadiusOfGyration
