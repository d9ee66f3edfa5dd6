"""A slice of a multi-slice job receives its id and the coordinator."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.builders import Object, PodBuilder, a_cluster, a_pod, decide, env_of
from webhook.api import names

CLUSTER = a_cluster("c").group("g", hosts=4, replicas=2)
MEGASCALE = {names.MEGASCALE_SLICE_ID, names.MEGASCALE_COORDINATOR_ADDRESS, names.MEGASCALE_PORT}


def a_slice(number: str | None = "2") -> PodBuilder:
    return a_pod().worker("g").of("c").tpu(4).env(names.MEGASCALE_NUM_SLICES, number)


def a_host(replica: int) -> PodBuilder:
    return a_slice().topology("4x4", "tpu-v6e-slice").identity(replica, 1, "g-xh3hf")


@pytest.mark.parametrize(("pod", "counts"), [
    (a_pod().worker("g").of("c").tpu(4), False),
    (a_slice(""), False),
    (a_slice().tpu(0), False),
    (a_pod().worker("g").of("c").tpu(4).env_from(names.MEGASCALE_NUM_SLICES,
     "metadata.annotations['slices']"), True),
], ids=["no number", "an empty number", "no chips", "a number from elsewhere"])  # fmt: skip
def test_only_chips_with_a_number_of_slices_make_a_job(pod: PodBuilder, counts: bool) -> None:
    env = env_of(decide(pod, CLUSTER).pod)
    assert env.keys() & MEGASCALE == (MEGASCALE if counts else set())


def test_each_process_of_a_v7x_host_has_a_port_of_its_own() -> None:
    pod = a_slice().topology("2x2x4", "tpu7x").tpu(2)
    pod.container("numa-1").tpu(2).env(names.MEGASCALE_NUM_SLICES, "2")
    decided = decide(pod, CLUSTER).pod
    for container, port in (("ray-worker", "8081"), ("numa-1", "8082")):
        env = env_of(decided, container)
        assert env[names.MEGASCALE_PORT] == port
        assert env[names.MEGASCALE_COORDINATOR_ADDRESS] == "g-0-0.c-headless:8081"


def test_a_slice_beyond_the_number_of_slices_is_a_warning() -> None:
    (warning,) = decide(a_host(2), CLUSTER).answer.warnings
    assert names.MEGASCALE_SLICE_ID in warning
    assert not decide(a_host(1), CLUSTER).answer.warnings


@pytest.mark.parametrize("digits", [10, 4301, 100_000])
def test_a_number_of_slices_that_is_none_is_a_warning(digits: int) -> None:
    warnings = decide(a_slice("9" * digits), CLUSTER).answer.warnings
    assert [len(warning) < 200 for warning in warnings if "999999999…" in warning] == [True]


@pytest.mark.parametrize(("replicas", "warned"), [(2, True), (1, False)])
def test_a_slice_set_by_hand_stays_with_a_warning(replicas: int, warned: bool) -> None:
    cluster = a_cluster("c").group("g", hosts=4, replicas=replicas)
    decided = decide(a_host(1).env(names.MEGASCALE_SLICE_ID, "0"), cluster)
    assert env_of(decided.pod)[names.MEGASCALE_SLICE_ID] == "0"
    assert any(names.MEGASCALE_SLICE_ID in each for each in decided.answer.warnings) == warned


def a_group(number: int, slice_id: str | None = None) -> Object:
    """Return the template of a group whose Ray container takes part in a job over slices."""
    env = [{"name": names.MEGASCALE_NUM_SLICES, "value": str(number)}]
    if slice_id is not None:
        env.append({"name": names.MEGASCALE_SLICE_ID, "value": slice_id})
    limits = {"limits": {"google.com/tpu": "4"}}
    return {"spec": {"containers": [{"name": "ray-worker", "env": env, "resources": limits}]}}


def a_member(group: str, replica: int, number: int, slice_id: str | None = None) -> PodBuilder:
    pod = a_pod().worker(group).of("c").tpu(4).topology("4x4", "tpu-v6e-slice")
    pod.identity(replica, 1, f"{group}-xh3hf").env(names.MEGASCALE_NUM_SLICES, str(number))
    return pod if slice_id is None else pod.env(names.MEGASCALE_SLICE_ID, slice_id)


def test_slice_ids_run_on_over_the_groups_of_one_job_and_it_has_one_coordinator() -> None:
    cluster = a_cluster("c").group("a", hosts=4, replicas=2, template=a_group(3)).group("cpu")
    cluster.group("b", hosts=4, replicas=1, template=a_group(3))
    decided = decide(a_member("b", 0, 3), cluster)
    env = env_of(decided.pod)
    assert env[names.MEGASCALE_SLICE_ID] == "2"
    assert env[names.MEGASCALE_COORDINATOR_ADDRESS] == "a-0-0.c-headless"
    assert not decided.answer.warnings
    (warning,) = decide(a_member("a", 2, 3), cluster).answer.warnings
    assert warning.startswith("replica index 2 is not below 2")


@given(st.lists(st.integers(0, 3), min_size=2, max_size=4))
def test_groups_of_a_job_have_each_slice_id_once_and_a_coordinator(sizes: list[int]) -> None:
    total = sum(sizes)
    assume(total > 1 and total not in sizes)
    cluster = a_cluster("c")
    for number, replicas in enumerate(sizes):
        cluster.group(f"g{number}", hosts=4, replicas=replicas, template=a_group(total))
    places = [(f"g{number}", each) for number, size in enumerate(sizes) for each in range(size)]
    found = [env_of(decide(a_member(*place, total), cluster).pod) for place in places]
    assert [env[names.MEGASCALE_SLICE_ID] for env in found] == [str(each) for each in range(total)]
    coordinators = {env[names.MEGASCALE_COORDINATOR_ADDRESS] for env in found}
    assert coordinators == {f"{places[0][0]}-0-0.c-headless"}


def test_ids_that_the_templates_set_put_the_coordinator_where_slice_0_is() -> None:
    cluster = a_cluster("c").group("a", hosts=4, template=a_group(2, "1"))
    cluster.group("b", hosts=4, template=a_group(2, "0"))
    for group, number in (("a", "1"), ("b", "0")):
        env = env_of(decide(a_member(group, 0, 2, number), cluster).pod)
        assert env[names.MEGASCALE_SLICE_ID] == number
        assert env[names.MEGASCALE_COORDINATOR_ADDRESS] == "b-0-0.c-headless"


@pytest.mark.parametrize(("first", "second", "text"), [
    (a_group(3), a_group(3), "3 slices, but groups a to b have 2 replicas in all"),
    (a_group(3, "0"), a_group(3), "in all groups of the job, or in none"),
    (a_group(3, "1"), a_group(3, "2"), "no group of the job has MEGASCALE_SLICE_ID 0"),
])  # fmt: skip
def test_groups_that_form_no_job_get_a_warning(first: Object, second: Object, text: str) -> None:
    cluster = a_cluster("c").group("a", hosts=4, template=first)
    cluster.group("b", hosts=4, template=second)
    warnings = decide(a_member("a", 0, 3), cluster).answer.warnings
    assert [text in warning for warning in warnings] == [True]


def test_groups_that_each_have_all_slices_are_jobs_of_their_own() -> None:
    cluster = a_cluster("c").group("a", hosts=4, replicas=2, template=a_group(2))
    cluster.group("b", hosts=4, replicas=2, template=a_group(2))
    env = env_of(decide(a_member("b", 1, 2), cluster).pod)
    assert env[names.MEGASCALE_SLICE_ID] == "1"
    assert env[names.MEGASCALE_COORDINATOR_ADDRESS] == "b-0-0.c-headless"


def test_a_coordinator_of_the_user_stays() -> None:
    decided = decide(a_host(1).env(names.MEGASCALE_COORDINATOR_ADDRESS, "elsewhere:1"), CLUSTER)
    assert env_of(decided.pod)[names.MEGASCALE_COORDINATOR_ADDRESS] == "elsewhere:1"
    assert not decided.answer.warnings
