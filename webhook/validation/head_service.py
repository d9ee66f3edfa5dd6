"""Rules of the ports of the head, by which KubeRay reaches the dashboard and Ray Serve."""

from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.api.formats import shorten
from webhook.api.quantity import read_number
from webhook.api.review import NOT_SUPPORTED, REQUIRED
from webhook.validation.change import INCREMENTAL
from webhook.validation.cluster import ClusterSpec
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import RayObject, Service

_OWNERS: Final = (names.RAYJOB_KIND, names.RAYSERVICE_KIND)
_DASHBOARD: Final = "dashboard"
_DASHBOARD_PORT: Final = 8265
_SERVE: Final = "serve"
_SERVE_PORT: Final = 8000
_HEAD_ONLY: Final = "HeadOnly"
_DISABLED: Final = "Disabled"
_EXCLUDES_HEAD: Final = "excludeHeadPodFromServeSvc"
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_PREFIXES_SINCE: Final = (1, 6)
"""The first release of KubeRay that also serves ports whose names begin with `serve-`."""
_PORT_MAX: Final = 65535
_SERVICE_TYPES: Final = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
_FALSE: Final = ("false", "f", "0", "off", "n", "no")


def head_port_unnamed(ray_object: RayObject) -> Iterator[Fault]:
    """A head whose container lists ports, and not by name the one that KubeRay looks for.

    If Ray's container of the head lists any port, its Service has only those, and the ports of
    `headService`. For a RayJob and a RayService KubeRay needs one with the name `dashboard`,
    otherwise it never submits the job or the configuration. For a RayService, and a RayCluster with
    the annotation `ray.io/enable-serve-service`, it needs one with the name `serve`, otherwise it
    creates no Service for Ray Serve, and no pods of such a RayCluster.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/service.go
    (`getServicePorts`, `BuildServeService`)
    """
    cluster = ray_object.cluster
    if cluster is None:
        return
    ports = cluster.head.first.field / "ports"
    listed = {(port / "name").text for port in ports.entries()}
    # Without any port, KubeRay adds its five defaults, with their names.
    if not ports.size:
        return
    service_ports = {(port / "name").text for port in _head_service_ports(cluster).entries()}
    if cluster.owner in _OWNERS and _DASHBOARD not in listed | service_ports:
        yield _build_port_fault(ports, _DASHBOARD, _DASHBOARD_PORT)
    if _needs_serve(ray_object, cluster) and not any(_serves(cluster, name) for name in listed):
        service = ray_object.service
        port = _read_serve_port(service) if service is not None else None
        yield _build_port_fault(ports, _SERVE, port or _SERVE_PORT)


def head_service_type_unknown(cluster: ClusterSpec) -> Iterator[Fault]:
    """A type of the head's Service that is not among those of Kubernetes.

    The API server refuses the Service, and KubeRay creates no pods without it.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/service.go
    (`BuildServiceForHeadPod`)
    """
    head = cluster.head.field
    for field in (head / "serviceType", head / "headService" / "spec" / "type"):
        if field.text and field.text not in _SERVICE_TYPES:
            message = f"{shorten(field.text)!r}: write ClusterIP, NodePort or LoadBalancer"
            yield Fault(field, message, NOT_SUPPORTED)


def head_dashboard_off(cluster: ClusterSpec) -> Iterator[Fault]:
    """A head of a RayJob or RayService without the dashboard.

    KubeRay submits the job, and the configuration of Serve, to the dashboard, and never succeeds.

    https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html
    """
    value = cluster.head.params.get("include-dashboard", "").strip("\"' ")
    if cluster.owner in _OWNERS and value.lower() in _FALSE:
        message = f"{value}, but KubeRay submits to the dashboard: remove it"
        yield Fault(cluster.head.param("include-dashboard"), message)


def head_dashboard_port_mismatch(cluster: ClusterSpec) -> Iterator[Fault]:
    """A dashboard of a RayJob or RayService that listens on another port than that of its Service.

    KubeRay submits the job, and the configuration of Serve, to the port with the name `dashboard`
    of the head's container, 8265 if the container lists no ports. Nothing listens there.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/util.go
    (`FetchHeadServiceURL`)
    """
    if cluster.owner not in _OWNERS or _is_listed(_head_service_ports(cluster)):
        return
    ports = cluster.head.first.field / "ports"
    param = cluster.head.params.get("dashboard-port")
    actual = read_number(param.strip("\"' "), _PORT_MAX) if param else _DASHBOARD_PORT
    if ports.size and not _is_listed(ports):
        return
    named = next((port for port in ports.entries() if (port / "name").text == _DASHBOARD), None)
    number = _DASHBOARD_PORT if named is None else (named / "containerPort").number
    if actual and number and actual != number:
        place = cluster.head.param("dashboard-port")
        field = place if param or named is None else named / "containerPort"
        problem = f"the dashboard listens on {actual}, but its Service has port {number}"
        yield Fault(field, f"{problem}: make them equal")


