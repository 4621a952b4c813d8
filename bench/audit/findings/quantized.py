"""Quantized modules and adapters: how many there are, what they hold, and what is trained beside them."""

from __future__ import annotations

from collections.abc import Iterator

from bench.audit.finding import Finding, fine, look, wrong
from bench.audit.whole import Audit
from bench.report.numbers import units

SIXTEEN = ("bfloat16", "float16")


def find(audit: Audit) -> Iterator[Finding]:
    seen = audit.first
    if seen is None:
        return
    given = audit.configured("quantization") or {}
    if given and not seen.quantized:
        what = next((name for name in ("load_in_4bit", "load_in_8bit") if given.get(name)), "a quantization_config")
        yield wrong(
            "quantized",
            f"{what} is in the model's configuration, and no module is quantized",
            "only from_pretrained reads it: a model that is made from a configuration alone, or was dequantized, is not quantized",
        )
    for one in seen.quantized:
        bits = one.bytes * 8 / one.elements if one.elements else None
        width = f", {bits:.2g} bits a number" if bits is not None else ""
        twice = {True: ", scales quantized too", False: "", None: ""}[one.double_quantized]
        yield fine(
            "quantized", f"{one.modules} modules are {one.kind}: {units.size(one.bytes)}{width}{twice}",
            modules=one.modules, numbers=one.elements, held_bytes=one.bytes,
        )  # fmt: skip
        narrow = seen.precision is not None and (seen.precision.autocast_dtype or _widest(audit)) in SIXTEEN
        if one.compute_dtype == "float32" and narrow:
            yield look(
                "quantized_compute_dtype",
                f"{one.kind} modules compute in fp32 while the model computes in 16 bits",
                "bnb_4bit_compute_dtype=torch.bfloat16: fp32 is its default",
                modules=one.modules,
            )
    yield from _adapters(audit)


def _widest(audit: Audit) -> str | None:
    """The dtype of products that takes most time."""
    seen = audit.first
    found = seen.precision.matmul_inputs if seen is not None and seen.precision is not None else {}
    return max(found, key=lambda dtype: found[dtype]) if found else None


def _adapters(audit: Audit) -> Iterator[Finding]:
    seen = audit.first
    if seen is None or not seen.adapters or seen.model is None or not seen.model.elements:
        return
    trained, elements = seen.model.trained_elements, seen.model.elements
    adapters = sum(one.trained_elements for one in seen.adapters)
    numbers = {"trained_share": trained / elements, "trained": trained, "in_adapters": adapters}
    kinds = "; ".join(
        f"{one.kind} in {one.modules} modules ({', '.join(one.targets)}), rank {', '.join(map(str, one.ranks))}"
        for one in seen.adapters
    )
    if trained > 2 * adapters:
        yield look(
            "adapters",
            f"{kinds}, and {units.percent((trained - adapters) / elements)} of the model is trained beside them",
            "modules_to_save (embedding, head) train whole copies; freeze the rest if they are not meant",
            **numbers,
        )
    else:
        yield fine("adapters", f"{kinds}: {units.percent(trained / elements)} of the model is trained", **numbers)
