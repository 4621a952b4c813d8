"""From YAML to cases: loads a suite, lays profile and settings over it, checks every name in it, and expands it."""

from bench.suite.expansion import Expansion, Filter, expand, parse_filters
from bench.suite.load import load_suite, suite_from_data
from bench.suite.model import Suite
from bench.suite.schema import json_schema
from bench.suite.sizes import parse_size

__all__ = ["Expansion", "Filter", "Suite", "expand", "json_schema", "load_suite", "parse_filters", "parse_size", "suite_from_data"]
