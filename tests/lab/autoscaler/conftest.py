"""The control plane and the webhook for tests of autoscalers, shared with `tests/e2e`."""

from tests.e2e.conftest import control_plane, pytest_runtest_makereport, shared_plane, webhook

__all__ = ["control_plane", "pytest_runtest_makereport", "shared_plane", "webhook"]
