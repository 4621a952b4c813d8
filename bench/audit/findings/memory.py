"""The peak: in which phase it lies, what it mostly is, and what the allocator makes of it."""

from __future__ import annotations

from collections.abc import Iterator

from bench.audit.finding import Finding, fine, look
from bench.audit.whole import Audit
from bench.audited import Memory
from bench.metrics import PEAK_CAUSES
from bench.report.numbers import units

WORDS = dict(PEAK_CAUSES)
OTHER = "other"
"""What a probe calls the time and the memory of no phase."""
SLACK_SHARE, SLACK_BYTES = 0.15, 2**30
HIGHER_BEFORE = 0.10
LEAST_PINNED_BYTES = 2**20
"""Less is a flag or a counter that some library keeps there."""


def find(audit: Audit) -> Iterator[Finding]:
    seen = audit.fullest
    memory = seen.memory if seen is not None else None
    if memory is None:
        return
    if memory.causes:
        largest = max(memory.causes, key=lambda one: one.bytes)
        text = (
            f"the peak of {units.size(memory.peak_bytes)} lies {in_phase(memory.phase)}; "
            f"{units.percent(largest.bytes / memory.peak_bytes)} of it is {WORDS.get(largest.cause, largest.cause)}"
        )
        yield fine(
            "peak", text, peak_bytes=memory.peak_bytes, **{f"{one.cause}_bytes": one.bytes for one in memory.causes if one.bytes}
        )
    yield from _allocator(memory)
    before = memory.since_start_bytes
    if before is not None and before > (1 + HIGHER_BEFORE) * memory.peak_bytes:
        yield look(
            "peak_before_the_steps",
            f"memory was higher before the profiled step than in it: {units.size(before)} against {units.size(memory.peak_bytes)}",
            "loading or the first steps need more than training: load in the dtype that is trained, on the device at once",
            since_start_bytes=before,
            peak_bytes=memory.peak_bytes,
        )
    if memory.pinned_bytes is not None and memory.pinned_bytes >= LEAST_PINNED_BYTES:
        yield fine(
            "pinned_memory", f"{units.size(memory.pinned_bytes)} of host memory are page-locked", pinned_bytes=memory.pinned_bytes
        )


def in_phase(phase: str) -> str:
    return "between the phases" if phase == OTHER else f"in the {phase}"


def _allocator(memory: Memory) -> Iterator[Finding]:
    if memory.allocator_retries:
        yield look(
            "allocator_retries",
            f"the allocator ran out and emptied its cache {memory.allocator_retries} times: each stops the device",
            "PYTORCH_ALLOC_CONF=expandable_segments:True, a smaller batch, or one of the switches below",
            retries=memory.allocator_retries,
        )
    if memory.out_of_memories:
        yield look(
            "out_of_memory",
            f"the script lived through {memory.out_of_memories} refusals of memory",
            refusals=memory.out_of_memories,
        )
    if memory.reserved_bytes is not None:
        spare = memory.reserved_bytes - memory.peak_bytes
        if spare > SLACK_BYTES and spare > SLACK_SHARE * memory.peak_bytes:
            yield look(
                "reserved_memory",
                f"the allocator holds {units.size(spare)} more than the peak needs, in pieces that do not fit",
                "PYTORCH_ALLOC_CONF=expandable_segments:True",
                reserved_bytes=memory.reserved_bytes,
                peak_bytes=memory.peak_bytes,
            )
