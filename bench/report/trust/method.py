"""How a run was measured and judged, in fifteen lines with its own parameters, and by which versions of the measuring method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bench.judge import thresholds
from bench.records import NO_METHOD_OF_OURS, Json, Run, Scalar
from bench.report.numbers import units
from bench.report.numbers.summary import CaseSummary

NOT_TOLD = "not told"
CACHES: Mapping[str, str] = {
    "cold": "cold: caches are written over before each call",
    "warm": "warm: calls follow each other on the same tensors",
}
TIMERS: Mapping[str, str] = {
    "events": "CUDA events around each call, with the device kept busy until the host has enqueued it, and the SM clock read beside it",
    "cuda_graph": "CUDA graphs of eight calls, less the same graph without them",
    "wall": "the host's clock around each call",
}


def method(run: Run, cases: Sequence[CaseSummary]) -> tuple[str, ...]:
    """The lines, always fifteen; a parameter that an imported run does not tell is said to be not told."""
    found = run.suite_data.get("protocol")
    protocol: Mapping[str, Json] = found if isinstance(found, Mapping) else {}

    def told(name: str) -> str:
        value = protocol.get(name)
        return NOT_TOLD if not isinstance(value, int | float) else units.fact(name, value)

    rules, time = thresholds.RULES, thresholds.RULES[thresholds.TIME]
    memory = rules["peak_bytes"]
    seed: Scalar = run.seed
    noise = protocol.get("target_relative_noise")
    target = units.percent(noise) if isinstance(noise, int | float) else NOT_TOLD
    devices = {case.case.device for case in cases}
    agree = "1 %" if "cuda" in devices else "3 %"
    return (
        f"Trials: {told('trials')} a case, each in a process of its own that is forked from a server which has imported torch and nothing"
        " of the subject's.",
        f"Order: points are shuffled by the seed {seed if seed is not None else NOT_TOLD}; within a point all subjects take turns, forwards"
        " and backwards, so that drift meets all alike.",
        "Inputs: drawn anew for each trial, the same for all subjects of a point.",
        f"Warm-up: until the medians of two windows agree within {agree}, for at most {told('max_warmup_s')}.",
        f"Sampling: at least {told('min_samples')} samples over {told('min_sampling_s')}, until the standard error is below {target} of the"
        f" mean or the noise has settled; at most {told('max_samples')} samples or {told('max_sampling_s')}. None is dropped.",
        f"Timer: {_each(cases, 'timer', TIMERS)}.",
        f"Cache: {_each(cases, 'cache', CACHES)}.",
        f"Time-out: a trial is ended after {told('timeout_s')}; whatever ends it, there is a row with a status and a reason.",
        "Memory: in passes of its own after the timing; the peak is the highest number of live bytes.",
        "Numbers: outputs and gradients beside float64, of a small problem before the timing and of a slice of the measured one after it;"
        " what fails shows no time.",
        "Proof: one call under the profiler after the timing, held against the kernels or operators that the implementation declares.",
        "Value: the median of a trial's samples, then the median over trials with the lowest and the highest.",
        f"Verdicts of time: better or worse where the whole {units.percent(thresholds.CONFIDENCE)} interval of the ratio lies outside a"
        f" band of at least {units.percent(time.floor)} (Welch, on logarithms of {thresholds.FEWEST} trial medians or more, at"
        f" {units.percent(thresholds.FALSE_DISCOVERIES)} false discoveries over all rows); same where shown to differ by less than"
        f" {units.percent(thresholds.MARGIN)}.",
        f"Verdicts of memory: ranges over trials apart by more than {units.percent(memory.floor)} and {units.size(memory.amount)}, or,"
        f" where neither side varies, by more than {units.size(thresholds.EXACT_RESOLUTION)}.",
        "Limits: a trial that meets heat or a power brake is measured again; more than the data sheet allows is invalid.",
    )


def measured_by(cases: Iterable[CaseSummary]) -> str:
    """The versions of the method that the rows were measured by, whatever this code's is; nothing where all are other tools'."""
    found = sorted({row.method_version for case in cases for row in case.counted} - {NO_METHOD_OF_OURS})
    return f"measuring method{'s' if len(found) > 1 else ''} {' and '.join(map(str, found))}" if found else ""


def _each(cases: Sequence[CaseSummary], axis: str, words: Mapping[str, str]) -> str:
    values = dict.fromkeys(str(case.axis(axis)) for case in cases)
    return "; ".join(words.get(value, value) for value in values) or NOT_TOLD
