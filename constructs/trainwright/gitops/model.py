"""``charts/gitops.yaml``: where Argo CD finds the project, and where it syncs it to."""

from typing import Annotated, Literal

from pydantic import Field

from trainwright.model import DnsLabel, DnsSubdomain, Model

Line = Annotated[str, Field(pattern=r"^\S+$")]


class GitOps(Model):
    """How Argo CD syncs a project."""

    repository: Line
    """URL of the repository, as Argo CD knows it."""
    revision: Line = "main"
    """Branch, tag or commit that is synced."""
    folder: Annotated[str, Field(pattern=r"^([\w-][\w.-]*(/[\w-][\w.-]*)*)?$")] = ""
    """Of the project in the repository, where it is not at its top."""
    project: DnsLabel = "training"
    """Name of the AppProject; the names of the Applications begin with it."""
    namespace: DnsLabel = "argocd"
    """Where Argo CD runs."""
    kind: Literal["Application", "ApplicationSet"] = "Application"
    """What is written: each Application, or an ApplicationSet that makes them."""
    destinations: dict[DnsLabel, DnsSubdomain | Annotated[str, Field(pattern=r"^https://\S+$")]] = Field(default_factory=dict)
    """Cluster -> its name in Argo CD, or the URL of its API server; a cluster that is not here has the same name there."""
