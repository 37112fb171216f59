"""What the tests of the compiler share."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "compiler", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.generate, Phase.shrink),  # without Phase.explain, which traces every line and takes minutes
)
settings.load_profile("compiler")
