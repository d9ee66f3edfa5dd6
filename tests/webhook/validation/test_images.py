"""Images that kubelets parse, and those that they do not."""

from functools import partial

import pytest

from tests.harness.ray_objects import a_cluster, a_cron_job, a_job, a_service, findings, found
from tests.harness.work import RATIO_MAX, seconds

RULE = "image-reference-invalid"
DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(("image", "advice"), [
    ("<ACCOUNT>.dkr.ecr.us-east-1.amazonaws.com/ray:1", "replace <ACCOUNT>"),
    ("ray:{{ .Values.tag }}", "replace {{ .Values.tag }}"),
    ("rayproject/ray: 2.55.1", "remove the spaces"),
    ("rayproject/Ray:2.55.1", "write the path in lower case"),
    ("ghcr.io/MyOrg/ray:1", "write the path in lower case"),
    ("https://ghcr.io/org/ray:1", "remove https://"),
    ("docker://org/ray", "remove docker://"), ("rayproject/ray:2.55.1:gpu", "keep one tag"),
    ("rayproject/ray:", "add the tag, or remove the colon"),
    ("rayproject/ray@sha256:abc", "64 hexadecimal digits"),
    ("rayproject/ray@" + DIGEST.upper().replace("SHA", "sha"), "64 hexadecimal digits"),
    ("rayproject//ray", "write HOST/PATH:TAG"),
    ("rayproject/ray:" + "a" * 129, "write HOST/PATH:TAG"),
    ("/ray", "write HOST/PATH:TAG"), ("a/" * 200 + "b", "write HOST/PATH:TAG"),
    ("ray:$TAG", "the placeholder $TAG: replace it"),
    ("ray:${TAG}", "the placeholder ${TAG}: replace it"),
])  # fmt: skip
def test_an_image_that_no_kubelet_parses(image: str, advice: str) -> None:
    (finding,) = findings(a_cluster().group().container(image=image))
    assert finding.rule == ("placeholder-unresolved" if "$" in image else RULE)
    assert finding.message.endswith(advice)


@pytest.mark.parametrize("bracket", ["[", "{", "<", "{{"])
def test_the_time_for_an_image_of_brackets_is_linear(bracket: str) -> None:
    half, whole = (
        seconds(partial(findings, a_cluster().group().container(image=bracket * number)), 2)
        for number in (8_000, 16_000)
    )
    assert whole <= RATIO_MAX * half + 0.05


@pytest.mark.parametrize("image", [
    "ray", "rayproject/ray:2.55.1-py310-gpu", "localhost:5000/a/b_c__d-e.f:V1.0_RC", "MyHost/ray:1",
    "REGISTRY.example.com/team/ray:Latest", "[::1]:5000/ray", f"rayproject/ray@{DIGEST}",
    f"rayproject/ray:2.55.1@{DIGEST}", "a--b/c", "10.0.0.1/ray",
])  # fmt: skip
def test_an_image_that_kubelets_parse(image: str) -> None:
    assert found(a_cluster().group().container(image=image)) == set()


def test_every_place_of_an_image() -> None:
    wrong = {"name": "c", "image": "<IMAGE>"}
    head = "headGroupSpec.template.spec"
    cluster = a_cluster().group()
    cluster.head_pod(initContainers=[wrong])
    assert found(cluster) == {(RULE, f"spec.{head}.initContainers[0].image")}
    assert found(a_service(cluster)) == {
        (RULE, f"spec.rayClusterConfig.{head}.initContainers[0].image")
    }
    scaled = a_cluster().autoscaled(image="<IMAGE>").group()
    assert found(scaled) == {(RULE, "spec.autoscalerOptions.image")}
    inits = [{**wrong, "name": "i"}]
    pod = {"restartPolicy": "Never", "containers": [wrong], "initContainers": inits}
    job = a_job().spec(submitterPodTemplate={"spec": pod})
    template = "submitterPodTemplate.spec"
    assert found(a_cron_job(job)) == {
        (RULE, f"spec.jobTemplate.{template}.{name}[0].image")
        for name in ("containers", "initContainers")
    }