def serve_port_mismatch(service: Service) -> Iterator[Fault]:
    """Proxies of Ray Serve that listen on another port than the one that KubeRay checks.

    KubeRay asks the proxy of the head, and those of workers by their readiness probe, at the port
    with the name `serve` of Ray's container, 8000 without one. If `http_options.port`, 8000 by
    default, differs, the pods never receive traffic, and the RayService does not become ready.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    (`initLivenessAndReadinessProbe`)
    """
    actual = _read_serve_port(service)
    if not actual or service.config.value is None:
        return
    head_only = (service.configuration / "proxy_location").text == _HEAD_ONLY
    cluster = service.cluster
    for group in (cluster.head,) if head_only else cluster.every_group:
        container = group.first.field
        ports = container / "ports"
        named = next((port for port in ports.entries() if (port / "name").text == _SERVE), None)
        if group is cluster.head:
            skipped = ports.size > 0 and named is None  # head-port-unnamed names the port
        else:
            skipped = (container / "readinessProbe").given
        if skipped:
            continue
        number = _SERVE_PORT if named is None else (named / "containerPort").number
        if number and number != actual:
            field = ports if named is None else named / "containerPort"
            problem = f"Serve listens on {actual}, but KubeRay checks {number}"
            advice = f"set http_options.port, or name port {actual} {_SERVE}"
            yield Fault(field, f"{problem}: {advice if named is None else 'make them equal'}")


def serve_unreachable(service: Service) -> Iterator[Fault]:
    """Proxies of Ray Serve that no Service reaches.

    The Service for Ray Serve has no endpoints without proxies, without the head where only the head
    has one, or if proxies listen on the loopback address. The RayService does not become ready.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/rayservice_controller.go
    (`updateHeadPodServeLabel`)
    """
    location = service.configuration / "proxy_location"
    host = service.configuration / "http_options" / "host"
    if location.text == _DISABLED:
        yield Fault(location, f"{_DISABLED}, but KubeRay waits for a proxy: remove it")
    elif location.text == _HEAD_ONLY and (service.field / _EXCLUDES_HEAD).flag:
        message = f"{_HEAD_ONLY}, but {_EXCLUDES_HEAD} is true: remove one of the two"
        yield Fault(location, message)
    if host.text in _LOOPBACK:
        yield Fault(host, f"{host.text}, which only the pod itself reaches: write 0.0.0.0")


def _read_serve_port(service: Service) -> int | None:
    """Return the port of Serve's proxies, None if it is not one."""
    port = service.configuration / "http_options" / "port"
    number = port.number if port.given else _SERVE_PORT
    return number if number and 0 < number <= _PORT_MAX else None


def _build_port_fault(ports: Field, name: str, number: int) -> Fault:
    problem = f"no port has the name {name}, by which KubeRay finds it"
    return Fault(ports, f"{problem}: add containerPort {number} with this name", REQUIRED)


def _head_service_ports(cluster: ClusterSpec) -> Field:
    return cluster.head.field / "headService" / "spec" / "ports"


def _is_listed(ports: Field) -> bool:
    return any((port / "name").text == _DASHBOARD for port in ports.entries())


def _serves(cluster: ClusterSpec, name: str) -> bool:
    # Names with the prefix `serve-` count since KubeRay 1.6.
    prefixes = cluster.settings.since(_PREFIXES_SINCE) is not False
    return name == _SERVE or (prefixes and name.startswith(f"{_SERVE}-"))


def _needs_serve(ray_object: RayObject, cluster: ClusterSpec) -> bool:
    """Return whether KubeRay creates a Service for Ray Serve from the ports of the head."""
    service = ray_object.service
    return cluster.has_serve_service or (service is not None and not _has_own_ports(service))


def _has_own_ports(service: Service) -> bool:
    """Return whether `serveService` has ports; an incremental upgrade does not use them."""
    incremental = (service.field / "upgradeStrategy" / "type").text == INCREMENTAL
    return not incremental and (service.field / "serveService" / "spec" / "ports").size > 0
