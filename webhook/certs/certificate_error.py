"""What can be wrong with a certificate."""


class CertificateError(Exception):
    """A certificate and key that cannot serve. The message says where they come from, what is
    wrong, and what to do.
    """
