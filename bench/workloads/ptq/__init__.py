"""Whether a decoder is quantized once it has been trained (post-training quantization), and to which format.

The slot's builder gets the step's spec and returns what is done to the trained model, in place. The formats are those of the slot qat, so
that what a format costs is told apart from what training for it wins back.
"""
