"""From YAML to cases: loads a suite, lays profile and settings over it, checks every name in it, and expands it."""

from bench.suite.arms import Arm, Place, arms_of, label_of
from bench.suite.expansion import Expansion, expand
from bench.suite.filters import Filter, parse_filters
from bench.suite.load import load_suite, suite_from_data
from bench.suite.model import Search, Suite
from bench.suite.schema import json_schema
from bench.suite.sizes import parse_size, spell_size

__all__ = [
    "Arm",
    "Expansion",
    "Filter",
    "Place",
    "Search",
    "Suite",
    "arms_of",
    "expand",
    "json_schema",
    "label_of",
    "load_suite",
    "parse_filters",
    "parse_size",
    "spell_size",
    "suite_from_data",
]
