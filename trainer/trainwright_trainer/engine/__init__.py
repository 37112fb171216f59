"""Engines: how many processes train one model. The loop knows only :class:`~trainwright_trainer.engine.base.Engine`."""
