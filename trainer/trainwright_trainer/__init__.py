"""The trainer that rendered jobs run: supervisor, engines, data order and verified checkpoints.

Nothing here imports torch; the modules of a rank (``rank``, ``engine``, ``model``) do, and only a rank loads them.
"""

__version__ = "0.2.0.dev0"
