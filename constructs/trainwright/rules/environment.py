"""Rules on environment variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from trainwright.codes import found
from trainwright.findings import Finding, Where
from trainwright.overrides.owned import owner_of
from trainwright.plan import Resolution
from trainwright.rules.context import Context
from trainwright.run import SecretReference

Environment = Mapping[str, str | SecretReference | None]
"""Name -> text, or a value that is not written in the run."""

REMOVED = {
    "NCCL_TREE_THRESHOLD": "removed in NCCL 2.5; use NCCL_ALGO where you must",
    "NCCL_LL_THRESHOLD": "removed in NCCL 2.5; use NCCL_PROTO where you must",
    "NCCL_SINGLE_RING_THRESHOLD": "removed in NCCL 2.3",
    "NCCL_TIMEOUT": "never read by NCCL or torch; the trainer has budgets of its own",
}
"""Variables that nothing reads (NCCL user guide, environment variables)."""

RISKY = {
    "NCCL_MIN_NRINGS": "deprecated name of NCCL_MIN_NCHANNELS, itself superseded by NCCL_MIN_CTAS",
    "NCCL_MAX_NRINGS": "deprecated name of NCCL_MAX_NCHANNELS, itself superseded by NCCL_MAX_CTAS",
    "NCCL_MIN_NCHANNELS": "superseded by NCCL_MIN_CTAS since NCCL 2.17",
    "NCCL_MAX_NCHANNELS": "superseded by NCCL_MAX_CTAS since NCCL 2.17",
    "NCCL_ALGO": "turns off every algorithm that it does not name, and since NCCL 2.24 there is no fallback",
    "NCCL_NET_GDR_LEVEL": "forces GPUDirect RDMA over paths where it may be slower",
}

_WORDS = r"TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|APIKEY|API_KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS"
_SECRET_NAME = re.compile(rf"(^|_)({_WORDS})($|_)", re.IGNORECASE)
_HARMLESS_NAME = re.compile(
    r"(^|_)(PAD|BOS|EOS|UNK|MASK|SEP|CLS|STOP|SPECIAL)_TOKEN|_(FILE|PATH|DIR|NAME|URL|ENDPOINT|TYPE|ID|LIMIT|COUNT|BUDGET)$",
    re.IGNORECASE,
)
_HARMLESS_VALUE = re.compile(r"(true|false|yes|no|on|off|none|[0-9.]*|/\S*)", re.IGNORECASE)
SECRET_VALUE = re.compile(
    r"hf_[A-Za-z0-9]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{20,}|glpat-[\w-]{20,}|sk-[A-Za-z0-9_-]{20,}|xox[abprs]-[\w-]{10,}"
    r"|A(KI|SI)A[0-9A-Z]{16}|AIza[\w-]{30,}|-----BEGIN [A-Z ]*PRIVATE KEY-----|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.|://[^/\s:@]+:[^/\s@$]+@"
)
"""Forms of well-known tokens and keys, and a password in an address."""


def reserved(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Names that the controller, the supervisor or the plan sets: setting them again breaks ranks without a word."""
    for name in context.run.env:
        owner = owner_of(name, resolution)
        if owner:
            yield found(
                "TW403",
                context.locate.run(f"/env/{name}"),
                owner,
                "remove it; `trainwright plan --json` shows what is set, and why",
            )


def nccl(context: Context) -> Iterator[Finding]:
    """Settings of NCCL in the run's environment."""
    yield from nccl_findings(context.run.env, lambda name: context.locate.run(f"/env/{name}"))


def nccl_findings(env: Environment, where: Callable[[str], Where]) -> Iterator[Finding]:
    """Settings of NCCL that do nothing, or are rarely what one wants."""
    for name in env:
        if name in REMOVED:
            yield found("TW407", where(name), f"{name} has no effect: {REMOVED[name]}", "remove it")
        elif name in RISKY:
            yield found(
                "TW408", where(name), f"{name}: {RISKY[name]}", "remove it, or waive this with the measurement that asks for it"
            )
    hca = env.get("NCCL_IB_HCA")
    if isinstance(hca, str) and not hca.startswith(("=", "^=")):
        word = "leaves out" if hca.startswith("^") else "matches"
        exact = f"^={hca[1:]}" if hca.startswith("^") else f"={hca}"
        yield found(
            "TW408",
            where("NCCL_IB_HCA"),
            f"NCCL_IB_HCA={hca} {word} every adapter whose name starts so",
            f"write {exact!r} for exact names",
        )
    if "NCCL_DEBUG_SUBSYS" in env and str(env.get("NCCL_DEBUG")).upper() not in ("INFO", "TRACE"):
        yield found(
            "TW408",
            where("NCCL_DEBUG_SUBSYS"),
            "NCCL_DEBUG_SUBSYS has no effect without NCCL_DEBUG=INFO",
            "set NCCL_DEBUG to INFO, or remove it",
        )


def secrets(context: Context) -> Iterator[Finding]:
    """Secrets in the run's environment."""
    yield from secret_findings(context.run.env, lambda name: context.locate.run(f"/env/{name}"))


def secret_findings(env: Environment, where: Callable[[str], Where]) -> Iterator[Finding]:
    """Text whose name or form says that it is secret; the value itself is never repeated."""
    for name, value in env.items():
        if isinstance(value, str) and (SECRET_VALUE.search(value) or _named_secret(name, value)):
            yield found(
                "TW409",
                where(name),
                f"{name} looks like a secret and would be committed in plain text",
                f"write `{name}: {{secret: NAME, key: KEY}}` under env; whoever has seen the value should replace it",
            )


def _named_secret(name: str, value: str) -> bool:
    return bool(_SECRET_NAME.search(name)) and not _HARMLESS_NAME.search(name) and not _HARMLESS_VALUE.fullmatch(value)


RUN = (nccl, secrets)
PLAN = (reserved,)
