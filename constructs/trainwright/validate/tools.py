"""YAML files beside manifests that hold no object: tools read them, and the API server has no such kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainwright.objects.fields import text
from trainwright.validate.crd import SUFFIXES
from trainwright.validate.manifests import Manifest

TOOLS: Mapping[str, str] = {
    "kustomize.config.k8s.io": "kustomize",
    "kind.x-k8s.io": "kind",
    "k3d.io": "k3d",
    "eksctl.io": "eksctl",
    "kubeadm.k8s.io": "kubeadm",
    "kubelet.config.k8s.io": "the kubelet",
    "kubeproxy.config.k8s.io": "kube-proxy",
    "kubescheduler.config.k8s.io": "kube-scheduler",
    "apiserver.config.k8s.io": "kube-apiserver",
    "audit.k8s.io": "kube-apiserver",
    "config.kueue.x-k8s.io": "Kueue",
    "config.jobset.x-k8s.io": "JobSet",
    "config.trainer.kubeflow.org": "Trainer",
    "config.lws.x-k8s.io": "LeaderWorkerSet",
    "config.ray.io": "KubeRay",
    "skaffold": "skaffold",
    "kubectl": "kubectl",  # a kubeconfig, whose apiVersion has no group
}
"""API group of a file of settings -> who reads it."""

_KUSTOMIZATIONS = frozenset(("kustomization.yaml", "kustomization.yml"))
"""The names under which kustomize looks for its file, which then needs neither apiVersion nor kind."""


_OBJECTS = frozenset(("resources", "bases", "components"))
"""What a kustomization names under these is built; all other files that it names are patches and settings."""


def parts_of(manifest: Manifest) -> Iterator[Path]:
    """Files beside a kustomization that hold no objects of their own, as far as they are there."""
    folder = Path(manifest.document.file).parent
    waiting: list[Any] = [value for key, value in manifest.data.items() if key not in _OBJECTS]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and "\n" not in value and (path := folder / value.rpartition("=")[2]).suffix in SUFFIXES:
            yield path.resolve()
        elif isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value


def tool_of(manifest: Manifest) -> str:
    """Who reads a file that holds no object; empty for an object."""
    version, kind = text(manifest.data, "/apiVersion"), text(manifest.data, "/kind")
    if not version and not kind and Path(manifest.document.file).name in _KUSTOMIZATIONS:
        return "kustomize"
    return TOOLS.get("kubectl" if (version, kind) == ("v1", "Config") else version.rpartition("/")[0], "")
