"""Addresses of code in runtime environments: protocols and archives by release of Ray."""

import pytest

from tests.harness.ray_objects import a_cluster, a_cron_job, a_job, a_service, found
from webhook.validation.finding import WARN
from webhook.validation.ruleset import check

RULE = "working-dir-no-archive"
JOB = "spec.runtimeEnvYAML"
UNKNOWN = "registry.example/app:1"


def with_release(release: str, environment: str) -> set[tuple[str, str]]:
    """Return the findings in a RayJob whose image names this release, or none."""
    image = f"rayproject/ray:{release}" if release else UNKNOWN
    cluster = a_cluster().spec(rayVersion=release or None).head_container(image=image)
    return found(a_job(cluster).spec(runtimeEnvYAML=environment))


@pytest.mark.parametrize("release", ["2.40.0", "2.54.1", "2.57.0", "2.60.0", ""])
@pytest.mark.parametrize("address", [
    "https://github.com/u/r", "https://github.com/u/r/archive/refs/heads/main", "s3://b/dir/",
    "git+https://github.com/u/r.git", "ssh://git@github.com/u/r", "https://x/a.zip.txt",
    "https://x/a?file=b.zip", "hdfs://x/a.zip", "gs://b/a.ZIP", "s3://b/a.jar",
])  # fmt: skip
def test_an_address_that_no_ray_takes(release: str, address: str) -> None:
    path = f"{JOB}.working_dir"
    assert with_release(release, f"working_dir: '{address}'") == {(RULE, path)}
    assert with_release(release, f"py_modules: ['{address}']") == {(RULE, f"{JOB}.py_modules[0]")}


@pytest.mark.parametrize("release", ["2.40.0", "2.54.1", "2.57.0", "2.60.0", ""])
@pytest.mark.parametrize("address", [
    "https://github.com/u/r/archive/main.zip", "s3://b/a.zip", "gs://b/a.zip", "file:///app/a.zip",
    "https://x/a.zip?token=x/y", "abfss://c@a.dfs.core.windows.net/a.zip", "/app", "./src",
    "gcs://_ray_pkg_1.zip", "HTTPS://x/a.zip",
])  # fmt: skip
def test_an_address_that_every_ray_takes(release: str, address: str) -> None:
    assert with_release(release, f"working_dir: '{address}'") == set()
    assert with_release(release, f"py_modules: ['{address}']") == set()


@pytest.mark.parametrize(("address", "refused"), [
    ("https://x/a.tar.gz", ["2.54.1"]), ("https://x/a.tgz", ["2.54.1"]),
    ("https://x/a.tar.xz", ["2.54.1", "2.57.0"]), ("http://x/a.zip", ["2.54.1"]),
    ("local:///app", ["2.54.1", "2.57.0"]), ("https://x/a.whl", ["2.60.0"]),
])  # fmt: skip
def test_an_address_that_some_releases_take(address: str, refused: list[str]) -> None:
    environment = f"working_dir: '{address}'"
    releases = ("2.54.1", "2.57.0", "2.60.0", "")
    assert [each for each in releases if with_release(each, environment)] == refused


def test_every_place_of_a_runtime_environment() -> None:
    wrong = "{working_dir: 'https://github.com/u/r'}"
    job = a_job().spec(runtimeEnvYAML=wrong)
    nested = "spec.jobTemplate.runtimeEnvYAML.working_dir"
    assert found(a_cron_job(job)) == {(RULE, nested)}
    application = f"{{import_path: 'a:b', runtime_env: {wrong}}}"
    actor = f"{{name: D, ray_actor_options: {{runtime_env: {wrong}}}}}"
    deployment = f"{{import_path: 'a:b', deployments: [{actor}]}}"
    first = "spec.serveConfigV2.applications[0]"
    for text, path in (
        (application, f"{first}.runtime_env.working_dir"),
        (deployment, f"{first}.deployments[0].ray_actor_options.runtime_env.working_dir"),
    ):
        service = a_service().spec(serveConfigV2=f"applications: [{text}]")
        assert found(service) == {(RULE, path)}
    (finding,) = check("RayJob", job.build())
    assert finding.level == WARN
    assert finding.message.endswith("write https://github.com/u/r/archive/BRANCH.zip")


def test_an_address_with_a_variable_of_a_submitter() -> None:
    job = a_job().spec(runtimeEnvYAML="working_dir: s3://$BUCKET/dir", submissionMode="HTTPMode")
    assert found(job) == set()
