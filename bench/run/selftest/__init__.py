"""Proves the product's own numbers: measures what is known beforehand, and compares with other timers."""

from bench.run.selftest.judgement import Judgement, Verdict, exit_code
from bench.run.selftest.selftest import Report, selftest

__all__ = ["Judgement", "Report", "Verdict", "exit_code", "selftest"]
