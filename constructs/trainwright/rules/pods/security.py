"""Rules on who the processes of the pods are, and on what they may do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import escape
from trainwright.manifest.template.containers import all_stated, containers_of_role
from trainwright.operators.base import RunPod
from trainwright.plan import Resolution
from trainwright.plan.model import SecurityPlan
from trainwright.plan.security import RESTRICTED, USER_ID
from trainwright.rules.pods.pod_security import BASELINE_CAPABILITIES, RESTRICTED_CAPABILITIES
from trainwright.run import Container
from trainwright.security import Security


def level_allows(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What the run, a further role or the profile asks for, against the level of the namespace."""
    further = [resolution.security_of(role) for role in resolution.binding.roles if role.further]
    for security in (resolution.plan.security, *further):
        for field, problem in _refused(security.level, security):
            yield _not_allowed(context, security.level, security.sources[field], problem)


def level_allows_containers(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What a container states of its own; all else that a level wants of it is written for it. One as Kubernetes writes it is
    looked at in the finished pod.
    """
    level = resolution.plan.security.level
    for container, source in all_stated(resolution):
        if isinstance(container, Container):
            for field, problem in _refused(level, container.security):
                yield _not_allowed(context, level, f"{source}/security/{field}", f"{problem} in container {container.name}")


def containers_may_be_whose_they_say(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """A container has the pod's user unless it states one, whatever it says of root."""
    for role in resolution.binding.roles:
        user = resolution.security_of(role).user
        for container, source in containers_of_role(resolution, role):
            asked = container.security if isinstance(container, Container) else Security()
            if asked.root is None or asked.user is not None or user is None or asked.root == (user == 0):
                continue
            effect = "it is not root" if asked.root else "the kubelet would refuse to start it"
            stated = f"with root: {str(asked.root).lower()}"
            message = f"container {container.name} has user {user}, that of its pod: {stated} {effect}"
            fix = f"write user: 0; or remove root, and it stays user {user}" if asked.root else "write a user that is not 0"
            yield found("TW601", context.locate.at(f"{source}/security/root"), message, fix)


def _not_allowed(context: Context, level: str, source: str, problem: str) -> Finding:
    fix = f"remove it, or use a namespace of a lower level than {level}"
    return found("TW604", context.locate.at(source), f"pod security {level} refuses {problem}", fix)


def _refused(level: str, asked: SecurityPlan | Security) -> Iterator[tuple[str, str]]:
    """The field and what is wrong with it."""
    if asked.privileged and level != "privileged":
        yield "privileged", "privileged"
    allowed = {RESTRICTED: RESTRICTED_CAPABILITIES, "baseline": BASELINE_CAPABILITIES}.get(level)
    if allowed is not None:
        yield from (("capabilities", f"capability {name}") for name in asked.capabilities or () if name not in allowed)
    may_be_root = asked.root if isinstance(asked, Security) else not asked.non_root
    if level == RESTRICTED and asked.user == 0:
        yield "user", "user 0"
    elif level == RESTRICTED and may_be_root:
        yield "root", "processes that may be root's"


def user_is_stated(context: Context, resolution: Resolution, pods: Sequence[RunPod]) -> Iterator[Finding]:
    """``restricted`` takes a pod with ``runAsNonRoot`` alone, and the kubelet refuses it for most images: those whose user is
    root, or a name (kubernetes, pkg/kubelet/kuberuntime/security_context.go, ``verifyRunAsNonRoot``).
    """
    if resolution.plan.security.level != RESTRICTED:
        return
    for pod in pods:
        main = pod.found.spec["containers"][0]
        users = [(owner.get("securityContext") or {}).get("runAsUser") for owner in (pod.found.spec, main)]
        if pod.role and users == [None, None]:
            message = f"namespace {context.run.namespace} is restricted, and nothing states the user as which the image runs"
            fix = f"add `security: {{user: {USER_ID}}}`, with a user ID that may read the image's files; or use another namespace"
            yield found("TW317", context.locate.run(_user_at(context, resolution, pod.role)), message, fix)
            return


def _user_at(context: Context, resolution: Resolution, role: str) -> str:
    """Where the user belongs; where nothing is said of security, the namespace that asks for one."""
    if any(one.name == role and one.further for one in resolution.binding.roles):
        return f"/roles/{escape(role)}/security"
    return "/security" if "security" in context.run.model_fields_set else "/namespace"


PLAN = (level_allows, level_allows_containers, containers_may_be_whose_they_say)
PODS = (user_is_stated,)
