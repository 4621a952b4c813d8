"""The parts of a decoder layer as operations on a tape: norm, linear layer, rotation, mlp, residual sum, by implementation.

Each function puts one part on the tape and returns its output. Which tensors autograd saves, and what a derivative makes, was read off
traces of these very implementations; a test holds the sums against traces of new ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.plan.dims import Dims
from bench.plan.spec import ModelSpec, TrainSpec
from bench.plan.tape import GRADIENT, SAME, WORKSPACE, Made, Tape, Tensor

MULTIPROCESSORS = 132
"""Of an H200, which sum a norm's weight gradient apart in Liger's kernel; fewer on others, and it is small."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A tape on which parts are put, with what they all need to know."""

    tape: Tape
    dims: Dims
    model: ModelSpec
    train: TrainSpec
    cuda: bool
    """Whether kernels are those of CUDA, with their workspaces."""

    @property
    def learns(self) -> bool:
        """Whether the model's own weights do."""
        return self.train.adaptation == "full"

    def tensor(self, name: str, formula: str, part: str) -> Tensor:
        return Tensor(name, self.dims.size(formula), formula, part)

    def made(self, name: str, formula: str, kind: str = "temporary", *, view: bool = False) -> Made:
        return Made(name, self.dims.size(formula), formula, kind, view)

    @property
    def casts(self) -> bool:
        """Whether fp32 numbers of the stream are cast for each product."""
        return self.train.numerics.autocast


def gone(name: str) -> Made:
    """A buffer that a derivative lets go of."""
    return Made(name, -1)


def cast(layer: Layer, x: Tensor, formula: str, into: str, source: str, part: str, holds: tuple[Tensor, ...] = ()) -> Tensor:
    """A copy of x in another dtype; `formula` counts numbers, `into` and `source` are bytes of one. x itself where both agree."""
    if layer.dims.size(into) == layer.dims.size(source):
        return x
    copy = layer.tensor(f"{x.name}, cast", f"{into}·{formula}", part)
    layer.tape.add([x], [copy], backward=[layer.made("gradient, cast back", f"{source}·{formula}")],
                   gradients={x: "gradient, cast back"}, holds=holds)  # fmt: skip
    return copy


def norm(layer: Layer, x: Tensor, part: str, width: str = "h", rows: str = "t", x_bytes: str = "x") -> Tensor:
    """RMS norm of `rows` rows of `width` numbers."""
    numbers = f"{width}·{rows}"
    kind = layer.train.rms_norm
    out = layer.tensor("normalised", f"{x_bytes}·{numbers}", part)
    weight = (layer.made("gradient of norm weight", f"w·{width}", GRADIENT),) if layer.learns else ()
    if kind == "eager":
        return _norm_eager(layer, x, part, width, rows, x_bytes)
    rstd = layer.tensor("1/root of mean square", f"4·{rows}", part)
    if kind == "liger":
        partial = layer.made("weight gradient by multiprocessor", f"4·{MULTIPROCESSORS}·{width}")
        backward = (partial, *weight, gone(partial.name)) if weight else (partial, gone(partial.name))
        layer.tape.add([x], [out, rstd], saved=[x, rstd], backward=backward, gradients={x: SAME}, weights=[m.name for m in weight])
        return out
    gradient = layer.made("gradient of norm input", f"{x_bytes}·{numbers}")
    layer.tape.add(
        [x],
        [out, rstd],
        saved=[x, rstd],
        backward=(gradient, *weight),
        gradients={x: gradient.name},
        weights=[m.name for m in weight],
    )
    return out


