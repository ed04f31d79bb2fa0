"""Catalogues: one file with all that is needed to open any of thousands of trajectories at once."""

from __future__ import annotations

from kinema.ml.catalogue.catalogue import Catalogue
from kinema.ml.catalogue.checking import CatalogueCheck, ChangedEntry, check_catalogue
from kinema.ml.catalogue.making import CatalogueMade, extend_catalogue, make_catalogue

__all__ = [
    "Catalogue",
    "CatalogueCheck",
    "CatalogueMade",
    "ChangedEntry",
    "check_catalogue",
    "extend_catalogue",
    "make_catalogue",
]
