"""What is there from step to step, and what the update adds: weights, states, copies, inputs, workspaces of libraries."""

from __future__ import annotations

from dataclasses import dataclass

from bench.plan.dims import Dims
from bench.plan.optimizers import States, states
from bench.plan.spec import ModelSpec, TrainSpec
from bench.plan.terms import HOST, Away, Moment, Term
from bench.plan.weights import Weight, kept_bytes, weights

CUBLAS_BYTES = 32 * 2**20
"""PyTorch's workspace for each handle and stream of cuBLAS on compute capability 9 and above (CublasHandlePool)."""
CUBLAS_BYTES_BEFORE_9 = 8_519_680
"""On those below it: two of 4096 KiB and eight of 16 KiB."""
CUBLAS_HANDLES = 2
"""The main thread's and that of autograd's."""
ANY = "forward"


@dataclass(frozen=True, slots=True)
class Residents:
    """Terms that last longer than a micro-batch."""

    terms: tuple[Term, ...]
    """Alive between two steps."""
    gradients: tuple[Term, ...]
    """Of all that learns, once the backward is done."""
    update: tuple[Term, ...]
    """Made by the update itself."""
    master_gradients: tuple[Term, ...]
    """fp32 gradients of a master copy, which take the place of `gradients`."""
    last_gradient: tuple[Term, ...]
    """The last of `gradients`, still there when the last fp32 one is made."""
    away: tuple[Away, ...]
    """Off the device."""

    def updates(self) -> list[Moment]:
        """The moments from the end of the backward on; their terms still have the phases that they are known by."""
        ready = (*self.terms, *(self.master_gradients or self.gradients))
        moments = {"update": (*ready, *self.update), "gradients cast for the master copy": (*ready, *self.last_gradient)}
        return [Moment(name, "optimizer", tuple(term for term in alive if term.size_bytes)) for name, alive in moments.items()]


def residents(model: ModelSpec, train: TrainSpec, dims: Dims, *, workspace_bytes: int) -> Residents:
    """On one device that holds all of it, with so many bytes for each handle of cuBLAS; 0 where there is no CUDA."""
    cuda = workspace_bytes > 0
    every = weights(model, train)
    learned = [weight for weight in every if weight.learns]
    updated = train.master_bytes or (train.weight_bytes if train.adaptation == "full" else 4)
    kept = states(train.optimizer, learned, updated, device_steps=cuda and train.optimizer == "adamw_fused")
    elements = sum(weight.total for weight in learned)
    terms = [
        *(_kept(weight, train) for weight in every),
        Term("rotary frequencies", ANY, "parameters", 2 * 4 * (model.head_dim // 2), "2·4·d/2", "LlamaRotaryEmbedding's buffers"),
        *_masters(train, elements),
        Term(
            "optimizer states", ANY, "optimizer_states", kept.device_bytes, kept.formula, f"the slot optimizer: {train.optimizer}"
        ),
        *of_tokens(train, dims),
    ]
    if cuda:
        formula = f"{CUBLAS_HANDLES}·{workspace_bytes / 2**20:g} MiB"
        terms.append(Term("cuBLAS workspaces", ANY, "other_residents", CUBLAS_HANDLES * workspace_bytes, formula,
                          "PyTorch's workspace per handle and stream"))  # fmt: skip
    return Residents(
        tuple(terms),
        _gradients(learned),
        _update(kept, train),
        _master_gradients(train, elements),
        _last_gradient(train, learned[-1]),
        away=paged(kept, train),
    )


def paged(kept: States, train: TrainSpec) -> tuple[Away, ...]:
    """States that are taken to lie on the host because their pages can."""
    source = f"the slot optimizer: {train.optimizer}"
    return (Away("paged states", HOST, kept.host_bytes, kept.formula, source),) if kept.host_bytes else ()


def updated_on_host(train: TrainSpec, kept: States) -> tuple[Away, ...]:
    """An optimizer's states where they have left the GPU, and what its update makes of them there."""
    source = f"the slot optimizer: {train.optimizer}"
    moments = Away("optimizer states", HOST, kept.device_bytes, kept.formula, source)
    return (moments, Away("update", HOST, kept.update_bytes, kept.update_formula, source)) if kept.update_bytes else (moments,)


def of_tokens(train: TrainSpec, dims: Dims) -> tuple[Term, ...]:
    """The terms that grow with the tokens; no sharding divides them or moves them away."""
    size = 2 * 8 * dims.values["t"] * train.accumulation + 8 * train.seq_len
    formula = "2·8·t·accumulation + 8·s"
    return (Term("tokens and labels", ANY, "inputs", size, formula, "int64 tokens, labels and positions"), *_masks(train, dims))


def _kept(weight: Weight, train: TrainSpec) -> Term:
    size = kept_bytes(weight, train.linear)
    shape = "·".join(str(side) for side in weight.shape)
    formula = f"{weight.count} of {shape}"
    source = f"the slot linear: {train.linear}" if weight.matrix and train.linear != "plain" else "the model's sizes"
    return Term(f"weights: {weight.name}", ANY, "parameters", size * weight.count, formula, source)


def _copies(train: TrainSpec) -> bool:
    """Whether there is a master copy apart: adapters are fp32 already, and their copy in that dtype is they themselves."""
    return bool(train.master_bytes) and train.adaptation == "full"


def _masters(train: TrainSpec, elements: int) -> list[Term]:
    if not _copies(train):
        return []
    return [Term("master copy", ANY, "optimizer_states", train.master_bytes * elements, "4 bytes a weight", "the slot precision")]


def _masks(train: TrainSpec, dims: Dims) -> list[Term]:
    if train.attention != "eager":
        return []
    return [
        Term(
            "mask, added to scores", ANY, "other_residents", dims.size("e·s·s"), "e·s·s", "the slot attention: eager makes it once"
        )
    ]


def _gradients(learned: list[Weight]) -> tuple[Term, ...]:
    return tuple(
        Term(f"gradients: {weight.name}", ANY, "gradients", weight.total * weight.element_bytes, f"{weight.count} of {weight.elements}",
             "a gradient has its weight's dtype")
        for weight in learned
    )  # fmt: skip


def _master_gradients(train: TrainSpec, elements: int) -> tuple[Term, ...]:
    if not _copies(train):
        return ()
    size = train.master_bytes * elements
    return (Term("gradients of the master copy", ANY, "gradients", size, "4 bytes a weight", "the slot precision"),)


def _last_gradient(train: TrainSpec, last: Weight) -> tuple[Term, ...]:
    if not _copies(train):
        return ()
    size = last.elements * last.element_bytes
    return (Term("last gradient before its cast", ANY, "gradients", size, f"{last.elements}", "the slot precision"),)


def _update(kept: States, train: TrainSpec) -> tuple[Term, ...]:
    source = f"the slot optimizer: {train.optimizer}"
    return (Term("update", ANY, "temporaries", kept.update_bytes, kept.update_formula, source),)
