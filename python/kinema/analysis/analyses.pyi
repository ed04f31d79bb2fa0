# The analyses that are commands, one a line, in the order of `kinema --help`: the module is called as the command.
# `kinema.analysis.registry` reads this file, and type checkers know by it what `kinema.analysis` has.
# ruff: noqa: I001

from kinema.analysis.structure.rmsd import RMSD as RMSD
from kinema.analysis.ensembles.rmsd_matrix import RMSDMatrix as RMSDMatrix
from kinema.analysis.ensembles.cluster import Clusters as Clusters
from kinema.analysis.structure.rmsf import RMSF as RMSF
from kinema.analysis.structure.average import AverageStructure as AverageStructure
from kinema.analysis.structure.rgyr import RadiusOfGyration as RadiusOfGyration
from kinema.analysis.structure.gyration import Gyration as Gyration
from kinema.analysis.structure.dssp import DSSP as DSSP
from kinema.analysis.structure.sasa import SASA as SASA
from kinema.analysis.structure.buried_area import BuriedArea as BuriedArea
from kinema.analysis.ensembles.pca import PCA as PCA
from kinema.analysis.ensembles.dccm import CrossCorrelation as CrossCorrelation
from kinema.analysis.geometry.centers import Centers as Centers
from kinema.analysis.geometry.distances import Distances as Distances
from kinema.analysis.geometry.end_to_end import EndToEnd as EndToEnd
from kinema.analysis.geometry.angles import Angles as Angles
from kinema.analysis.geometry.dihedrals import Dihedrals as Dihedrals
from kinema.analysis.geometry.ramachandran import Ramachandran as Ramachandran
from kinema.analysis.geometry.vectors import Vectors as Vectors
from kinema.analysis.pairs.hbonds import HydrogenBondAnalysis as HydrogenBondAnalysis
from kinema.analysis.pairs.water_bridges import WaterBridgeAnalysis as WaterBridgeAnalysis
from kinema.analysis.pairs.neighbors import Neighbors as Neighbors
from kinema.analysis.pairs.mindist import MinimumDistance as MinimumDistance
from kinema.analysis.pairs.native_contacts import Contacts as Contacts
from kinema.analysis.pairs.residue_contacts import ResidueContacts as ResidueContacts
from kinema.analysis.pairs.contact_map import ContactMap as ContactMap
from kinema.analysis.pairs.residue_distances import ResidueDistances as ResidueDistances
from kinema.analysis.pairs.salt_bridges import SaltBridges as SaltBridges
from kinema.analysis.density.rdf import InterRDF as InterRDF
from kinema.analysis.density.rdf_sites import InterRDF_s as InterRDF_s
from kinema.analysis.pairs.coordination import Coordination as Coordination
from kinema.analysis.pairs.count import AtomCount as AtomCount
from kinema.analysis.pairs.shells import WaterShell as WaterShell
from kinema.analysis.density.density_profile import LinearDensity as LinearDensity
from kinema.analysis.density.structure_factor import StructureFactor as StructureFactor
from kinema.analysis.density.density import DensityAnalysis as DensityAnalysis
