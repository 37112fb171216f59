"""An object store in rclone's words (rclone.org/docs, Environment Variables; rclone.org/s3; rclone.org/googlecloudstorage)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainwright.manifest.provenance import Tree, Why
from trainwright.run import AccessKeys, AccountKey, Preparation, SecretReference

REMOTE = "RCLONE_CONFIG_STORE_"
"""A variable of this prefix is an option of the remote ``store``."""

OPTIONS = (
    ("RCLONE_CONFIG", "/dev/null", "no file of settings: all of them are here"),
    ("RCLONE_TRANSFERS", "8", "files side by side"),
    ("RCLONE_CHECKERS", "16", "comparisons side by side"),
    ("RCLONE_RETRIES", "5", "before the pod gives up; the next pod goes on"),
    ("RCLONE_USE_SERVER_MODTIME", "true", "the store's own time: another would cost one request a file"),
    ("RCLONE_STATS", "1m", "one line of progress a minute"),
    ("RCLONE_STATS_ONE_LINE", "true", "one line of progress a minute"),
    ("RCLONE_STATS_LOG_LEVEL", "NOTICE", "one line of progress a minute"),
)


def settings(preparation: Preparation, source: str) -> list[Why]:
    """Variables of the remote, and of rclone itself; ``source`` is the pointer of the preparation."""
    remote = _s3(preparation, source) if preparation.store == "s3" else _gs(preparation, source)
    return [*remote, *(_value(name, value, "trainwright", reason) for name, value, reason in OPTIONS)]


def said_by(variables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a preparation says of its store, by the variables that it got."""
    values = {one["name"].removeprefix(REMOTE): one.get("value") for one in variables}
    keys = {one["name"].removeprefix(REMOTE): one["valueFrom"]["secretKeyRef"] for one in variables if "valueFrom" in one}
    stated = {name: values[variable] for name, variable in (("region", "REGION"), ("endpoint", "ENDPOINT")) if variable in values}
    secrets = {
        name: {"secret": keys[variable]["name"], "key": keys[variable]["key"]}
        for name, variable in _KEYS.items()
        if variable in keys
    }
    return {"source": str(values["ORIGIN"]).replace("$$", "$"), **stated, **({"credentials": secrets} if secrets else {})}


_KEYS = {"access_key": "ACCESS_KEY_ID", "secret_key": "SECRET_ACCESS_KEY", "account_key": "SERVICE_ACCOUNT_CREDENTIALS"}
"""Key of credentials -> option of the remote."""


def credentials(preparation: Preparation) -> str:
    """Which credentials are used, in words for a message."""
    known = preparation.credentials
    if isinstance(known, AccessKeys):
        names = dict.fromkeys(each.secret for each in (known.access_key, known.secret_key))
        return f"the keys in Secret {' and '.join(names)}"
    if isinstance(known, AccountKey):
        return f"the key in Secret {known.account_key.secret}"
    if preparation.service_account:
        return f"service account {preparation.service_account}"
    return "anybody (the run names no credentials)"


def _s3(preparation: Preparation, source: str) -> list[Why]:
    known, endpoint = preparation.credentials, preparation.endpoint
    variables = [
        _value(f"{REMOTE}TYPE", "s3", f"{source}/source", "the kind of store"),
        _value(f"{REMOTE}PROVIDER", "Other" if endpoint else "AWS", f"{source}/endpoint", "whose S3 it is"),
    ]
    if endpoint:
        variables.append(_value(f"{REMOTE}ENDPOINT", endpoint, f"{source}/endpoint", "as asked"))
    if preparation.region:
        variables.append(_value(f"{REMOTE}REGION", preparation.region, f"{source}/region", "as asked"))
    if isinstance(known, AccessKeys):
        pointer = f"{source}/credentials"
        variables.append(_secret(f"{REMOTE}ACCESS_KEY_ID", known.access_key, f"{pointer}/access_key"))
        variables.append(_secret(f"{REMOTE}SECRET_ACCESS_KEY", known.secret_key, f"{pointer}/secret_key"))
    elif preparation.service_account:
        variables.append(_by_account(source))
    return variables


def _gs(preparation: Preparation, source: str) -> list[Why]:
    known = preparation.credentials
    variables = [_value(f"{REMOTE}TYPE", "google cloud storage", f"{source}/source", "the kind of store")]
    if isinstance(known, AccountKey):
        pointer = f"{source}/credentials/account_key"
        variables.append(_secret(f"{REMOTE}SERVICE_ACCOUNT_CREDENTIALS", known.account_key, pointer))
    elif preparation.service_account:
        variables.append(_by_account(source))
    else:
        variables.append(_value(f"{REMOTE}ANONYMOUS", "true", source, "the source is open to everybody"))
    return variables


def _by_account(source: str) -> Why:
    return _value(f"{REMOTE}ENV_AUTH", "true", f"{source}/service_account", "who reads follows from the pod's account")


def _value(name: str, value: str, source: str, reason: str) -> Why:
    return Why({"name": name, "value": value}, source, reason)


def _secret(name: str, reference: SecretReference, source: str) -> Why:
    tree: Tree = {"name": name, "valueFrom": {"secretKeyRef": {"name": reference.secret, "key": reference.key}}}
    return Why(tree, source, "a reference: the value stays in the Secret")
