"""Holds a subject against the workload's reference, at a small shape and at the measured one, by the rule of `agreement.py`.

Twice, because each place hides errors from the other. *small*: everything, at a shape where the whole reference is cheap.
*measured*: at the shape that was timed, a slice of the problem that can be computed alone. There the outer gradient is zero outside
the slice, so that every gradient, also of inputs that the whole problem shares, is that of the slice alone and can be compared.
Inputs are filled anew before (unless their course is judged), so that a subject that returns what it once computed is caught. All
outputs and gradients must be
finite.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from bench.declare import Workload, fill_normal
from bench.records import Check, Pass
from bench.worker.agreement import compare, relative_error
from bench.worker.refusals import DisagreesError
from bench.worker.step import Step, Tensors
from bench.worker.subject import Subject

FLIP_SEED = 20_260_101
LONE_GRADIENT = -0.5
OVERWRITTEN = (
    "was written over; in a model others may still read it. An implementation that must do so says so in its builder's result"
)


def require(checks: Iterable[Check]) -> None:
    """Raises DisagreesError, with the worst in words, unless all passed."""
    failed = [check for check in checks if not check.passed]
    if failed:
        raise DisagreesError("; ".join(_in_words(check) for check in failed[:3]) + (" ..." if len(failed) > 3 else ""))


def random_like(outputs: Tensors, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Outer gradients: normal, of the shapes, dtypes and memory layouts of those outputs that can have any.

    The layout is part of it: in a model the gradient of an output comes back as the output lies, and a kernel that got another layout
    would be timed with a copy that no training pays for. A lone number gets a power of two other than 1: a loss may round its gradients
    before it knows what to multiply them by, and the product must not round them a second time.
    """
    outer = {name: torch.empty_like(out.detach()) for name, out in outputs.items() if out.is_floating_point()}
    return {
        name: tensor.fill_(LONE_GRADIENT) if tensor.dim() == 0 else fill_normal(tensor, generator) for name, tensor in outer.items()
    }