def _norm_eager(layer: Layer, x: Tensor, part: str, width: str, rows: str, x_bytes: str) -> Tensor:
    tape, tensor, made = layer.tape, layer.tensor, layer.made
    numbers, full = f"{width}·{rows}", f"4·{width}·{rows}"
    x32 = cast(layer, x, numbers, "4", x_bytes, part)
    squares = tensor("squares", full, part)
    tape.add([x32], [squares], saved=[x32], gradients={x32: "gradient"},
             backward=[made("power", full), made("product", full), made("gradient", full), gone("product"), gone("power")])  # fmt: skip
    mean = tensor("mean square", f"4·{rows}", part)
    tape.add([squares], [mean], backward=[made("spread", full)], gradients={squares: "spread"})
    shifted = tensor("mean square + eps", f"4·{rows}", part)
    tape.add([mean], [shifted], gradients={mean: SAME})
    rstd = tensor("1/root of mean square", f"4·{rows}", part)
    tape.add([shifted], [rstd], saved=[rstd], backward=[made("gradient", f"4·{rows}")], gradients={shifted: "gradient"})
    scaled = tensor("normalised, fp32", full, part)
    tape.add(
        [x32, rstd], [scaled], saved=[x32, rstd], gradients={x32: "gradient", rstd: "sum"},
        backward=[made("gradient", full), made("product", full), made("sum", f"4·{rows}"), gone("product")],
    )  # fmt: skip
    rounded = cast(layer, scaled, numbers, x_bytes, "4", part)
    out = tensor("normalised times weight", f"{x_bytes}·{numbers}", part)
    gradient = made("gradient", f"{x_bytes}·{numbers}")
    if layer.learns:
        of_weight = made("gradient of norm weight", f"w·{width}", GRADIENT)
        backward = [made("product", f"{x_bytes}·{numbers}"), gradient, of_weight, gone("product")]
        tape.add([rounded], [out], saved=[rounded], holds=[scaled, mean], backward=backward,
                 gradients={rounded: "gradient"}, weights=[of_weight.name])  # fmt: skip
    else:
        tape.add([rounded], [out], holds=[scaled, mean], backward=[gradient], gradients={rounded: "gradient"})
    return out


def linear(
    layer: Layer, x: Tensor, inside: str, outside: str, name: str, part: str, *,
    x_bytes: str = "e", bias: bool = False, holds: tuple[Tensor, ...] = (), to_x: bool = True,
) -> Tensor:  # fmt: skip
    """x (tokens, `inside`) to (tokens, `outside`); its weight learns, or is frozen with an adapter beside it.

    `to_x`: whether a gradient goes back to x, behind which something learns.
    """
    x_computed = cast(layer, x, f"{inside}·t", "e", x_bytes, part, holds)
    out = layer.tensor(f"{name} output", f"e·{outside}·t", part)
    tape, made = layer.tape, layer.made
    gradient = made(f"gradient of {name} input", f"e·{inside}·t", view=True)
    if layer.learns:
        saved, inputs, gradients = [x_computed], [x_computed], {x_computed: gradient.name}
        of_weight = made(f"gradient of {name} weight", f"e·{inside}·{outside}", "temporary" if layer.casts else GRADIENT)
        weights = [] if layer.casts else [of_weight.name]
        backward = [of_weight, gradient]
        if layer.casts:
            copied = layer.tensor(f"{name} weight, cast", f"e·{inside}·{outside}", part)
            origin = layer.tensor(f"{name} weight", "0", part)
            back = made(f"gradient of {name} weight", f"w·{inside}·{outside}", GRADIENT)
            tape.add([origin], [copied], backward=[back], weights=[back.name])
            tape.cached.append(copied)
            saved.append(copied)
            inputs.append(copied)
            gradients[copied] = of_weight.name
        if bias:
            of_bias = made(f"gradient of {name} bias", f"w·{outside}", GRADIENT)
            backward.append(of_bias)
            weights.append(of_bias.name)
        tape.add(inputs, [out], saved=saved, holds=holds, backward=backward, gradients=gradients, weights=weights, kept=True)
        return out
    whole = _dequantized(layer, inside, outside)
    inputs, saved = [x_computed], []
    if layer.casts:
        copied = layer.tensor(f"{name} weight, cast", f"e·{inside}·{outside}", part)
        tape.add([], [copied], holds=holds)
        inputs, saved = [x_computed, copied], [copied] if to_x else []
    tape.add(inputs, [out], saved=saved, holds=holds, inside=whole, backward=[*whole[:1], gradient, *whole[1:]] if to_x else [],
             gradients={x_computed: gradient.name} if to_x else {}, kept=True)  # fmt: skip
    return _adapted(layer, x, out, inside, outside, name, part, x_bytes, (x, *holds), to_x)


