"""What the profiler shows of a compiled layer, whose own operators are fused."""

COMPILED = "^Torch-Compiled Region"
"""Accepted beside a library's operators: a compiled layer's are gone, and its error and bytes are then what tells it from a plain one."""
