"""DeepSpeed's configuration of a step: the whole of it is here, and everything else stays as DeepSpeed has it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bench.declare import Unsupported
from bench.workloads.offloading import Offloading
from bench.workloads.precision import Numerics

if TYPE_CHECKING:
    from bench.workloads.train_step._driver import Parts

REFUSES = ["Type (fp16|bf16) is not supported on your device"]
"""DeepSpeed's words where a device does not compute in a dtype."""
NEVER = 2**31 - 1
"""Steps between its reports."""


def configuration(parts: Parts, stage: int, *, nvme_folder: str | None) -> dict[str, Any]:
    """What `deepspeed.initialize` gets. Raises Unsupported for a precision or an offloading that this stage has not."""
    spec = parts.spec
    return {
        "train_micro_batch_size_per_gpu": spec.batch,
        "gradient_accumulation_steps": spec.accumulation,
        "gradient_clipping": spec.clip_norm,
        "steps_per_print": NEVER,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        **_precision(parts.numerics),
        "zero_optimization": {
            "stage": stage,
            **_options(parts, stage),
            **_offloading(parts.offloading, stage, pinned=parts.device.type == "cuda", folder=nvme_folder),
        },
    }


def _precision(numerics: Numerics) -> dict[str, Any]:
    if numerics == Numerics("fp32", "fp32"):
        return {}
    if numerics.master == "fp32" and numerics.weights == "bf16":
        return {"bf16": {"enabled": True}}
    if numerics.master == "fp32" and numerics.scaling == "dynamic":
        return {"fp16": {"enabled": True, "loss_scale": 0, "initial_scale_power": int(math.log2(numerics.scale))}}
    raise Unsupported(
        "DeepSpeed's engine trains in precision fp32, bf16_master or fp16_master; autocast and pure 16 bits are others'"
    )


def _options(parts: Parts, stage: int) -> dict[str, Any]:
    zero = parts.spec.zero
    if zero is None:
        return {}
    chosen: dict[str, Any] = {"reduce_bucket_size": zero.reduce_bucket, "contiguous_gradients": zero.contiguous_gradients}
    if zero.overlap_comm != "default":
        chosen["overlap_comm"] = zero.overlap_comm == "on"
    if stage == 3:
        chosen |= {
            "stage3_prefetch_bucket_size": zero.prefetch_bucket,
            "stage3_param_persistence_threshold": zero.persistence_threshold,
        }
    else:
        chosen["allgather_bucket_size"] = zero.gather_bucket
    return chosen


def _offloading(offloading: Offloading, stage: int, *, pinned: bool, folder: str | None) -> dict[str, Any]:
    """Buffers stay DeepSpeed's; memory is pinned where there is a device to copy to."""
    if offloading.states == "none":
        return {}
    if offloading.states not in ("cpu", "nvme"):
        raise Unsupported(f"zero{stage} moves states itself; {offloading.where} needs {offloading.by}")
    if stage == 0 or (stage < 3 and (offloading.parameters != "none" or offloading.states == "nvme")):
        raise Unsupported(
            f"zero{stage} does not move {offloading.where}; {'zero1 to zero3 move states' if not stage else 'zero3 does'}"
        )
    section: dict[str, Any] = {"offload_optimizer": {"device": offloading.states, "pin_memory": pinned}}
    if folder is not None:
        section["offload_optimizer"]["nvme_path"] = folder
    if offloading.parameters != "none":
        section["offload_param"] = {"device": offloading.parameters, "pin_memory": pinned}
    return section
