"""The table of metrics: what a trial may measure, in which unit, what is better, and what each says.

A number of ours has one of these names and this unit everywhere: in the worker, the database and the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A name with its unit, the direction that is better, and what it says."""

    name: str
    unit: str
    better: str
    """`lower`, `higher`, or `none` where neither is."""
    description: str
    finding: bool = False
    """True for what is compared between subjects beside time and peak."""
    harness: bool = False
    """True for what the harness itself costs: shown apart, never compared between subjects."""


PEAK_CAUSES = (
    ("parameters", "parameters and buffers"),
    ("gradients", "gradients"),
    ("optimizer_states", "optimizer states, master copies included"),
    ("inputs", "inputs"),
    ("checkpoints", "inputs that checkpointing keeps"),
    ("saved_activations", "what is kept from the forward for the backward"),
    ("loss", "made by the last projection and the loss"),
    ("temporaries", "temporaries"),
    ("other_residents", "resident before and without a name: workspaces of libraries"),
    ("allocator_slack", "added to requests by the allocator's rounding"),
    ("unattributed", "not accounted for"),
)
"""What a peak consists of, and in words."""

SHOWS_SPEED = frozenset({"time_s", "cycles", "forward_s", "backward_s", "optimizer_s"})
"""What a case with wrong numbers must not show, not even of its trials that were right."""

