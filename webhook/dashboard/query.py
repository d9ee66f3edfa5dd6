"""The query of a page: filter, order and page of the list of RayClusters."""

from collections.abc import Mapping
from re import ASCII
from re import compile as pattern
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct, structs

SORTS: Final = {
    "": "problems first",
    "name": "by name",
    "newest": "newest first",
    "oldest": "oldest first",
}
"""The orders of the list, by their values in an address."""
_PAGE: Final = pattern(r"[1-9]\d{0,5}", ASCII)
_SEARCH_MAX: Final = 200


class Query(Struct, frozen=True):
    """The parameters of an address. Each word of `q` is in a listed RayCluster, `state` is its
    state, and `problem` the id of one of its problems.

    With `cluster`, the page shows all replicas of one RayCluster, and `page` counts pages of
    replicas.
    """

    namespace: str = ""
    cluster: str = ""
    q: str = ""
    state: str = ""
    problem: str = ""
    sort: str = ""
    page: int = 1

    @property
    def address(self) -> str:
        return f"/?{urlencode(self.parameters)}" if self.parameters else "/"

    @property
    def parameters(self) -> dict[str, str]:
        every = structs.asdict(self).items()
        return {name: str(value) for name, value in every if value not in ("", 1)}

    def toggled(self, name: str, value: str) -> str:
        """Return the address of the first page with another value of a parameter, or without the
        parameter if it has that value.
        """
        new = "" if getattr(self, name) == value else value
        return structs.replace(self, page=1, **{name: new}).address

    def at(self, page: int) -> str:
        return structs.replace(self, page=page).address


def query_of(parameters: Mapping[str, str]) -> Query:
    """Return the query of an address. Values that no link of the page has are ignored."""
    filters = {
        name: parameters.get(name, "") for name in ("namespace", "cluster", "state", "problem")
    }
    page, sort = parameters.get("page", ""), parameters.get("sort", "")
    return Query(
        **filters,
        q=parameters.get("q", "")[:_SEARCH_MAX].strip(),
        sort=sort if sort in SORTS else "",
        page=int(page) if _PAGE.fullmatch(page) else 1,
    )
