"""The shell of RayJobs' submitters: what it runs and replaces, and the command to write instead."""

import json
import re
import shlex
import subprocess
import sys

import pytest

from tests.harness.ray_objects import Built, a_cron_job, a_job, findings, found
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.shell import wrap_in_bash

ENTRYPOINT = "job-entrypoint-in-shell"
RUNTIME_ENV = "job-runtime-env-in-shell"
POD = {"restartPolicy": "Never"}
_ARGUMENTS = "import json, sys; print(json.dumps(sys.argv[1:]))"


def said(job: Built) -> str:
    (finding,) = findings(job)
    assert finding.rule in (ENTRYPOINT, RUNTIME_ENV)
    return finding.message


@pytest.mark.parametrize(("entrypoint", "part"), [
    ("cd /app && python t.py", "python t.py runs in the submitter"),
    ("python t.py || exit 1", "exit 1 runs"),
    ("pip install x; python t.py", "python t.py runs"),
    ("python t.py | tee log", "tee log runs"),
    ("python s.py & python t.py", "python t.py runs"),
    ("pip install x\npython t.py\n", "python t.py runs"),
    ("python t.py > log", "> log redirects"),
    ("python t.py 2>&1 | tee log", "tee log runs"),
    ("python t.py;", "; at the end is a syntax error"),
    ("| python t.py", "| at the beginning is a syntax error"),
    ("python t.py &", "& at the end is a syntax error"),
    ("python t.py # all", "'# all' hides the end"),
    ("(cd /app; python t.py)", "( is a syntax error"),
    ("python t.py f(x)", "put quotes around it"), ("python t.py --say don't", "is not closed"),
    ("python t.py $BUCKET", "$BUCKET is the submitter's"),
    ("python t.py ${BUCKET:-b}", "${BUCKET:-b} is the submitter's"),
    ("python t.py $(date; id)", "$(...) runs in the submitter"),
    ("python t.py `date`", "`...` runs in the submitter"),
    ('bash -c "python t.py $BUCKET"', "$BUCKET is the submitter's"),
    ('cd /app && python t.py "$BUCKET"', "python t.py"),
])  # fmt: skip
def test_a_part_of_the_entrypoint_that_the_submitter_reads(entrypoint: str, part: str) -> None:
    for mode in ("", "K8sJobMode", "SidecarMode"):
        assert part in said(a_job().spec(entrypoint=entrypoint, submissionMode=mode))
    inside = a_cron_job(a_job().spec(entrypoint=entrypoint))
    assert found(inside) == {(ENTRYPOINT, "spec.jobTemplate.entrypoint")}


@pytest.mark.parametrize("entrypoint", [
    'bash -c "cd /app && python t.py"', "bash -c 'echo $X | tee `date`'", "python t.py\n",
    "python t.py \\\n  --epochs 3", r"find . -exec ls {} \;", "python t.py --x='a;b(c)#'",
    "python t.py a#b model=[1,2]", r"python t.py \$X", r'python -c "print(\"a\")"',
    "python t.py 2>&1",
    "python t.py --id $RAY_JOB_SUBMISSION_ID --at ${RAY_DASHBOARD_ADDRESS}", "python $HOME/t.py",
    "python t.py --price 5$", r"python $'it\'s' t.py", "python t.py {a: b}",
])  # fmt: skip
def test_an_entrypoint_that_reaches_ray(entrypoint: str) -> None:
    assert found(a_job().spec(entrypoint=entrypoint)) == set()


@pytest.mark.parametrize("mode", ["HTTPMode", "InteractiveMode"])
def test_modes_without_a_shell(mode: str) -> None:
    runtime_env = "env_vars: {A: $B}"
    job = a_job().spec(entrypoint="cd $A && x", runtimeEnvYAML=runtime_env, submissionMode=mode)
    assert found(job) == set()


@pytest.mark.parametrize(("container", "fine"), [
    ({"env": [{"name": "BUCKET", "value": "b"}]}, True),
    ({"env": [{"name": "BUCKETS", "value": "b"}]}, False),
    ({"envFrom": [{"secretRef": {"name": "s"}}]}, True),
    ({"command": ["bash", "/submit.sh"]}, True), ({"args": ["x"]}, False),
])  # fmt: skip
def test_the_template_of_the_submitter(container: dict[str, object], fine: bool) -> None:
    pod = {
        **POD,
        "containers": [{"name": "submitter", "image": "rayproject/ray:2.55.1", **container}],
    }
    job = a_job().spec(entrypoint="python t.py $BUCKET", submitterPodTemplate={"spec": pod})
    assert found(job) == (set() if fine else {(ENTRYPOINT, "spec.entrypoint")})


def test_kuberay_without_this_shell() -> None:
    job = a_job().spec(entrypoint="cd /app && python t.py")
    assert found(job, RuleSettings(kuberay=(1, 2))) == set()
    assert found(job, RuleSettings(kuberay=(1, 3))) == {(ENTRYPOINT, "spec.entrypoint")}


@pytest.mark.parametrize(("fields", "path"), [
    ({"runtimeEnvYAML": "working_dir: s3://$BUCKET/a.zip"}, "spec.runtimeEnvYAML"),
    ({"runtimeEnvYAML": r"env_vars: {A: '\$B'}"}, "spec.runtimeEnvYAML"),
    ({"runtimeEnvYAML": "pip: [a, '`b`']"}, "spec.runtimeEnvYAML"),
    ({"metadata": {"team": "$TEAM"}}, "spec.metadata[team]"),
])  # fmt: skip
def test_a_variable_beside_the_entrypoint(fields: dict[str, object], path: str) -> None:
    assert found(a_job().spec(**fields)) == {(RUNTIME_ENV, path)}


@pytest.mark.parametrize("text", [
    "# export $A\npip: [a]", "env_vars: {A: '5$'}", "env_vars: {A: '$HOME/x'}", "pip: [a, 'b>2;c']",
])  # fmt: skip
def test_a_runtime_environment_that_reaches_ray(text: str) -> None:
    assert found(a_job().spec(runtimeEnvYAML=text)) == set()


@pytest.mark.parametrize("text", [
    "echo a && echo b", "echo 'a  b'; echo c", 'echo "a  b" | cat', "echo a\necho b\n",
    "(cd / && pwd)", "echo a |\ncat", "true || echo x; echo '*'", "sleep 0 &\necho b",
])  # fmt: skip
def test_the_command_to_write_instead_does_the_same(text: str) -> None:
    """Both ways in which `ray job submit` joins arguments keep the command."""
    message = said(a_job().spec(entrypoint=text))
    remedy = wrap_in_bash(text)
    assert message.endswith(f"write {remedy}")
    program = f"{shlex.quote(sys.executable)} -c {shlex.quote(_ARGUMENTS)}"
    arguments = json.loads(_bash(f"{program} {remedy}"))
    for join in (subprocess.list2cmdline, shlex.join):
        assert _bash(join(arguments)) == _bash(text)


@pytest.mark.parametrize("text", [
    "cd $A && x", r"cd a\ b && x", "for i in 1 2\ndo x\ndone", """a 'b' && c "d" """, "# x\na\nb",
])  # fmt: skip
def test_a_command_that_no_quotes_protect_needs_a_script(text: str) -> None:
    assert re.search("script in the image", said(a_job().spec(entrypoint=text)))
    assert wrap_in_bash(text) == ""


def _bash(command: str) -> str:
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True, text=True)
    return done.stdout
