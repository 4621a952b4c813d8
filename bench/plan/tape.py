"""Replays a part of a model symbol by symbol, as autograd does: what lives when, forward and backward, to the byte.

A tape is a list of operations on tensors that have a size and no numbers. Forward, a tensor lives until Python lets go of it (its last
use, or a later one that is noted as a hold), and longer where autograd saves it. Backward, operations run in the reverse order: each
makes what its derivative makes, lets go of the gradient that came in, then of what it had saved, and hands its gradients on. Where two
meet they are added: in place if nobody else holds the first of them, as autograd does; under a tracker of torch's dispatcher never.

What is alive at the highest point is told tensor by tensor, so that a sum is never without its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

SAME = "same"
"""In place of a buffer's name: the gradient that came in is handed on."""

SAVED, TEMPORARY, GRADIENT, WORKSPACE, CHECKPOINT = "saved", "temporary", "gradient", "workspace", "checkpoint"


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A result of an operation, or what comes in from outside."""

    name: str
    size: int
    formula: str
    part: str
    """Of which piece of the model it is, for the source of its formula."""
    becomes_gradient: bool = False
    """Whether it is what a weight's gradient will be, made ahead of the backward."""


@dataclass(frozen=True, slots=True)
class Made:
    """A buffer that a derivative makes (or lets go of, where `size` is below 0)."""

    name: str
    size: int
    formula: str = ""
    kind: str = TEMPORARY
    view: bool = False
    """Of another tensor's storage, as gradients of linear layers' inputs are: nothing is added to it in place."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One node of autograd's graph."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    saved: tuple[Tensor, ...]
    holds: tuple[Tensor, ...]
    """Alive for Python at least until here."""
    inside: tuple[Made, ...]
    """What the forward makes and lets go of within itself, after its outputs."""
    backward: tuple[Made, ...]
    gradients: Mapping[Tensor, str | Tensor]
    """Input to the buffer that is its gradient: one that was made, `SAME`, or a saved tensor that the gradient is written over."""
    weights: tuple[str | Tensor, ...]
    """Buffers that are gradients of weights: made, or saved by the forward already."""
    kept: bool
    """Whether a selective checkpoint keeps its outputs."""


@dataclass(frozen=True, slots=True)
class Alive:
    """One buffer at the highest point."""

    name: str
    size: int
    formula: str
    part: str
    kind: str


@dataclass(slots=True)
class _Counter:
    """Running sum of what is alive, and what it was at its highest."""

    living: dict[object, Alive] = field(default_factory=dict)
    sum: int = 0
    highest: int = 0
    at_highest: tuple[Alive, ...] = ()

    def add(self, key: object, alive: Alive) -> None:
        if key not in self.living:
            self.living[key] = alive
            self.sum += alive.size
            if self.sum > self.highest:
                self.highest, self.at_highest = self.sum, tuple(self.living.values())

    def drop(self, key: object) -> None:
        if key in self.living:
            self.sum -= self.living.pop(key).size


@dataclass(slots=True, eq=False)
class _Gradient:
    key: object
    alive: Alive
    view: bool = False
    holders: int = 1


@dataclass(frozen=True, slots=True)
class Replay:
    """What a part of the model does to memory, counted from what was alive before it."""

    highest: int
    at_highest: tuple[Alive, ...]
    left: tuple[Alive, ...]
    """Alive at the end: forward, what is saved, without the output; backward, gradients of weights, without that of the input."""
    arrived: tuple[tuple[Alive, ...], ...] = ()
    """Backward: what is alive when each gradient of a weight has come, in the order in which they do."""

    @property
    def left_bytes(self) -> int:
        return sum(alive.size for alive in self.left)


class Tape:
    """Operations in the order of the forward. `source` comes in, the last operation's first output goes out."""

    def __init__(self, source: Tensor) -> None:
        self.source = source
        self.operations: list[Operation] = []
        self.cached: list[Tensor] = []
        """Kept until the forward of the whole model ends, saved or not: autocast's copies of weights."""
        self._replays: dict[tuple[object, ...], Replay] = {}
        self._lives: tuple[int, dict[Tensor, int]] = (0, {})

    @property
    def result(self) -> Tensor:
        return self.operations[-1].outputs[0]

    def add(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        *,
        saved: Iterable[Tensor] = (),
        holds: Iterable[Tensor] = (),
        inside: Iterable[Made] = (),
        backward: Iterable[Made] = (),
        gradients: Mapping[Tensor, str | Tensor] | None = None,
        weights: Iterable[str | Tensor] = (),
        kept: bool = False,
    ) -> None:
        """One operation; inputs without an entry in `gradients` get none."""
        self.operations.append(
            Operation(
                tuple(inputs),
                tuple(outputs),
                tuple(saved),
                tuple(holds),
                tuple(inside),
                tuple(backward),
                gradients or {},
                tuple(weights),
                kept,
            )
        )

    def forward(self, *, saving: bool, keeping: bool = False) -> Replay:
        """`saving`: autograd keeps what it needs; else nothing but, under `keeping`, what a selective checkpoint keeps."""
        return self._once(lambda: self._replayed_forward(saving=saving, keeping=keeping), "forward", saving, keeping)

    def _once(self, replay: Callable[[], Replay], *key: object) -> Replay:
        """A replay that was asked for before, as long as nothing was added to the tape."""
        key = (*key, len(self.operations), len(self.cached))
        if key not in self._replays:
            self._replays[key] = replay()
        return self._replays[key]

    def _replayed_forward(self, *, saving: bool, keeping: bool) -> Replay:
        counter = _Counter()
        saved = self._forward(counter, saving=saving, keeping=keeping, operations=len(self.operations))
        left = [counter.living[tensor] for tensor in saved if tensor is not self.result and tensor in counter.living]
        return Replay(counter.highest, counter.at_highest, tuple(left))

    def backward(self, *, in_place: bool, again: bool = False, kept: bool = False, accumulated: bool = False) -> Replay:
        """From what the forward saved; `again`: from the input alone (and what is `kept`), by a second forward.

        `accumulated`: weights have a gradient already, to which the new one is added in place.
        """
        how = {"in_place": in_place, "again": again, "kept": kept, "accumulated": accumulated}
        return self._once(lambda: self._replayed_backward(**how), "backward", *how.values())

    def _replayed_backward(self, *, in_place: bool, again: bool, kept: bool, accumulated: bool) -> Replay:
        counter = _Counter()
        outer = Alive(f"gradient of {self.result.name}", self.result.size, self.result.formula, self.result.part, TEMPORARY)
        arriving = _Gradient(object(), outer)
        counter.add(arriving.key, outer)
        saved = self._saved()
        for tensor in saved if not again else (self.source,):
            counter.add(tensor, _named(tensor, CHECKPOINT if again else SAVED))
        if kept:
            self._keep(counter)

        def second_forward() -> None:
            self._forward(counter, saving=True, keeping=False, operations=self._last_saving(), saved_as=TEMPORARY)

        run = _Backward(self, counter, saved, in_place=in_place, accumulated=accumulated, again=second_forward if again else None)
        return run.run(arriving)

    def _saved(self) -> dict[Tensor, int]:
        """Tensor to how many operations have saved it."""
        saved: dict[Tensor, int] = {}
        for operation in self.operations:
            for tensor in operation.saved:
                saved[tensor] = saved.get(tensor, 0) + 1
        return saved

    def _last_uses(self) -> dict[Tensor, int]:
        """Tensor to the last operation that Python has it for."""
        operations = len(self.operations)
        if self._lives[0] != operations:
            last = {
                tensor: index
                for index, operation in enumerate(self.operations)
                for tensor in (*operation.inputs, *operation.holds, *operation.outputs)
            }
            last[self.source] = operations  # the loop over the layers holds it
            last[self.result] = operations
            self._lives = (operations, last)
        return self._lives[1]

    def _keep(self, counter: _Counter) -> None:
        for operation in self.operations:
            if operation.kept:
                for tensor in operation.outputs:
                    counter.add(tensor, _named(tensor, SAVED))

    def _last_saving(self) -> int:
        """Operations that are run again: the second forward stops where the last tensor is saved, before that operation runs."""
        return max(index for index, operation in enumerate(self.operations) if operation.saved)

    def _forward(
        self, counter: _Counter, *, saving: bool, keeping: bool, operations: int, saved_as: str = SAVED
    ) -> dict[Tensor, int]:
        """Runs the first so many operations; returns what is saved, and by how many."""
        counter.add(self.source, _named(self.source, SAVED if saving else TEMPORARY))
        saved = self._saved() if saving else {}
        if keeping:
            saved = {tensor: 1 for operation in self.operations if operation.kept for tensor in operation.outputs}
        last = self._last_uses()
        for index, operation in enumerate(self.operations[:operations]):
            for tensor in operation.outputs:
                counter.add(tensor, _named(tensor, saved_as if tensor in saved else TEMPORARY))
            for made in operation.inside:
                _do(counter, made, operation.outputs[0].part)
            for tensor in (*operation.inputs, *operation.holds, *operation.outputs):
                if last[tensor] == index and tensor not in saved and tensor not in self.cached:
                    counter.drop(tensor)
        if operations < len(self.operations):  # stopped early: the stack is unwound
            for operation in self.operations[:operations]:
                for tensor in operation.outputs:
                    if tensor not in saved:
                        counter.drop(tensor)
        return saved


