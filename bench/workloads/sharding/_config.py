"""DeepSpeed's configuration of a step: the whole of it is here, everything else stays as DeepSpeed has it; and what it came to."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from bench.declare import Unsupported
from bench.records import Scalar
from bench.workloads.offloading import Offloading
from bench.workloads.precision import Numerics

if TYPE_CHECKING:
    from bench.workloads.train_step._driver import Parts

REFUSES = ["Type (fp16|bf16) is not supported on your device"]
"""DeepSpeed's words where a device does not compute in a dtype."""
NEVER = 2**31 - 1
"""Steps between its reports."""
SETTINGS = (
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "gradient_clipping",
    "prescale_gradients",
    "gradient_predivide_factor",
    "gradient_allreduce_op",
    "float16_config",
    "bfloat16_config",
    "aio_config",
)
"""Of the engine's configuration, beside ZeRO's own: what a step's numbers, bytes or time hang on. Releases lack some."""


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


def resolved(engine: Any) -> dict[str, Scalar]:
    """As JSON what DeepSpeed came to: what it was given, with its own defaults and what it has worked out.

    `deepspeed_zero`: ZeRO's settings; `deepspeed_config`: `SETTINGS`, and the dtypes it computes, sums gradients and sends in.
    """
    config = engine._config
    settings = {name: getattr(config, name) for name in SETTINGS if hasattr(config, name)}
    model, accumulated = engine.get_data_types()
    dtypes = {"model_dtype": model, "grad_accum_dtype": accumulated, "communication_data_type": engine.communication_data_type}
    return {"deepspeed_zero": _as_json(config.zero_config), "deepspeed_config": _as_json(settings | dtypes)}


def _as_json(value: Any) -> str:
    def plain(part: Any) -> Any:
        return part.model_dump(mode="json") if hasattr(part, "model_dump") else str(part)

    return json.dumps(value if isinstance(value, dict) else plain(value), sort_keys=True, default=plain)