def starting_gradients(outputs: Tensors, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Outer gradients of a timed call: 1 for a lone number, as where a training step starts its backward, and `random_like` else.

    Some losses leave out the product with an outer gradient of 1. That others are honoured too is seen in the small check.
    """
    return {name: torch.ones_like(outer) if outer.dim() == 0 else outer for name, outer in random_like(outputs, generator).items()}


def laid_out_like(outputs: Tensors, cotangents: Tensors) -> dict[str, torch.Tensor]:
    """The same outer gradients in the memory layouts of `outputs`, which have their names and shapes."""
    return {
        name: torch.empty_like(outputs[name].detach(), dtype=cotangent.dtype).copy_(cotangent)
        for name, cotangent in cotangents.items()
    }


def small_checks(subject: Subject, spec: Any, device: str, generator: torch.Generator) -> list[Check]:
    """The whole small problem: outputs, and all gradients where the pass has a backward; then the workload's own properties."""
    workload, pass_ = subject.workload, subject.case.pass_
    small = workload.small_spec(spec)
    parameters = workload.make_parameters(small, device, generator)
    inputs = workload.make_inputs(small, device, generator)
    kept = _copies(inputs), _copies(parameters)
    bound = subject.build(small, parameters)
    track_gradients(workload, small, inputs, pass_)
    with torch.no_grad():
        cotangents = random_like(workload.reference(small, *kept), generator) if pass_.differentiates else {}
    step = Step(bound, inputs, cotangents, pass_)
    checks: list[Check] = []
    outputs = _outputs(step)
    alike = all(name in outputs and outputs[name].shape == cotangent.shape for name, cotangent in cotangents.items())
    if pass_.differentiates and alike:  # otherwise there is no backward to speak of, and the comparison says why
        lent = laid_out_like(outputs, cotangents)
        step.backward(outputs, lent)
        checks = list(_left_alone(lent, cotangents, "outer gradient of "))
    checks += _left_alone(inputs, kept[0], "")
    got = {**outputs, **_gradients(step)}
    checks += _against_reference(subject, small, "small", got, *kept, cotangents)

    let_go = [bound]

    def bind(part: Any) -> Any:
        let_go.append(subject.build(part, workload.make_parameters(part, device, generator)))
        return let_go[-1]

    checks += workload.property_checks(spec, bind, device, generator)
    for small_one in let_go:
        if small_one.release is not None:
            small_one.release()
    return checks


def refill(workload: Workload, spec: Any, step: Step, generator: torch.Generator) -> None:
    """New numbers into the very tensors that were timed, but for parameters that the subject may have converted."""
    workload.redraw(spec, step.inputs, generator)
    frozen = workload.frozen(spec)
    if not set(step.bound.parameters) - frozen:
        return
    with torch.no_grad():
        for name, tensor in workload.make_parameters(spec, str(generator.device), generator).items():
            if name not in frozen:
                step.bound.parameters[name].copy_(tensor)


def finite_checks(step: Step) -> Iterator[Check]:
    """One call: are all outputs and gradients finite?"""
    step.prepare()
    yield from finite_after(step, step())


def finite_after(step: Step, returned: Any) -> Iterator[Check]:
    """Of a call that was made, and what it returned: are all outputs and gradients finite?"""
    yield from _finiteness(step, step.observed(returned))


def _left_alone(tensors: Tensors, before: Tensors, what: str) -> Iterator[Check]:
    """A failed check for each of `tensors` that has other numbers than `before`; nothing where all is well."""
    for name, tensor in tensors.items():
        if not torch.equal(tensor.detach(), before[name].to(tensor.dtype)):
            yield Check(f"{what}{name}", "small", None, None, None, False, OVERWRITTEN)


def _outputs(step: Step) -> Tensors:
    """Named outputs of one forward, or of one call where the pass has no backward."""
    if step.pass_.differentiates:
        return step.observed(step.bound.forward(step.inputs))
    step.prepare()
    return step.observed(step())


def _finiteness(step: Step, outputs: Tensors) -> Iterator[Check]:
    seen = f", seen in step {step.bound.steps()}" if step.bound.steps is not None else ""
    for name, tensor in {**outputs, **_gradients(step)}.items():
        yield _finite(name, tensor, seen)
    if step.bound.course is not None:
        yield from step.bound.course(outputs)


def measured_checks(subject: Subject, spec: Any, step: Step, relative_errors: dict[str, float | None]) -> Iterator[Check]:
    """Finiteness of everything at the measured shape, and the slice. What is known comes before what takes more memory.

    `relative_errors` gets the error of the output that the workload names (`error_of`), where the slice has it.

    Only copies of the slice are kept, so that no more is alive at once than in a timed call, but for what the reference needs.
    """
    step.prepare()
    outputs = step.observed(step())
    yield from _finiteness(step, outputs)
    part = subject.workload.slice(spec)
    if part is None:
        return
    small, pick = part

    def picked(tensors: Tensors, prefix: str = "") -> dict[str, torch.Tensor]:
        taken = {prefix + name: pick(prefix + name, tensor) for name, tensor in tensors.items()}
        return {name: tensor for name, tensor in taken.items() if tensor is not None}

    got = _copies(picked(outputs))
    # The outer gradient of an output that has no part, a mean over everything, is that of the part too.
    cotangents = _copies({**step.cotangents, **picked(step.cotangents)})
    named = {**outputs, **{f"grad_{name}": tensor for name, tensor in _leaves(step).items()}}
    incomparable = frozenset(name for name, tensor in named.items() if pick(name, tensor.detach()) is None)
    del outputs, named
    step.clear()
    if subject.case.pass_.differentiates:
        step.backward(step.bound.forward(step.inputs), _only(step.cotangents, pick))
        gradients = {name: tensor.grad for name, tensor in _leaves(step).items() if tensor.grad is not None}
        got |= _copies(picked(gradients, "grad_"))
        del gradients
        step.clear()
    inputs = _copies(picked(step.inputs))
    parameters = _copies(picked(step.bound.parameters))
    yield from _against_reference(subject, small, "measured", got, inputs, parameters, cotangents, relative_errors, incomparable)
    del got, inputs, parameters, cotangents
    yield from _isolated_checks(subject, spec, step)


def _isolated_checks(subject: Subject, spec: Any, step: Step) -> Iterator[Check]:
    """What is a mean or sum over everything: compared once all but a part of the problem is taken out of the inputs."""
    isolated = subject.workload.isolate(spec, step.inputs)
    if isolated is None:
        return
    small, pick = isolated

    def picked(tensors: Tensors) -> dict[str, torch.Tensor]:
        return _copies({name: part for name, tensor in tensors.items() if (part := pick(name, tensor.detach())) is not None})

    step.prepare()
    outputs = step.observed(step())
    got = picked({**outputs, **_gradients(step)})
    incomparable = frozenset({*outputs, *_gradients(step)} - set(got))
    del outputs
    step.clear()
    inputs, parameters, cotangents = picked(step.inputs), picked(step.bound.parameters), _copies(step.cotangents)
    yield from _against_reference(subject, small, "isolated", got, inputs, parameters, cotangents, incomparable=incomparable)


def track_gradients(workload: Workload, spec: Any, inputs: Tensors, pass_: Pass) -> None:
    """Makes leaves of the inputs that get a gradient."""
    frozen = workload.frozen(spec)
    for name, tensor in inputs.items():
        if pass_.differentiates and name not in frozen and tensor.is_floating_point():
            tensor.requires_grad_()


def _against_reference(
    subject: Subject,
    spec: Any,
    at: str,
    got: Tensors,
    inputs: Tensors,
    parameters: Tensors,
    cotangents: Tensors,
    relative_errors: dict[str, float | None] | None = None,
    incomparable: frozenset[str] = frozenset(),
) -> list[Check]:
    case, workload = subject.case, subject.workload
    plain = _reference(workload, spec, case.pass_, inputs, parameters, cotangents, None)
    exact = _reference(workload, spec, case.pass_, inputs, parameters, cotangents, torch.float64)
    inputs, parameters, cotangents = (_last_bits_flipped(tensors, case.dtype) for tensors in (inputs, parameters, cotangents))
    flipped = _reference(workload, spec, case.pass_, inputs, parameters, cotangents, None)
    named = workload.error_of
    if relative_errors is not None and named is not None and named in got and got[named].shape == exact[named].shape:
        relative_errors[named] = relative_error(got[named], exact[named])
    tolerance = None if subject.tolerance is None else workload.tolerance(spec, subject.tolerance)
    return [
        compare(name, at, case.dtype, got.get(name), plain[name], flipped[name], exact[name], tolerance)
        for name in plain
        if name not in incomparable
    ]


def _last_bits_flipped(tensors: Tensors, dtype: str) -> dict[str, torch.Tensor]:
    """Each number moved to its neighbour in the compute dtype, or left alone, at random (always the same on one kind of device).

    Drawn where the tensor lies: a host needs seconds for each weight of a large vocabulary.
    """
    generators: dict[torch.device, torch.Generator] = {}
    last_bit = 13 if dtype == "tf32" else 0  # tf32 lives in fp32 and has 13 bits less
    moved = {}
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            moved[name] = tensor
            continue
        if tensor.device not in generators:
            generators[tensor.device] = torch.Generator(tensor.device).manual_seed(FLIP_SEED)
        bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
        flips = torch.randint(2, tensor.shape, generator=generators[tensor.device], device=tensor.device, dtype=bits) << last_bit
        moved[name] = (tensor.detach().clone().view(bits) ^ flips).view(tensor.dtype)
    return moved


def _reference(
    workload: Workload,
    spec: Any,
    pass_: Pass,
    inputs: Tensors,
    parameters: Tensors,
    cotangents: Tensors,
    dtype: torch.dtype | None,
) -> dict[str, torch.Tensor]:
    """Outputs and gradients (`grad_<name>`) of the reference, in `dtype` or, where None, in the inputs' own."""

    def cast(tensors: Tensors) -> dict[str, torch.Tensor]:
        return {
            name: tensor.detach().to(dtype or tensor.dtype, copy=True) if tensor.is_floating_point() else tensor
            for name, tensor in tensors.items()
        }

    own_inputs, own_parameters = cast(inputs), cast(parameters)
    track_gradients(workload, spec, own_inputs, pass_)
    frozen = workload.frozen(spec)
    for name, tensor in own_parameters.items():
        tensor.requires_grad_(pass_.differentiates and name not in frozen)
    outputs = workload.reference(spec, own_inputs, own_parameters)
    result = {name: output.detach() for name, output in outputs.items()}
    if pass_.differentiates:
        leaves = {name: tensor for name, tensor in {**own_inputs, **own_parameters}.items() if tensor.requires_grad}
        names = [name for name, output in outputs.items() if output.requires_grad]
        gradients = torch.autograd.grad(
            [outputs[name] for name in names],
            list(leaves.values()),
            [cotangents[name].to(outputs[name].dtype) for name in names],
        )
        result |= {f"grad_{name}": gradient for name, gradient in zip(leaves, gradients, strict=True)}
    return result


def _only(cotangents: Tensors, pick: Any) -> dict[str, torch.Tensor]:
    """The outer gradients within the slice, zero elsewhere; whole where an output has no part."""
    masked = {}
    for name, cotangent in cotangents.items():
        part = pick(name, cotangent)
        masked[name] = cotangent if part is None else torch.zeros_like(cotangent)
        if part is not None:
            pick(name, masked[name]).copy_(part)
    return masked


def _copies(tensors: Tensors) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _leaves(step: Step) -> dict[str, torch.Tensor]:
    named = {**step.inputs, **step.bound.parameters}
    return {name: tensor for name, tensor in named.items() if tensor.requires_grad}


def _gradients(step: Step) -> dict[str, torch.Tensor]:
    return {f"grad_{name}": tensor.grad for name, tensor in _leaves(step).items() if tensor.grad is not None}


def _finite(name: str, tensor: torch.Tensor, seen: str = "") -> Check:
    good = bool(torch.isfinite(tensor.detach()).all())
    return Check(name, "finite", None, None, None, good, None if good else f"not finite at the measured shape{seen}")


def _in_words(check: Check) -> str:
    where = f"{check.tensor} ({check.at})"
    if check.error is None or check.limit is None:
        return f"{where}: {check.detail}"
    return f"{where}: error {check.error:.3g} > limit {check.limit:.3g}" + (f" ({check.detail})" if check.detail else "")
