"""Where formulas come from, and the versions of packages that they were read off: other versions may do otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from bench.plan.spec import TrainSpec

TRACED: Mapping[str, str] = {
    "torch": ">=2.11,<2.15",
    "transformers": ">=5.17,<5.25",
    "liger-kernel": ">=0.8,<0.9",
    "bitsandbytes": ">=0.49,<0.51",
    "torchao": ">=0.17,<0.19",
    "flash-attn": ">=2.8,<2.9",
    "deepspeed": ">=0.19,<0.20",
}
"""Package to the versions whose behaviour the formulas describe."""

_SOURCES: Mapping[str, str] = {
    "attention": "traced: the slot attention within transformers' decoder layer",
    "rope": "traced: apply_rotary_pos_emb of transformers",
    "mlp": "traced: the decoder's MLP of transformers, Liger's SiLU times up",
    "layer": "traced: the decoder layer of transformers",
    "checkpoint": "torch.utils.checkpoint, non-reentrant: a layer's input is kept",
    "embedding": "traced: torch.nn.Embedding",
    "loss": "traced: the slot linear_cross_entropy",
}


def source_of(part: str) -> str:
    """Of the formulas of a part of the model."""
    return _SOURCES.get(part, "traced: RMS norm in the slot's implementation" if "norm" in part else part)


def packages(train: TrainSpec) -> tuple[str, ...]:
    """Those whose behaviour a prediction rests on."""
    names = ["torch", "transformers"]
    if "liger" in (train.rms_norm, train.rope, train.swiglu, train.linear_cross_entropy):
        names.append("liger-kernel")
    if train.optimizer.endswith("_bnb") or "_bnb" in train.linear:
        names.append("bitsandbytes")
    if train.optimizer.endswith("_ao"):
        names.append("torchao")
    if train.attention == "flash_attn2":
        names.append("flash-attn")
    if train.sharding.startswith("zero"):
        names.append("deepspeed")
    return tuple(names)


@cache
def installed_version(name: str) -> str | None:
    """Read once: a page asks for each of its cases."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def strange_versions(train: TrainSpec) -> Iterator[str]:
    """A sentence for each package that is installed here in a version which the formulas were not read off."""
    from packaging.specifiers import SpecifierSet

    for name in packages(train):
        installed = installed_version(name)
        if installed is None:
            continue  # whoever plans for another machine need not have it
        if not SpecifierSet(TRACED[name], prereleases=True).contains(installed.split("+")[0]):
            yield f"formulas were read off {name} {TRACED[name]}; here {installed} is installed, which may do otherwise"
