"""Attention as operations on a tape, by kernel: what each saves, what its derivative makes, and workspaces of CUDA's kernels.

eager       scores as a matrix: fp32 softmax and its rounded copy are saved, keys and values repeated for grouped heads
math        the same through SDPA's composite, which computes 16-bit inputs in fp32
fused       q, k, v, output and one fp32 number a row (logsumexp); the memory-efficient kernel has keys and values repeated
"""

from __future__ import annotations

from bench.plan.pieces import Layer, cast, gone
from bench.plan.spec import PlanError
from bench.plan.tape import SAME, WORKSPACE, Made, Tensor

PART = "attention"
ROW_BLOCK = 128
"""FlashAttention-2's backward rounds the sequence up to it."""
WIDTH_BLOCK = 32
"""And the head's width to this."""


def attention(layer: Layer, q: Tensor, k: Tensor, v: Tensor, holds: tuple[Tensor, ...]) -> Tensor:
    """Output (t, a·d), laid out for the next projection. `holds`: alive until it is done."""
    if layer.train.attention == "eager":
        return _eager(layer, q, k, v, holds)
    if layer.train.attention == "sdpa_math":
        return _math(layer, q, k, v, holds)
    if layer.train.dropout and layer.train.attention == "flash_attn4":
        raise PlanError("FlashAttention-4 has no dropout")
    return _fused(layer, q, k, v, holds)


def _repeated(layer: Layer, of: Tensor, *, size: str = "e", copied: bool = False, holds: tuple[Tensor, ...] = ()) -> Tensor:
    """Keys or values, of numbers of `size`, once for each query head. Without groups it is a copy only where matmul needs one."""
    grouped = layer.model.kv_heads != layer.model.heads
    if not grouped and not copied:
        return of
    out = layer.tensor(f"{of.name}, repeated", f"{size}·a·d·t", PART)
    gradient = layer.made("gradient, summed over the group", f"{size}·k·d·t")
    if grouped:
        layer.tape.add([of], [out], backward=[gradient], gradients={of: gradient.name}, holds=[of, *holds])
    else:
        layer.tape.add([of], [out], gradients={of: SAME}, holds=[of, *holds])
    return out


def _eager(layer: Layer, q: Tensor, k: Tensor, v: Tensor, holds: tuple[Tensor, ...]) -> Tensor:
    tape, tensor, made = layer.tape, layer.tensor, layer.made
    scores, full, inner = "e·a·s·t", "4·a·s·t", "e·a·d·t"
    several = layer.dims.values["b"] > 1  # batch and heads of a projection's layout cannot be merged without a copy
    keys, values = _repeated(layer, k, copied=several), _repeated(layer, v, copied=several)
    queries = q
    if several:
        queries = tensor("queries, copied", inner, PART)
        tape.add([q], [queries], gradients={q: SAME}, holds=[q])
    held = (q, k, v, keys, values, *holds)
    product = tensor("scores", scores, PART)
    tape.add(
        [queries, keys], [product], saved=[queries, keys], backward=[made("gradient of keys", inner), made("gradient of queries", inner)],
        gradients={queries: "gradient of queries", keys: "gradient of keys"}, holds=held, kept=True,
    )  # fmt: skip
    scaled = tensor("scores, scaled", scores, PART)
    tape.add([product], [scaled], backward=[made("gradient", scores)], gradients={product: "gradient"}, holds=held)
    masked = tensor("scores, masked", scores, PART)
    tape.add([scaled], [masked], gradients={scaled: SAME}, holds=held)
    wide = cast(layer, masked, "a·s·t", "4", "e", PART, holds=held)
    soft = tensor("softmax, fp32", full, PART)
    tape.add(
        [wide],
        [soft],
        saved=[soft],
        backward=_of_softmax(layer, full),
        gradients={wide: "gradient of softmax"},
        holds=held,
    )
    weights = cast(layer, soft, "a·s·t", "e", "4", PART, holds=(masked, *held))
    if layer.train.dropout:
        # CUDA's fused kernel keeps booleans; a CPU multiplies by numbers.
        mask = tensor("dropout mask", "1·a·s·t" if layer.cuda else scores, PART)
        dropped = tensor("weights, dropped", scores, PART)
        tape.add(
            [weights],
            [dropped, mask],
            saved=[mask],
            backward=[made("gradient", scores)],
            gradients={weights: "gradient"},
            holds=held,
        )
        weights = dropped
    summed = tensor("attention output by heads", inner, PART)
    tape.add(
        [weights, values], [summed], saved=[weights, values], holds=held, kept=True,
        backward=[made("gradient of values", inner), made("gradient of weights", scores)],
        gradients={weights: "gradient of weights", values: "gradient of values"},
    )  # fmt: skip
    out = tensor("attention output", inner, PART)
    tape.add([summed], [out], backward=[made("gradient, laid out", inner)], gradients={summed: "gradient, laid out"}, holds=held)
    return out


def _of_softmax(layer: Layer, scores: str) -> list[Made]:
    """CUDA's derivative multiplies gradient and softmax into a tensor of its own first (`softmax_backward_cuda_out`)."""
    gradient = layer.made("gradient of softmax", scores)
    if not layer.cuda:
        return [gradient]
    product = layer.made("gradient * softmax", scores)
    return [gradient, product, gone(product.name)]


