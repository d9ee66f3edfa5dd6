"""The control plane and the webhook of the stories of autoscalers, as those of `tests/e2e` have
them.
"""

from tests.e2e.conftest import control_plane, pytest_runtest_makereport, webhook

__all__ = ["control_plane", "pytest_runtest_makereport", "webhook"]
