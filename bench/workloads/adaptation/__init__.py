"""Which weights of a decoder learn: all of them, or small adapters beside frozen ones.

The slot's builder gets the step's spec and returns a change of the model, with `requires_grad` set on what learns. It runs before linear
layers are converted, so that a frozen weight may be kept in any format (QLoRA: `adaptation: lora` with `linear: nf4_bnb`).
"""
