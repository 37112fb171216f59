"""What the workers of a boosting run do: XGBoost on a table, one round an optimizer step."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from trainwright_trainer.contract.base import Contract, Count, Index, ListOf, NonNegative, Positive, Specified
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
_OF_CLASSES = ("multi:softprob", "multi:softmax")
_SCORES_OF_CLASSES: tuple[MetricName, ...] = ("mlogloss", "merror", "auc", "aucpr")
_SCORES_OF_ROWS: tuple[MetricName, ...] = ("rmse", "mae", "logloss", "error", "auc", "aucpr", "poisson-nloglik")
"""XGBoost computes the former from a prediction for each class, and these from one for each row (src/metric)."""
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


class BoostingSettings(Contract):
    """What a run states of its trees, and its specification has as it is: as :class:`TrainingSettings` of a network."""

    booster: Booster
    """Parameters of the trees, with XGBoost's own names."""
    data: Table
    """The table, and the column to learn."""
    rounds: Count
    """Number of trees, or of trees per class."""
    evaluation_metrics: Annotated[ListOf[MetricName], Field(max_length=8)] = ()
    """Default: the objective's own."""
    early_stopping_rounds: Count | None = None
    """End after this many rounds in which the last metric did not improve."""
    seed: Index = 0
    """Of the sampling of rows and columns."""

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        if self.data.format == "libsvm" and self.data.label is not None:
            raise ValueError("format libsvm has the label first in each row; remove data.label")
        if self.data.format != "libsvm" and self.data.label is None:
            raise ValueError(f"format {self.data.format} needs data.label, the name of the label's column")
        if self.early_stopping_rounds is not None and self.data.evaluation_path is None:
            raise ValueError("early_stopping_rounds needs data.evaluation_path")
        scores = _SCORES_OF_CLASSES if self.booster.objective in _OF_CLASSES else _SCORES_OF_ROWS
        for metric in self.evaluation_metrics:
            if metric not in scores:
                raise ValueError(
                    f"evaluation_metrics has {metric}, which objective {self.booster.objective} has no predictions for; use "
                    f"{', '.join(scores[:-1])} or {scores[-1]}"
                )
        return self


class Boosting(BoostingSettings, Specified):
    """The work of ``kind: xgboost``."""

    before: ClassVar = {"booster": ("kind",)}
    always: ClassVar = frozenset(("kind", "evaluation_metrics", "seed", "log_every_steps"))

    kind: Literal["xgboost"] = "xgboost"
    checkpoints: Checkpoints
    """A step is a round here."""
    log_every_steps: Count = 10
