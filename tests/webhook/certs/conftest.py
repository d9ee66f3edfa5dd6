"""The authority of the certificates of a module."""

import pytest

from tests.harness.listener import authority
from webhook.certs.issue import Pair


@pytest.fixture(scope="module")
def signer() -> Pair:
    return authority()
