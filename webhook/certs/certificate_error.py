"""Errors of certificates."""


class CertificateError(Exception):
    """An unusable certificate or key. The message has the location, the error and the fix."""