COLLECTIVES = {
    "all_reduce": "sums that every rank gets",
    "all_gather": "the gathering of all ranks' parts",
    "reduce_scatter": "sums of which each rank gets its part",
    "reduce": "sums that one rank gets",
    "broadcast": "sending to all ranks",
    "all_to_all": "exchanges of parts between all ranks",
}
"""Kinds of collectives, and in words what they do."""

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("time_s", "s", "lower", "one call of the pass; with several ranks the slowest rank of each call"),
        Metric("peak_bytes", "byte", "lower", "highest live tensor bytes during the pass, above what was resident before it"),
        Metric("peak_total_bytes", "byte", "lower", "highest live tensor bytes during the pass, all that was resident included"),
        *(
            Metric(f"peak_{cause}_bytes", "byte", "lower", f"the part of peak_total_bytes that is {what}")
            for cause, what in PEAK_CAUSES
        ),
        Metric("saved_bytes", "byte", "lower", "bytes that autograd keeps between forward and backward, parameters excluded"),
        Metric("saved_input_bytes", "byte", "none", "the part of saved_bytes that is the pass's own inputs"),
        Metric("peak_reserved_bytes", "byte", "lower", "highest bytes that the caching allocator held, above the start (CUDA)"),
        Metric(
            "peak_requested_bytes", "byte", "lower", "highest bytes that were asked for, before rounding by the allocator (CUDA)"
        ),
        Metric("device_used_bytes", "byte", "lower", "growth of the device's used memory as the driver sees it (CUDA)"),
        Metric("allocator_retries", "count", "lower", "times the caching allocator had to free its cache and try again (CUDA)"),
        Metric("sm_clock_hz", "Hz", "none", "SM clock read on the device around each sample (CUDA)"),
        Metric("cycles", "cycle", "lower", "each sample of time_s times its SM clock (CUDA)"),
        Metric("kernels_per_call", "count", "lower", "device kernels that one call launches (CUDA)"),
        Metric("energy_j", "J", "lower", "energy that the GPU used for one call, by its own counter (CUDA)", finding=True),
        Metric("energy_per_token_j", "J", "lower", "energy_j by the number of tokens of a call (CUDA)", finding=True),
        Metric(
            "output_error",
            "ratio",
            "lower",
            "root mean square of the output's difference to the float64 reference, relative to that of the reference",
            finding=True,
        ),
        Metric(
            "update_error",
            "ratio",
            "lower",
            "distance of the parameters' change from fp32 AdamW's, relative to that change",
            finding=True,
        ),
        Metric("weight_bytes", "byte", "lower", "what the converted layer holds: weights, scales and all", finding=True),
        Metric("state_bytes", "byte", "lower", "what the optimizer keeps, on the device and off it", finding=True),
        Metric("state_host_bytes", "byte", "lower", "the part of state_bytes that lies in host or managed memory", finding=True),
        Metric("gradient_bytes", "byte", "lower", "gradients that a rank holds between backward and update", finding=True),
        Metric(
            "master_bytes",
            "byte",
            "lower",
            "the copy of the weights that a rank updates, in more bits than they have",
            finding=True,
        ),
        Metric(
            "host_resident_bytes", "byte", "lower", "host memory that the process has in use after the timed steps", finding=True
        ),
        Metric("host_pinned_bytes", "byte", "lower", "the part of it that torch has page-locked (CUDA)", finding=True),
        Metric("disk_bytes", "byte", "lower", "files that the process keeps states in", finding=True),
        Metric("state_bytes_per_parameter", "byte", "lower", "state_bytes by the number of parameters", finding=True),
        Metric(
            "loss_gap",
            "nat",
            "lower",
            "mean loss of the last ten of fifty steps of a small model, less that of plain fp32",
            finding=True,
        ),
        Metric(
            "gradient_norm", "L2", "none", "norm of all gradients of a step together, unscaled and not yet clipped", finding=True
        ),
        Metric(
            "gradient_zero_share",
            "ratio",
            "lower",
            "share of the gradients of the blocks' matrices that are zero as computed",
            finding=True,
        ),
        Metric(
            "gradient_subnormal_share",
            "ratio",
            "lower",
            "share of them below the smallest normal number of the dtype computed in",
            finding=True,
        ),
        Metric("gradient_nonfinite_share", "ratio", "lower", "share of them that are infinite or not a number", finding=True),
        Metric("loss_scale", "count", "none", "by which losses are multiplied before the backward", finding=True),
        Metric("accuracy", "ratio", "higher", "share of right answers on data that was not trained on", finding=True),
        Metric("skipped_steps", "count", "lower", "steps that dynamic loss scaling left out after an overflow", finding=True),
        *(
            Metric(
                f"{phase}_peak_{counted}bytes", "byte", "lower", f"highest {words} during the {phase} of a step, residents included"
            )
            for phase in ("forward", "backward", "optimizer")
            for counted, words in (("", "live tensor bytes"), ("reserved_", "bytes that the caching allocator held (CUDA)"))
        ),
        *(
            Metric(f"{collective}_bytes", "byte", "lower", f"what a rank puts into {words} in one step")
            for collective, words in COLLECTIVES.items()
        ),
        Metric("communicated_bytes", "byte", "lower", "what a rank puts into all collectives in one step"),
        Metric("communication_s", "s", "lower", "time of one step in which a collective was under way on this rank"),
        Metric(
            "exposed_communication_share",
            "ratio",
            "lower",
            "share of a step in which a collective was under way on this rank and nothing was computed",
        ),
        Metric("forward_s", "s", "lower", "the forward and the loss within one training step, in a pass of its own"),
        Metric("backward_s", "s", "lower", "the backward within one training step, in a pass of its own"),
        Metric("optimizer_s", "s", "lower", "clipping and update within one training step, in a pass of its own"),
        Metric("import_s", "s", "lower", "importing what the subject needs, in its own process"),
        Metric("build_s", "s", "lower", "building the subject: its builder and its modules"),
        Metric(
            "compile_cold_s", "s", "lower", "first call of the subject with its case's own compile caches empty, less one warm call"
        ),
        Metric(
            "compile_warm_s", "s", "lower", "first call of the subject with its case's compile caches filled, less one warm call"
        ),
        Metric("fork_s", "s", "lower", "from the request to the first line of the trial's own process", harness=True),
        Metric("device_init_s", "s", "lower", "creating the device context (CUDA)", harness=True),
        Metric("inputs_s", "s", "lower", "making inputs and parameters", harness=True),
        Metric("check_s", "s", "lower", "comparing with the float64 reference", harness=True),
        Metric("timer_s", "s", "lower", "making the timer: on CUDA its kernels and buffers", harness=True),
        Metric("warmup_s", "s", "lower", "calls until the time was stable", harness=True),
        Metric("sampling_s", "s", "lower", "the timed calls", harness=True),
        Metric("memory_s", "s", "lower", "the memory pass", harness=True),
        Metric("exit_s", "s", "lower", "from the reply to the end of the process: on CUDA the driver clears away", harness=True),
        Metric("proof_s", "s", "lower", "the proof pass under the profiler", harness=True),
        Metric(
            "overhead_s",
            "s",
            "lower",
            "the whole trial less device_init_s, import_s, build_s, compile_*_s, warmup_s and sampling_s",
            harness=True,
        ),
    )
}
