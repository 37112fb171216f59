"""Who the processes of a run's pods are, and what they may do, as runs state it and profiles give defaults for it."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from trainwright.model import Model
from trainwright_trainer.contract.base import ListOf, PlacedError

UserId = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""Of a user or a group (core/v1 validation: 0 to 2147483647)."""


def _without_prefix(name: str) -> str:
    if name.startswith("CAP_"):
        raise ValueError(f"Kubernetes names capabilities without CAP_; write {name.removeprefix('CAP_')}")
    return name


Capability = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{1,62}$"), AfterValidator(_without_prefix)]


class Security(Model):
    """Who the processes are, and what they may do. What is left out is the image's, as far as the namespace allows it."""

    user: UserId | None = None
    """User ID of the processes; 0 is root. Default: the image's. A namespace of level `restricted` wants one that is not 0."""
    group: UserId | None = None
    """Group ID of the processes; default: that of `user`, or the image's."""
    fs_group: UserId | None = None
    """Group that may write to the volumes; default: that of `user`."""
    root: bool | None = None
    """Whether the processes may be root's: `false` has the kubelet refuse an image whose user is root or a name, and `true` takes
    back a user and group of the profile. Default: what `user` and the namespace say.
    """
    read_only_root: bool | None = None
    """Whether the image's files are read-only; `/tmp` is then scratch, and `HOME`. Default: true for our trainer."""
    capabilities: Annotated[ListOf[Capability], Field(max_length=64)] | None = None
    """Linux capabilities in addition to the usual ones, such as `IPC_LOCK`."""
    privileged: bool | None = None
    """Whether the containers may do on the node what root can; only where the namespace's level is `privileged`."""

    @model_validator(mode="after")
    def _user_and_root_agree(self) -> Self:
        if self.user == 0 and self.root is False:
            raise PlacedError("user 0 is root, and root is false; remove one of the two", "root")
        if self.user and self.root:
            raise PlacedError(f"user {self.user} is not root, and root is true; remove root, or write user: 0", "root")
        return self
