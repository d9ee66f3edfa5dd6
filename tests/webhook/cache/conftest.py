"""The fake API server of the tests of caches."""

from tests.webhook.kubeclient.conftest import api

__all__ = ["api"]
