"""A TPU host receives its index and the addresses of the others in its slice, sub-slice or job."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.builders import Object, PodBuilder, a_cluster, a_pod, decide, env_names, env_of
from webhook.api import names

CLUSTER = a_cluster("c").group("g", hosts=2, replicas=2).group("single").group("four", hosts=4)


def a_tpu(group: str = "g", chips: str | int = 4) -> PodBuilder:
    return a_pod().worker(group).of("c").tpu(chips)


def a_host(replica: int = 0, host: int = 0) -> PodBuilder:
    return a_tpu().topology("2x2x2").identity(replica, host, "g-xh3hf")


SLICE = {names.TPU_TOPOLOGY, names.TPU_ACCELERATOR_TYPE}
NO_SLICE = dict.fromkeys(SLICE)
FIRST = {names.TPU_WORKER_ID: "0", names.TPU_NAME: "g-0"}
GIVEN: dict[str, tuple[PodBuilder, dict[str, str | None]]] = {
    **{
        accelerator: (
            a_tpu().topology(topology, accelerator),
            {names.TPU_TOPOLOGY: topology, names.TPU_ACCELERATOR_TYPE: kind},
        )
        for accelerator, topology, kind in (
            ("tpu-v6e-slice", "2x4", "v6e-8"), ("tpu-v9-slice", "2x4", None),
        )
    },
    "no node selectors": (a_tpu(), NO_SLICE | FIRST),
    "no chips": (a_tpu(chips=0).topology("2x2x2"), NO_SLICE | dict.fromkeys(FIRST)),
    "a single host without peers": (a_tpu("single").topology("2x2", "tpu-v6e-slice"),
     {names.TPU_WORKER_HOSTNAMES: None, names.TPU_WORKER_ID: "0", names.TPU_NAME: "single-0",
     names.TPU_ACCELERATOR_TYPE: "v6e-4"}),
    "a value from elsewhere": (a_host(0, 1).env_from(names.TPU_WORKER_ID, "metadata.labels['x']"),
     {names.TPU_WORKER_ID: "<metadata.labels['x']>"}),
    "an empty value of a field": (a_tpu().env(names.TPU_DEVICE_PLUGIN_HOST_IP, ""),
     {names.TPU_DEVICE_PLUGIN_HOST_IP: "<status.hostIP>"}),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "variables"), GIVEN.values(), ids=GIVEN)
def test_a_host_has_its_variables(pod: PodBuilder, variables: dict[str, str | None]) -> None:
    decided = decide(pod, CLUSTER)
    env = env_of(decided.pod)
    assert {name: env.get(name) for name in variables} == variables
    assert len(set(env_names(decided.pod))) == len(env)
    assert not decided.answer.warnings


def test_a_bad_topology_of_a_single_host_is_a_warning() -> None:
    decided = decide(a_tpu("single").topology("2x"), CLUSTER)
    assert not env_of(decided.pod).keys() & SLICE
    assert [warning for warning in decided.answer.warnings if names.TPU_TOPOLOGY in warning]


@pytest.mark.parametrize(
    "pod",
    [
        a_pod().worker("g").of("c").resource(names.RESOURCE_TPU, "4", "requests"),
        a_tpu(chips="4").resource(names.RESOURCE_TPU, "1", "requests"),
        a_tpu(chips=2).container("second").tpu(2),
        a_tpu().init("warm-up").tpu(4),
        a_tpu(chips=2).init("sidecar", restartPolicy="Always").tpu(2),
        a_pod().worker("g").of("c").init("warm-up").tpu(4),
    ],
    ids=["requests", "limits first", "all containers", "borrowed", "sidecars", "only borrowed"],
)
def test_the_four_chips_of_a_host_are_counted_wherever_they_are_requested(pod: PodBuilder) -> None:
    decided = decide(pod.topology("2x2x2"), CLUSTER)
    assert decided.answer.allowed
    for container in [
        *decided.pod["spec"]["containers"],
        *decided.pod["spec"].get("initContainers", ()),
    ]:
        assert env_of(decided.pod, container["name"])[names.TPU_NAME] == "g-0"


def test_a_part_of_a_chip_is_refused_with_the_field() -> None:
    pod = a_pod().worker("g").of("c").container("second").resource(names.RESOURCE_TPU, "0.5")
    assert decide(pod, CLUSTER).fields == ["spec.containers[1].resources[google.com/tpu]"]


@pytest.mark.parametrize(("name", "placeholder", "value"), [
    (names.TPU_WORKER_ID, "0", "1"), (names.TPU_WORKER_ID, "", "1"),
    (names.TPU_WORKER_ID, None, "1"),
    (names.TPU_WORKER_HOSTNAMES, "localhost", "g-0-0.c-headless,g-0-1.c-headless"),
    (names.TPU_WORKER_HOSTNAMES, "", "g-0-0.c-headless,g-0-1.c-headless"),
    (names.TPU_WORKER_HOSTNAMES, None, "g-0-0.c-headless,g-0-1.c-headless"),
])  # fmt: skip
def test_a_placeholder_is_replaced_in_place(name: str, placeholder: str | None, value: str) -> None:
    decided = decide(
        a_host(0, 1).env("FIRST", "1").env(name, placeholder).env("LAST", "1"), CLUSTER
    )
    order = [each for each in env_names(decided.pod) if each in {"FIRST", name, "LAST"}]
    assert order == ["FIRST", name, "LAST"]
    assert env_of(decided.pod)[name] == value
    assert not decided.answer.warnings


@pytest.mark.parametrize("name", [names.TPU_WORKER_ID, names.TPU_WORKER_HOSTNAMES, names.TPU_NAME])
def test_an_identity_set_by_hand_stays_with_a_warning_of_its_place(name: str) -> None:
    decided = decide(a_host(0, 1).env(name, "by-hand"), CLUSTER)
    assert env_of(decided.pod)[name] == "by-hand"
    (warned,) = [warning for warning in decided.answer.warnings if name in warning]
    assert "ray-worker" in warned


@pytest.mark.parametrize(("pod", "warned"), [
    (a_host(0, 0).env(names.TPU_WORKER_ID, "1"), True),
    (a_host(0, 1).env(names.TPU_WORKER_ID, "1"), False),
    (a_tpu("single").env(names.TPU_NAME, "mine"), False),  # the only replica
    (a_host().env(names.TPU_TOPOLOGY, "mine"), False),
    (a_host().env(names.TPU_ACCELERATOR_TYPE, "mine"), False),
    (a_host().env(names.TPU_DEVICE_PLUGIN_ADDR, "mine"), False),
])  # fmt: skip
def test_only_a_value_that_cannot_be_right_is_a_warning(pod: PodBuilder, warned: bool) -> None:
    decided = decide(pod, CLUSTER)
    assert bool(decided.answer.warnings) == warned
    (own,) = pod.build()["spec"]["containers"][0]["env"]
    assert env_of(decided.pod)[own["name"]] == own["value"]


def test_the_device_plugin_address_stands_behind_the_address_that_it_refers_to() -> None:
    own = a_host().env("A", "1").env(names.TPU_DEVICE_PLUGIN_HOST_IP, "10.0.0.1")
    decided = decide(own.env("B", "$(TPU_DEVICE_PLUGIN_ADDR)"), CLUSTER)
    order = env_names(decided.pod)
    assert order[-4:] == ["A", names.TPU_DEVICE_PLUGIN_HOST_IP, names.TPU_DEVICE_PLUGIN_ADDR, "B"]
    assert env_of(decided.pod)[names.TPU_DEVICE_PLUGIN_HOST_IP] == "10.0.0.1"


def test_an_empty_address_of_the_device_plugin_moves_behind_the_address_it_refers_to() -> None:
    pod = a_tpu().env(names.TPU_DEVICE_PLUGIN_ADDR, "").env("A", "a")
    pod.env(names.TPU_DEVICE_PLUGIN_HOST_IP, "10.0.0.1").env("B", "b")
    decided = decide(pod, CLUSTER).pod
    order = ["A", names.TPU_DEVICE_PLUGIN_HOST_IP, names.TPU_DEVICE_PLUGIN_ADDR, "B"]
    assert env_names(decided)[-4:] == order
    assert env_names(decided).count(names.TPU_DEVICE_PLUGIN_ADDR) == 1
    assert env_of(decided)[names.TPU_DEVICE_PLUGIN_ADDR] == "$(TPU_DEVICE_PLUGIN_HOST_IP):2112"


def a_v7x_host(host: int, *chips: int) -> PodBuilder:
    """Return a v7x pod with one TPU container for each number of chips, and a sidecar."""
    pod = a_tpu("four", chips[0]).topology("2x2x4", "tpu7x-standard-4t")
    pod.identity(0, host, "four-xh3hf")
    for number, count in enumerate(chips[1:], 1):
        pod.container(f"numa-{number}").tpu(count)
    return pod.container("sidecar").init("setup")


def test_a_v7x_host_of_one_process_is_numbered_as_a_host() -> None:
    pod = decide(a_v7x_host(3, 4), CLUSTER).pod
    env = env_of(pod)
    assert (env[names.TPU_WORKER_ID], env[names.TPU_PROCESS_PORT]) == ("3", "8471")
    every = [f"four-0-{host}.c-headless:8471" for host in range(4)]
    assert env[names.TPU_PROCESS_ADDRESSES] == ",".join(every)
    assert env_of(pod, "sidecar")[names.TPU_WORKER_ID] == "3"
    assert env_of(pod, "setup")[names.TPU_WORKER_ID] == "3"
    assert names.TPU_PROCESS_PORT not in env_of(pod, "sidecar")


@pytest.mark.parametrize("warm_up", [False, True])
def test_a_v7x_host_of_two_processes_numbers_each(warm_up: bool) -> None:
    built = a_v7x_host(3, 2, 2)
    pod = decide(built.init("warm-up").tpu(2) if warm_up else built, CLUSTER).pod
    first, second = env_of(pod), env_of(pod, "numa-1")
    assert (first[names.TPU_WORKER_ID], first[names.TPU_PROCESS_PORT]) == ("6", "8471")
    assert (second[names.TPU_WORKER_ID], second[names.TPU_PROCESS_PORT]) == ("7", "8472")
    every = ",".join(
        f"four-0-{host}.c-headless:{port}" for host in range(4) for port in (8471, 8472)
    )
    assert first[names.TPU_PROCESS_ADDRESSES] == second[names.TPU_PROCESS_ADDRESSES] == every
    assert first[names.TPU_WORKER_HOSTNAMES].count(",") == 3
    sidecar = env_of(pod, "sidecar")
    assert not {names.TPU_WORKER_ID, names.TPU_PROCESS_PORT} & sidecar.keys()
    assert sidecar[names.TPU_NAME] == "four-0"


def test_the_second_process_of_a_v7x_host_may_have_the_placeholder_id() -> None:
    pod = a_v7x_host(0, 2, 2).container("third").env(names.TPU_WORKER_ID, "0").tpu(0)
    decided = decide(pod, CLUSTER).pod
    assert env_of(decided, "third")[names.TPU_WORKER_ID] == "0"
    assert env_of(decided, "numa-1")[names.TPU_WORKER_ID] == "1"


def test_the_processes_of_a_single_v7x_host_find_each_other_without_a_service() -> None:
    pod = a_tpu("single", 2).topology("2x2x1", "tpu7x").container("numa-1").tpu(2)
    decided = decide(pod, CLUSTER)
    assert "hostname" not in decided.pod["spec"]
    assert env_of(decided.pod)[names.TPU_PROCESS_ADDRESSES] == "localhost:8471,localhost:8472"
    assert env_of(decided.pod, "numa-1")[names.TPU_WORKER_ID] == "1"


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def a_part(part: str = "2x4", whole: str = "4x4", group: str = "g") -> PodBuilder:
    pod = a_tpu(group).topology(whole, "tpu-v6e-slice")
    return pod.annotated(names.ANNOTATION_SLICE_TOPOLOGY, part)


def a_whole() -> PodBuilder:
    return a_tpu().topology("2x4", "tpu-v6e-slice")


def a_formed(group: str = "four") -> PodBuilder:
    pod = a_tpu(group).selecting(names.NODE_TPU_ACCELERATOR, "tpu7x")
    pod.annotated(
        names.KUEUE_SLICE_REQUIRED_TOPOLOGY, "cloud.google.com/gke-tpu-partition-4x4x4-id"
    )
    return pod.gated(names.KUEUE_GATE_TOPOLOGY)


def keys_of(pod: Object) -> set[str]:
    affinity = pod["spec"].get("affinity", {})
    return {term["topologyKey"] for kind in affinity.values() for term in kind.get(REQUIRED, [])}


@pytest.mark.parametrize(("pod", "topology", "kind", "hosts"), [
    (a_part(), "2x4", "v6e-8", 2),
    (a_part("2x2", "2x4", "single"), "2x2", "v6e-4", 0),
    (a_formed(), "2x2x4", "tpu7x-32", 4),  # it follows from the chips
], ids=["sub-slice", "sub-slice of one host", "formed by Kueue"])  # fmt: skip
def test_slices_have_their_topology(pod: PodBuilder, topology: str, kind: str, hosts: int) -> None:
    env = env_of(decide(pod, CLUSTER).pod)
    assert (env[names.TPU_TOPOLOGY], env[names.TPU_ACCELERATOR_TYPE]) == (topology, kind)
    assert env.get(names.TPU_WORKER_HOSTNAMES, "").count(".c-headless") == hosts


def test_hosts_of_a_sub_slice_that_do_not_add_up_are_refused_at_the_annotation() -> None:
    field = f"metadata.annotations[{names.ANNOTATION_SLICE_TOPOLOGY}]"
    assert decide(a_part("4x4", "8x8"), CLUSTER).fields == [field]
    assert decide(a_part("2x", "8x8"), CLUSTER).fields == [field]


def test_a_user_who_wants_no_checks_of_topologies_is_not_refused() -> None:
    pod = a_part("4x4", "8x8").annotated(names.ANNOTATION_SKIP_TPU_CHECK, "true")
    decided = decide(pod, CLUSTER)
    assert decided.answer.allowed
    assert env_of(decided.pod)[names.TPU_TOPOLOGY] == "4x4"


def test_two_sub_slices_share_a_node_pool() -> None:
    decided = decide(a_part(), CLUSTER)
    assert "affinity" not in decided.pod["spec"]
    assert not decided.answer.warnings


@pytest.mark.parametrize(
    ("key", "kinds"), [("cloud.google.com/gce-topology-host", 2), (names.NODE_POOL, 1)]
)
def test_hosts_of_a_sub_slice_keep_together_by_the_key_of_the_user(key: str, kinds: int) -> None:
    pod = decide(a_part(), a_cluster("c").group("g", hosts=2).opting(topology_key=key)).pod
    assert keys_of(pod) == {key}
    assert len(pod["spec"]["affinity"]) == kinds


def test_what_nobody_knows_is_left_out_and_what_follows_from_the_chips_is_not() -> None:
    decided = decide(a_formed("g"), a_cluster("c").group("g", hosts=48))
    env = env_of(decided.pod)
    assert names.TPU_TOPOLOGY not in env
    assert env[names.TPU_ACCELERATOR_TYPE] == "tpu7x-384"
    assert not decided.answer.warnings


@pytest.mark.parametrize("key", names.KUEUE_TOPOLOGIES)
def test_kueue_chooses_the_nodes_so_that_nothing_of_ours_stands_in_its_way(key: str) -> None:
    pod, cluster = a_whole().annotated(key, "true"), a_cluster("c").group("g", hosts=2)
    assert keys_of(decide(pod, cluster).pod) == {names.NODE_POOL}
    assert keys_of(decide(pod, cluster.label(names.LABEL_KUEUE_QUEUE, "tpus")).pod) == set()


@pytest.mark.parametrize(
    ("gate", "keys"),
    [("kueue.x-k8s.io/elastic-job", {names.NODE_POOL}), (names.KUEUE_GATE_TOPOLOGY, set())],
)
def test_with_a_gate_of_kueue_it_chooses_the_nodes_in_any_case(gate: str, keys: set[str]) -> None:
    assert keys_of(decide(a_whole().gated(gate), CLUSTER).pod) == keys


def test_the_user_may_want_affinity_beside_kueue() -> None:
    asking = a_cluster("c").group("four", hosts=4).opting(topology_key="example.com/rack")
    assert keys_of(decide(a_formed(), asking).pod) == {"example.com/rack"}


def torch(pod: PodBuilder) -> dict[str, str]:
    cluster = a_cluster("c").group("g", hosts=2).group("single").opting(profiles="torch-tpu")
    return env_of(decide(pod, cluster).pod)


def test_torch_tpu_builds_a_sub_slice_of_its_own() -> None:
    env = torch(a_part().identity(1, 0, "g-xh3hf"))
    assert env[names.TORCH_TPU_TOPOLOGY] == "2,4,1"
    addresses = [f"g-1-{host}.c-headless:{port}" for host in range(2) for port in range(8471, 8475)]
    assert env[names.TORCH_TPU_SLICEBUILDER_ADDRESSES] == ",".join(addresses)
    # Ray writes these for each worker process
    of_ray = {"TPU_PROCESS_BOUNDS", "TPU_CHIPS_PER_PROCESS_BOUNDS", "TPU_VISIBLE_CHIPS"}
    assert not of_ray & env.keys()


def test_torch_tpu_counts_a_chip_of_v7x_as_two_devices() -> None:
    env = torch(a_tpu("single").topology("2x2x1", "tpu7x"))
    assert env[names.TORCH_TPU_TOPOLOGY] == "2,2,1,2"
    assert env[names.TORCH_TPU_SLICEBUILDER_ADDRESSES] == ",".join(
        f"localhost:{port}" for port in range(8471, 8479)
    )


def test_torch_tpu_is_opt_in_and_none_takes_it_away() -> None:
    assert names.TORCH_TPU_TOPOLOGY not in env_of(decide(a_part(), CLUSTER).pod)
    off = a_cluster("c").group("g", hosts=2).opting(profiles="torch-tpu,none")
    assert names.TORCH_TPU_TOPOLOGY not in env_of(decide(a_part(), off).pod)


JOB = a_cluster("c").group("g", hosts=4, replicas=2)
MEGASCALE = {names.MEGASCALE_SLICE_ID, names.MEGASCALE_COORDINATOR_ADDRESS, names.MEGASCALE_PORT}


def a_slice(number: str | None = "2") -> PodBuilder:
    return a_pod().worker("g").of("c").tpu(4).env(names.MEGASCALE_NUM_SLICES, number)


def a_host_of_a_slice(replica: int) -> PodBuilder:
    return a_slice().topology("4x4", "tpu-v6e-slice").identity(replica, 1, "g-xh3hf")


@pytest.mark.parametrize(("pod", "counts"), [
    (a_pod().worker("g").of("c").tpu(4), False),
    (a_slice(""), False),
    (a_slice().tpu(0), False),
    (a_pod().worker("g").of("c").tpu(4).env_from(names.MEGASCALE_NUM_SLICES,
     "metadata.annotations['slices']"), True),
], ids=["no number", "an empty number", "no chips", "a number from elsewhere"])  # fmt: skip
def test_only_chips_with_a_number_of_slices_make_a_job(pod: PodBuilder, counts: bool) -> None:
    env = env_of(decide(pod, JOB).pod)
    assert env.keys() & MEGASCALE == (MEGASCALE if counts else set())


def test_each_process_of_a_v7x_host_has_a_port_of_its_own() -> None:
    pod = a_slice().topology("2x2x4", "tpu7x").tpu(2)
    pod.container("numa-1").tpu(2).env(names.MEGASCALE_NUM_SLICES, "2")
    decided = decide(pod, JOB).pod
    for container, port in (("ray-worker", "8081"), ("numa-1", "8082")):
        env = env_of(decided, container)
        assert env[names.MEGASCALE_PORT] == port
        assert env[names.MEGASCALE_COORDINATOR_ADDRESS] == "g-0-0.c-headless:8081"


def test_a_slice_beyond_the_number_of_slices_is_a_warning() -> None:
    (warning,) = decide(a_host_of_a_slice(2), JOB).answer.warnings
    assert names.MEGASCALE_SLICE_ID in warning
    assert not decide(a_host_of_a_slice(1), JOB).answer.warnings


@pytest.mark.parametrize("digits", [10, 4301, 100_000])
def test_a_number_of_slices_that_is_none_is_a_warning(digits: int) -> None:
    warnings = decide(a_slice("9" * digits), JOB).answer.warnings
    assert [len(warning) < 200 for warning in warnings if "999999999…" in warning] == [True]


@pytest.mark.parametrize(("replicas", "warned"), [(2, True), (1, False)])
def test_a_slice_set_by_hand_stays_with_a_warning(replicas: int, warned: bool) -> None:
    cluster = a_cluster("c").group("g", hosts=4, replicas=replicas)
    decided = decide(a_host_of_a_slice(1).env(names.MEGASCALE_SLICE_ID, "0"), cluster)
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
    decided = decide(
        a_host_of_a_slice(1).env(names.MEGASCALE_COORDINATOR_ADDRESS, "elsewhere:1"), JOB
    )
    assert env_of(decided.pod)[names.MEGASCALE_COORDINATOR_ADDRESS] == "elsewhere:1"
    assert not decided.answer.warnings
