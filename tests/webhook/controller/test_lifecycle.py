"""The lifecycle of Workloads and PodGroups against a model of the API server."""

from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from webhook.controller.podgroups.lifecycle import (
    Action,
    Actual,
    Create,
    Delete,
    Identity,
    Label,
    Release,
    Resize,
    Seen,
    SeenPodGroup,
    SeenWorkload,
    decide,
    foreign,
    needs_retry,
)
from webhook.groups.pod_groups import BASIC, Desired, PodGroup, Workload, WorkloadTemplate

UID = "uid-of-c"
WORKLOAD = "c.gang"


@dataclass
class Model:
    """A model of an API server: deletions of protected objects wait."""

    resizable: bool
    groups: dict[str, SeenPodGroup] = field(default_factory=dict)
    workloads: dict[str, SeenWorkload] = field(default_factory=dict)
    protected: frozenset[str] = frozenset()
    deleted: list[str] = field(default_factory=list)
    numbers: "count[int]" = field(default_factory=count)
    desired: Desired | None = None

    @property
    def actual(self) -> Actual:
        return Actual(tuple(self.groups.values()), tuple(self.workloads.values()))

    def apply(self, action: Action) -> None:
        """Do what the API server would. Asserts that it would not refuse."""
        if isinstance(action, Create):
            self._create(action)
            return
        if isinstance(action, Release):
            self._release(action.seen)
            return
        seen = action.seen
        name = seen.identity.name
        assert seen in self.actual.all, "an action on something that is not there"
        assert seen.identity.controller == UID, "an action on what is not ours"
        assert not seen.identity.deleting, "an action on what is on its way out"
        if isinstance(action, Delete):
            self.deleted.append(name)
            self._delete(seen)
        elif isinstance(action, Label):
            self._store(replace(seen, identity=replace(seen.identity, labelled=True)))
        else:
            self._resize(action)

    def _create(self, action: Create) -> None:
        wanted = action.desired
        assert wanted.name not in {seen.identity.name for seen in self.actual.all}, "created twice"
        identity = Identity(wanted.name, f"made-{next(self.numbers)}", "1", UID)
        if isinstance(wanted, Workload):
            self._store(SeenWorkload(identity, wanted.templates, wanted.priority_class))
            return
        if action.workload:
            workload = self.workloads[action.workload]
            assert wanted.template in {template.name for template in workload.templates}, (
                "refers to a template that is not there"
            )
        reference = action.workload, wanted.template if action.workload else ""
        self._store(SeenPodGroup(identity, wanted.min_count, wanted.priority_class, *reference))

    def _delete(self, seen: Seen) -> None:
        name = seen.identity.name
        if isinstance(seen, SeenWorkload):
            wanted = self.desired.workload if self.desired else None
            replaced = wanted is not None and wanted.name == name
            assert not replaced or name not in {group.workload for group in self.groups.values()}, (
                "replaced while referred to"
            )
            del self.workloads[name]
        elif name in self.protected:
            self._store(replace(seen, identity=replace(seen.identity, deleting=True)))
        else:
            del self.groups[name]

    def _release(self, seen: SeenPodGroup) -> None:
        assert self.groups[seen.identity.name] == seen
        assert seen.identity.deleting, "without protection it could be deleted under its pods"
        del self.groups[seen.identity.name]

    def _resize(self, action: Resize) -> None:
        assert self.resizable
        seen = action.seen
        if isinstance(seen, SeenPodGroup):
            assert seen.min_count != BASIC
            assert action.min_counts[0] != BASIC
            self._store(replace(seen, min_count=action.min_counts[0]))
            return
        assert [template.min_count == BASIC for template in seen.templates] == [
            number == BASIC for number in action.min_counts
        ]
        pairs = zip(seen.templates, action.min_counts, strict=True)
        templates = [replace(template, min_count=number) for template, number in pairs]
        self._store(replace(seen, templates=tuple(templates)))

    def _store(self, seen: Seen) -> None:
        if isinstance(seen, SeenWorkload):
            self.workloads[seen.identity.name] = seen
        else:
            self.groups[seen.identity.name] = seen

    def settle(self, desired: Desired, live: frozenset[str] = frozenset()) -> None:
        """Decide and act until there is nothing to do."""
        self.desired = desired
        for _ in range(6):
            actions = decide(desired, self.actual, resizable=self.resizable, live=live)
            if not actions:
                return
            for action in actions:
                self.apply(action)
        raise AssertionError("no end of it")

    def time_passes(self) -> None:
        """Let everything go that was being deleted."""
        self.protected = frozenset()
        remaining = [seen for seen in self.actual.all if not seen.identity.deleting]
        self.groups, self.workloads = {}, {}
        for seen in remaining:
            self._store(seen)


