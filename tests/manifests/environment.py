"""What a pod of the manifests has in its environment, and the file that it reads
its settings from.
"""

from pathlib import Path

from tests.manifests.render import Object, one


def config_map(objects: list[Object], what: str) -> Object:
    """Return the ConfigMap `settings` or `components`, whatever prefix and hash its name has."""
    (found,) = (
        found
        for found in objects
        if found["kind"] == "ConfigMap" and f"ray-webhook-{what}" in found["metadata"]["name"]
    )
    return found


def environment(objects: list[Object], deployment: str, folder: Path) -> dict[str, str]:
    """Return the variables of a Deployment's container; the file that they name is written into
    `folder`.
    """
    found = one(objects, "Deployment", deployment)
    (container,) = found["spec"]["template"]["spec"]["containers"]
    own = {
        each["name"]: each.get("value", found["metadata"]["namespace"])
        for each in container.get("env", ())
    }
    file = folder / "settings.yaml"
    file.write_text(config_map(objects, "settings")["data"]["settings.yaml"])
    return {**config_map(objects, "components")["data"], **own, "RAY_WEBHOOK_FILE": str(file)}
