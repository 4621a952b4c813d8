"""Puts the parts of a step together: what is resident, what grows through forward and backward, and which moment is the highest.

A step is a chain: embedding, layers, last norm, loss. Going forward each part leaves what it saves; going backward each takes that away and
leaves gradients of weights. So at a part, what is alive is

    resident + what the parts before have saved + what this part does by itself (its tape's highest) + gradients of the parts behind

and of equal layers the first and the last are the highest ones of each kind. With accumulation the gradients of all weights are there
from the second micro-batch on, and new ones are added to them in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from bench.plan.alike import Alike
from bench.plan.buckets import EMBEDDING, END
from bench.plan.dims import Dims
from bench.plan.layer import INPUT, dims_of
from bench.plan.parts import Chain, Group, Left, Part, chain, group, times
from bench.plan.pinning import Pinning
from bench.plan.residents import CUBLAS_BYTES, Residents, residents
from bench.plan.rounding import slack_bytes
from bench.plan.sharding import sharded
from bench.plan.shares import Leaves, Sent, Sharding
from bench.plan.sources import source_of
from bench.plan.spec import ModelSpec, TrainSpec
from bench.plan.tape import CHECKPOINT, GRADIENT, SAVED, Alive, Replay
from bench.plan.terms import Away, Moment, Term


def _in_its_phase(moment: Moment) -> Moment:
    """Its terms as of its phase."""
    return replace(
        moment, terms=tuple(term if term.phase == moment.phase else replace(term, phase=moment.phase) for term in moment.terms)
    )


@dataclass(frozen=True, slots=True)
class Target:
    """For what is predicted: kernels and habits of a CUDA device, or of another tool that counts."""

    cuda: bool = True
    """Whether kernels have CUDA's workspaces."""
    workspace_bytes: int = CUBLAS_BYTES
    """Of each handle of cuBLAS, a constant of the device."""
    in_place: bool = True
    """Whether autograd adds gradients in place; under a dispatcher's tracker it does not."""


@dataclass(frozen=True, slots=True)
class _MicroBatch:
    """What its moments have in common."""

    accumulated: bool
    """Whether gradients of one before it are there."""
    resident: tuple[Term, ...]
    resident_bytes: int
    before: Group
    """What the one before has left until its loss is let go of."""

    @property
    def where(self) -> str:
        return ", gradients accumulated" if self.accumulated else ""


class _Candidate(NamedTuple):
    """A moment of which only the sum is known yet: most are not the highest, and need no terms."""

    size: int
    phase: str
    moment: Callable[[], Moment]


