"""``trainwright policies``: what the platform team demands of runs."""

from __future__ import annotations

from typing import Annotated

import typer

from trainwright.cli.session import ProjectOption, no_such, open_sources, output, stop, today
from trainwright.findings import CompileError, Severity
from trainwright.policy.load import PolicyFile


def command(
    admission: Annotated[
        str | None,
        typer.Option(metavar="CLUSTER", help="Print them as ValidatingAdmissionPolicies for the namespaces of this cluster."),
    ] = None,
    project: ProjectOption = None,
) -> None:
    """List the policies in charts/policies, or print those that a cluster can enforce by itself.

    The objects go to the repository of the cluster, whose API server then refuses what `trainwright check` refuses. What CEL
    cannot say stands in comments above them.
    """
    _, sources = open_sources(project)
    broken = [one for one in sources.findings if "/policies/" in f"/{one.where.file}" and one.severity is Severity.ERROR]
    if broken:
        raise CompileError(broken)
    if admission is None:
        output("\n".join(map(_line, sources.policies.values())) or "no policies: charts/policies has none")
        return
    if admission not in sources.clusters:
        stop(no_such("cluster profile", admission, sources.clusters))
    import yaml

    from trainwright.policy.admission import admission as admitted

    made = admitted(sources.policies.values(), sources.clusters[admission].cluster, today())
    comments = [f"# Not in CEL: {line}\n" for line in made.left_out]
    output("".join(comments) + yaml.safe_dump_all(made.objects, sort_keys=False, width=130).rstrip("\n"))


def _line(file: PolicyFile) -> str:
    policy = file.policy
    return f"{policy.code:<10}{policy.severity:<9}{policy.title} ({file.name})"
