"""The workers of a boosting run: XGBoost on a table, one round an optimizer step.

Run as ``python -m trainwright_trainer.boosting``, one process a pod, with the environment that the supervisor gives.
"""
