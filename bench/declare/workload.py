"""What a workload declares: slots, parameters, and all that is asked of it in the parent and in the worker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from bench.records import Case, Check, Cost, Pass, Proof, Scalar

if TYPE_CHECKING:
    import torch


class SlotKind(StrEnum):
    """What a slot's builder returns; see the top of this package."""

    FUNCTION = "function"
    MODULE = "module"
    OPTIMIZER = "optimizer"
    MODEL = "model"


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
    steps: Callable[[], int] | None = None
    """How many calls there were, where each changes what the next one computes."""
    course: Callable[[Mapping[str, torch.Tensor]], Sequence[Check]] | None = None
    """Checks of a call's outputs beside those of the calls before it, all on the same inputs, which are not redrawn then."""
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
