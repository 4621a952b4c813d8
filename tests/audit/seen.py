"""What a probe reports of a training in which all is well, with every part that a test may change."""

from __future__ import annotations

import dataclasses
from typing import Any

from bench.audit.finding import Finding
from bench.audit.findings import findings
from bench.audit.whole import Audit, put_together
from bench.audited import (
    ATTENTION_KINDS,
    AttentionKernel,
    Audited,
    Cause,
    Checkpointing,
    Data,
    Device,
    Ended,
    LigerPiece,
    Memory,
    Model,
    Optimizer,
    Precision,
    Sharding,
    Steps,
    Tensors,
)

GIB = 2**30
ELEMENTS = 1_235_814_400
CONFIG = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "tie_word_embeddings": True, "attn_implementation": "eager",
    "use_cache": True,
}  # fmt: skip


def tensors(dtype: str = "bfloat16", elements: int = ELEMENTS, *, what: str = "", place: str = "cuda") -> Tensors:
    size = {"float32": 4, "bfloat16": 2, "float16": 2, "uint8": 1}[dtype]
    return Tensors(dtype=dtype, place=place, tensors=146, elements=elements, bytes=elements * size, what=what)


def attention(kind: str = "eager", *, modules: int = 16, share: float = 0.2) -> AttentionKernel:
    assert kind in ATTENTION_KINDS
    return AttentionKernel(kind=kind, modules=modules, calls=modules, names=(kind,), time_s=0.02, share=share)


def liger(piece: str, applied: int, places: int, *, ran: bool | None = True) -> LigerPiece:
    return LigerPiece(piece, applied, places, () if applied == places else ("LlamaRMSNorm",), ran)


OPTIMIZER = Optimizer(
    class_name="AdamW",
    package="torch",
    instances=1,
    groups=2,
    options={"lr": 1e-5},
    elements=ELEMENTS,
    states=(tensors(what="exp_avg"), tensors(what="exp_avg_sq")),
    foreach=True,
    fused=False,
)
MEMORY = Memory(
    device="cuda",
    peak_bytes=30 * GIB,
    phase="backward",
    causes=(Cause("saved_activations", 18 * GIB), Cause("parameters", 12 * GIB)),
    temporaries=(),
    phase_peaks={"forward": 20 * GIB, "backward": 30 * GIB, "optimizer": 16 * GIB},
    reserved_bytes=31 * GIB,
    since_start_bytes=30 * GIB,
    allocator_retries=0,
    out_of_memories=0,
    pinned_bytes=0,
)
STEPS = Steps(
    asked=20,
    seen=20,
    counted_by="AdamW",
    warmup_s=(1.9, 0.31, 0.3),
    profiled_s=(0.9, 2.2),
    timed_s=tuple(0.5 + 0.001 * number for number in range(15)),
    micro_batches=1.0,
    tokens=8192.0,
    batch_shapes=((2, 4096),),
)
MODEL = Model(
    class_name="LlamaForCausalLM",
    wrappers=(),
    parameters=(tensors(),),
    trained_elements=ELEMENTS,
    elements=ELEMENTS,
    config=CONFIG,
    layers=16,
    vocab_size=128256,
)
WELL = Audited(
    version=1,
    pid=4711,
    rank=0,
    world_size=1,
    started_s=1.0,
    script="train.py",
    launched_by=(),
    versions={"python": "3.11.7", "torch": "2.13.0", "transformers": "5.17.0"},
    frameworks=("transformers.Trainer",),
    asked={"bf16": False},
    environment={},
    ended=Ended("stopped"),
    device=Device(name="NVIDIA H200", kind="cuda", capability="9.0"),
    model=MODEL,
    gradients=(tensors(),),
    optimizers=(OPTIMIZER,),
    precision=Precision(autocast_dtype=None, matmul_inputs={"bfloat16": 1.0}, float32_matmul="highest"),
    attention=(attention(),),
    checkpointing=Checkpointing(layers=16, layer_class="LlamaDecoderLayer", recomputed=0, enabled=0),
    sharding=Sharding(kind="none", world_size=1),
    steps=STEPS,
    data=Data(wait_share=0.02, workers=2, pin_memory=True, padding_share=0.01, batches_seen=20),
    memory=MEMORY,
)


def report(**changes: Any) -> Audited:
    """The report of the well-doing training with some parts otherwise; `config` is laid over the model's."""
    config = changes.pop("config", None)
    made = dataclasses.replace(WELL, **changes)
    if config is not None and made.model is not None:
        made = dataclasses.replace(made, model=dataclasses.replace(made.model, config={**made.model.config, **config}))
    return made


def audit(*ranks: Audited, status: int = 0, exit_words: str = "exit status 0", **changes: Any) -> Audit:
    """Of these reports, or of one with `changes`."""
    return put_together(ranks or (report(**changes),), command="python train.py", status=status, ended=exit_words, steps_asked=20)


def found(name: str, *ranks: Audited, **changes: Any) -> Finding | None:
    """The finding of this name, where there is one."""
    return next((one for one in findings(audit(*ranks, **changes)) if one.name == name), None)
