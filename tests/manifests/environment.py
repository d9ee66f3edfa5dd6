"""The environment variables of a pod of the manifests, and its settings file."""

from pathlib import Path

from tests.manifests.render import Object, container_of


def settings_file(objects: list[Object]) -> str:
    (text,) = (
        found["data"]["settings.yaml"]
        for found in objects
        if found["kind"] == "ConfigMap" and "settings.yaml" in found["data"]
    )
    return str(text)


def variables(objects: list[Object], deployment: str = "ray-webhook") -> dict[str, str]:
    return {each["name"]: each["value"] for each in container_of(objects, deployment)["env"]}


def environment(objects: list[Object], deployment: str, folder: Path) -> dict[str, str]:
    """Return the variables of a Deployment's container; their file is written into `folder`."""
    file = folder / "settings.yaml"
    file.write_text(settings_file(objects))
    return {**variables(objects, deployment), "RAY_WEBHOOK_CONFIG": str(file)}
