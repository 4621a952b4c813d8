"""All that a workload's or an implementation's file needs to import. Light: torch is imported only inside functions.

A folder is a question, a file is an answer. `bench/workloads/<slot>/__init__.py` holds the workload (a subclass of `Workload`, one
instance named `WORKLOAD`): what is computed, on which inputs, how it is checked and what it costs. Every other file there holds
functions decorated with `@implementation`: one way each to do it. The folder gives the slot, the function gives the name.

A builder receives its slot's own frozen spec and never a case, so one file serves alone (a micro-benchmark makes the spec from a
case) and inside a model (a training step makes it from the model's config). What a builder returns depends on the slot's kind:

    FUNCTION    fn(*tensors) -> tensor or tuple       attention, rope, losses
    MODULE      fn(module) -> module                  norms, mlp, linear: takes the plain module, returns the one that replaces it
    OPTIMIZER   fn(parameters) -> torch.optim.Optimizer
    MODEL       fn(model) -> model                    checkpointing, sharding, compile
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Never

from bench.errors import Unavailable, Unsupported
from bench.records import Case, Check, Cost, Pass, Proof, Scalar

if TYPE_CHECKING:
    import torch

__all__ = [
    "DTYPES",
    "AttentionSpec",
    "Bound",
    "Implementation",
    "NormSpec",
    "Param",
    "ProofPatterns",
    "SlotKind",
    "Unavailable",
    "Unsupported",
    "Workload",
    "dtype_bytes",
    "fill_normal",
    "implementation",
    "torch_dtype",
]

DTYPES: Mapping[str, str] = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}
"""Our name of a compute dtype to torch's name of its storage (tf32 stores fp32 and multiplies in 19 bits)."""


OWN_DTYPE = "dtype"
PRODUCTS = (OWN_DTYPE, "fp8", "int8")
"""Formats in which products may be computed: the case's dtype itself, or one that is no dtype of a case."""

DEVICES = ("cpu", "cuda", "cpu-interpreter")
"""`cpu-interpreter` runs a device's kernels on a CPU, for numbers and memory only; what runs on `cpu` runs there too."""

_OTHER_NAMES: Mapping[str, str] = {"gpu": "cuda", **{name: ours for ours, name in DTYPES.items() if ours != "tf32"}}
"""What others call a device or a dtype, to our word for it."""


def torch_dtype(name: str) -> torch.dtype:
    """torch's dtype for one of `DTYPES`; raises KeyError for another name."""
    import torch

    dtype: torch.dtype = getattr(torch, DTYPES[name])
    return dtype


def dtype_bytes(name: str) -> int:
    """Bytes of one element."""
    return {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}[DTYPES[name]]


