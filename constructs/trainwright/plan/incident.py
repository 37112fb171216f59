"""What an incident costs: which pods come back after some were evicted, or lost with their node, and when."""

from __future__ import annotations

from trainwright.handshake import Binding, Needs

FIRST_SECONDS, MOST_SECONDS = 10, 600


def delay(failures: int) -> int:
    """Seconds before the Job controller makes the next pod (kubernetes, pkg/controller/job, backoff_utils.go).

    Args:
        failures: so far; those that the failure policy ignores are among them. Where a Job has a limit per index they are the
            index's own and never go back, else they are the whole Job's: an incident that takes N pods along adds N.
    """
    return int(min(MOST_SECONDS, FIRST_SECONDS * 2 ** min(failures - 1, MOST_SECONDS)))


def delayed(binding: Binding, supervised: bool) -> bool:
    """Whether each eviction makes the next new pod wait longer."""
    return binding.recovery.delays == "all" or (binding.recovery.delays == "ignored" and supervised)


def incident(binding: Binding, needs: Needs, supervised: bool) -> str:
    """What comes back, and when; empty where that is not known."""
    if not delayed(binding, supervised):
        return binding.recovery.returns
    first, *more = (delay(number) for number in range(1, 8))
    after = f"{first} s, then {', '.join(map(str, more))} s where the same pod is lost again"
    if supervised and needs.talk:
        return f"all pods leave together and come back after {after}"
    return f"that pod alone comes back after {after}" + ("; its peers wait for it" if needs.talk else "")
