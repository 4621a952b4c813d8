"""Tests of bench.store."""