COUNTS = st.integers(0, 3)
PROTECTIONS = st.none() | st.just(0)
CLASSES = st.sampled_from(["", "high"])
NAMES = st.sampled_from(["c-head", "c-a", "c-b", "c-c"])
TEMPLATE_NAMES = ["head", "a", "b", "c"]


@st.composite
def templates(draw: st.DrawFn) -> tuple[WorkloadTemplate, ...]:
    chosen = draw(st.lists(st.sampled_from(TEMPLATE_NAMES), unique=True, min_size=1))
    return tuple(
        WorkloadTemplate(name, BASIC if name == "head" else draw(st.integers(1, 3)))
        for name in chosen
    )


@st.composite
def desired_ones(draw: st.DrawFn) -> Desired:
    """Draw what should exist: PodGroups `c-x` of templates `x`, and perhaps a Workload."""
    workload = Workload(WORKLOAD, draw(CLASSES), draw(templates())) if draw(st.booleans()) else None
    known = [template.name for template in workload.templates] if workload else TEMPLATE_NAMES
    chosen = draw(st.lists(st.sampled_from(known), unique=True))
    groups = [PodGroup(f"c-{name}", name, draw(COUNTS), draw(CLASSES)) for name in chosen]
    return Desired(UID, workload, tuple(groups))


@st.composite
def identities(draw: st.DrawFn, name: str) -> Identity:
    controller = draw(st.sampled_from([UID, UID, "another", ""]))
    return Identity(name, f"uid-{name}", "7", controller, draw(st.booleans()), draw(st.booleans()))


@st.composite
# A strategy is a value
def models(draw: st.DrawFn, counts: st.SearchStrategy[bool] = st.booleans()) -> Model:  # noqa: B008
    """Draw an API server in any state."""
    model = Model(resizable=draw(counts))
    for name in draw(st.lists(NAMES, unique=True)):
        reference = draw(st.sampled_from([("", ""), (WORKLOAD, "a"), ("gone", "a")]))
        model.groups[name] = SeenPodGroup(
            draw(identities(name)), draw(COUNTS), draw(CLASSES), *reference, draw(PROTECTIONS)
        )
    for name in draw(st.lists(st.sampled_from([WORKLOAD, "former"]), unique=True)):
        model.workloads[name] = SeenWorkload(
            draw(identities(name)), draw(templates()), draw(CLASSES)
        )
    model.protected = draw(st.frozensets(NAMES))
    return model


def not_ours(actual: Actual) -> list[Seen]:
    return [seen for seen in actual.all if seen.identity.controller != UID]


@given(desired_ones(), models(), st.frozensets(NAMES))
def test_any_state_reaches_the_wish(desired: Desired, model: Model, live: frozenset[str]) -> None:
    of_others = not_ours(model.actual)
    model.settle(desired, live)
    assert not live & {group.name for group in desired.pod_groups} & set(model.deleted)
    model.time_passes()
    for _ in range(2):  # a Workload may go only after the PodGroups that referred to it
        model.settle(desired)
        model.time_passes()
    model.settle(desired)
    assert not_ours(model.actual) == [seen for seen in of_others if not seen.identity.deleting]
    taken = set(foreign(desired, model.actual))
    ours = [group for group in model.actual.pod_groups if group.identity.controller == UID]
    assert {group.identity.name: (group.min_count, group.priority_class) for group in ours} == {
        group.name: (group.min_count, group.priority_class)
        for group in desired.pod_groups
        if group.name not in taken
    }
    assert needs_retry(desired, model.actual) == bool(taken)
    _check_workload(desired, model)


def _check_workload(desired: Desired, model: Model) -> None:
    """Assert that our Workload is as desired, or that a PodGroup keeps it."""
    want = desired.workload
    for seen in model.actual.workloads:
        name = seen.identity.name
        if seen.identity.controller != UID or any(
            group.workload == name for group in model.groups.values()
        ):
            continue
        assert want is not None
        assert want.name == name
        assert set(seen.templates) == set(want.templates)
        assert seen.priority_class == want.priority_class
    assert want is None or want.name in {seen.identity.name for seen in model.actual.workloads}


@given(desired_ones(), models(st.just(value=True)), st.frozensets(NAMES))
def test_a_new_count_deletes_no_group(desired: Desired, model: Model, live: frozenset[str]) -> None:
    model.settle(desired, live)
    model.time_passes()
    model.settle(desired)
    before = list(model.deleted)
    larger = [
        replace(group, min_count=group.min_count and group.min_count + 5)
        for group in desired.pod_groups
    ]
    model.settle(replace(desired, pod_groups=tuple(larger)))
    assert model.deleted == before


