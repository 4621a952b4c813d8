"""What the losses of learning from preferences are, from hidden states on: inputs, semantics, reference, cost.

    logp[s, t] = log softmax over v of <hidden[s, t], weight[v]>, at v = labels[s, t];  a label of -100 is no part of the answer
    total[s] = sum over t of logp[s, t],   mean[s] = total[s] / (number of answer tokens),   ratio[s] = total[s] - that of the reference
    (w, l): a pair of chosen and rejected answers; all chosen ones come first, then the rejected in the same order

    dpo    mean over pairs of -log sigmoid(0.1 (ratio[w] - ratio[l]))         Rafailov et al. 2023, arXiv:2305.18290, equation 7
    orpo   -(mean of logp over all tokens of chosen answers) + mean over pairs of
           -0.1 log sigmoid(odds[w] - odds[l]), odds = mean - log(1 - exp(mean))    Hong et al. 2024, arXiv:2403.07691, equations 6, 7
    simpo  mean over pairs of -log sigmoid(2 (mean[w] - mean[l]) - 1)         Meng et al. 2024, arXiv:2405.14734, equation 6
    grpo   mean over answers of the mean over their tokens of                 Shao et al. 2024, arXiv:2402.03300, equations 3, 4
           -advantage[s] exp(logp - stopped logp) + 0.04 (exp(d) - d - 1),  d = reference logp - logp

grpo is its first update after sampling: the policy is the one that sampled, so ratios are 1, with a gradient, and nothing is clipped.
Its answers are no pairs.

hidden is (sequences, seq_len, hidden_size), weight (vocab_size, hidden_size), both with gradients; labels (sequences, seq_len) int64,
of which each sequence ignores a prompt of random length at its front. What only one loss reads are constants after them: dpo the
reference's hidden states and weight, of the same shapes, from which its answers' totals are computed in the loss; grpo `advantages`
(sequences,) and `reference_logp` (sequences, seq_len), both fp32. The slot is fn(hidden, weight, labels, *constants) -> scalar, which
`bind` takes to fp32.

Cost: one matrix product forward, and one more for dpo's reference, two backward, each 2 * tokens * hidden_size * vocab_size; prompts
count, since all compute them. Bytes are the least: each input once, each gradient once where it is asked for, however many passes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal, torch_dtype
from bench.records import Case, Cost, Pass
from bench.workloads.cross_entropy._labels import IGNORED
from bench.workloads.cross_entropy._overwritten import scalar

if TYPE_CHECKING:
    import torch

LOSSES = ("dpo", "orpo", "simpo", "grpo")

DPO_BETA = 0.1
ORPO_LAMBDA = 0.1
SIMPO_BETA, SIMPO_GAMMA = 2.0, 1.0
GRPO_BETA = 0.04

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "dpo": ("reference_hidden", "reference_weight"),
    "orpo": (),
    "simpo": (),
    "grpo": ("advantages", "reference_logp"),
}
"""The constants that a loss reads beside the labels, in the order of the slot's arguments."""

SMALL_SEQUENCES, SMALL_LENGTH, SMALL_HIDDEN = 4, 24, 128


@dataclass(frozen=True, slots=True)
class PreferenceSpec:
    """hidden (sequences, seq_len, hidden_size) and weight (vocab_size, hidden_size) in `dtype`; half of the sequences are chosen."""

    loss: str
    """One of `LOSSES`."""
    sequences: int
    seq_len: int
    hidden_size: int
    vocab_size: int
    prompt: float
    """Mean share of a sequence that is prompt; each sequence's own is between none and twice as much."""
    dtype: str
    training: bool = True
    """False where no gradient will be asked for."""
    of_sequences: int | None = None
    """Over how many sequences means are taken where it is not over its own: in a part of a larger problem."""


