"""One commit of a repository of the Hub: listed, fetched, compared by its digests, and only then marked as complete.

``huggingface_hub`` knows the protocol, the token (HF_TOKEN) and another address of the Hub (HF_ENDPOINT). What a call that was
interrupted has fetched, the next one does not fetch again.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trainwright_trainer.checkpoint.storage import StorageError, replace_file, storage_errors
from trainwright_trainer.contract.failures import DataError, InvalidRunError
from trainwright_trainer.contract.hub import Form, HubRepository

OWN_FOLDER = ".cache/huggingface"
"""Where huggingface_hub notes in a folder what it has fetched."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to fetch, and where to."""

    source: str
    folder: Path
    include: Sequence[str] = ()
    """Patterns of files; none stands for all."""
    exclude: Sequence[str] = ()
    form: Form = "files"
    subset: str | None = None
    """Of a data set with several: the name that ``load_dataset`` takes."""


def marker_of(folder: Path) -> Path:
    """The file that is there once a folder is complete; pods wait for it."""
    return folder.with_name(f"{folder.name}.complete")


def fetch(request: Request) -> str:
    """Returns what to say of it.

    Raises:
        InvalidRunError: It is no such source.
        DataError: There is no such repository or commit, it may not be read, or it cannot be loaded as asked.
        StorageError: The Hub or the volume failed: the next call goes on.
    """
    repository, marker = _repository(request), marker_of(request.folder)
    if marker.exists():
        return f"{request.source} is there already:\n{marker.read_text(encoding='utf-8').rstrip()}"
    with storage_errors("write", request.folder):
        request.folder.mkdir(parents=True, exist_ok=True)
    files = request.folder if request.form == "files" else request.folder.with_name(f"{request.folder.name}.files")
    number = _download(request, repository, files)
    if request.form == "dataset":
        _save_dataset(request, files)
    os.sync()  # the files, before the marker speaks for them
    when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    replace_file(marker, f"{request.source}\ncomplete since {when}\n{number} files\n".encode())
    return f"{request.source} is complete."


def _repository(request: Request) -> HubRepository:
    found = HubRepository.at(request.source)
    if found is None:
        form = "hf://OWNER/NAME@COMMIT or hf://datasets/OWNER/NAME@COMMIT, with all 40 digits of the commit"
        raise InvalidRunError(f"{request.source} is no source; write {form}")
    if request.form == "dataset" and found.kind != "dataset":
        raise InvalidRunError(f"{request.source} is a model; a data set is hf://datasets/OWNER/NAME@COMMIT")
    return found


def _download(request: Request, repository: HubRepository, folder: Path) -> int:
    """All files that are asked for, each compared with the Hub's digest of it; returns their number."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.hf_api import RepoFile
    from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

    api, (kind, name, commit) = HfApi(), repository
    include, exclude = list(request.include) or None, list(request.exclude) or None
    with _hub_errors(request.source):
        tree = api.list_repo_tree(name, recursive=True, revision=commit, repo_type=kind)
        there = [entry.path for entry in tree if isinstance(entry, RepoFile)]
        wanted = list(filter_repo_objects(there, allow_patterns=include, ignore_patterns=exclude))
        if not wanted:
            raise DataError(f"none of the {len(there)} files of {request.source} is asked for: check include and exclude")
        snapshot_download(
            name, repo_type=kind, revision=commit, local_dir=folder, allow_patterns=include, ignore_patterns=exclude
        )
        compared = api.verify_repo_checksums(name, repo_type=kind, revision=commit, local_dir=folder)
    damaged = [one["path"] for one in compared.mismatches]
    for path in damaged:
        (folder / path).unlink()
    if lost := sorted({*damaged, *compared.missing_paths} & set(wanted)):
        reason = f"it is not what {request.source} has"
        raise StorageError("keep", folder / lost[0], reason, f"the next pod fetches it again ({len(lost)} files)")
    shutil.rmtree(folder / OWN_FOLDER, ignore_errors=True)
    return len(wanted)


@contextmanager
def _hub_errors(source: str) -> Iterator[None]:
    """Errors of huggingface_hub as what a person does about them."""
    from huggingface_hub import errors

    reader = "the token in HF_TOKEN" if os.environ.get("HF_TOKEN") else "anybody (there is no token)"
    try:
        yield
    except errors.GatedRepoError:
        fix = "accept its terms on its page, with the account of the token, and name that token"
        raise DataError(f"{source} is gated, and {reader} may not read it: {fix}") from None
    except errors.RevisionNotFoundError:
        raise DataError(f"{source}: the repository has no such commit; its page shows them under Files, History") from None
    except errors.RepositoryNotFoundError:
        raise DataError(f"{source}: the Hub has no such repository, or {reader} may not see it: check name and token") from None
    except (errors.HTTPError, errors.LocalEntryNotFoundError) as error:  # type: ignore[attr-defined]
        if isinstance(error, errors.HfHubHTTPError) and error.response.status_code in (401, 403):
            raise DataError(f"{source}: the Hub does not let {reader} read it: check the token, and what it may read") from None
        remedy = "the next pod goes on with the files that are missing"
        raise StorageError("fetch", source, str(error).strip().partition("\n")[0], remedy) from error


def _save_dataset(request: Request, files: Path) -> None:
    """What ``load_dataset`` makes of the files, without any of their code, in the form that data source hf-dataset reads."""
    import datasets  # type: ignore[import-untyped]

    cache, draft = (request.folder.with_name(f"{request.folder.name}.{kind}") for kind in ("cache", "draft"))
    try:
        loaded = datasets.load_dataset(str(files), name=request.subset, cache_dir=str(cache))
    except (ValueError, OSError, datasets.exceptions.DatasetsError) as error:
        cause = _first_cause(error)
        if isinstance(cause, OSError) and cause.errno not in (None, errno.ENOENT):
            with storage_errors("write", cache):
                raise cause from None
        reason, fix = " ".join(str(cause).split()), "name another subset, or fetch it as files"
        raise DataError(f"{request.source} cannot be loaded as a data set: {reason}; {fix}") from error
    with storage_errors("write", draft):
        shutil.rmtree(draft, ignore_errors=True)
        loaded.save_to_disk(str(draft))
        shutil.rmtree(request.folder)
        draft.rename(request.folder)
        for left in (files, cache):
            shutil.rmtree(left)


def _first_cause(error: BaseException) -> BaseException:
    """``datasets`` says of most errors only that one occurred, and raises that from it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
