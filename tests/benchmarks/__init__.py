"""The project's own speed, by pytest-benchmark. Not collected with the tests: name the files, `pytest tests/benchmarks/bench_*.py`."""
