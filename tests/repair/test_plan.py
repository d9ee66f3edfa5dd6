"""What is done about a replica that has lost a host, look after look."""

from msgspec.structs import replace

from tests.repair.groups import DATE, HEAD, N, a_group, a_replica, look, looks, sealed
from webhook.repair.model import Action, Condemn, Delete, Head, Note, Seal
from webhook.repair.plan import (
    CHANGING,
    GOING,
    HEADLESS,
    LOST,
    RESTARTED,
    SCALING,
    SPENT,
    SUSPENDED,
    TOO_NEW,
    TORN,
    Limits,
    Memory,
    Plan,
)

LIMITS = Limits()
LATER = 100.0


def kinds(actions: list[Action]) -> list[str]:
    """Return the names of actions and of their pods."""
    return [f"{type(action).__name__} {action.host.name}" for action in actions]


def test_a_whole_replica_is_sealed_once_all_of_it_runs() -> None:
    pods = a_replica("a")
    starting = [replace(pods[0], runs=False), *pods[1:]]
    assert looks(a_group(starting)).actions == []
    assert looks(a_group(pods[:-1])).actions == []
    found = looks(a_group(pods)).actions
    assert [type(action) for action in found] == [Seal] * N
    assert looks(a_group(sealed(pods))).actions == []


def test_a_sealing_that_was_broken_off_is_finished() -> None:
    pods = a_replica("a")
    half = [*sealed(pods)[:1], *pods[1:]]
    assert kinds(looks(a_group(half)).actions) == [f"Seal a-{host}" for host in range(1, N)]


def test_a_replica_that_was_never_whole_has_lost_nothing() -> None:
    for pods in (a_replica("a")[:2], [replace(a_replica("a")[0], ended=True)]):
        found = looks(a_group(pods), times=(0.0, LATER))
        assert (found.actions, found.waiting) == ([], {})


def test_a_replica_that_lost_a_host_is_condemned_when_that_has_lasted() -> None:
    broken = a_group(sealed(a_replica("a"))[1:])
    memory = Memory()
    assert look(broken, memory, LIMITS, 0.0).waiting == {"a": CHANGING}
    assert look(broken, memory, LIMITS, 29.0).actions == []
    found = look(broken, memory, LIMITS, 31.0).actions
    assert kinds(found) == ["Note head", *(f"Condemn a-{host}" for host in range(1, N))]
    assert {action.reason for action in found if isinstance(action, Condemn)} == {LOST}


def test_another_pod_in_the_seat_does_not_make_it_whole() -> None:
    pods = sealed(a_replica("a"))
    newcomer = replace(pods[0], name="new", uid="new", sealed="")
    assert kinds(looks(a_group([newcomer, *pods[1:]]), times=(0.0, LATER)).actions)


def test_a_host_that_failed_or_is_being_deleted_is_lost() -> None:
    pods = sealed(a_replica("a"))
    for lost in (replace(pods[2], ended=True), replace(pods[2], deleting=True)):
        found = looks(a_group([*pods[:2], lost, *pods[3:]]), times=(0.0, LATER))
        assert "Condemn a-0" in kinds(found.actions)


def test_a_replica_that_goes_as_a_whole_is_left_to_whoever_deletes_it() -> None:
    going = [replace(host, deleting=True) for host in sealed(a_replica("a"))]
    assert looks(a_group(going), times=(0.0, LATER)) == looks(a_group([]))


def test_what_is_condemned_is_marked_to_the_last_pod_and_then_deleted() -> None:
    pods = sealed(a_replica("a"))
    marked = [replace(host, condemned=LOST) for host in pods]
    assert kinds(looks(a_group([*marked[:2], *pods[2:]])).actions) == ["Condemn a-2", "Condemn a-3"]
    found = looks(a_group(marked)).actions
    assert kinds(found) == [f"Delete a-{host}" for host in range(N)]
    assert {action.reason for action in found if isinstance(action, Delete)} == {LOST}