def _dequantized(layer: Layer, inside: str, outside: str) -> list[Made]:
    """The whole weight in the dtype of computing, for the time of a product."""
    if layer.train.linear == "plain":
        return []
    return [layer.made("weight, dequantized", f"e·{inside}·{outside}", WORKSPACE), gone("weight, dequantized")]


def _adapted(
    layer: Layer, x: Tensor, out: Tensor, inside: str, outside: str, name: str, part: str, x_bytes: str, holds: tuple[Tensor, ...],
    to_x: bool,
) -> Tensor:  # fmt: skip
    """The product of two thin fp32 matrices beside a frozen weight, as `adaptation/lora.py` writes it; autocast rounds both.

    x is copied to fp32 for them; autocast rounds that copy, of what has 16 bits already too.
    """
    tape, tensor, made = layer.tape, layer.tensor, layer.made
    size = "e" if layer.casts else "4"
    holds = (out, *holds)
    x_wide = cast(layer, x, f"{inside}·t", "4", x_bytes, part, holds)
    x_adapted = cast(layer, x_wide, f"{inside}·t", size, "4", part, (x_wide, *holds))
    thin = tensor(f"{name} adapter, thin", f"{size}·r·t", part)
    wide = tensor(f"{name} adapter, wide", f"{size}·{outside}·t", part)
    for letter, width, source, result in (("a", inside, x_adapted, thin), ("b", outside, thin, wide)):
        of_weight = made(f"gradient of adapter {letter}", f"{size}·r·{width}", "temporary" if layer.casts else GRADIENT)
        back = made("gradient of adapter input", f"{size}·{inside if letter == 'a' else 'r'}·t")
        handed = to_x or letter == "b"
        gradients: dict[Tensor, str | Tensor] = {source: back.name} if handed else {}
        inputs, saved, weights = [source], [source], [of_weight.name]
        if layer.casts:
            copied, origin = tensor(f"{name} adapter {letter}, cast", f"e·r·{width}", part), tensor("adapter", "0", part)
            rounded = made(f"gradient of adapter {letter}", f"4·r·{width}", GRADIENT)
            tape.add([origin], [copied], backward=[rounded], weights=[rounded.name], holds=holds)
            tape.cached.append(copied)
            inputs, weights = [source, copied], []
            saved = inputs if handed else [source]
            gradients[copied] = of_weight.name
        tape.add(inputs, [result], saved=saved, backward=[of_weight, back] if handed else [of_weight], gradients=gradients,
                 weights=weights, holds=(x_wide, *holds) if letter == "a" else holds, kept=True)  # fmt: skip
    scaled = tensor(f"{name} adapter, scaled", f"{size}·{outside}·t", part)
    tape.add([wide], [scaled], backward=[made("scaled", f"{size}·{outside}·t")], gradients={wide: "scaled"}, holds=(thin, *holds))
    rounded_out = cast(layer, scaled, f"{outside}·t", "e", size, part, (thin, *holds))
    total = tensor(f"{name} output with adapter", f"e·{outside}·t", part)
    tape.add([out, rounded_out], [total], gradients={out: SAME, rounded_out: SAME}, holds=(scaled, thin, *holds))
    return total


