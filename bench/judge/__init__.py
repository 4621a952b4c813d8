"""Trials to verdicts."""
