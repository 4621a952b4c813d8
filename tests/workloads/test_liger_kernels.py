"""Each Liger implementation is known by the names of its own Triton kernels, as the installed package has them, and by no other's."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest

from bench.catalogue import load_catalogue, missing_requirements

SLOTS = ("rms_norm", "layer_norm", "fused_add_rms_norm", "rope", "swiglu", "geglu")
_KERNEL = re.compile(r"^@triton\.jit\n(?:@.*\n)*def (\w+)\(", re.MULTILINE)


def kernels_of(slot: str) -> list[str]:
    """The names of the kernels in Liger's module of the slot, read from its source: importing it needs seconds."""
    files = importlib.metadata.files("liger-kernel") or []
    (found,) = [file for file in files if str(file) == f"liger_kernel/ops/{slot}.py"]
    return _KERNEL.findall(Path(str(found.locate())).read_text())


@pytest.fixture(scope="module", autouse=True)
def _liger() -> None:
    missing = missing_requirements(load_catalogue().implementation("rms_norm", "liger"))
    if missing:
        pytest.skip("; ".join(missing))


@pytest.mark.parametrize("slot", SLOTS)
def test_a_forward_of_its_own_meets_the_pattern_and_breaks_no_ban(slot: str) -> None:
    proof = load_catalogue().implementation(slot, "liger").proof["cuda"]
    (wanted,) = proof.kernels
    own = kernels_of(slot)
    assert any(re.search(wanted, kernel) for kernel in own), own
    assert not [kernel for kernel in own for ban in proof.not_ if re.search(ban, kernel)]


@pytest.mark.parametrize("slot", SLOTS)
def test_no_other_slots_kernel_meets_it_and_no_rival_may_run_it(slot: str) -> None:
    implementations = load_catalogue().implementations(slot)
    (wanted,) = implementations["liger"].proof["cuda"].kernels
    for other in set(SLOTS) - {slot}:
        assert not [kernel for kernel in kernels_of(other) if re.search(wanted, kernel)]
    mine = next(kernel for kernel in kernels_of(slot) if re.search(wanted, kernel))
    generated = "triton_per_fused_mean_mul_pow_rsqrt_0"
    bans = implementations["compiled"].proof["cuda"].not_
    assert any(re.search(ban, mine) for ban in bans), "a Liger kernel would pass for a compiled one"
    assert any(re.search(ban, generated) for ban in implementations["liger"].proof["cuda"].not_)
    assert all(re.search(pattern, generated) for pattern in implementations["compiled"].proof["cuda"].kernels)
