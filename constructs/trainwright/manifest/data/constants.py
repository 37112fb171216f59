"""Why the constants of the Job that fetches are as they are."""

from __future__ import annotations

from collections.abc import Mapping

_POD = "Job/spec/template/spec"

CONSTANTS: Mapping[str, str] = {
    "Job": "fetches a data set once, for all runs of the namespace that read it",
    "Job/metadata": "in the namespace of the runs that read the data",
    "Job/metadata/labels": "by these it is found, and known as part of the foundation",
    "Job/spec/backoffLimit": "a pod that fails leaves what it copied to the next one, which may wait for up to ten minutes",
    "Job/spec/podReplacementPolicy": "a new pod starts when the old one has ended: two would copy the same files",
    "Job/spec/podFailurePolicy": "a pod that was evicted or drained costs no try",
    "Job/spec/template": "the pod that copies",
    "Job/spec/template/metadata": "no labels of a run: neither its Services nor its monitors mean this pod",
    f"{_POD}/restartPolicy": "a failed pod is replaced by a new one, which podFailurePolicy asks for",
    f"{_POD}/terminationGracePeriodSeconds": "a transfer that is told to end does so at once",
    f"{_POD}/automountServiceAccountToken": "copying needs no access to the API server; clouds bring tokens of their own",
    f"{_POD}/enableServiceLinks": "variables for every Service of the namespace would be noise, and can collide",
    f"{_POD}/securityContext": "as strict as the `restricted` pod security standard; the user whom the runs read as",
    f"{_POD}/containers": "one container: rclone, and the script around it",
    f"{_POD}/containers/0/command": "copies, compares, and writes the marker last; finds the marker and ends the next time",
    f"{_POD}/containers/0/env": "what the script and rclone are told",
    f"{_POD}/containers/0/resources": "requests equal limits",
    f"{_POD}/containers/0/terminationMessagePolicy": "the last lines of the log say what is wrong",
    f"{_POD}/containers/0/securityContext": "as strict as the `restricted` standard, with a read-only root file system",
    f"{_POD}/containers/0/volumeMounts": "scratch, and the whole volume: the script makes the folders, as the user it runs as",
    f"{_POD}/volumes": "scratch, and the claim",
}
