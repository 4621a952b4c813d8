"""Int8 weights by rows and int8 inputs by torchao, with one scale for all inputs that was found beforehand, on other inputs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from bench.declare import implementation
from bench.workloads.linear._compiled import COMPILED
from bench.workloads.linear._frozen import demand_frozen
from bench.workloads.linear._torchao import REQUIRES, multiplying_int8, quantized

if TYPE_CHECKING:
    import torch

    from bench.workloads.linear import LinearSpec

CALIBRATION_TOKENS = 512
CALIBRATION_SEED = 20_260_102


@implementation(
    requires=REQUIRES,
    passes=["forward", "quantize"],
    proof={
        "ops": [f"^aten::_int_mm$|^torchao::quantize_affine$|{COMPILED}"],
        "not": ["^aten::matmul$", "^aten::linear$"],
    },
    tolerance=0.025,
    multiplies_in="int8",
)
def int8_static_ao(spec: LinearSpec) -> Any:
    """`Int8StaticActivationInt8WeightConfig` with a scale from torchao's own observer. It has no gradient of x.

    The observer sees 512 tokens drawn as the workload draws its inputs, outliers included, but other ones. Of a million normal numbers the
    largest is 5: a step is that over 127, a step / sqrt(12) is 1.1 %, and 0.9 % by the weights make it 1.5 %. Inputs beyond what was
    observed are clipped. In a model the observer would have to see that model's own activations.
    """
    demand_frozen(spec, "int8 by rows")
    import torch
    from torchao.quantization import (
        AffineQuantizedMinMaxObserver,
        Int8StaticActivationInt8WeightConfig,
        MappingType,
        PerRow,
        PerTensor,
    )

    from bench.workloads.linear import WORKLOAD

    observed: dict[torch.device, torch.Tensor] = {}

    def calibration(device: torch.device) -> torch.Tensor:
        if device not in observed:
            generator = torch.Generator().manual_seed(CALIBRATION_SEED)
            tokens = dataclasses.replace(spec, batch=1, seq_len=CALIBRATION_TOKENS)
            observed[device] = WORKLOAD.make_inputs(tokens, str(device), generator)["x"]
        return observed[device]

    def config(plain: torch.nn.Linear) -> Int8StaticActivationInt8WeightConfig:
        observer = AffineQuantizedMinMaxObserver(
            MappingType.SYMMETRIC,
            torch.int8,
            granularity=PerTensor(),
            eps=torch.finfo(torch.float32).eps,
            scale_dtype=torch.float32,
            zero_point_dtype=torch.int32,
        )
        observer(calibration(plain.weight.device))
        scale, _ = observer.calculate_qparams()
        return Int8StaticActivationInt8WeightConfig(
            act_quant_scale=scale.reshape(1, 1, 1),  # as many dimensions as x
            granularity=[PerTensor(), PerRow()],
        )

    return multiplying_int8(quantized(config), spec)
