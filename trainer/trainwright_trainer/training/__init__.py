"""Training: one loop for every library, the learner that it drives, saves, evaluation and reports.

A run's program assembles a :class:`~trainwright_trainer.training.loop.Loop` from a learner and a checkpointer. Torch's learner
and its assembly are in here; TensorFlow and XGBoost bring their own, so only ``torch_learner`` and ``assembly`` import torch.
"""
