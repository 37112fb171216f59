"""Engines: how many processes train one model. The learner knows only :class:`~trainwright_trainer.engine.base.Engine`."""