def _math(layer: Layer, q: Tensor, k: Tensor, v: Tensor, holds: tuple[Tensor, ...]) -> Tensor:
    """SDPA's composite: queries and keys are scaled by the root of the scale, in fp32 where inputs have 16 bits."""
    tape, tensor, made = layer.tape, layer.tensor, layer.made
    scores, inner = "4·a·s·t", "4·a·d·t"
    held: tuple[Tensor, ...] = (q, k, v, *holds)
    wide = []
    for of, heads in ((q, "a"), (k, "k"), (v, "k")):
        wide.append(cast(layer, of, f"{heads}·d·t", "4", "e", PART, holds=held))
        held = (*held, wide[-1])

    def scaled(of: Tensor) -> Tensor:
        out = tensor(f"{of.name}, scaled", inner, PART)
        tape.add([of], [out], backward=[made("gradient", inner)], gradients={of: "gradient"}, holds=held)
        return out

    queries = scaled(wide[0])
    mask = tensor("causal mask", "4·s·s", PART)
    tape.add([], [mask], holds=held)
    held = (*held, queries, mask)
    repeated = _repeated(layer, wide[1], size="4", holds=held)
    held = (*held, repeated)
    values = _repeated(layer, wide[2], size="4", holds=held)
    keys = scaled(repeated)
    if layer.dims.values["b"] > 1:
        copied = tensor("queries, copied", inner, PART)
        tape.add([queries], [copied], gradients={queries: SAME}, holds=(*held, keys, values))
        queries = copied
    product = tensor("scores", scores, PART)
    tape.add(
        [queries, keys], [product], saved=[queries, keys], holds=(*held, values), kept=True,
        backward=[made("gradient of keys", inner), made("gradient of queries", inner)],
        gradients={queries: "gradient of queries", keys: "gradient of keys"},
    )  # fmt: skip
    masked = tensor("scores, masked", scores, PART)
    tape.add([product], [masked], gradients={product: SAME}, holds=(*held, values))
    soft = tensor("softmax", scores, PART)
    tape.add([masked], [soft], saved=[soft], backward=_of_softmax(layer, scores), gradients={masked: "gradient of softmax"},
             holds=(*held, values))  # fmt: skip
    rounded_soft = tensor("softmax, rounded, which SDPA returns too", "e·a·s·t", PART)
    tape.add([], [rounded_soft], holds=(*held, values))
    held = (*held, rounded_soft)
    summed = tensor("attention output, fp32", inner, PART)
    tape.add(
        [soft, values], [summed], saved=[soft, values], holds=held, kept=True,
        backward=[made("gradient of values", inner), made("gradient of weights", scores)],
        gradients={soft: "gradient of weights", values: "gradient of values"},
    )  # fmt: skip
    rounded = cast(layer, summed, "a·d·t", "e", "4", PART, holds=held)
    out = tensor("attention output", "e·a·d·t", PART)
    tape.add([rounded], [out], backward=[made("gradient, laid out", "e·a·d·t")], gradients={rounded: "gradient, laid out"},
             holds=(q, k, v, *holds))  # fmt: skip
    return out


def _fused(layer: Layer, q: Tensor, k: Tensor, v: Tensor, holds: tuple[Tensor, ...]) -> Tensor:
    repeats = layer.train.attention == "sdpa_efficient"
    keys, values = (_repeated(layer, of) if repeats else of for of in (k, v))
    heads = "a" if repeats else "k"
    out = layer.tensor("attention output", "e·a·d·t", PART)
    rows = layer.tensor("logsumexp of each row", "4·a·t", PART)
    before, after = _workspace(layer)
    backward = [
        *before,
        layer.made("gradient of queries", "e·a·d·t"),
        layer.made("gradient of keys", f"e·{heads}·d·t"),
        layer.made("gradient of values", f"e·{heads}·d·t"),
        *after,
    ]
    layer.tape.add(
        [q, keys, values], [out, rows], saved=[q, keys, values, out, rows], backward=backward, holds=(k, v, *holds), kept=True,
        gradients={q: "gradient of queries", keys: "gradient of keys", values: "gradient of values"},
    )  # fmt: skip
    return out


def _workspace(layer: Layer) -> tuple[list[Made], list[Made]]:
    """What a kernel's backward makes for itself.

    FlashAttention-2: an fp32 sum for queries, one number a row, keys and values by query heads (flash_api.cpp of flash-attn 2 and of
    torch's own build of it). FlexAttention: one number a row (`delta` in torch._inductor.kernel.flex).
    """
    if layer.cuda and layer.train.attention == "flex":
        delta = layer.made("sum of out * gradient", "4·a·t", WORKSPACE)
        return [delta], [gone(delta.name)]
    if not layer.cuda or layer.train.attention not in ("sdpa_flash", "flash_attn2"):
        return [], []
    values = layer.dims.values
    rows = -(-values["s"] // ROW_BLOCK) * ROW_BLOCK
    width = -(-values["d"] // WIDTH_BLOCK) * WIDTH_BLOCK
    made = [
        layer.made("dq in fp32", f"4·b·{rows}·a·{width}", WORKSPACE),
        layer.made("sum of out * gradient", f"4·b·a·{rows}", WORKSPACE),
    ]
    if layer.model.kv_heads != layer.model.heads:
        made += [layer.made(f"d{name} by query heads", "e·a·d·t", WORKSPACE) for name in ("k", "v")]
    return made, [gone(buffer.name) for buffer in made]
