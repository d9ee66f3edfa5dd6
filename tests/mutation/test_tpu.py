"""A TPU host receives its index in the slice and the addresses of the other hosts."""

import pytest

from tests.builders import (
    PodBuilder,
    a_cluster,
    a_pod,
    container_of,
    decide,
    env_names,
    env_of,
)
from webhook.api import names

CLUSTER = a_cluster("c").group("g", hosts=2, replicas=2).group("single").group("four", hosts=4)
SLICE = {names.TPU_TOPOLOGY, names.TPU_ACCELERATOR_TYPE}


def a_host(replica: int = 0, host: int = 0) -> PodBuilder:
    """Return a pod of the two-host group, on TPU v4."""
    return a_pod().worker("g").of("c").tpu(4).topology("2x2x2").seat(replica, host, "g-xh3hf")


def test_a_host_of_a_v4_slice_gets_everything() -> None:
    env = env_of(decide(a_host(1, 1), CLUSTER).pod)
    assert {name: value for name, value in env.items() if name.startswith("TPU_")} == {
        names.TPU_WORKER_ID: "1",
        names.TPU_NAME: "g-1",
        names.TPU_WORKER_HOSTNAMES: "g-1-0.c-headless,g-1-1.c-headless",
        names.TPU_TOPOLOGY: "2x2x2",
        names.TPU_ACCELERATOR_TYPE: "v4-16",
        names.TPU_DEVICE_PLUGIN_HOST_IP: "<status.hostIP>",
        names.TPU_DEVICE_PLUGIN_ADDR: "$(TPU_DEVICE_PLUGIN_HOST_IP):2112",
    }


@pytest.mark.parametrize(
    ("accelerator", "topology", "kind"),
    [
        ("tpu-v5-lite-podslice", "2x4", "v5litepod-8"),
        ("tpu-v6e-slice", "2x4", "v6e-8"),
        ("tpu-v5p-slice", "2x2x2", "v5p-16"),
        ("tpu7x-standard-4t", "2x2x2", "tpu7x-16"),
    ],
)
def test_each_generation_has_its_accelerator_type(
    accelerator: str, topology: str, kind: str
) -> None:
    env = env_of(
        decide(a_pod().worker("g").of("c").tpu(4).topology(topology, accelerator), CLUSTER).pod
    )
    assert (env[names.TPU_TOPOLOGY], env[names.TPU_ACCELERATOR_TYPE]) == (topology, kind)


def test_an_unknown_accelerator_has_a_topology_but_no_type() -> None:
    env = env_of(
        decide(a_pod().worker("g").of("c").tpu(4).topology("2x4", "tpu-v9-slice"), CLUSTER).pod
    )
    assert env.keys() & SLICE == {names.TPU_TOPOLOGY}


def test_without_node_selectors_the_slice_is_known_but_not_its_kind() -> None:
    decided = decide(a_pod().worker("g").of("c").tpu(4), CLUSTER)
    env = env_of(decided.pod)
    assert not env.keys() & SLICE
    assert (env[names.TPU_WORKER_ID], env[names.TPU_NAME]) == ("0", "g-0")
    assert not decided.answer.warnings


def test_a_single_host_has_no_peers() -> None:
    env = env_of(
        decide(
            a_pod().worker("single").of("c").tpu(4).topology("2x2", "tpu-v6e-slice"), CLUSTER
        ).pod
    )
    assert names.TPU_WORKER_HOSTNAMES not in env
    assert (env[names.TPU_WORKER_ID], env[names.TPU_NAME], env[names.TPU_ACCELERATOR_TYPE]) == (
        "0",
        "single-0",
        "v6e-4",
    )


def test_a_bad_topology_of_a_single_host_is_a_warning() -> None:
    decided = decide(a_pod().worker("single").of("c").tpu(4).topology("2x"), CLUSTER)
    assert not env_of(decided.pod).keys() & SLICE
    assert [warning for warning in decided.answer.warnings if names.TPU_TOPOLOGY in warning]


def test_a_pod_without_chips_gets_no_tpu_variable() -> None:
    env = env_of(decide(a_pod().worker("g").of("c").tpu(0).topology("2x2x2"), CLUSTER).pod)
    assert not [name for name in env if name.startswith("TPU_")]


