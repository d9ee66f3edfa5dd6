"""docs/annotations.md, from the table of opt-ins."""

from tests import ROOT
from tests.pages.markdown import folded
from webhook.accelerators.profiles import NONE, PROFILES, RENDEZVOUS, Profile
from webhook.api import names
from webhook.groups.annotations import OPT_INS, RULE

PAGE = ROOT / "docs" / "annotations.md"

HEAD = f"""# Annotations

<!-- Written by `make generate`; a test fails when this page is out of date. -->

Set these on the RayCluster, or on the RayJob or RayService: KubeRay copies annotations to each
RayCluster that it creates. The rule [{RULE}](rules.md#{RULE}) denies an invalid value.

| annotation | effect | values |
|---|---|---|
"""

AFTER = f"""
The label `{names.LABEL_IGNORE}: "true"` on a RayCluster or a namespace makes the webhook leave it
alone; on RayClusters it has no effect where the setting `ignore.rayclusters` is off.

## Profiles

All hosts of a multi-host GPU replica have {{rendezvous}}. A profile adds variables, and `{NONE}`
disables all profiles.

| profile | what for | variables |
|---|---|---|
"""

OWN = """
## Devices and profiles of your own

The file of [settings](settings.md) extends the tables of devices and profiles:

```yaml
apiVersion: config.ray-webhook.dev/v1alpha1
kind: Configuration
devices:
  HPU: [habana.ai/gaudi]
profiles:
  fabric:
    HCCL_COMM_ID: "{MASTER_ADDR}:5555"
    NCCL_IB_HCA: mlx5
```

Hosts that request such a device get the rendezvous variables. A name without a slash, such as
`hpus`, is the suffix of names of claims (DRA); variables with the number of devices are not set for
claims. Claims whose names end with `gpu` or `gpus` are GPUs. In the values of a profile, `{hosts}`,
`{rank}`, `{master}`, `{devices}` and rendezvous variables such as `{MASTER_ADDR}` are replaced.
RayClusters select it with `admission.ray.io/profiles: fabric`, and `ray-webhook explain profile
fabric --config settings.yaml` shows it. All processes need the same settings.

RDMA interfaces, such as the extended resources `rdma/...`, are no devices of a job: their hosts
meet because they request GPUs as well. NCCL finds the interfaces without variables; names of
interfaces, as in `NCCL_IB_HCA`, differ between clusters and belong in a profile of your own.
"""


def page() -> str:
    rows = "".join(
        f"| [`{row.annotation}`]({row.page}) | {row.means} | {row.values} |\n" for row in OPT_INS
    )
    profiles = "".join(
        f"| `{each.name}` | {each.purpose} | {_variables(each)} |\n" for each in PROFILES
    )
    return folded(HEAD + rows + AFTER.format(rendezvous=_variables(RENDEZVOUS)) + profiles + OWN)


def _variables(profile: Profile) -> str:
    return ", ".join(f"`{setting.variable}`" for setting in profile.settings)