def test_one_replica_of_a_group_goes_at_a_time() -> None:
    one, two = sealed(a_replica("a"))[1:], sealed(a_replica("b", 1))[1:]
    found = looks(a_group([*one, *two], desired=2), times=(0.0, LATER))
    assert {name.split("-")[0] for name in kinds(found.actions)} == {"Note head", "Condemn a"}
    assert found.waiting == {"b": GOING}
    leaving = [replace(host, condemned=LOST, deleting=True) for host in one]
    found = looks(a_group([*leaving, *two], desired=2), times=(0.0, LATER))
    assert (found.actions, found.waiting) == ([], {"b": GOING})


def test_nothing_is_replaced_while_the_group_is_suspended_or_changes_or_scales() -> None:
    broken = a_group(sealed(a_replica("a"))[1:])
    for held, why in (
        (replace(broken, suspended=True), SUSPENDED),
        (replace(broken, leaving=frozenset({"a-1"})), SCALING),
    ):
        found = looks(held, times=(0.0, LATER))
        assert (found.actions, found.waiting) == ([], {"a": why})
    memory = Memory()
    look(broken, memory, LIMITS, 0.0)
    found = look(replace(broken, version="2"), memory, LIMITS, LATER)
    assert (found.actions, found.waiting) == ([], {"a": CHANGING})


def test_names_of_pods_that_have_left_hold_nothing() -> None:
    broken = a_group(sealed(a_replica("a"))[1:], leaving=frozenset({"a-0", "former"}))
    assert "Condemn a-1" in kinds(looks(broken, times=(0.0, LATER)).actions)


def test_the_siblings_of_a_pod_that_leaves_go_while_there_are_more_hosts_than_wanted() -> None:
    whole, rest = sealed(a_replica("a")), sealed(a_replica("b", 1))[1:]
    leaving = frozenset({"b-0", "b-1"})
    found = looks(a_group([*whole, *rest], desired=1, leaving=leaving), times=(0.0, LATER))
    assert kinds(found.actions) == ["Note head", *(f"Condemn b-{host}" for host in range(1, N))]


def noted(found: Plan) -> Head:
    """Return the head as it is when the note of a plan was written."""
    (note,) = (action for action in found.actions if isinstance(action, Note))
    return replace(note.host, replaced=note.replaced)


def test_there_is_a_budget_an_hour_that_outlives_the_process() -> None:
    broken = a_group(sealed(a_replica("a"))[1:])
    limits, memory = Limits(per_hour=1), Memory()
    look(broken, memory, limits, 0.0)
    spent = replace(broken, head=noted(look(broken, memory, limits, 31.0)))
    assert spent.head is not None
    assert spent.head.replaced == {"g": (DATE + 31.0,)}
    for known in (memory, Memory()):
        look(spent, known, limits, 40.0)
        assert look(spent, known, limits, 100.0).waiting == {"a": SPENT}
        again = noted(look(spent, known, limits, 31.0 + 3600.0))
        assert again.replaced == {"g": (DATE + 31.0 + 3600.0,)}


def test_the_budget_outlives_a_head_pod() -> None:
    broken = a_group(sealed(a_replica("a"))[1:])
    limits, memory = Limits(per_hour=1), Memory()
    look(replace(broken, head=replace(HEAD, replaced={"g": (DATE,)})), memory, limits, 0.0)
    assert look(broken, memory, limits, 100.0).waiting == {"a": SPENT}


def test_each_group_has_a_budget_of_its_own_on_the_head_pod() -> None:
    times = {"other": (DATE, DATE + 1.0), "former": (DATE - 3600.0,)}
    broken = a_group(sealed(a_replica("a"))[1:], head=replace(HEAD, replaced=times))
    limits, memory = Limits(per_hour=1), Memory()
    look(broken, memory, limits, 0.0)
    found = noted(look(broken, memory, limits, 40.0)).replaced
    assert found == {"other": times["other"], "g": (DATE + 40.0,)}


def test_a_clock_that_was_set_back_holds_repair_for_an_hour_at_most() -> None:
    broken = a_group(sealed(a_replica("a"))[1:])
    for ahead, held in ((1800.0, True), (86400.0, False)):
        head = replace(HEAD, replaced={"g": (DATE + ahead,)})
        memory = Memory()
        look(replace(broken, head=head), memory, Limits(per_hour=1), 0.0)
        found = look(replace(broken, head=head), memory, Limits(per_hour=1), 40.0)
        assert found.waiting == ({"a": SPENT} if held else {})