class _Backward:
    """One run of autograd over a tape."""

    def __init__(
        self,
        tape: Tape,
        counter: _Counter,
        saved: dict[Tensor, int],
        *,
        in_place: bool,
        accumulated: bool,
        again: Callable[[], None] | None,
    ) -> None:
        self.tape, self.counter, self.saved = tape, counter, saved
        self.in_place, self.accumulated, self.again = in_place, accumulated, again
        self.arrived: dict[Tensor, _Gradient] = {}
        self.weights: list[Alive] = []
        self.when_they_came: list[tuple[Alive, ...]] = []

    def run(self, arriving: _Gradient) -> Replay:
        self.arrived[self.tape.result] = arriving
        forward = self.again
        for operation in reversed(self.tape.operations):
            incoming = [self.arrived.pop(tensor) for tensor in operation.outputs if tensor in self.arrived]
            if incoming and operation.saved and forward is not None:  # the first that asks for what was saved
                forward()
                forward = None
            if incoming:
                self._node(operation, incoming)
        return Replay(self.counter.highest, self.counter.at_highest, tuple(self.weights), tuple(self.when_they_came))

    def _node(self, operation: Operation, incoming: list[_Gradient]) -> None:
        part = operation.outputs[0].part
        made: dict[str, _Gradient] = {}
        for buffer in operation.backward:
            if buffer.size < 0:
                self._release(made.pop(buffer.name))
                continue
            gradient = _Gradient(object(), Alive(buffer.name, buffer.size, buffer.formula, part, buffer.kind), buffer.view)
            made[buffer.name] = gradient
            self.counter.add(gradient.key, gradient.alive)
        handed: list[tuple[Tensor, _Gradient]] = []
        for tensor, name in operation.gradients.items():
            if isinstance(name, Tensor):
                gradient = _Gradient(name, _named(name, TEMPORARY))
            elif name == SAME:
                gradient = incoming[0]
                gradient.holders += 1
            else:
                gradient = made[name]
            handed.append((tensor, gradient))
        turned = {*operation.gradients.values(), *operation.weights}
        for gradient in incoming:
            self._release(gradient)
        for tensor in operation.saved:
            self.saved[tensor] -= 1
            if not self.saved[tensor] and tensor not in turned and not (self.again is not None and tensor is self.tape.source):
                self.counter.drop(tensor)
        for tensor, gradient in handed:
            self._hand(tensor, gradient)
        for name in operation.weights:
            gradient = _Gradient(name, _named(name, GRADIENT)) if isinstance(name, Tensor) else made[name]
            self.when_they_came.append(tuple(self.counter.living.values()))
            if self.accumulated:
                self._release(gradient)
            else:
                self.weights.append(gradient.alive)

    def _hand(self, tensor: Tensor, new: _Gradient) -> None:
        old = self.arrived.get(tensor)
        if old is None:
            self.arrived[tensor] = new
        elif self.in_place and old.holders == 1 and not old.view:
            self._release(new)
        else:
            total = _Gradient(object(), old.alive)
            self.counter.add(total.key, total.alive)
            self.arrived[tensor] = total
            self._release(old)
            self._release(new)

    def _release(self, gradient: _Gradient) -> None:
        gradient.holders -= 1
        written_over = isinstance(gradient.key, Tensor) and self.saved.get(gradient.key, 0) > 0  # what is still saved stays
        if not gradient.holders and not written_over:
            self.counter.drop(gradient.key)


def _named(tensor: Tensor, kind: str) -> Alive:
    kind = GRADIENT if tensor.becomes_gradient else kind
    return Alive(tensor.name, tensor.size, tensor.formula, tensor.part, kind)


def _do(counter: _Counter, made: Made, part: str) -> None:
    if made.size < 0:
        counter.drop(made.name)
    else:
        counter.add(made.name, Alive(made.name, made.size, made.formula, part, made.kind))
