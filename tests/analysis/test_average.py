"""Average structures, B factors and RMSDs of residues: against MDAnalysis and NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as kn
from kinema.testing import random_walk, write_dcd


@pytest.fixture(scope="module")
def adk() -> kn.Trajectory:
    from MDAnalysisTests.datafiles import DCD, PSF

    return kn.open(DCD, topology=PSF)


def test_an_average_is_mdanalysis_average_structure(adk: kn.Trajectory) -> None:
    import MDAnalysis
    from MDAnalysis.analysis import align
    from MDAnalysisTests.datafiles import DCD, PSF

    found = kn.analysis.AverageStructure(adk, select="name CA", align="reference").run()
    universe = MDAnalysis.Universe(PSF, DCD)
    expected = align.AverageStructure(universe, universe, select="name CA", ref_frame=0).run()
    # theirs is superposed with its centre of geometry in place, in single precision
    moved = expected.results.positions
    np.testing.assert_allclose(found.results.positions, moved, atol=2e-3)


def test_structures_have_the_atoms_the_means_and_the_b_factors(adk: kn.Trajectory, tmp_path: Path) -> None:
    import MDAnalysis

    average = kn.analysis.AverageStructure(adk, select="protein and name CA", align="average").run(step=7)
    for suffix, digits in ((".pdb", 6e-4), (".gro", 6e-3)):
        average.save(tmp_path / f"mean{suffix}")
        universe = MDAnalysis.Universe(tmp_path / f"mean{suffix}")
        np.testing.assert_allclose(universe.atoms.positions, average.results.positions, atol=digits)
        assert universe.atoms.resids.tolist() == list(range(1, 215))
    rmsf = kn.analysis.RMSF(adk, select="protein and name CA", align="average").run(step=7)
    rmsf.save(tmp_path / "rmsf.pdb")
    universe = MDAnalysis.Universe(tmp_path / "rmsf.pdb")
    np.testing.assert_allclose(universe.atoms.tempfactors, 8 * np.pi**2 / 3 * rmsf.results.rmsf**2, atol=6e-3)
    with pytest.raises(kn.ArgumentError, match="exists already"):
        rmsf.save(tmp_path / "rmsf.pdb")
    rmsf.save(tmp_path / "rmsf.pdb", overwrite=True)
    with pytest.raises(kn.UnsupportedFormatError, match=r"choose one of .csv, .xvg, .npy, .parquet, .dat, .pdb"):
        rmsf.save(tmp_path / "rmsf.gro")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mean.gro", "mean.pdb", "rmsf.pdb"]


def test_b_factors_that_do_not_fit_are_noted(tmp_path: Path) -> None:
    import MDAnalysis
    from MDAnalysisTests.datafiles import GRO

    n_atoms = 30
    MDAnalysis.Universe(GRO).atoms[:n_atoms].write(tmp_path / "top.gro")
    walk = random_walk(20, n_atoms)
    walk[10:, 3] += 40
    write_dcd(tmp_path / "walk.dcd", walk)
    rmsf = kn.analysis.RMSF(kn.open(tmp_path / "walk.dcd", topology=tmp_path / "top.gro")).run()
    with pytest.warns(kn.Note, match=r"1 of 30 B factors are above 999.99 angstrom\^2"):
        rmsf.save(tmp_path / "rmsf.pdb")
    assert MDAnalysis.Universe(tmp_path / "rmsf.pdb").atoms.tempfactors[3] == pytest.approx(999.99)


def test_each_residue_after_one_superposition(adk: kn.Trajectory) -> None:
    found = kn.analysis.RMSD(adk, select="resid 10-14 and backbone", by="residue").run(stop=6)
    groups = [f"resid {number} and backbone" for number in range(10, 15)]
    expected = kn.analysis.RMSD(adk, select="resid 10-14 and backbone", groups=groups).run(stop=6)
    np.testing.assert_array_equal(found.results.values, expected.results.values)
    assert [one.name for one in found.table().columns[2:4]] == ["rmsd", "rmsd of GLY10"]
    with pytest.raises(kn.ArgumentError, match="by must be"):
        kn.analysis.RMSD(adk, by="atom")
