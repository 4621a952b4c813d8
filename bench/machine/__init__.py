"""What this machine is: its device, its environment, what is under test on it, and its conditions during a trial."""

from bench.machine.conditions import ConditionsSampler
from bench.machine.device import Device, find_device
from bench.machine.environment import environment
from bench.machine.revision import revision
from bench.machine.secrets import scrub, scrub_data

__all__ = ["ConditionsSampler", "Device", "environment", "find_device", "revision", "scrub", "scrub_data"]
