"""Finds workloads, implementations and model shapes by name, and says what is installed.

Nothing here imports torch or a technique's package: whether a package is installed is read from its metadata alone.
"""

from bench.catalogue.finding import Catalogue, load_catalogue
from bench.catalogue.installed import availability, missing_requirements
from bench.catalogue.names import nearest
from bench.catalogue.outside import ENTRY_POINT_GROUP
from bench.catalogue.shapes import ModelShape

__all__ = [
    "ENTRY_POINT_GROUP",
    "Catalogue",
    "ModelShape",
    "availability",
    "load_catalogue",
    "missing_requirements",
    "nearest",
]
