"""Errors of an object store as sentences, like those of a file system."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
)
from botocore.exceptions import (
    ConnectionError as BotoConnectionError,
)

from trainwright_trainer.checkpoint.storage import StorageError

_ACCESS = (
    "allow the pod's identity s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload there"
)
_CREDENTIALS = "give the pod credentials: a service account with a role, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_REACH = "check AWS_ENDPOINT_URL, the region and the network policy of the namespace"
_BUSY = "the store refused for now: look at its own state, or write less often"
_BUCKET = "make the bucket, or correct the address"

REFUSED = (OSError, BotoCoreError, ClientError)
"""Whatever s3fs raises for a request that did not succeed."""


def code_of(error: BaseException) -> str:
    """The store's own word for an error, such as ``PreconditionFailed``; empty where it has none."""
    cause = error if isinstance(error, ClientError) else error.__cause__
    return str(cause.response.get("Error", {}).get("Code", "")) if isinstance(cause, ClientError) else ""


@contextmanager
def object_errors(doing: str, location: str) -> Iterator[None]:
    """Turn whatever the store refuses into a :class:`StorageError`."""
    try:
        yield
    except REFUSED as error:
        reason = " ".join(str(error.strerror or error if isinstance(error, OSError) else error).split())
        raise StorageError(doing, location, reason or type(error).__name__, _remedy(error)) from error


def _remedy(error: BaseException) -> str:
    if isinstance(error, NoCredentialsError):
        return _CREDENTIALS
    if isinstance(error, BotoConnectionError | HTTPClientError | ConnectionError | TimeoutError):
        return _REACH
    if code_of(error) == "NoSuchBucket":
        return _BUCKET
    if isinstance(error, PermissionError):
        return _ACCESS
    if isinstance(error, OSError) and error.errno in (errno.EBUSY, errno.EREMOTEIO):
        return _BUSY
    return "check the object store"