GROUP = PodGroup("c-a", "a", 4, "")
ONE = Desired(UID, Workload(WORKLOAD, "", (WorkloadTemplate("a", 4),)), (GROUP,))


@pytest.fixture(name="model", params=[True, False], ids=["v1beta1", "v1alpha2"])
def _model(request: pytest.FixtureRequest) -> Model:
    """An API server with nothing yet, once for each PodGroup API."""
    return Model(resizable=request.param)


def name_of(action: Action) -> str:
    return action.desired.name if isinstance(action, Create) else action.seen.identity.name


def next_actions(desired: Desired, model: Model, *live: str) -> list[tuple[str, str]]:
    """Return the kind of each next action, and the name of its object."""
    actions = decide(desired, model.actual, resizable=model.resizable, live=frozenset(live))
    return [(type(action).__name__, name_of(action)) for action in actions]


def test_opting_out_removes_both_at_once_even_while_pods_keep_the_pod_group(model: Model) -> None:
    model.settle(ONE)
    model.protected = frozenset({"c-a"})
    model.settle(Desired(UID), frozenset({"c-a"}))
    assert (model.groups["c-a"].identity.deleting, set(model.workloads)) == (True, set())


def test_a_pod_group_that_is_being_deleted_is_waited_for(model: Model) -> None:
    model.settle(ONE)
    model.protected = frozenset({"c-a"})
    model.settle(replace(ONE, pod_groups=()))
    assert next_actions(ONE, model) == []
    assert needs_retry(ONE, model.actual)
    model.time_passes()
    assert next_actions(ONE, model) == [("Create", "c-a")]


@pytest.mark.parametrize("controller", [UID, "a previous RayCluster of the name"])
def test_a_pod_group_that_pods_retain_goes_for_another(model: Model, controller: str) -> None:
    going = Identity("c-a", "u", "1", controller, deleting=True)
    model.groups["c-a"] = SeenPodGroup(going, 2, "", protection=1)
    assert next_actions(replace(ONE, pod_groups=()), model) == [("Create", WORKLOAD)]
    assert next_actions(ONE, model, "c-a") == [("Release", "c-a"), ("Create", WORKLOAD)]
    assert foreign(ONE, model.actual) == []
    model.settle(ONE, frozenset({"c-a"}))
    assert (model.groups["c-a"].min_count, model.groups["c-a"].identity.controller) == (4, UID)


@pytest.mark.parametrize("going", [{"controller": ""}, {"labelled": False}, {"deleting": False}])
def test_a_pod_group_of_others_keeps_its_protection(model: Model, going: dict[str, object]) -> None:
    mine = Identity("c-a", "u", "1", "another", deleting=True)
    model.groups["c-a"] = SeenPodGroup(replace(mine, **going), 2, "", protection=0)
    assert next_actions(ONE, model) == [("Create", WORKLOAD)]
    assert needs_retry(ONE, model.actual)


def test_a_pod_group_whose_template_the_workload_lacks_stands_alone(model: Model) -> None:
    workload = Workload(WORKLOAD, "", (WorkloadTemplate("a", 4), WorkloadTemplate("b", 2)))
    both = Desired(UID, workload, (GROUP, PodGroup("c-b", "b", 2, "")))
    model.settle(ONE)
    model.settle(both)
    assert model.groups["c-b"].workload == ""
    assert {template.name for template in model.workloads[WORKLOAD].templates} == {"a"}
    assert not needs_retry(both, model.actual)
    model.settle(replace(both, pod_groups=()))
    assert {template.name for template in model.workloads[WORKLOAD].templates} == {"a", "b"}


def test_a_workload_that_is_not_ours_leaves_pod_groups_alone(model: Model) -> None:
    model.workloads[WORKLOAD] = SeenWorkload(
        Identity(WORKLOAD, "u", "1", "another"), (WorkloadTemplate("a", 4),), ""
    )
    model.settle(ONE)
    assert model.groups["c-a"].workload == ""
    assert foreign(ONE, model.actual) == [WORKLOAD]


def test_an_unwanted_workload_stays_while_a_pod_group_refers_to_it(model: Model) -> None:
    model.settle(ONE)
    without_workload = replace(ONE, workload=None)
    assert next_actions(without_workload, model) == []
    model.settle(replace(without_workload, pod_groups=()))
    assert (set(model.groups), set(model.workloads)) == (set(), set())
