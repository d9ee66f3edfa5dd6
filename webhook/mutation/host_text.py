"""HostText texts: what is the same for every host of a replica but for a number at its end."""

from webhook.kube.objects import Strings


class HostText:
    """The text of any host: `prefix`, then the number `host` * `step` + `first`. It equals no text of one host."""

    __slots__ = ("first", "prefix", "step")

    def __init__(self, prefix: str = "", step: int = 1, first: int = 0) -> None:
        self.prefix = prefix
        self.step = step
        self.first = first

    def of(self, host: int) -> str:
        """Return the text of one host."""
        return f"{self.prefix}{host * self.step + self.first}"


Text = str | HostText
"""A text of one host, or of any."""

Value = Text | Strings
"""What a field of `spec` may become."""
