"""stepbench: benchmarks, with a results database, for the techniques that make LLM training fit and run fast."""

__version__ = "0.1.0"
