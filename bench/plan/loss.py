"""The last projection with its cross-entropy on a tape, by implementation."""

from __future__ import annotations

from bench.plan.dims import Dims
from bench.plan.pieces import Layer, cast, gone
from bench.plan.spec import ModelSpec, TrainSpec
from bench.plan.tape import GRADIENT, Made, Tape, Tensor

PART = "loss"


def loss(model: ModelSpec, train: TrainSpec, dims: Dims, *, cuda: bool) -> Tape:
    """From the last hidden states to one number. The last weight learns unless all are frozen."""
    hidden = Tensor("last hidden states", dims.size("x·h·t"), "x·h·t", "last norm")
    layer = Layer(Tape(hidden), dims, model, train, cuda)
    rounded = cast(layer, hidden, "h·t", "e", "x", PART)
    weight = _weight(layer)
    if train.linear_cross_entropy == "eager":
        _eager(layer, rounded, weight)
    else:
        _made_in_forward(layer, rounded, weight, _chunks(layer))
    return layer.tape


def _weight(layer: Layer) -> Tensor | None:
    """The weight as the product gets it: a cast copy where it is kept in another dtype; None where it is used as it lies."""
    if layer.dims.size("w") == layer.dims.size("e"):
        return None
    copied = layer.tensor("last weight, cast", "e·V·h", PART)
    origin = layer.tensor("last weight", "0", PART)
    if layer.learns:
        back = layer.made("gradient of last weight", "w·V·h", GRADIENT)
        layer.tape.add([origin], [copied], backward=[back], weights=[back.name])
    else:
        layer.tape.add([origin], [copied])
    return copied


def _of_weight(layer: Layer, weight: Tensor | None) -> Made:
    return layer.made("gradient of last weight", "e·V·h", GRADIENT if weight is None else "temporary")


def _eager(layer: Layer, hidden: Tensor, weight: Tensor | None) -> None:
    """All logits, their fp32 copy, log-softmax, and the gradients of both."""
    tape, tensor, made = layer.tape, layer.tensor, layer.made
    logits = tensor("logits", "e·V·t", PART)
    gradients: dict[Tensor, str | Tensor] = {hidden: "gradient of hidden states"}
    inputs, backward, saved, weights = [hidden], [], [], []
    if layer.learns:
        of_weight = _of_weight(layer, weight)
        backward.append(of_weight)
        saved.append(hidden)
        if weight is None:
            weights.append(of_weight.name)
        else:
            gradients[weight] = of_weight.name
    if weight is not None:
        saved.append(weight)
        inputs.append(weight)
    backward.append(made("gradient of hidden states", "e·h·t"))
    tape.add(inputs, [logits], saved=saved, backward=backward, gradients=gradients, weights=weights, holds=[hidden])
    wide = cast(layer, logits, "V·t", "4", "e", PART)
    logs = tensor("log-softmax, fp32", "4·V·t", PART)
    tape.add([wide], [logs], saved=[logs], backward=[made("gradient of fp32 logits", "4·V·t")], gradients={wide: "gradient of fp32 logits"},
             holds=[hidden, logits, wide])  # fmt: skip
    mean = tensor("loss", "8", PART)
    tape.add([logs], [mean], backward=[made("gradient of log-softmax", "4·V·t")], gradients={logs: "gradient of log-softmax"},
             holds=[hidden, logits, wide, logs])  # fmt: skip


def _chunks(layer: Layer) -> list[Made]:
    """What the forward holds besides: a chunk's logits over and over, and small numbers of each token."""
    made, values = layer.made, layer.dims.values
    if layer.train.linear_cross_entropy == "liger":
        # Liger 0.8 multiplies into one buffer of logits, whose gradient its kernel writes over them. Into the weight's gradient it adds
        # in place where numbers have 16 bits; in fp32 it makes the product apart.
        whole = [made("product for the weight's gradient", "e·V·h")] if layer.learns and values["e"] == 4 else []
        return [made("losses and flags", "4·t + 1·t"), made("logits of a chunk", "e·C·V"), *whole]
    small = [made("labels, shares and flags", "8·t + 4·t + 1·t"), made("sums of a chunk", "8·C")]
    several = values["t"] > values["C"]
    if values["e"] == 4:
        chunks = [made("logits of a chunk", "e·C·V")] * (1 + several)
    else:
        # The scores of the chunk before are there until their name is bound anew.
        chunks = [made("logits of a chunk", "e·C·V"), *[made("fp32 scores of a chunk", "4·C·V")] * (1 + several)]
    return [Made(f"{buffer.name} {index}", buffer.size, buffer.formula) for index, buffer in enumerate((*small, *chunks))]


def _made_in_forward(layer: Layer, hidden: Tensor, weight: Tensor | None, chunks: list[Made]) -> None:
    """Losses that make both gradients with the loss and keep them for the backward, chunk by chunk."""
    tape, tensor = layer.tape, layer.tensor
    mean, of_hidden = tensor("loss", "8", PART), tensor("gradient of hidden states", "e·h·t", PART)
    outputs, inputs, saved = [mean, of_hidden], [hidden], [of_hidden]
    learned_as_it_is = weight is None and layer.train.accumulation == 1
    gradients: dict[Tensor, str | Tensor] = {hidden: of_hidden}
    weights = []
    if layer.learns:
        of_weight = Tensor("gradient of last weight", layer.dims.size("e·V·h"), "e·V·h", PART, becomes_gradient=learned_as_it_is)
        outputs.append(of_weight)
        saved.append(of_weight)
        if weight is None:
            weights.append(of_weight)
        else:
            gradients[weight] = of_weight
    if weight is not None:
        inputs.append(weight)
    inside = [*chunks, *(gone(made.name) for made in chunks)]
    tape.add(inputs, outputs, saved=saved, inside=inside, gradients=gradients, weights=weights, holds=[hidden])
