"""Describes how ranks share the model, and what DeepSpeed made of its configuration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import torch.distributed as dist
from torch import nn

from bench.audited import DeepSpeed, Sharding, ShardingUnit
from bench.worker.audit.asked import deepspeed_given, plain
from bench.worker.audit.scene import Scene, class_of

MOST_NAMES = 6


def ranks() -> tuple[int, int]:
    """(rank, ranks) of this process; (0, 1) where it is alone."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


def describe_sharing(scene: Scene) -> Sharding:
    world = ranks()[1]
    if scene.engine is not None:
        return Sharding("deepspeed", world)
    units = list(_fsdp2_units(scene.root))
    if units:
        return _fsdp2(units, world)
    flat = [module for module in scene.root.modules() if type(module).__name__ == "FullyShardedDataParallel"]
    if flat:
        return _fsdp1(flat, world)
    replicas = next((module for module in scene.root.modules() if type(module).__name__ == "DistributedDataParallel"), None)
    if replicas is not None:
        return Sharding("ddp", world, options=_ddp_options(replicas))
    return Sharding("none", world)


def _ddp_options(replicas: nn.Module) -> dict[str, Any]:
    names = ("find_unused_parameters", "gradient_as_bucket_view", "static_graph", "broadcast_buffers")
    cap = getattr(replicas, "bucket_bytes_cap", None)
    return plain([*((name, getattr(replicas, name, None)) for name in names), ("bucket_cap_mb", cap / 2**20 if cap else None)])


def _fsdp2_units(root: nn.Module) -> Iterator[tuple[nn.Module, list[Any]]]:
    for module in root.modules():
        if any(kind.__name__ == "FSDPModule" for kind in type(module).__mro__):
            state: Any = module._get_fsdp_state()  # type: ignore[operator]
            groups = getattr(state, "_fsdp_param_groups", None)
            if groups is None:
                groups = [state._fsdp_param_group] if state._fsdp_param_group is not None else []
            yield module, list(groups)


def _fsdp2(units: list[tuple[nn.Module, list[Any]]], world: int) -> Sharding:
    sizes: dict[tuple[str, bool], list[int]] = defaultdict(list)
    root_holds: list[tuple[int, str]] = []
    for number, (module, groups) in enumerate(units):
        held = [(parameter._orig_size.numel(), str(parameter._param_fqn)) for group in groups for parameter in group.fsdp_params]
        sizes[class_of(module).__name__, number == 0].append(sum(size for size, _ in held))
        if number == 0:
            root_holds = sorted(held, reverse=True)
    first = next((group for _, groups in units[1:] or units for group in groups), None)
    options: dict[str, Any] = {}
    if first is not None:
        options = {
            "reshard_after_forward": first.post_forward_mesh_info is not None,
            "param_dtype": getattr(first.mp_policy, "param_dtype", None),
            "reduce_dtype": getattr(first.mp_policy, "reduce_dtype", None),
            "cpu_offload": type(first.offload_policy).__name__ == "CPUOffloadPolicy",
        }
    return Sharding("fsdp2", world, _units(sizes), tuple(name for _, name in root_holds[:MOST_NAMES]), plain(options))


def _fsdp1(units: list[nn.Module], world: int) -> Sharding:
    sizes: dict[tuple[str, bool], list[int]] = defaultdict(list)
    root_holds: tuple[str, ...] = ()
    for number, module in enumerate(units):
        handle: Any = getattr(module, "_handle", None)
        flat = getattr(handle, "flat_param", None)
        inner = module._modules.get("_fsdp_wrapped_module") or module
        sizes[class_of(inner).__name__, number == 0].append(int(flat._unpadded_unsharded_size.numel()) if flat is not None else 0)
        if number == 0 and flat is not None:
            root_holds = tuple(flat._fqns[:MOST_NAMES])
    first: Any = units[0]
    mixed = getattr(first, "mixed_precision", None)
    options = {
        "sharding_strategy": getattr(getattr(first, "sharding_strategy", None), "name", None),
        "param_dtype": getattr(mixed, "param_dtype", None),
        "reduce_dtype": getattr(mixed, "reduce_dtype", None),
        "cpu_offload": bool(getattr(getattr(first, "cpu_offload", None), "offload_params", False)),
        "use_orig_params": getattr(first, "_use_orig_params", None),
    }
    return Sharding("fsdp1", world, _units(sizes), root_holds, plain(options))


def _units(sizes: Mapping[tuple[str, bool], list[int]]) -> tuple[ShardingUnit, ...]:
    return tuple(ShardingUnit(name, len(found), max(found), root) for (name, root), found in sizes.items())


def describe_deepspeed(scene: Scene) -> DeepSpeed | None:
    """None where no engine trains."""
    engine = scene.engine
    if engine is None:
        return None
    made: Any = engine._config
    zero = made.zero_config
    dumped = zero.model_dump(mode="json") if hasattr(zero, "model_dump") else {}
    resolved = {
        "zero_stage": int(engine.zero_optimization_stage()),
        "zero": {name: value for name, value in dumped.items() if isinstance(value, bool | int | float | str | dict)},
        "train_batch_size": made.train_batch_size,
        "train_micro_batch_size_per_gpu": made.train_micro_batch_size_per_gpu,
        "gradient_accumulation_steps": made.gradient_accumulation_steps,
        "gradient_clipping": made.gradient_clipping,
        "bf16": bool(engine.bfloat16_enabled()),
        "fp16": bool(engine.fp16_enabled()),
        "offload_optimizer_device": _device(zero, "offload_optimizer"),
        "offload_param_device": _device(zero, "offload_param"),
        "optimizer_class": type(engine.basic_optimizer).__name__,
        "zero_optimizer_class": type(engine.optimizer).__name__,
    }
    return DeepSpeed(deepspeed_given(scene), resolved, int(engine.skipped_steps))


def _device(zero: Any, part: str) -> str:
    device = getattr(getattr(zero, part, None), "device", "none")
    return str(getattr(device, "value", device))
