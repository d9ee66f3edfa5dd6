"""The connections of a listener: who goes when there are too many, hold too much or
wait too long.
"""

from dataclasses import dataclass, field
from typing import cast

from webhook.http.bounds import Bounds
from webhook.http.connections import Connections


@dataclass(eq=False)
class Client:
    """A connection that remembers what became of it."""

    name: str
    since: int = 0
    held: int = 0
    patient: int | None = 15
    served: bool = False
    asking: bool = False
    sending: bool = False
    unread: int = 0
    became: list[str] = field(default_factory=list)

    def patience(self) -> int | None:
        """Return its patience."""
        return self.patient

    def answered(self) -> bool:
        """Tell whether it was answered."""
        return self.served

    def proven(self) -> bool:
        """Tell whether it was answered, and asks for nothing."""
        return self.served and not self.asking

    def unfinished(self) -> bool:
        """Tell whether it is sending."""
        return self.sending

    def unsent(self) -> int:
        """Return what it has not taken."""
        return self.unread

    def overload(self) -> None:
        """Note it."""
        self.became.append("overloaded")

    def end(self) -> None:
        """Note it."""
        self.became.append("ended")

    def abort(self) -> None:
        """Note it."""
        self.became.append("aborted")


class Refusals(list[int]):
    """Remembers the status of each refusal."""

    def __call__(self, status: int, _reason: str) -> None:
        """Note it."""
        self.append(status)


def filled(*clients: Client, **bounds: int) -> Connections:
    """Return connections, with those of these clients."""
    connections = Connections(Bounds(**bounds), Refusals())
    for client in clients:
        connections.add(client)
    return connections


def gone(*clients: Client) -> list[str]:
    """Return the names of those that something became of."""
    return [client.name for client in clients if client.became]


def test_one_that_was_answered_and_asks_again_goes_after_those_that_never_were() -> None:
    asking = Client("asking", since=5, served=True, asking=True)
    strangers = [Client(f"stranger {number}", since=5 + number // 10) for number in range(20)]
    connections = filled(asking, *strangers, connections=21)
    connections.add(Client("newest", since=9))
    assert gone(asking, *strangers) == ["stranger 0"]


def test_when_there_are_too_many_the_one_that_waits_longest_goes() -> None:
    clients = [Client(f"{number}", since=9 - number) for number in range(5)]
    connections = filled(*clients, connections=5)
    assert gone(*clients) == []
    connections.add(Client("newest", since=9))
    assert gone(*clients) == ["4"]
    assert len(connections) == 5
    assert list(cast("Refusals", connections.refused)) == [503]


def test_those_never_answered_go_before_those_that_were() -> None:
    proven = [Client(f"proven {number}", served=True) for number in range(10)]
    strangers = [Client(f"stranger {number}", since=5) for number in range(10)]
    connections = filled(*proven, *strangers, connections=20)
    connections.add(Client("newest", since=9))
    assert gone(*proven, *strangers) == ["stranger 0"]


def test_a_single_newcomer_is_not_what_fills_the_room() -> None:
    proven = [Client(f"proven {number}", since=number, served=True) for number in range(20)]
    connections = filled(*proven, connections=20)
    newest = Client("newest", since=30)
    connections.add(newest)
    assert gone(*proven, newest) == ["proven 0"]


def test_one_that_waits_for_its_answer_stays_and_with_none_other_the_newest_goes() -> None:
    busy = [Client(f"busy {number}", patient=None) for number in range(5)]
    connections = filled(*busy, connections=5)
    newest = Client("newest", patient=None)
    connections.add(newest)
    assert gone(*busy, newest) == ["newest"]


def test_too_much_in_flight_costs_the_largest_that_is_not_complete() -> None:
    complete, large, small = (
        Client("complete", held=90),
        Client("large", held=50, sending=True),
        Client("small", held=9),
    )
    connections = filled(complete, large, small)
    connections.held = 149
    connections.relieve()
    assert (large.became, gone(complete, small)) == (["overloaded"], [])
    assert (connections.held, large.held) == (99, 0)


def test_complete_requests_are_not_given_up() -> None:
    complete = Client("complete", held=90)
    connections = filled(complete)
    connections.held = 90
    connections.relieve()
    assert gone(complete) == []
    assert connections.held == 90


def test_answers_that_nobody_takes_cost_the_one_with_most_of_them() -> None:
    clients = [
        Client(name, unread=size) for name, size in (("some", 40), ("most", 50), ("few", 10))
    ]
    connections = filled(*clients, in_flight=99)
    connections.stuck(clients[0])
    connections.stuck(clients[1])
    assert gone(*clients) == []
    connections.stuck(clients[2])
    assert gone(*clients) == ["most"]
    connections.unstuck(clients[0])
    connections.stuck(Client("another", unread=80))
    assert gone(*clients) == ["most"]


def test_patience_ends_and_one_that_waits_for_us_has_none_to_lose() -> None:
    slow, idle, busy = (
        Client("slow", patient=3),
        Client("idle", patient=120),
        Client("busy", patient=None),
    )
    connections = filled(slow, idle, busy)
    for _ in range(3):
        connections.sweep()
    assert gone(slow, idle, busy) == []
    connections.sweep()
    assert gone(slow, idle, busy) == ["slow"]
    connections.remove(slow)
    for _ in range(117):
        connections.sweep()
    assert gone(slow, idle, busy) == ["slow", "idle"]


def test_one_that_is_forgotten_holds_nothing() -> None:
    client = Client("client", held=7)
    connections = filled(client)
    connections.held = 7
    connections.remove(client)
    connections.remove(client)
    assert (connections.held, len(connections)) == (0, 0)
