"""Why a GPU's clocks are not at their highest: NVML's reasons, and which of them say something against a measurement."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[int, str] = {
    0x001: "gpu_idle",
    0x002: "application_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""NVML's bits."""

CHOSEN = frozenset({"gpu_idle", "application_clocks_setting", "display_clock_setting"})
"""Idleness, and clocks that somebody set: they say nothing against a measurement."""

CAPS = frozenset({"sw_power_cap", "sync_boost"})
"""The normal state of a busy GPU: told, and no fault."""

FORBIDDING = ("hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
"""Heat and hardware: the time is then that of another machine."""


def reason_words(bits: int) -> list[str]:
    """The reasons in a bit mask; a bit without a name is spelled as `bit_0x200`."""
    return [REASONS.get(1 << shift, f"bit_{1 << shift:#x}") for shift in range(bits.bit_length()) if bits & 1 << shift]
