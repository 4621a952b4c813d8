"""The analytic memory model: what a training step will need before anybody rents a GPU, and what to switch on where it does not fit.

Pure Python without torch. `predict` is for a case of the workload `train_step`, `predict_step` for specs of one's own; a `Prediction` is
split as a measured peak is (`metrics.PEAK_CAUSES`). How sums come about: `tape.py` replays a part as autograd runs it, `moments.py` puts
parts together. What has no formula raises `PlanError` or is named in the prediction's notes.
"""

from bench.plan.moments import Target
from bench.plan.predict import predict, predict_step
from bench.plan.spec import ModelSpec, PlanError, TrainSpec, model_named
from bench.plan.terms import Moment, Prediction, Term

__all__ = [
    "ModelSpec", "Moment", "PlanError", "Prediction", "Target", "Term", "TrainSpec", "model_named", "predict", "predict_step",
]  # fmt: skip
