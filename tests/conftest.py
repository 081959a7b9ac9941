"""Settings for every test: a failing example prints how to run it again, and no example has a deadline on a shared machine."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "kvwal",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
# Where only the verdict is asked for: a failing example is not made smaller, which takes minutes.
settings.register_profile(
    "verdict", settings.get_profile("kvwal"), phases=[Phase.explicit, Phase.generate], database=None
)
settings.load_profile("kvwal")
