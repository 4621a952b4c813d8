"""What fills a slot of a training step: it computes what plain PyTorch does, saves what it promises, or is refused in words."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from bench.catalogue import load_catalogue
from bench.catalogue.shapes import ModelShape
from bench.declare import Bound, Unsupported
from bench.records import Pass
from bench.worker.proof import judge_all, observe
from bench.worker.step import Step
from bench.workloads.qat._torchao import convert, fake_quantized
from bench.workloads.train_step import DIMS, WORKLOAD
from bench.workloads.train_step._assemble import assemble
from bench.workloads.train_step._data import make_batch
from bench.workloads.train_step._learning import compare_learning, small_spec
from bench.workloads.train_step._memory import holdings, memory_findings
from bench.workloads.train_step._step import unheard
from bench.workloads.train_step._witness import proofs
from tests.workloads.training import losses, step_of, training

SAME = [
    {"attention": "sdpa_math"},
    {"attention": "sdpa_flash"},
    {"rms_norm": "torch_native"},
    {"linear_cross_entropy": "torch_native"},
    {"linear_cross_entropy": "chunked"},
    {"optimizer": "adamw_forloop"},
    {"optimizer": "adamw_fused"},
    {"checkpointing": "full"},
    {"checkpointing": "every_second"},
    {"checkpointing": "selective"},
    {"attention": "sdpa_flash", "rms_norm": "torch_native", "linear_cross_entropy": "chunked", "checkpointing": "selective"},
]


@pytest.fixture(scope="module")
def plain() -> list[float]:
    return losses(step_of(training()), 4)


@pytest.mark.parametrize("fills", SAME, ids=lambda fills: " ".join(f"{slot}={name}" for slot, name in fills.items()))
def test_what_computes_the_same_learns_the_same(fills: dict[str, str], plain: list[float]) -> None:
    step = step_of(training(fills=fills))
    assert losses(step, 4) == pytest.approx(plain, abs=2e-6)
    assert {slot: proof.detail for slot, proof in proofs(step).items() if proof.verdict != "proved"} == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "fills",
    [
        {"rms_norm": "compiled", "rope": "compiled", "swiglu": "compiled"},
        {"compile": "layer"},
        {"compile": "model", "checkpointing": "full"},
    ],
    ids=["parts", "layer", "model"],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")  # torch's own, when it first compiles
def test_what_is_compiled_learns_the_same(fills: dict[str, str], plain: list[float]) -> None:
    step = step_of(training(fills=fills))
    assert losses(step, 4) == pytest.approx(plain, abs=2e-5)
    assert {slot: proof.detail for slot, proof in proofs(step).items() if proof.verdict != "proved"} == {}


def saved(checkpointing: str) -> float | None:
    step = step_of(training(fills={"checkpointing": checkpointing}, layers=4, seq_len=32))
    losses(step, 1)
    return memory_findings(step).get("saved_bytes")


def test_checkpointing_keeps_less_the_more_it_computes_again() -> None:
    full, second, none = (saved(name) for name in ("full", "every_second", "none"))
    assert full is not None
    assert second is not None
    assert none is not None
    assert full < second < none


def test_looking_at_memory_lets_go_of_gradients_and_tells_of_no_states_off_a_cpu() -> None:
    step = step_of(training())
    losses(step, 1)
    assert any(weight.grad is not None for weight in step.update.learned)
    found = memory_findings(step)
    assert all(weight.grad is None for weight in step.update.learned)
    assert found["state_bytes"] > 2 * found["weight_bytes"] * 0.99
    assert "state_host_bytes" not in found


def test_what_selective_checkpointing_keeps_is_not_told_since_hooks_do_not_see_it() -> None:
    assert saved("selective") is None


def test_offloading_hands_every_layers_input_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    case = training(fills={"checkpointing": "full_offloaded"})
    asked: list[dict[str, Any]] = []

    def without_pinning(**options: Any) -> Any:
        asked.append(options)
        return torch.autograd.graph.save_on_cpu()  # there is no pinned memory without an accelerator

    monkeypatch.setattr("transformers.modeling_utils.save_on_cpu", without_pinning)
    step = step_of(case)
    assert losses(step, 2) == pytest.approx(losses(step_of(training()), 2), abs=2e-6)
    assert len(asked) == 2 * step.spec.shape.layers
    assert all(options["pin_memory"] for options in asked)
    refusal = load_catalogue().implementation("checkpointing", "full_offloaded").declared_refusal(case)
    assert refusal == "full_offloaded runs on cuda, not on cpu"


def test_lora_learns_adapters_and_nothing_else() -> None:
    step = step_of(training("bf16_pure", fills={"adaptation": "lora"}))
    before = {name: weight.detach().clone() for name, weight in step.model.named_parameters()}
    losses(step, 2)
    names = {id(weight): name for name, weight in step.model.named_parameters()}
    changed = {name for name, weight in step.model.named_parameters() if not torch.equal(weight, before[name])}
    adapters = {name for name in before if "adapter_" in name}
    assert len(adapters) == 2 * 7 * step.spec.shape.layers
    assert changed == adapters
    assert {names[id(weight)] for weight in step.update.optimizer.state} == adapters
    assert all(before[name].dtype is torch.float32 for name in adapters)
    assert {weight.dtype for name, weight in before.items() if name not in adapters} == {torch.bfloat16}
    assert proofs(step)["adaptation"].verdict == "proved"


def test_qlora_keeps_the_blocks_in_half_a_byte_a_weight() -> None:
    pytest.importorskip("bitsandbytes")
    plain = step_of(training("bf16_pure", fills={"adaptation": "lora"}))
    packed = step_of(training("bf16_pure", fills={"adaptation": "lora", "linear": "nf4_bnb"}))
    losses(plain, 1)
    losses(packed, 1)
    blocks = 2 * (64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 128)
    lost = memory_findings(plain)["weight_bytes"] - memory_findings(packed)["weight_bytes"]
    assert 1.3 * blocks < lost < 1.5 * blocks  # two bytes a weight before, and half of one with its scales after
    assert proofs(packed)["linear"].verdict == "proved"


@pytest.mark.parametrize("kind", ["int4", "int8_dynamic"])
def test_a_model_that_was_trained_for_a_format_converts_to_what_it_computed(kind: str) -> None:
    pytest.importorskip("torchao")
    step = step_of(training(fills={"qat": kind}, lr=0.01))
    losses(step, 3)
    assert proofs(step)["qat"].verdict == "proved"
    inputs = make_batch(step.spec, torch.Generator().manual_seed(1))

    def hidden() -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = step.model.model(input_ids=inputs["input_ids"], use_cache=False).last_hidden_state
            return found

    trained = hidden()
    convert(step.model, kind)
    assert fake_quantized(step.model) == 0
    torch.testing.assert_close(hidden(), trained, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("fills", "words"),
    [
        ({"linear": "nf4_bnb"}, "gets no gradient"),
        ({"qat": "int4", "adaptation": "lora"}, "qat=int4 trains the weights themselves"),
        ({"qat": "int4", "linear": "float8_training_tensorwise"}, "has replaced them"),
        ({"rope": "liger", "checkpointing": "selective"}, "rope=liger writes over queries and keys"),
        ({"compile": "model", "checkpointing": "full_offloaded"}, "torch.compile cannot trace"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:20],
)
def test_what_cannot_go_together_is_refused_in_words(fills: dict[str, str], words: str) -> None:
    for package in ("bitsandbytes", "liger_kernel", "torchao"):
        pytest.importorskip(package)
    with pytest.raises(Unsupported, match=words):
        step_of(training(fills=fills))


@pytest.mark.parametrize(
    ("changes", "fills", "words"),
    [
        ({"architecture": "gemma2"}, {}, "caps the logits"),
        ({"architecture": "deepseek_v2"}, {}, "latent attention"),
        ({"architecture": "gemma3_text", "sliding_window": 8}, {"rms_norm": "torch_native"}, "multiplies by 1 \\+ weight"),
        ({"architecture": "gemma3_text", "sliding_window": 8}, {"swiglu": "compiled"}, "a GeGLU"),
        ({"architecture": "phi3"}, {"swiglu": "compiled"}, "one projection for gate and up"),
        ({"architecture": "mistral", "sliding_window": 4, "packing": "packed"}, {}, "a window of 4 tokens within documents"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:20],
)
def test_what_a_family_has_otherwise_is_refused_in_words(changes: dict[str, Any], fills: dict[str, str], words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        step_of(training(fills=fills, **changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sliding_window": 8}, "llama has no attention window here"),
        ({"architecture": "qwen3", "sliding_window": 8}, "qwen3 has no attention window here"),
        ({"architecture": "qwen2", "head_dim": 8}, "qwen2 shares its hidden size out among its heads"),
        ({"heads": 3}, r"heads \(3\) must be a multiple"),
        ({"head_dim": 15}, r"head_dim \(15\) must be even"),
        ({"vocab_size": 2}, r"vocab_size \(2\) must be at least 3"),
        ({"packing": "packed", "documents": 4, "seq_len": 4}, "documents of one token each leave nothing to be learned"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value[:20],
)
def test_sizes_that_make_no_decoder_of_a_family_are_refused_before_anything_runs(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        WORKLOAD.spec(training(**changes))


def test_a_familys_own_mlp_is_not_asked_for_the_kernels_of_another() -> None:
    case = training(architecture="gemma3_text", sliding_window=8)
    step, spec = step_of(case), WORKLOAD.spec(case)
    seen = observe(
        Step(Bound(step, prepare=step.prepare), make_batch(spec, torch.Generator().manual_seed(0)), {}, Pass.STEP), cuda=False
    )
    watched = {slot: filled for slot, filled in step.implementations.items() if slot in WORKLOAD.watched(spec)}
    assert judge_all(watched, "cpu", seen.ops, seen.kernels).verdict == "proved"
    assert "rms_norm" in watched


def family_case(name: str, **changes: Any) -> Any:
    shape: ModelShape = load_catalogue().models[name]
    return training(**{dim: shape.dims()[dim] for dim in DIMS}, **changes)


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["full", "packed"])
@pytest.mark.parametrize("name", ["llama-3.2-1b", "qwen2.5-7b", "qwen3-8b", "mistral-7b", "phi-3-mini", "gemma-3-4b"])
def test_each_family_learns_as_transformers_own_eager_model_does(name: str, packing: str) -> None:
    case = family_case(name, packing=packing)
    case = dataclasses.replace(case, subject={**case.subject, "attention": "sdpa_flash" if packing == "full" else "eager"})
    spec = small_spec(WORKLOAD.spec(case))
    torch.set_num_threads(1)
    catalogue = load_catalogue()
    implementations = {slot: catalogue.implementation(slot, filled) for slot, filled in case.subject.items()}
    step = assemble(spec, implementations, 5, torch.device("cpu"))
    (check, *others), gap = compare_learning(step, torch.Generator().manual_seed(4))
    assert check.passed, check
    assert check.error is not None
    assert check.error < 1e-5
    assert len(others) == 2
    assert all(other.error is not None and other.error < 1e-4 for other in others), others
    assert gap is not None
    assert abs(gap) < 1e-4


def test_every_weight_moves_and_every_tensor_that_stays_is_told() -> None:
    step = step_of(training("bf16_master", lr=0.01))
    before = [weight.detach().clone() for weight in step.model.parameters()]
    losses(step, 3)
    assert all(not torch.equal(weight, old) for weight, old in zip(step.model.parameters(), before, strict=True))
    held = holdings(step)
    weights = sum(weight.numel() for weight in step.model.parameters())
    assert sum(tensor.numel() for tensor in held["gradients"]) >= weights
    assert (
        sum(tensor.numel() for tensor in held["optimizer_states"] if tensor.dtype is torch.float32 and tensor.dim()) == 3 * weights
    )


def test_a_tied_embedding_is_one_weight_and_learns_from_both_ends() -> None:
    step = step_of(training(tied_embeddings=True))
    assert step.model.lm_head.weight is step.model.model.embed_tokens.weight
    assert losses(step, 2) != losses(step_of(training()), 2)


def test_a_slot_that_is_passed_by_is_disproved() -> None:
    step = step_of(training())
    layer = step.model.model.layers[1]
    layer.mlp.down_proj.forward = None
    layer.mlp.forward = lambda x: x
    losses(step, 1)
    found = proofs(step)
    assert (found["linear"].verdict, found["checkpointing"].verdict) == ("disproved", "proved")
    assert "passed by" in str(found["linear"].detail)


def test_the_modeling_module_is_as_it_was_after_a_step() -> None:
    import transformers.models.llama.modeling_llama as modeling

    own = modeling.apply_rotary_pos_emb
    step = step_of(training())
    seen: list[Any] = []

    def turn(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
        seen.append(q.shape)
        return own(q, k, cos, sin)

    step._rotation = turn
    plain = losses(step_of(training()), 1)
    assert losses(step, 1) == plain
    assert len(seen) == step.spec.shape.layers
    assert modeling.apply_rotary_pos_emb is own
    with step.running():
        step.differentiate(make_batch(step.spec, torch.Generator()), unheard)
        assert modeling.apply_rotary_pos_emb is turn
