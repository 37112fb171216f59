"""A reference to a Secret, which is all that a run ever holds of one."""

from typing import Annotated

from pydantic import Field

from trainwright.model import DnsSubdomain, Model


class SecretReference(Model):
    """A key of a Secret; only the reference is rendered, so a rotation changes nothing."""

    secret: DnsSubdomain
    """Name of the Secret."""
    key: Annotated[str, Field(pattern=r"^[-._a-zA-Z0-9]+$", max_length=253)]
    """Key in it."""
