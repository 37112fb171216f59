"""What the workers of a boosting run do: XGBoost on a table, one round an optimizer step."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainwright_trainer.contract.base import Contract, Count, Index, ListOf, NonNegative, Positive
from trainwright_trainer.contract.data import Table
from trainwright_trainer.contract.training import Checkpoints

Objective = Literal[
    "reg:squarederror", "reg:absoluteerror", "reg:logistic", "count:poisson",
    "binary:logistic", "multi:softprob", "multi:softmax",
]
MetricName = Literal["rmse", "mae", "logloss", "error", "auc", "aucpr", "mlogloss", "merror", "poisson-nloglik"]
LOSSES: frozenset[MetricName] = frozenset({"rmse", "mae", "logloss", "mlogloss", "poisson-nloglik"})
ERRORS: frozenset[MetricName] = frozenset({"error", "merror"})
"""Shares of rows predicted wrong."""
_SCORED_BY: dict[Objective, MetricName] = {
    "reg:squarederror": "rmse", "reg:absoluteerror": "mae", "reg:logistic": "rmse", "count:poisson": "poisson-nloglik",
    "binary:logistic": "logloss", "multi:softprob": "mlogloss", "multi:softmax": "mlogloss",
}
"""XGBoost's defaults (``DefaultEvalMetric`` in src/objective)."""
_OF_CLASSES = ("multi:softprob", "multi:softmax")
Ratio = Annotated[float, Field(gt=0, le=1)]


class Booster(Contract):
    """Parameters of the trees, with XGBoost's own names and defaults (doc/parameter.rst)."""

    objective: Objective
    """What to learn, by XGBoost's own name."""
    num_class: Annotated[int, Field(ge=2, le=100_000)] | None = None
    """Classes, for the ``multi:`` objectives."""
    tree_method: Literal["hist"] = "hist"
    """The only method that is distributed both on CPUs and on GPUs."""
    max_depth: Annotated[int, Field(ge=1, le=64)] = 6
    """Levels of a tree."""
    eta: Ratio = 0.3
    """Learning rate: share of each tree's leaf values that is kept."""
    min_child_weight: NonNegative = 1.0
    """Smallest sum of second derivatives in a leaf."""
    gamma: NonNegative = 0.0
    """Smallest gain that splits a leaf."""
    subsample: Ratio = 1.0
    """Share of the rows that each tree sees."""
    colsample_bytree: Ratio = 1.0
    """Share of the columns that each tree sees."""
    reg_lambda: NonNegative = 1.0
    """L2 penalty on leaf values."""
    reg_alpha: NonNegative = 0.0
    """L1 penalty on leaf values."""
    max_bin: Annotated[int, Field(ge=2, le=65536)] = 256
    """Bins of the histogram of each column."""
    scale_pos_weight: Positive = 1.0
    """Weight of positive rows, for when they are rare."""

    @model_validator(mode="after")
    def _classes(self) -> Self:
        if self.objective in _OF_CLASSES and self.num_class is None:
            raise ValueError(f"objective {self.objective} needs num_class")
        if self.objective not in _OF_CLASSES and self.num_class is not None:
            raise ValueError(f"objective {self.objective} has no classes; remove num_class")
        return self


class Boosting(Contract):
    """The work of ``kind: xgboost``."""

    kind: Literal["xgboost"] = "xgboost"
    booster: Booster
    data: Table
    rounds: Count
    """Trees, or for classes trees of each class, in all."""
    evaluation_metrics: Annotated[ListOf[MetricName], Field(max_length=8)] = ()
    """Default: the objective's own."""
    early_stopping_rounds: Count | None = None
    """End after so many rounds in which the last metric on ``data.evaluation_path`` did not improve."""
    seed: Index = 0
    checkpoints: Checkpoints
    """A step is a round here."""
    log_every_steps: Count = 10

    @property
    def scored_by(self) -> tuple[MetricName, ...]:
        """``evaluation_metrics``, or the objective's own."""
        return tuple(self.evaluation_metrics) or (_SCORED_BY[self.booster.objective],)

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        for problem in boosting_disagreements(self.data, self.early_stopping_rounds):
            raise ValueError(problem)
        return self


def boosting_disagreements(data: Table, early_stopping_rounds: int | None) -> list[str]:
    """What does not fit between the table and the rest, in sentences that name the key to change."""
    problems = []
    if data.format == "libsvm" and data.label is not None:
        problems.append("format libsvm has the label first in each row; remove data.label")
    if data.format != "libsvm" and data.label is None:
        problems.append(f"format {data.format} needs data.label, the name of the label's column")
    if early_stopping_rounds is not None and data.evaluation_path is None:
        problems.append("early_stopping_rounds needs data.evaluation_path")
    return problems