def rotation(layer: Layer, x: Tensor, heads: str, holds: tuple[Tensor, ...] = ()) -> Tensor:
    """Rotary positions on x (b, heads, s, d); numbers come out in the dtype of the stream."""
    tape, tensor, made, part = layer.tape, layer.tensor, layer.made, "rope"
    numbers = f"{heads}·d·t"
    if layer.train.rope == "liger":
        return x  # turned where it lies, and so is its gradient
    half = f"e·{heads}·{layer.model.head_dim // 2}·t"
    out_bytes = "x"
    narrow = layer.dims.size("x") != layer.dims.size("e")
    laid = tensor(f"{x.name}, by heads", "0", part)
    tape.add([x], [laid], backward=[made("gradient, laid out", f"e·{numbers}")], gradients={x: "gradient, laid out"}, holds=holds)

    def product(of: Tensor) -> Tensor:
        result = tensor("product with cos or sin", f"{out_bytes}·{numbers}", part)
        full = made("gradient", f"{out_bytes}·{numbers}")
        backward = [full, made("gradient, rounded", f"e·{numbers}"), gone("gradient")] if narrow else [full]
        tape.add([of], [result], backward=backward, gradients={of: backward[-1 if not narrow else 1].name}, holds=[x, *holds])
        return result

    straight = product(laid)
    first, second = tensor("first half", "0", part), tensor("second half", "0", part)
    for view in (first, second):
        tape.add(
            [laid], [view], backward=[made("gradient of half", f"e·{numbers}")], gradients={laid: "gradient of half"}, holds=[x]
        )
    negated = tensor("negated half", half, part)
    tape.add([second], [negated], backward=[made("gradient, negated", half)], gradients={second: "gradient, negated"}, holds=[x])
    turned = tensor("turned", f"e·{numbers}", part)
    tape.add([first, negated], [turned], gradients={negated: SAME, first: SAME}, holds=[x])
    crossed = product(turned)
    out = tensor(f"{x.name}, turned", f"{out_bytes}·{numbers}", part)
    tape.add([straight, crossed], [out], gradients={straight: SAME, crossed: SAME}, holds=[x, *holds])
    return out


def mlp(layer: Layer, x: Tensor, x_bytes: str) -> Tensor:
    """SwiGLU with three projections."""
    tape, tensor, made, part = layer.tape, layer.tensor, layer.made, "mlp"
    numbers = "e·i·t"
    gate = linear(layer, x, "h", "i", "gate_proj", part, x_bytes=x_bytes, holds=(x,))
    if layer.train.swiglu == "eager":
        silu = tensor("silu(gate)", numbers, part)
        tape.add(
            [gate],
            [silu],
            saved=[gate],
            backward=[made("gradient of gate", numbers)],
            gradients={gate: "gradient of gate"},
            holds=[x],
        )
        up = linear(layer, x, "h", "i", "up_proj", part, x_bytes=x_bytes, holds=(x, silu))
        both = tensor("silu(gate) * up", numbers, part)
        tape.add([silu, up], [both], saved=[silu, up], backward=[made("gradient of silu", numbers), made("gradient of up", numbers)],
                 gradients={silu: "gradient of silu", up: "gradient of up"}, holds=[x])  # fmt: skip
    else:
        up = linear(layer, x, "h", "i", "up_proj", part, x_bytes=x_bytes, holds=(x, gate))
        both = tensor("silu(gate) * up", numbers, part)
        # Gradients are written over gate and up themselves.
        tape.add([gate, up], [both], saved=[gate, up], gradients={gate: gate, up: up}, holds=[x])
    return linear(layer, both, "i", "h", "down_proj", part, holds=(x,))


def residual(layer: Layer, x: Tensor, branch: Tensor, part: str, holds: tuple[Tensor, ...] = ()) -> Tensor:
    """x + branch, in the dtype of the stream."""
    out = layer.tensor("residual stream", "x·h·t", part)
    if layer.dims.size("x") == layer.dims.size("e"):
        layer.tape.add([x, branch], [out], gradients={x: SAME, branch: SAME}, holds=holds)
    else:
        rounded = layer.made("gradient, rounded", "e·h·t")
        layer.tape.add([x, branch], [out], backward=[rounded], gradients={x: SAME, branch: rounded.name}, holds=holds)
    return out