def test_chips_are_limits_else_requests() -> None:
    only_requests = (
        a_pod().worker("g").of("c").resource(names.RESOURCE_TPU, "4", "requests").topology("2x2x2")
    )
    assert env_of(decide(only_requests, CLUSTER).pod)[names.TPU_NAME] == "g-0"
    limits_differ = (
        a_pod()
        .worker("g")
        .of("c")
        .resource(names.RESOURCE_TPU, "1", "requests")
        .resource(names.RESOURCE_TPU, "4")
    )
    assert decide(limits_differ.topology("2x2x2"), CLUSTER).answer.allowed


def test_chips_are_counted_over_all_containers() -> None:
    pod = a_pod().worker("g").of("c").tpu(2).topology("2x2x2").container("second").tpu(2)
    assert decide(pod, CLUSTER).answer.allowed


def test_an_init_container_borrows_the_chips_of_the_containers_that_come_after_it() -> None:
    pod = a_pod().worker("g").of("c").tpu(4).topology("2x2x2").init("warm-up").tpu(4)
    decided = decide(pod, CLUSTER)
    assert decided.answer.allowed
    assert env_of(decided.pod, "warm-up")[names.TPU_WORKER_ID] == "0"


def test_an_init_container_that_keeps_running_has_chips_of_its_own() -> None:
    pod = (
        a_pod()
        .worker("g")
        .of("c")
        .tpu(2)
        .topology("2x2x2")
        .init("sidecar", restartPolicy="Always")
        .tpu(2)
    )
    assert decide(pod, CLUSTER).answer.allowed


def test_a_pod_of_which_only_an_init_container_wants_chips_is_a_tpu_host() -> None:
    decided = decide(a_pod().worker("g").of("c").topology("2x2x2").init("warm-up").tpu(4), CLUSTER)
    assert decided.answer.allowed
    assert env_of(decided.pod, "warm-up")[names.TPU_NAME] == "g-0"


def test_the_only_replica_of_a_group_may_have_any_name_for_its_slice() -> None:
    pod = a_pod().worker("single").of("c").tpu(4).env(names.TPU_NAME, "mine")
    assert not decide(pod, CLUSTER).answer.warnings


def test_a_part_of_a_chip_is_refused_with_the_field() -> None:
    decided = decide(
        a_pod().worker("g").of("c").container("second").resource(names.RESOURCE_TPU, "0.5"), CLUSTER
    )
    assert decided.fields == ["spec.containers[1].resources[google.com/tpu]"]


def test_every_container_and_init_container_gets_the_variables() -> None:
    pod = a_host(0, 1).container("sidecar").init("setup")
    decided = decide(pod, CLUSTER)
    for container in ("ray-worker", "sidecar", "setup"):
        assert env_of(decided.pod, container)[names.TPU_WORKER_ID] == "1"


@pytest.mark.parametrize("placeholder", ["0", "", None])
def test_a_placeholder_id_is_replaced_in_place(placeholder: str | None) -> None:
    pod = a_host(0, 1).env("FIRST", "1").env(names.TPU_WORKER_ID, placeholder).env("LAST", "1")
    decided = decide(pod, CLUSTER)
    order = [
        name for name in env_names(decided.pod) if name in {"FIRST", names.TPU_WORKER_ID, "LAST"}
    ]
    assert order == ["FIRST", names.TPU_WORKER_ID, "LAST"]
    assert env_of(decided.pod)[names.TPU_WORKER_ID] == "1"
    assert not decided.answer.warnings


@pytest.mark.parametrize("placeholder", ["localhost", "", None])
def test_placeholder_host_names_are_replaced_in_place(placeholder: str | None) -> None:
    decided = decide(a_host().env(names.TPU_WORKER_HOSTNAMES, placeholder), CLUSTER)
    assert env_names(decided.pod).count(names.TPU_WORKER_HOSTNAMES) == 1
    assert env_of(decided.pod)[names.TPU_WORKER_HOSTNAMES] == "g-0-0.c-headless,g-0-1.c-headless"


def test_a_value_from_elsewhere_stays() -> None:
    decided = decide(a_host(0, 1).env_from(names.TPU_WORKER_ID, "metadata.labels['x']"), CLUSTER)
    assert env_of(decided.pod)[names.TPU_WORKER_ID] == "<metadata.labels['x']>"
    assert env_names(decided.pod).count(names.TPU_WORKER_ID) == 1
    assert not decided.answer.warnings


