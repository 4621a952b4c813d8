"""What one profiled step says of attention, of the model's modules and of Liger's kernels."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from bench.audited import AttentionKernel, Checkpointing, LigerPiece, ModuleClass
from bench.worker.audit.attention_kinds import EAGER_OPERATORS, is_eager, kind_of_kernel
from bench.worker.audit.marks import Marks
from bench.worker.audit.scene import Scene, class_of, defined_in, forward_of, package_of
from bench.worker.audit.timeline import Operator, Timeline

MOST_NAMES = 8
LONGEST_NAME = 120
MOST_CLASSES = 60
_LIGER = "liger_kernel"
_LIGER_KERNELS: Mapping[str, str] = {
    "rms_norm": "rms_norm_forward_kernel",
    "layer_norm": "layer_norm_forward_kernel",
    "rope": "_triton_rope",
    "swiglu": "swiglu_forward_kernel",
    "geglu": "geglu_tanh_forward_kernel",
    "cross_entropy": "liger_cross_entropy_kernel",
    "fused_linear_cross_entropy": "liger_cross_entropy_kernel",
}
"""Piece to a part of its kernel's name."""


def attention_kernels(scene: Scene, marks: Marks, timeline: Timeline) -> tuple[AttentionKernel, ...]:
    """Each way in which attention was computed in the step, the one of most modules first."""
    of_module = _by_module(scene, marks, timeline) if marks.watches_modules else {}
    counts: dict[str, int] = defaultdict(int)
    for kind in of_module.values():
        counts[kind] += 1
    found: dict[str, list[Operator]] = defaultdict(list)
    for operator in timeline.operators:
        if operator.attention is not None:
            found[operator.attention].append(operator)
        elif of_module.get(operator.module if operator.module is not None else -1) in ("eager", "unknown"):
            kind = of_module[operator.module]  # type: ignore[index]
            if kind == "unknown" or EAGER_OPERATORS.search(operator.name):
                found[kind].append(operator)
    unclaimed: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, ns in timeline.unclaimed:
        if (kind_named := kind_of_kernel(name)) is not None:
            unclaimed[kind_named].append((name, ns))
    rows = [
        _row(kind, counts.get(kind, 0), found.get(kind, []), unclaimed.get(kind, []), timeline)
        for kind in dict.fromkeys((*counts, *found, *unclaimed))
    ]
    return tuple(sorted(rows, key=lambda row: (-row.modules, -row.time_s)))


def _row(
    kind: str, modules: int, operators: list[Operator], unclaimed: list[tuple[str, int]], timeline: Timeline
) -> AttentionKernel:
    ns = sum(operator.time_ns(timeline.cuda) for operator in operators) + sum(time for _, time in unclaimed)
    kernels = [name for operator in operators for name, _ in operator.kernels] + [name for name, _ in unclaimed]
    telling = [name for name in kernels if kind_of_kernel(name) is not None]
    names = [operator.name for operator in operators if operator.outermost] or [operator.name for operator in operators]
    calls = sum(operator.outermost for operator in operators)
    if kind == "eager":
        calls = sum(operator.name in ("aten::_softmax", "aten::_safe_softmax") for operator in operators)
    shown = [_short(name) for name in dict.fromkeys((*names, *(telling or kernels)))]
    return AttentionKernel(
        kind, modules, calls, tuple(shown[:MOST_NAMES]), ns * 1e-9, ns / timeline.total_ns if timeline.total_ns else 0.0
    )


def _by_module(scene: Scene, marks: Marks, timeline: Timeline) -> dict[int, str]:
    """Number of each watched attention that ran to how it computed."""
    attention = {number for number, module in enumerate(marks.watched) if scene.roles[id(module)] == "attention"}
    names: dict[int, list[str]] = defaultdict(list)
    kinds: dict[int, str] = {}
    for operator in timeline.operators:
        if operator.module in attention and operator.phase != "backward":
            names[operator.module].append(operator.name)
            if operator.attention is not None:
                kinds.setdefault(operator.module, operator.attention)
    for number, seen in names.items():
        if number not in kinds:
            kinds[number] = "eager" if is_eager(seen) else "unknown"
    return kinds