class Step:
    """All moments of one step on one GPU."""

    def __init__(self, model: ModelSpec, train: TrainSpec, target: Target, alike: Alike | None = None) -> None:
        """`alike`: shared with other steps of the model on the target."""
        if target.cuda:
            train.demand_kernels_of_cuda()
        self.model, self.train, self.target = model, train, target
        self.dims: Dims = dims_of(model, train)
        self._alike = alike or Alike()
        self.sharding: Sharding = self._alike.sharding(train, self.dims, self._sharding)
        self.residents: Residents = self.sharding.residents
        gone = (self._adds_at_once(False), self._adds_at_once(train.accumulation > 1))
        self.chain: Chain = self._alike.chain(train, gone, lambda: self._chain(gone))
        *self.layers, self.norm, self.loss = self.parts = self.chain.parts
        angles = Alive("cos and sin of positions", self.dims.size("2·x·d·s"), "2·x·d·s", "rope", SAVED)
        self._angles = group((angles,))

    def _sharding(self) -> Sharding:
        workspace_bytes = self.target.workspace_bytes if self.target.cuda else 0
        whole = residents(self.model, self.train, self.dims, workspace_bytes=workspace_bytes)
        return sharded(self.model, self.train, whole, cuda=self.target.cuda)

    def _chain(self, gone: tuple[bool, bool]) -> Chain:
        target = self.target
        return chain(self.model, self.train, self.dims, self._alike, cuda=target.cuda, in_place=target.in_place, gone=gone)

    @property
    def away(self) -> tuple[Away, ...]:
        """What lies off the GPU for it: of what stays, and of activations, which `save_on_cpu` pins one by one."""
        kept = [part.offloaded for part in self.parts if part.offloaded]
        taken = Pinning(cuda=self.target.cuda).away("checkpoints", kept, "x·h·t each", "torch.autograd.graph.save_on_cpu")
        return (*self.residents.away, taken) if kept else self.residents.away

    def moments(self) -> tuple[Moment, ...]:
        """The highest of each phase, in the order of the step."""
        highest: dict[str, _Candidate] = {}
        for candidate in self._candidates():
            if candidate.phase not in highest or candidate.size > highest[candidate.phase].size:
                highest[candidate.phase] = candidate
        found = {phase: candidate.moment() for phase, candidate in highest.items()}
        for moment in self.sharding.updates:
            if moment.phase not in found or moment.size_bytes > found[moment.phase].size_bytes:
                found[moment.phase] = moment
        return tuple(map(_in_its_phase, found.values()))

    def highest_bytes(self) -> int:
        """The peak, without the allocator's rounding."""
        update = max(moment.size_bytes for moment in self.sharding.updates)
        return max(update, *(candidate.size for candidate in self._candidates()))

    def _candidates(self) -> list[_Candidate]:
        found = [*self._micro_batch(accumulated=False)]
        if self.train.accumulation > 1:
            found += self._micro_batch(accumulated=True)
        return found

    def _micro_batch(self, *, accumulated: bool) -> Iterable[_Candidate]:
        resident = self.residents.terms + (self.residents.gradients if accumulated else ())
        before = group(self._before() if accumulated else ())
        of = _MicroBatch(accumulated, resident, sum(term.size_bytes for term in resident), before)
        yield from self._forward(of)
        saved = self.chain.saved(self.model.layers + 1)
        yield self._candidate("loss" + of.where, "loss", of, saved, self.loss.forward, "loss", [self._angles, before])
        yield from self._backward(of)

    def _forward(self, of: _MicroBatch) -> Iterable[_Candidate]:
        """At the layers that can be the highest: the last of each kind, and the last norm."""
        chain = self.parts[:-1]
        last = {part: index for index, part in enumerate(chain)}
        of_first = any(alive.name == INPUT for alive in chain[0].saved.alive)
        held = group((Alive("embedding output", self.dims.size("x·h·t"), "x·h·t", "embedding", "temporary"),))
        gathered = {0} if "gather:first layer" in self.sharding.during else set()
        for index in sorted({*last.values(), *gathered, *self.sharding.layers_apart("forward")}):
            saved = [*self.chain.saved(index), *times(chain[:index], Part.of_cached)]
            shared = [self._angles, of.before, *([] if index == 0 or of_first else [held])]
            name = f"{chain[index].name} {index + 1}{of.where}"
            place = self._place(index)
            yield self._candidate(name, "forward", of, saved, chain[index].forward, place, shared, index)
            if during := self._between("gather", place):
                yield self._found(f"weights of {name} gathered", "forward", of, during, [*saved, (self._angles, 1)])

    def _backward(self, of: _MicroBatch) -> Iterable[_Candidate]:
        parts, where = self.parts, of.where
        for index in sorted(self.chain.ends | self.sharding.layers_apart("backward")):
            part = parts[index]
            before = self.chain.saved(index)
            left: Left = [*before, *self._behind(index + 1, of)]
            name = part.name if part.count == 1 else f"{part.name} {index + 1}"
            place = self._place(index)
            yield self._candidate(f"backward of {name}{where}", "backward", of, left, self._replay(part, of), place,
                                  [self._angles], index)  # fmt: skip
            if part is self.loss and (during := self._between("gather", place)):
                kept = [*left, (part.saved, 1), (self._angles, 1)]
                yield self._found(f"weights of {name} gathered{where}", "backward", of, during, kept)
            if during := self._between("scatter", place):
                sent = [*before, *self._behind(index + 1, of, sent=True), (self._angles, 1)]
                yield self._found(f"gradients of {name} sent{where}", "backward", of, during, sent)
        left = self._behind(0, of)
        yield self._candidate(f"backward of the embedding{where}", "backward", of, left, self._embedding(), "embedding", [])
        if during := self._between("scatter", "embedding"):
            sent = [*self._behind(0, of, sent=True), (self._angles, 1)]
            yield self._found(f"gradients of the embedding sent{where}", "backward", of, during, sent)
        yield from self._sent(of)

    def _sent(self, of: _MicroBatch) -> Iterable[_Candidate]:
        """Moments within parts at which a bucket of gradients is sent: there can be hundreds, so their names and terms wait."""
        came: dict[tuple[Part, int], int] = {}
        embedding = group(self._embedding().left)
        for sent in self.sharding.sent:
            size = of.resident_bytes + sent.size_bytes
            if sent.place >= 0:
                part = self.parts[sent.place]
                if (part, sent.nth) not in came:
                    came[part, sent.nth] = group(self._replay(part, of).arrived[sent.nth]).size
                size += self.chain.saved_bytes[sent.place] + came[part, sent.nth] + self._angles.size
            elif sent.place == EMBEDDING:
                size += embedding.size
            yield _Candidate(size, "backward", partial(self._moment_of_sent, of, sent))

    def _moment_of_sent(self, of: _MicroBatch, sent: Sent) -> Moment:
        left: Left = []
        if sent.place == END:
            name = "the last bucket sent"
        elif sent.place == EMBEDDING:
            name, left = "bucket sent before the embedding's gradient", [(group(self._embedding().left), 1)]
        else:
            part = self.parts[sent.place]
            name = f"bucket sent in the backward of {part.name} {sent.place + 1}"
            came = group(self._replay(part, of).arrived[sent.nth])
            left = [*self.chain.saved(sent.place), (came, 1), (self._angles, 1)]
        return self._moment(f"{name}{of.where}", "backward", (*of.resident, *sent.terms), left)

    def _replay(self, part: Part, of: _MicroBatch) -> Replay:
        return part.accumulated if of.accumulated else part.backward

    def _place(self, index: int) -> str:
        """Of a part in the chain, as `Sharding.during` names it."""
        count = self.model.layers
        if index >= count:
            return "last norm" if index == count else "loss"
        return "last layer" if index == count - 1 else "first layer" if index == 0 else "layer"

    def _between(self, kind: str, place: str) -> tuple[Term, ...]:
        """Buffers of a moment at which no part is at work, if there is one in this place."""
        return self.sharding.at(f"{kind}:{place}", *((f"{kind}:layer",) if place.endswith("layer") else ()))

    def _behind(self, index: int, of: _MicroBatch, *, sent: bool = False) -> Left:
        """Gradients left by that part and those behind it; `sent`: where those of the part before are being sent, and counted there."""
        if self._adds_at_once(of.accumulated):
            return []
        if self.sharding.leaves is Leaves.WHOLE:
            return self.chain.gradients(index)
        parts = self.parts[index:]
        ends = [part for part in parts if part.name != "layer"]
        waiting = ends if self.sharding.ends_wait or len(parts) == 1 else []
        # From the second micro-batch on shares are added to those that are there, which are resident.
        divided = [] if of.accumulated else [part for part in parts if part.name == "layer"] if waiting else parts
        share, out_of = self.sharding.share
        shares = times(divided, lambda part: self.chain.share(part, share, out_of))
        counted_there = sent and (not self.sharding.ends_wait or len(parts) > self.model.layers)
        return shares if counted_there else [*times(waiting, Part.of_gradients), *shares]

    def _adds_at_once(self, accumulated: bool) -> bool:
        """Whether a gradient is gone as soon as it is made. Units of fully_shard hold theirs in each micro-batch anew."""
        leaves = self.sharding.leaves
        return leaves is Leaves.NOTHING or (accumulated and leaves is Leaves.WHOLE)

    def _embedding(self) -> Replay:
        outer = Alive("gradient of embedding output", self.dims.size("x·h·t"), "x·h·t", "embedding", "temporary")
        if self.train.adaptation != "full":
            return Replay(outer.size, (outer,), ())
        of_weight = Alive("gradient of embedding", self.dims.size("w·V·h"), "w·V·h", "embedding", GRADIENT)
        made = [outer, of_weight]
        if self.model.tied_embeddings and not self.target.in_place:
            made = [of_weight, Alive("sum of both gradients of the embedding", of_weight.size, "w·V·h", "embedding", "temporary")]
            made += [outer] * (outer.size > of_weight.size)
        return Replay(sum(alive.size for alive in made), tuple(made), (of_weight,))

    def _before(self) -> tuple[Alive, ...]:
        """What the micro-batch before has left until its loss is let go of: a frozen embedding's output is a leaf, with a gradient."""
        if self.train.adaptation == "full" or self.train.checkpointing == "none":
            return ()
        names = ("embedding output of the micro-batch before", "its gradient")
        return tuple(Alive(name, self.dims.size("x·h·t"), "x·h·t", "embedding", "temporary") for name in names)

    def _candidate(
        self,
        name: str,
        phase: str,
        of: _MicroBatch,
        left: Left,
        replay: Replay,
        place: str,
        shared: Sequence[Group],
        index: int | None = None,
    ) -> _Candidate:
        kinds = (f"{phase}:{index}", f"{phase}:{place}", *((f"{phase}:layer",) if place.endswith("layer") else ()))
        during = self.sharding.at(*kinds, "last" if place == "embedding" else phase)
        alive = Group(replay.at_highest, replay.highest)
        return self._found(name, phase, of, during, [*left, (alive, 1), *((each, 1) for each in shared)])

    def _found(self, name: str, phase: str, of: _MicroBatch, during: tuple[Term, ...], left: Left) -> _Candidate:
        size = of.resident_bytes + sum(term.size_bytes for term in during) + sum(each.size * count for each, count in left)
        return _Candidate(size, phase, partial(self._moment, name, phase, (*of.resident, *during), left))

    def _moment(self, name: str, phase: str, resident: tuple[Term, ...], left: Left) -> Moment:
        counts: dict[Alive, int] = {}
        for each, times_ in left:
            for alive in each.alive:
                counts[alive] = counts.get(alive, 0) + times_
        terms = [*resident, *(self._term(alive, count, phase) for alive, count in counts.items())]
        if self.target.cuda:
            slack = sum(slack_bytes(alive.size) * count for alive, count in counts.items())
            terms.append(Term("rounding", phase, "allocator_slack", slack, "up to 512 bytes each", "c10/cuda/CUDACachingAllocator"))
        return Moment(name, phase, tuple(replace(term, phase=phase) for term in terms if term.size_bytes))

    def _term(self, alive: Alive, count: int, phase: str) -> Term:
        formula = alive.formula if count == 1 else f"{count}·({alive.formula})"
        return Term(
            f"{alive.part}: {alive.name}", phase, self._category(alive, phase), alive.size * count, formula, source_of(alive.part)
        )

    def _category(self, alive: Alive, phase: str) -> str:
        """As a measured peak is split: what the loss's backward makes is a temporary, and what a checkpointed layer computes again is too.

        The last weight's gradient, where it is the embedding's too and no cast of it, becomes one with the embedding's part of it only.
        """
        if alive.kind == CHECKPOINT:
            return "checkpoints"
        waits = self.model.tied_embeddings and not self.train.numerics.autocast
        if alive.kind == GRADIENT and alive.part == "loss" and waits:
            return "temporaries" if self.train.linear_cross_entropy == "eager" else "loss"
        if alive.kind == GRADIENT:
            return "gradients"
        if alive.part == "loss" and (phase == "loss" or alive.kind == SAVED):
            return "loss"
        return "saved_activations" if alive.kind == SAVED else "temporaries"