@pytest.mark.parametrize("name", [names.TPU_WORKER_ID, names.TPU_WORKER_HOSTNAMES, names.TPU_NAME])
def test_an_identity_set_by_hand_stays_with_a_warning_that_names_variable_and_container(
    name: str,
) -> None:
    decided = decide(a_host(0, 1).env(name, "by-hand"), CLUSTER)
    assert env_of(decided.pod)[name] == "by-hand"
    warned = [warning for warning in decided.answer.warnings if name in warning]
    assert len(warned) == 1
    assert "ray-worker" in warned[0]


def test_the_literal_id_of_another_host_is_a_warning_and_the_right_one_is_not() -> None:
    assert decide(a_host(0, 0).env(names.TPU_WORKER_ID, "1"), CLUSTER).answer.warnings
    assert not decide(a_host(0, 1).env(names.TPU_WORKER_ID, "1"), CLUSTER).answer.warnings


@pytest.mark.parametrize(
    "name", [names.TPU_TOPOLOGY, names.TPU_ACCELERATOR_TYPE, names.TPU_DEVICE_PLUGIN_ADDR]
)
def test_a_setting_of_the_user_stays_without_a_warning(name: str) -> None:
    decided = decide(a_host().env(name, "mine"), CLUSTER)
    assert env_of(decided.pod)[name] == "mine"
    assert not decided.answer.warnings


def test_new_variables_come_before_those_of_the_user_so_that_they_can_be_used() -> None:
    decided = decide(a_host().env("JOB", "host-$(TPU_WORKER_ID)"), CLUSTER)
    order = env_names(decided.pod)
    assert order.index(names.TPU_WORKER_ID) < order.index("JOB")


def test_the_device_plugin_address_stands_behind_the_address_that_it_refers_to() -> None:
    order = env_names(decide(a_host(), CLUSTER).pod)
    assert order.index(names.TPU_DEVICE_PLUGIN_HOST_IP) < order.index(names.TPU_DEVICE_PLUGIN_ADDR)
    given = (
        a_host()
        .env("A", "1")
        .env(names.TPU_DEVICE_PLUGIN_HOST_IP, "10.0.0.1")
        .env("B", "$(TPU_DEVICE_PLUGIN_ADDR)")
    )
    decided = decide(given, CLUSTER)
    order = env_names(decided.pod)
    assert order[-4:] == ["A", names.TPU_DEVICE_PLUGIN_HOST_IP, names.TPU_DEVICE_PLUGIN_ADDR, "B"]
    assert env_of(decided.pod)[names.TPU_DEVICE_PLUGIN_HOST_IP] == "10.0.0.1"


def test_an_empty_address_of_the_device_plugin_moves_behind_the_address_it_refers_to() -> None:
    pod = a_pod().worker("g").of("c").tpu(4).env(names.TPU_DEVICE_PLUGIN_ADDR, "").env("A", "a")
    pod.env(names.TPU_DEVICE_PLUGIN_HOST_IP, "10.0.0.1").env("B", "b")
    env = decide(pod, CLUSTER).pod["spec"]["containers"][0]["env"]
    address = {
        "name": names.TPU_DEVICE_PLUGIN_ADDR,
        "value": "$(TPU_DEVICE_PLUGIN_HOST_IP):2112",
    }
    host_ip = {"name": names.TPU_DEVICE_PLUGIN_HOST_IP, "value": "10.0.0.1"}
    assert env[-4:] == [
        {"name": "A", "value": "a"},
        host_ip,
        address,
        {"name": "B", "value": "b"},
    ]
    assert [entry["name"] for entry in env].count(names.TPU_DEVICE_PLUGIN_ADDR) == 1


def a_v7x_host(host: int, *chips: int) -> PodBuilder:
    """Return a v7x pod of the four-host group, with one TPU container for each number of chips, and
    a sidecar.
    """
    pod = (
        a_pod()
        .worker("four")
        .of("c")
        .topology("2x2x4", "tpu7x-standard-4t")
        .seat(0, host, "four-xh3hf")
        .tpu(chips[0])
    )
    for number, count in enumerate(chips[1:], 1):
        pod.container(f"numa-{number}").tpu(count)
    return pod.container("sidecar").init("setup")


