"""Boosting: parameters and tables that do not fit."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.trainer.contract.specifications import BOOSTING, TABLE

from trainwright_trainer.contract.boosting import Boosting

ONE_OF_3 = {"objective": "multi:softprob", "num_class": 3}


@pytest.mark.parametrize("changes", [
    {}, {"booster": ONE_OF_3}, {"data": TABLE | {"format": "parquet"}},
    {"data": {"source": "table", "format": "libsvm", "path": "/data/rows"}},
    {"data": TABLE | {"evaluation_path": "/data/late.csv"}, "early_stopping_rounds": 5, "evaluation_metrics": ["auc", "logloss"]},
    {"booster": ONE_OF_3, "evaluation_metrics": ["auc", "aucpr", "mlogloss", "merror"]},
])
def test_what_fits(changes: dict[str, Any]) -> None:
    Boosting.model_validate(BOOSTING | changes)


@pytest.mark.parametrize(("changes", "message"), [
    ({"booster": {"objective": "multi:softmax"}}, "objective multi:softmax needs num_class"),
    ({"booster": {"objective": "binary:logistic", "num_class": 2}}, "objective binary:logistic has no classes; remove num_class"),
    ({"data": TABLE | {"label": None}}, "format csv needs data.label"),
    ({"data": TABLE | {"format": "libsvm"}}, "remove data.label"),
    ({"early_stopping_rounds": 5}, "early_stopping_rounds needs data.evaluation_path"),
    *(
        ({"booster": ONE_OF_3, "evaluation_metrics": ["auc", metric]}, f"has {metric}, .* use mlogloss, merror, auc or aucpr")
        for metric in ("rmse", "mae", "logloss", "error", "poisson-nloglik")
    ),
    *(
        ({"evaluation_metrics": ["auc", metric]}, f"has {metric}, which objective binary:logistic has .* use rmse, mae, logloss,")
        for metric in ("mlogloss", "merror")
    ),
])
def test_what_does_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Boosting.model_validate(BOOSTING | changes)