class PreferenceLoss(Workload):
    name = "preference_loss"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"preference_loss": SlotKind.FUNCTION}
    params = (
        Param("loss", str, choices=LOSSES, default="dpo", description="which loss"),
        Param("seq_len", int, minimum=2, description="tokens per sequence, prompt and answer"),
        Param("batch", int, default=2, minimum=2, description="sequences: an even number, chosen and rejected together"),
        Param("prompt", float, default=0.25, minimum=0.0, below=0.5, description="mean share of a sequence that is prompt"),
    )
    dims = ("hidden_size", "vocab_size")
    constants = frozenset({"labels", *(name for names in EXTRAS.values() for name in names)})

    def spec(self, case: Case) -> PreferenceSpec:
        params: Mapping[str, Any] = case.params
        if int(params["batch"]) % 2:
            raise ValueError(f"batch ({params['batch']}) must be even: as many chosen as rejected sequences")
        return PreferenceSpec(
            loss=str(params["loss"]),
            sequences=int(params["batch"]),
            seq_len=int(params["seq_len"]),
            hidden_size=int(params["hidden_size"]),
            vocab_size=int(params["vocab_size"]),
            prompt=float(params["prompt"]),
            dtype=case.dtype,
            training=case.pass_.differentiates,
        )

    def cost(self, spec: PreferenceSpec, pass_: Pass) -> Cost:
        """FLOPs and bytes by the essay above."""
        tokens = spec.sequences * spec.seq_len
        product = 2 * tokens * spec.hidden_size * spec.vocab_size
        model = (tokens + spec.vocab_size) * spec.hidden_size * dtype_bytes(spec.dtype)
        forward = 2 if spec.loss == "dpo" else 1
        constants = 8 * tokens + (4 * (tokens + spec.sequences) if spec.loss == "grpo" else 0)
        flops = {Pass.FORWARD: forward, Pass.BACKWARD: 2, Pass.FORWARD_BACKWARD: forward + 2}
        models = {Pass.FORWARD: forward, Pass.BACKWARD: 2, Pass.FORWARD_BACKWARD: forward + 1}
        return Cost(flops=flops[pass_] * product, bytes=models[pass_] * model + constants, tokens=tokens)

    def small_spec(self, spec: PreferenceSpec) -> PreferenceSpec:
        """Two pairs of short sequences, short hidden states, and the whole vocabulary."""
        return dataclasses.replace(
            spec,
            sequences=min(spec.sequences, SMALL_SEQUENCES),
            seq_len=min(spec.seq_len, SMALL_LENGTH),
            hidden_size=min(spec.hidden_size, SMALL_HIDDEN),
        )

    def make_inputs(self, spec: PreferenceSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        dtype, sequences = torch_dtype(spec.dtype), (spec.sequences, spec.seq_len)
        shapes = {"hidden": (*sequences, spec.hidden_size), "weight": (spec.vocab_size, spec.hidden_size)}
        inputs = {name: torch.empty(shape, dtype=dtype, device=device) for name, shape in shapes.items()}
        inputs["labels"] = torch.empty(sequences, dtype=torch.int64, device=device)
        if spec.loss == "dpo":
            inputs |= {f"reference_{name}": torch.empty_like(inputs[name]) for name in shapes}
        elif spec.loss == "grpo":
            inputs["advantages"] = torch.empty(spec.sequences, device=device)
            inputs["reference_logp"] = torch.empty(sequences, device=device)
        self.redraw(spec, inputs, generator)
        return inputs

    def redraw(self, spec: PreferenceSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        import torch

        with torch.no_grad():
            for name, tensor in inputs.items():
                if tensor.is_floating_point():
                    fill_normal(tensor, generator)
                if name.endswith("weight"):
                    tensor.mul_(1.0 / math.sqrt(spec.hidden_size))
            if spec.loss == "grpo":
                # About what the policy gives: logits are normal.
                inputs["reference_logp"].sub_(math.log(spec.vocab_size) + 0.5)
        _draw_answers(inputs["labels"], spec, generator)

    def bind(self, spec: PreferenceSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        loss = built["preference_loss"]
        names = ("hidden", "weight", "labels", *EXTRAS[spec.loss])
        return Bound(lambda inputs: {"loss": scalar(loss(*(inputs[name] for name in names)))})

    def reference(
        self, spec: PreferenceSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        labels = inputs["labels"]
        answer = labels != IGNORED
        logp = _logp(inputs["hidden"], inputs["weight"], labels)
        totals, lengths = logp.sum(-1), answer.sum(-1)
        part = spec.sequences / (spec.of_sequences or spec.sequences)
        if spec.loss == "grpo":
            return {"loss": part * _grpo(logp, answer, inputs["advantages"], inputs["reference_logp"])}
        if spec.loss == "dpo":
            ratios = totals - _logp(inputs["reference_hidden"], inputs["reference_weight"], labels).sum(-1)
            return {"loss": -_log_sigmoid(DPO_BETA * _margin(ratios)).mean()}
        means = totals / lengths
        if spec.loss == "simpo":
            return {"loss": part * -_log_sigmoid(SIMPO_BETA * _margin(means) - SIMPO_GAMMA).mean()}
        odds = means - (1.0 - means.exp()).log()
        chosen = len(totals) // 2
        likelihood = -totals[:chosen].sum() / lengths[:chosen].sum()
        return {"loss": likelihood - ORPO_LAMBDA * _log_sigmoid(_margin(odds)).mean()}

    def slice(self, spec: PreferenceSpec) -> tuple[PreferenceSpec, Pick] | None:
        """For simpo and grpo the gradient of the last pair's hidden states: it depends on no other pair but for how many there are.

        Loss and gradient of the weight are means over all and have no part. None for orpo, which divides by the tokens of all chosen
        answers, and for dpo, whose margin of whole sums has one rounding error that scales the whole gradient of its pair: a single
        draw, which says nothing about another. There everything must be finite at the measured shape.
        """
        if spec.loss not in ("simpo", "grpo"):
            return None
        half = spec.sequences // 2

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            if name in ("loss", "grad_weight"):
                return None
            return tensor if name.endswith("weight") else tensor[half - 1 :: half]

        return dataclasses.replace(spec, sequences=2, of_sequences=spec.sequences), pick


def _draw_answers(labels: torch.Tensor, spec: PreferenceSpec, generator: torch.Generator) -> None:
    """Words of the vocabulary, each as likely, after prompts that are ignored; every sequence keeps an answer."""
    import torch

    device = generator.device
    drawn = torch.randint(spec.vocab_size, labels.shape, generator=generator, device=device)
    longest = min(int(2.0 * spec.prompt * spec.seq_len), spec.seq_len - 1)
    prompts = torch.randint(longest + 1, (spec.sequences, 1), generator=generator, device=device)
    drawn[torch.arange(spec.seq_len, device=device) < prompts] = IGNORED
    labels.copy_(drawn)


def _logp(hidden: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """(sequences, seq_len): log-probabilities of the labels in fp32 at least, 0 where a label is ignored."""
    import torch

    logits = hidden @ weight.t()
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    of_label = logits.gather(-1, labels.clamp(min=0)[..., None])[..., 0] - logits.logsumexp(-1)
    return of_label * (labels != IGNORED)


def _margin(scores: torch.Tensor) -> torch.Tensor:
    chosen = len(scores) // 2
    return scores[:chosen] - scores[chosen:]


def _log_sigmoid(x: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.nn.functional.logsigmoid(x)


def _grpo(logp: torch.Tensor, answer: torch.Tensor, advantages: torch.Tensor, reference_logp: torch.Tensor) -> torch.Tensor:
    ratio = (logp - logp.detach()).exp()
    behind = reference_logp - logp
    terms = -advantages[:, None] * ratio + GRPO_BETA * (behind.exp() - behind - 1.0)
    return ((terms * answer).sum(-1) / answer.sum(-1)).mean()


WORKLOAD = PreferenceLoss()
