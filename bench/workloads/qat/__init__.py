"""Whether a decoder is trained as if it were quantized already (quantization-aware training), and in which format.

The slot's builder gets the step's spec and returns a change of the model. torchao's `prepare` puts fake quantization into the linear layers
of the blocks: numbers are rounded to the format and stay floats, and gradients pass as if they had not been. `_torchao.convert` makes the
quantized model of it after training.
"""