def fill_normal(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Puts standard normal numbers into a floating-point tensor of any layout and returns it; not seen by autograd.

    They are drawn in place where the generator lives on the tensor's device, and copied there otherwise.
    """
    import torch

    with torch.no_grad():
        if generator.device.type == tensor.device.type:
            return tensor.normal_(generator=generator)
        return tensor.copy_(torch.randn(tensor.shape, generator=generator, device=generator.device))


class SlotKind(StrEnum):
    """What a slot's builder returns; see the top of this file."""

    FUNCTION = "function"
    MODULE = "module"
    OPTIMIZER = "optimizer"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class ProofPatterns:
    """Regular expressions over the names that the profiler saw during one call.

    `kernels` are device kernels (CUDA), `ops` are operators of torch's dispatcher (any device). At least one name must match each
    positive pattern and none may match a `not_` pattern (checked against kernels and ops alike).
    """

    kernels: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    not_: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Implementation:
    """One way to fill a slot. Made by `@implementation`, found by the catalogue."""

    name: str
    slot: str
    builder: Callable[[Any], Any]
    requires: tuple[str, ...]
    """PEP 508 requirements that must be installed, such as `flash-attn>=2.5`."""
    devices: tuple[str, ...]
    dtypes: tuple[str, ...]
    passes: tuple[Pass, ...]
    proof: Mapping[str, ProofPatterns]
    """Device to patterns: the same way of computing has other kernels on a CPU than on CUDA."""
    refuses: tuple[str, ...]
    """Regular expressions over a library's error message that mean "cannot", not "broke"."""
    description: str
    source: str
    """The file that declares it."""
    tolerance: float | None = None
    """Largest relative root mean square error of outputs and gradients, where it computes something else on purpose."""
    builds: tuple[str, ...] = ()
    """Operators of a library that are compiled once on a machine, before any trial that needs them."""
    multiplies_in: str | None = None
    """Of `PRODUCTS` the one that its products are computed in, where it declares a tolerance; None: it does not say."""

    def declared_refusal(self, case: Case) -> str | None:
        """Why this implementation, by its own declaration, does not run the case; None where it does."""
        if case.device.removesuffix("-interpreter") not in self.devices and case.device not in self.devices:
            return f"{self.name} runs on {', '.join(self.devices)}, not on {case.device}"
        if case.dtype not in self.dtypes:
            return f"{self.name} takes {', '.join(self.dtypes)}, not {case.dtype}"
        if case.pass_ not in self.passes:
            return f"{self.name} has the passes {', '.join(self.passes)}, not {case.pass_}"
        return None


def _folder(function: Callable[..., Any]) -> str:
    module = function.__module__.split(".")
    return module[-2] if len(module) >= 2 else ""


def _patterns(proof: Mapping[str, Any] | None) -> dict[str, ProofPatterns]:
    """`{"kernels": [...], "ops": [...], "not": [...]}`, or the same by device: `{"cpu": {...}, "cuda": {...}}`."""
    if not proof:
        return {}
    if not isinstance(proof, Mapping):
        raise TypeError(f'proof takes a mapping such as {{"kernels": [...], "ops": [...], "not": [...]}}, not {proof!r}')
    by_device = proof if set(proof) <= {"cpu", "cuda"} else {"cpu": proof, "cuda": proof}
    patterns = {}
    for device, entry in by_device.items():
        if not isinstance(entry, Mapping):
            raise TypeError(f"proof[{device!r}] takes a mapping of kernels, ops and not, not {entry!r}")
        unknown = sorted(set(map(str, entry)) - {"kernels", "ops", "not"})
        if unknown:
            raise TypeError(f"proof has no {_meant(unknown, ('kernels', 'ops', 'not'))}; it takes kernels, ops and not")
        found = {kind: _expressions(f"proof[{kind!r}]", entry.get(kind, ())) for kind in ("kernels", "ops", "not")}
        patterns[device] = ProofPatterns(found["kernels"], found["ops"], found["not"])
    return patterns


def _texts(what: str, given: Any, known: Sequence[str] = ()) -> tuple[str, ...]:
    """`given` as a tuple. Raises TypeError for a lone string, which would be taken letter by letter, and for words not in `known`."""
    if isinstance(given, str):
        raise TypeError(f"{what} takes a list: [{given!r}], not {given!r}")
    if not isinstance(given, Sequence) or not all(isinstance(text, str) for text in given):
        raise TypeError(f"{what} takes a list of strings, not {given!r}")
    if known and (unknown := sorted(set(given) - set(known))):
        raise TypeError(f"unknown {what} {_meant(unknown, known)}; known: {', '.join(known)}")
    return tuple(given)


def _meant(unknown: Sequence[str], known: Sequence[str]) -> str:
    """The unknown words, each with the known one that it may stand for."""
    told = []
    for word in unknown:
        near = [_OTHER_NAMES[word]] if _OTHER_NAMES.get(word) in known else get_close_matches(word, known, n=1)
        told.append(f"{word} (did you mean {str(near[0])!r}?)" if near else word)
    return ", ".join(told)


def _check_builder(builder: Callable[[Any], Any]) -> None:
    """Raises TypeError for what could not build anything: it would only be seen in a trial, or never."""
    if not inspect.isfunction(builder):
        what = f"the class {builder.__name__}" if inspect.isclass(builder) else f"a {type(builder).__name__}"
        raise TypeError(f"@implementation decorates a function of the slot's spec, not {what}; let a function return it")
    name = builder.__name__
    if not name.isidentifier():
        raise TypeError(f"a builder needs a name of its own, by which suites call it: write `def name(spec): ...`, and no {name}")
    if inspect.iscoroutinefunction(builder) or inspect.isgeneratorfunction(builder) or inspect.isasyncgenfunction(builder):
        raise TypeError(f"{name} is async or yields: a builder returns what it has built, as a plain `def {name}(spec)`")
    try:
        inspect.signature(builder, follow_wrapped=False).bind(None)
    except TypeError as error:
        raise TypeError(f"a builder gets its slot's spec and nothing else: write `def {name}(spec)` ({error})") from None


def _expressions(what: str, given: Any) -> tuple[str, ...]:
    expressions = _texts(what, given)
    for expression in expressions:
        try:
            re.compile(expression)
        except re.error as error:
            raise TypeError(f"{what}: {expression!r} is no regular expression: {error}") from error
    return expressions


def implementation(
    misplaced: None = None,
    /,
    *,
    requires: Sequence[str] = (),
    devices: Sequence[str] = ("cpu", "cuda"),
    dtypes: Sequence[str] = ("fp32", "bf16", "fp16"),
    passes: Sequence[str] = tuple(Pass),
    proof: Mapping[str, Any] | None = None,
    refuses: Sequence[str] = (),
    tolerance: float | None = None,
    builds: Sequence[str] = (),
    multiplies_in: str | None = None,
    workload: str | None = None,
    **unknown: Never,
) -> Callable[[Callable[[Any], Any]], Implementation]:
    """Declares the decorated builder as one way to fill the slot that its folder names (`workload` says it where there is no folder).

    Args:
        requires: PEP 508 requirements; a missing one makes the row `unavailable`.
        devices, dtypes, passes: what it can; anything else makes the row `unsupported`.
        proof: names that must (`kernels`, `ops`) and must not (`not`) appear under the profiler, for all devices or by device.
        refuses: patterns of library messages that mean `unsupported` and not `failed`.
        tolerance: relative root mean square error up to which outputs and gradients count as right, for what computes something else
            on purpose (a quantized layer). Without it the rule of `bench.worker.agreement` holds, which grants rounding only.
        builds: operators that `bench.worker.build` knows how to compile; one that cannot be makes the row `unavailable`.
        multiplies_in: of what declares a tolerance, the format of its products: `dtype` where that is the case's own, as of weights that
            are stored in few bits and unpacked. Work per second is then held against the limit of that format; without it against none.

    Raises TypeError for a string where a list belongs, for an unknown word, for a pattern that is no regular expression, for a tolerance
    that is no number above 0, for `multiplies_in` without one, and for a builder that is no named function of one spec.
    """
    if misplaced is not None:
        raise TypeError("write @implementation(...), with parentheses, and in them keywords alone, such as dtypes=[...]")
    if unknown:
        known = [name for name, entry in inspect.signature(implementation).parameters.items() if entry.kind is entry.KEYWORD_ONLY]
        raise TypeError(f"@implementation takes no {_meant(sorted(unknown), known)}; it takes {', '.join(known)}")
    if workload is not None and not isinstance(workload, str):
        raise TypeError(f"workload takes the name of a slot, not {workload!r}")
    checked_requires = _texts("requires", requires)
    checked_devices = _texts("devices", devices, DEVICES)
    checked_dtypes = _texts("dtypes", dtypes, tuple(DTYPES))
    checked_passes = tuple(Pass(name) for name in _texts("passes", passes, tuple(Pass)))
    checked_refuses = _expressions("refuses", refuses)
    checked_builds = _texts("builds", builds)
    if tolerance is not None and (isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not tolerance > 0):
        raise TypeError(f"tolerance takes a number above 0, not {tolerance!r}")
    if multiplies_in is not None and multiplies_in not in PRODUCTS:
        raise TypeError(f"multiplies_in takes one of {', '.join(PRODUCTS)}, not {multiplies_in!r}")
    if multiplies_in is not None and tolerance is None:
        raise TypeError("multiplies_in needs a tolerance: what is held to rounding computes in the case's dtype")

    def decorate(builder: Callable[[Any], Any]) -> Implementation:
        _check_builder(builder)
        module = inspect.getmodule(builder)
        doc = inspect.getdoc(builder) or (module.__doc__ if module else None) or ""
        return Implementation(
            name=builder.__name__,
            slot=workload or _folder(builder),
            builder=builder,
            requires=checked_requires,
            devices=checked_devices,
            dtypes=checked_dtypes,
            passes=checked_passes,
            proof=_patterns(proof),
            refuses=checked_refuses,
            description=doc.strip().split("\n\n")[0].replace("\n", " "),
            source=inspect.getsourcefile(builder) or "",
            tolerance=tolerance,
            builds=checked_builds,
            multiplies_in=multiplies_in,
        )

    return decorate


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a workload that a suite may set or sweep."""

    name: str
    type: type[int] | type[float] | type[str] | type[bool]
    default: Scalar = None
    """None: the suite must give it."""
    choices: tuple[Scalar, ...] = ()
    minimum: float | None = None
    below: float | None = None
    """Exclusive upper bound."""
    description: str = ""
    only_where: tuple[str, Scalar] | None = None
    """A parameter declared before this one, and the value of it under which this one has a meaning; other cases have it not."""
    untold: Scalar = None
    """A value with which a case does not hold the parameter, as those that were stored before there was one; None: every case does."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A subject tied to a spec: the callable that is measured, and the parameters that it owns.

    `forward` maps named inputs to named outputs. `parameters` are the subject's own leaves by the workload's names; their gradients
    are checked like those of the inputs. A parameter of `Workload.frozen` may be the original of what the subject has converted: it
    is what the reference computes with.
    """

    forward: Callable[[Mapping[str, torch.Tensor]], Any]
    parameters: Mapping[str, torch.Tensor] = field(default_factory=dict)
    prepare: Callable[[int], None] | None = None
    """Called untimed before every so many calls, where a call uses something up: gradients, a layer that is converted."""
    phased: Callable[[Mapping[str, torch.Tensor], Callable[[str], None]], Any] | None = None
    """The same call, which also tells the name of each of its phases when that begins; for what one call does in several."""
    holdings: Callable[[], Mapping[str, Sequence[torch.Tensor]]] | None = None
    """What it holds between calls, for the attribution of its peak: `parameters`, `gradients`, `optimizer_states`."""
    close: Callable[[], None] | None = None
    """Called when the trial has asked all that it wants to know: removes what would outlive the process, such as files."""
    release: Callable[[], None] | None = None
    """Called of a small problem once it is checked: lets go of what a library would keep to the process's end, in all later peaks."""
    settle: Callable[[], None] | None = None
    """Called where the next call must be like all later ones: ends what the first few do besides, such as looking at gradients."""
    observe: Callable[[Any], Mapping[str, torch.Tensor]] | None = None
    """Makes named outputs, untimed, of what `forward` returned, where that is none; only in passes that do not differentiate."""


Pick = Callable[[str, "torch.Tensor"], "torch.Tensor | None"]


class Workload(ABC):
    """What is computed. One instance, named `WORKLOAD`, in the folder's `__init__.py`.

    The first block is read by the parent (no torch). The second is called in the worker, with torch imported.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    """Raised when the meaning of its numbers changes; part of a case's key."""
    slots: ClassVar[Mapping[str, SlotKind]]
    params: ClassVar[tuple[Param, ...]]
    dims: ClassVar[tuple[str, ...]] = ()
    """The fields of a named model shape that it needs; they join the case's params under these names."""
    passes: ClassVar[tuple[Pass, ...]] = (Pass.FORWARD, Pass.BACKWARD, Pass.FORWARD_BACKWARD)
    constants: ClassVar[frozenset[str]] = frozenset()
    """Names of inputs that get no gradient (indices, masks)."""
    defaults: ClassVar[Mapping[str, str]] = {}
    """What fills a slot of which a suite says nothing; slots that are not here must be named."""
    shorthands: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """A word that stands for several slots: its value fills each of them that has an implementation of that name."""
    dtype_slot: ClassVar[str | None] = None
    """The slot whose implementation decides the case's dtype (the only one that it declares); suites then name no dtype."""
    composed: ClassVar[bool] = False
    """Whether a slot is filled at several places, each with a spec of its own: `bind` then gets the implementations, and builds them."""
    error_of: ClassVar[str | None] = None
    """The output whose error is a finding of its own (`output_error`) and not only a check."""

    @abstractmethod
    def spec(self, case: Case) -> Any:
        """The frozen spec of the case's slot. Raises ValueError, in words for the user, where the parameters do not fit together."""

    def seen_by(self, case: Case, slot: str) -> Case:
        """The case as the implementation in a slot sees it, to be held against what that declares. The case itself by default."""
        return case

    def imports(self, case: Case) -> tuple[str, ...]:
        """Modules that every trial of the case imports, whatever fills its slots: a run with many trials may import them once for all.

        None by default.
        """
        return ()

    def watched(self, spec: Any) -> frozenset[str]:
        """Slots whose proof patterns are judged: all by default, fewer where names cannot tell them apart."""
        return frozenset(self.slots)

    @abstractmethod
    def cost(self, spec: Any, pass_: Pass) -> Cost:
        """FLOPs, least bytes and tokens of one call, by formulas whose source the docstring gives."""

    @abstractmethod
    def small_spec(self, spec: Any) -> Any:
        """The same semantics at a shape small enough for a whole float64 reference; deterministic where `spec` is random."""

    @abstractmethod
    def make_inputs(self, spec: Any, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Named inputs in the spec's dtype, drawn from `generator` (a CPU generator, so that every device sees the same numbers)."""

    def redraw(self, spec: Any, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        """New numbers into the very tensors of `inputs`, as `make_inputs` draws them.

        Draws a whole second set and copies it. Override it where that can be done in place: at the shapes that just fit, there is no
        room for a second set.
        """
        import torch

        fresh = self.make_inputs(spec, str(generator.device), generator)
        with torch.no_grad():
            for name in list(fresh):
                inputs[name].copy_(fresh.pop(name))

    def make_parameters(self, spec: Any, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Named parameters in the spec's dtype; none by default."""
        return {}

    @abstractmethod
    def bind(self, spec: Any, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        """Ties what the builders returned (by slot) to the spec and to copies of `parameters`."""

    @abstractmethod
    def reference(
        self, spec: Any, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """The outputs in plain, differentiable PyTorch, in whatever dtype the inputs have."""

    @abstractmethod
    def slice(self, spec: Any) -> tuple[Any, Pick] | None:
        """A part of the measured problem that can be computed alone: its spec, and what it takes of each named tensor.

        `pick(name, tensor)` gets inputs, parameters and outputs by name and gradients as `grad_<name>`; None: this tensor has no
        part that can be compared. An output without a part is a mean over everything, and its outer gradient is the part's too. None
        instead of a pair: nothing can be (random outputs).
        """

    def isolate(self, spec: Any, inputs: Mapping[str, torch.Tensor]) -> tuple[Any, Pick] | None:
        """Takes all but a part out of the measured problem, in place, so that means and sums over everything are the part's own.

        Then as `slice`: the part's spec, and what it takes of each tensor. For outputs and gradients that have no slice. None where
        there are none, or nothing can be taken out; by default.
        """
        return None

    def frozen(self, spec: Any) -> frozenset[str]:
        """Names of inputs and parameters that get no gradient; such parameters are not redrawn either. `constants` by default."""
        return self.constants

    def tolerance(self, spec: Any, declared: float) -> float:
        """What an implementation's declared tolerance is for the numbers of this spec: the same, unless they are unusual on purpose."""
        return declared

    def stored_tensors(self, case: Case) -> Mapping[str, tuple[int, ...]]:
        """Names and shapes of the tensors that the case takes from a folder of real weights; none by default."""
        return {}

    def with_weights(self, stored: Callable[[str], torch.Tensor]) -> Workload:
        """The same workload with real weights, each got by its name from `stored`; itself where it can have none, as by default."""
        return self

    def findings(self, spec: Any, bound: Bound) -> Mapping[str, float]:
        """What is found out beside time, peak and error: metric to value, in the metric's unit. After the timing; none by default."""
        return {}

    def facts(self, spec: Any, bound: Bound) -> Mapping[str, Scalar]:
        """What was found as it is and is no number to compare, such as dtypes; it joins the conditions. None by default."""
        return {}

    def proofs(self, spec: Any, bound: Bound) -> Mapping[str, Proof]:
        """What the state of the bound subject says of its slots, beside patterns over names: slot to proof. None by default."""
        return {}

    def property_checks(self, spec: Any, bind: Callable[[Any], Bound], device: str, generator: torch.Generator) -> list[Check]:
        """Checks beyond comparison, such as the rate of dropout; `bind(spec)` builds the subject anew. None by default."""
        return []


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """Scaled dot-product attention. Logical shapes: q (batch, heads, seq_len, head_dim), k and v (batch, kv_heads, kv_len, head_dim).

    Tensors are (batch, heads, seq, head_dim) views of (batch, seq, heads, head_dim) memory, as projections leave them. Query i stands
    at position p = i + kv_len - seq_len (aligned at the end). heads must be a multiple of kv_heads: query head h reads kv head
    h // (heads / kv_heads). Raises ValueError where `window` or `document_lengths` do not belong to the mask.
    """

    batch: int
    heads: int
    kv_heads: int
    head_dim: int
    seq_len: int
    kv_len: int
    mask: str
    """`full`: every key. `causal`: keys j <= p. `sliding_window`: p - window < j <= p. `document`: j <= p in p's own document."""
    dropout: float
    """Probability that an attention weight is dropped; the rest is scaled by 1 / (1 - dropout)."""
    scale: float
    dtype: str
    training: bool = True
    """False where no gradient will be asked for."""
    window: int | None = None
    """Keys that a query sees at most, itself among them; only of `sliding_window`."""
    document_lengths: tuple[int, ...] | None = None
    """Tokens of each document packed into a sequence of keys, in order, the same in all sequences; only of `document`."""

    def __post_init__(self) -> None:
        if (self.mask == "sliding_window") != (self.window is not None) or (self.window is not None and self.window < 1):
            raise ValueError("a window of at least 1 belongs to the mask sliding_window, and to no other")
        if (self.mask == "document") != (self.document_lengths is not None):
            raise ValueError("document_lengths belong to the mask document, and to no other")
        if self.document_lengths is not None and (min(self.document_lengths) < 1 or sum(self.document_lengths) != self.kv_len):
            raise ValueError(f"documents of at least one token each must add up to kv_len ({self.kv_len})")


@dataclass(frozen=True, slots=True)
class NormSpec:
    """Normalisation over the last dimension of (batch, seq_len, hidden_size)."""

    batch: int
    seq_len: int
    hidden_size: int
    eps: float
    dtype: str
    training: bool = True
