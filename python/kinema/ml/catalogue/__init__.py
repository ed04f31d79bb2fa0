"""Catalogues: what is known of thousands of trajectories in one file, with which each is opened at once."""

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
