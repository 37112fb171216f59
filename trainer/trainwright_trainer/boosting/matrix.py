"""From rows to XGBoost's own matrix."""

from __future__ import annotations

import xgboost

from trainwright_trainer.boosting.rows import Rows
from trainwright_trainer.contract.failures import DataError


def matrix(rows: Rows) -> xgboost.DMatrix:
    """Call on all workers together: they agree on the number of columns here. Raises :class:`DataError` for infinite features.

    Not a ``QuantileDMatrix``, which keeps bins in place of values: after a resume margins are computed anew from the values.
    """
    try:
        return xgboost.DMatrix(rows.features, label=rows.labels, feature_names=None if rows.names is None else list(rows.names))
    except xgboost.core.XGBoostError as error:
        if "inf" in str(error):
            message = "the features hold an infinite number; XGBoost takes finite ones, and empty or NaN where one is missing"
            raise DataError(message) from error
        raise