def test_a_v7x_host_of_one_process_is_numbered_as_a_host() -> None:
    pod = decide(a_v7x_host(3, 4), CLUSTER).pod
    env = env_of(pod)
    assert (env[names.TPU_WORKER_ID], env[names.TPU_PROCESS_PORT]) == ("3", "8471")
    assert env[names.TPU_PROCESS_ADDRESSES] == ",".join(
        f"four-0-{host}.c-headless:8471" for host in range(4)
    )
    assert env_of(pod, "sidecar")[names.TPU_WORKER_ID] == "3"
    assert env_of(pod, "setup")[names.TPU_WORKER_ID] == "3"
    assert names.TPU_PROCESS_PORT not in env_of(pod, "sidecar")


def test_a_v7x_host_of_two_processes_numbers_each() -> None:
    pod = decide(a_v7x_host(3, 2, 2), CLUSTER).pod
    first, second = env_of(pod), env_of(pod, "numa-1")
    assert (first[names.TPU_WORKER_ID], first[names.TPU_PROCESS_PORT]) == ("6", "8471")
    assert (second[names.TPU_WORKER_ID], second[names.TPU_PROCESS_PORT]) == ("7", "8472")
    every = [f"four-0-{host}.c-headless:{port}" for host in range(4) for port in (8471, 8472)]
    assert (
        first[names.TPU_PROCESS_ADDRESSES] == second[names.TPU_PROCESS_ADDRESSES] == ",".join(every)
    )
    assert first[names.TPU_WORKER_HOSTNAMES].count(",") == 3


def test_a_sidecar_of_a_v7x_host_of_two_processes_is_no_process() -> None:
    pod = decide(a_v7x_host(3, 2, 2), CLUSTER).pod
    assert not {names.TPU_WORKER_ID, names.TPU_PROCESS_PORT} & env_of(pod, "sidecar").keys()
    assert env_of(pod, "sidecar")[names.TPU_NAME] == "four-0"


def test_an_init_container_with_chips_does_not_shift_the_processes_of_a_v7x_host() -> None:
    decided = decide(a_v7x_host(3, 2, 2).init("warm-up").tpu(2), CLUSTER)
    assert decided.answer.allowed
    assert env_of(decided.pod)[names.TPU_WORKER_ID] == "6"
    assert env_of(decided.pod, "numa-1")[names.TPU_WORKER_ID] == "7"
    assert env_of(decided.pod)[names.TPU_PROCESS_ADDRESSES].count(",") == 7


def test_the_second_process_of_a_v7x_host_may_have_the_placeholder_id() -> None:
    pod = decide(
        a_v7x_host(0, 2, 2).container("third").env(names.TPU_WORKER_ID, "0").tpu(0), CLUSTER
    ).pod
    assert env_of(pod, "third")[names.TPU_WORKER_ID] == "0"
    assert env_of(pod, "numa-1")[names.TPU_WORKER_ID] == "1"


def test_the_processes_of_a_single_v7x_host_find_each_other_without_a_service() -> None:
    pod = (
        a_pod()
        .worker("single")
        .of("c")
        .tpu(2)
        .topology("2x2x1", "tpu7x")
        .container("numa-1")
        .tpu(2)
    )
    decided = decide(pod, CLUSTER)
    assert "hostname" not in decided.pod["spec"]
    assert env_of(decided.pod)[names.TPU_PROCESS_ADDRESSES] == "localhost:8471,localhost:8472"
    assert env_of(decided.pod, "numa-1")[names.TPU_WORKER_ID] == "1"


def test_resources_and_everything_else_of_a_container_stay_as_they_were() -> None:
    pod = a_host().build()
    before = {key: value for key, value in container_of(pod, "ray-worker").items() if key != "env"}
    after = container_of(decide(pod, CLUSTER).pod, "ray-worker")
    assert {key: value for key, value in after.items() if key != "env"} == before


def test_an_empty_value_where_a_field_belongs_counts_as_unset() -> None:
    pod = decide(
        a_pod().worker("g").of("c").tpu(4).env(names.TPU_DEVICE_PLUGIN_HOST_IP, ""),
        a_cluster("c").group("g"),
    ).pod
    found = [
        entry
        for entry in container_of(pod, "ray-worker")["env"]
        if entry["name"] == names.TPU_DEVICE_PLUGIN_HOST_IP
    ]
    assert found == [
        {
            "name": names.TPU_DEVICE_PLUGIN_HOST_IP,
            "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}},
        }
    ]
