"""What this machine is: its device, its environment, what is under test on it, and its conditions during a trial."""

from bench.machine.conditions import ConditionsSampler
from bench.machine.device import Device, find_device
from bench.machine.environment import environment
from bench.machine.interpreter import python, python_environment
from bench.machine.revision import harness_version, revision
from bench.machine.secrets import scrub, scrub_data

__all__ = [
    "ConditionsSampler",
    "Device",
    "environment",
    "find_device",
    "harness_version",
    "python",
    "python_environment",
    "revision",
    "scrub",
    "scrub_data",
]