def test_nothing_is_replaced_while_there_is_no_head_to_note_it_on() -> None:
    broken = a_group(sealed(a_replica("a"))[1:], head=None)
    found = looks(broken, times=(0.0, LATER))
    assert (found.actions, found.waiting) == ([], {"a": HEADLESS})


def test_restarts_that_cannot_be_read_say_nothing() -> None:
    for text in ("9" * 4301, "²", "-1", ""):
        pods = [
            replace(host, sealed=f"{host.sealed.partition('.')[0]}.{text}", restarts=3)
            for host in sealed(a_replica("a"))
        ]
        found = looks(a_group(pods, restart=True), times=(0.0, LATER))
        assert (found.actions, found.waiting) == ([], {})


def test_a_replica_that_nobody_will_fill_is_torn_also_when_it_was_never_whole() -> None:
    one, two = a_replica("a")[:2], a_replica("b", 1)[2:]
    found = looks(a_group([*one, *two]), times=(0.0, LATER))
    assert kinds(found.actions) == ["Note head", "Condemn a-0", "Condemn a-1"]
    assert {action.reason for action in found.actions if isinstance(action, Condemn)} == {TORN}
    assert found.waiting == {"b": GOING}
    for filled in (
        a_group([*one, *two], desired=2),
        a_group([*one, replace(two[0], ended=True), two[1]]),
        a_group([replace(host, ours=False) for host in (*one, *two)]),
        a_group([*one, *two], repair=False),
        a_group([*sealed(a_replica("c")), *(replace(host, ended=True) for host in one)]),
    ):
        found = looks(filled, times=(0.0, LATER))
        assert (found.actions, found.waiting) == ([], {})


def test_a_replica_that_was_whole_goes_before_one_that_others_may_fill() -> None:
    one, two = a_replica("a")[:2], sealed(a_replica("b", 1))[2:]
    found = looks(a_group([*one, *two]), times=(0.0, LATER))
    assert kinds(found.actions) == ["Note head", "Condemn b-2", "Condemn b-3"]


def test_seats_of_kuberay_are_left_to_it() -> None:
    pods = [replace(host, ours=False) for host in sealed(a_replica("a"))]
    assert looks(a_group(pods[1:]), times=(0.0, LATER)).actions == []


def test_a_group_that_does_not_ask_is_sealed_and_no_more() -> None:
    broken = replace(a_group(sealed(a_replica("a"))[1:]), repair=False)
    assert looks(broken, times=(0.0, LATER)).actions == []


def test_a_container_that_restarts_takes_its_replica_with_it_where_that_is_asked_for() -> None:
    pods = sealed(a_replica("a"))
    group = a_group([*pods[:3], replace(pods[3], restarts=1)], repair=False, restart=True)
    found = looks(group, times=(0.0, 10.0, LATER)).actions
    assert kinds(found) == ["Note head", *(f"Condemn a-{host}" for host in range(N))]
    assert {action.reason for action in found if isinstance(action, Condemn)} == {RESTARTED}
    assert looks(replace(group, restart=False), times=(0.0, LATER)).actions == []


def test_restarts_before_the_replica_was_whole_do_not_count() -> None:
    pods = sealed([replace(host, restarts=3) for host in a_replica("a")])
    assert looks(a_group(pods, restart=True), times=(0.0, LATER)).actions == []


def test_where_kuberay_gave_the_seats_one_deletion_is_tried_before_all() -> None:
    pods = [replace(host, ours=False) for host in sealed(a_replica("a"))]
    group = a_group([*pods[:3], replace(pods[3], restarts=1)], repair=False, restart=True)
    memory = Memory()
    look(group, memory, LIMITS, 0.0)
    assert kinds(look(group, memory, LIMITS, 40.0).actions) == ["Note head", "Delete a-3"]
    left = replace(group, pods=tuple(pods[:3]))
    assert look(left, memory, LIMITS, 50.0).waiting == {"a": TOO_NEW}
    found = look(left, memory, LIMITS, 80.0).actions
    assert kinds(found) == ["Note head", "Condemn a-0", "Condemn a-1", "Condemn a-2"]