def module_classes(scene: Scene, marks: Marks | None, timeline: Timeline | None) -> tuple[ModuleClass, ...]:
    """The model's modules by class, role and whose code their forward is; of most time first."""
    watches = marks is not None and marks.watches_modules
    times: dict[int, int] = defaultdict(int)
    if timeline is not None:
        for operator in timeline.operators:
            if operator.module is not None:
                times[operator.module] += operator.time_ns(timeline.cuda)
    numbers = {id(module): number for number, module in enumerate(marks.watched)} if marks is not None else {}
    groups: dict[tuple[str, str, str, str], list[nn.Module]] = defaultdict(list)
    for module in scene.root.modules():
        role = scene.roles.get(id(module), "other")
        kind = class_of(module)
        package = package_of(kind.__module__)
        if role == "other" and package in ("torch", "peft", "deepspeed"):
            continue
        groups[kind.__name__, role, package, defined_in(forward_of(module)) or package].append(module)
    rows = []
    for (name, role, package, forward), modules in groups.items():
        watched = watches and any(id(module) in numbers for module in modules)
        ns = sum(times[numbers[id(module)]] for module in modules if id(module) in numbers)
        called = sum(id(module) in marks.called for module in modules) if watches and marks is not None else None
        timed = watched and timeline is not None and timeline.total_ns > 0
        share = ns / timeline.total_ns if timed and timeline is not None else None
        rows.append(ModuleClass(name, role, package, forward, len(modules), called, ns * 1e-9 if timed else None, share))
    rows.sort(key=lambda row: (-(row.time_s or 0.0), -row.instances))
    return tuple(rows[:MOST_CLASSES])


def checkpointing(scene: Scene, marks: Marks | None) -> Checkpointing:
    """Which layers ran again in the backward, and how many say that they would."""
    watches = marks is not None and marks.watches_modules
    enabled = sum(bool(getattr(layer, "gradient_checkpointing", False)) for layer in scene.layers)
    return Checkpointing(
        layers=len(scene.layers),
        layer_class=class_of(scene.layers[0]).__name__ if scene.layers else None,
        recomputed=len(marks.recomputed) if watches and marks is not None else None,
        enabled=enabled,
        reentrant=marks.reentrant if marks is not None else None,
    )


def liger_pieces(scene: Scene, kernels: Iterable[str] | None) -> tuple[LigerPiece, ...]:
    """Where Liger's kernels could stand in this model and where they do; nothing where the process did not load Liger.

    `kernels`: names of what the device ran; None where that cannot be seen.
    """
    if _LIGER not in sys.modules:
        return ()
    seen = list(kernels) if kernels is not None else None
    rows = []
    for piece, applied, plain in _liger_places(scene):
        ran = any(_LIGER_KERNELS[piece] in name for name in seen) if seen is not None else None
        if applied or plain:
            rows.append(LigerPiece(piece, len(applied), len(applied) + len(plain), tuple(dict.fromkeys(plain)), ran))
    return tuple(rows)


def _liger_places(scene: Scene) -> Iterable[tuple[str, list[str], list[str]]]:
    """(piece, names of what is Liger's, names of what is plain), one name a place."""
    by_piece: dict[str, tuple[list[str], list[str]]] = {piece: ([], []) for piece in _LIGER_KERNELS}

    def put(piece: str, name: str, applied: bool) -> None:
        by_piece[piece][0 if applied else 1].append(name)

    for module in scene.model.modules():
        name = class_of(module).__name__
        ours = defined_in(forward_of(module)) == _LIGER
        role = scene.roles.get(id(module))
        if role == "norm":
            put("rms_norm" if "rms" in name.lower() else "layer_norm", name, ours)
        elif role == "mlp" and any(child is not None for child in module._modules.values()):
            put("geglu" if _is_gelu(module) else "swiglu", name, ours)
        elif role == "attention":
            rotates = getattr(sys.modules.get(class_of(module).__module__), "apply_rotary_pos_emb", None)
            if rotates is not None:
                put("rope", rotates.__name__, defined_in(rotates) == _LIGER)
    outer = next((module for module in scene.model.modules() if hasattr(module, "get_output_embeddings")), None)
    if outer is not None and scene.head is not None:
        fused = defined_in(forward_of(outer)) == _LIGER
        put("fused_linear_cross_entropy", f"{class_of(outer).__name__}.forward", fused)
        if not fused:
            put("cross_entropy", "torch.nn.functional.cross_entropy", defined_in(nn.functional.cross_entropy) == _LIGER)
    return [(piece, *places) for piece, places in by_piece.items()]


def _is_gelu(module: nn.Module) -> bool:
    """Whether a feed-forward's activation is a GELU, by its own word or its config's."""
    activation: Any = getattr(module, "act_fn", None) or getattr(module, "activation_fn", None) or getattr(module, "act", None)
    name = getattr(activation, "__name__", type(activation).__name__).lower()
    return "gelu" in name


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
