"""Verified checkpoints: written fresh by each attempt, committed by one record, checked before anything is loaded.

POSIX file systems only, and no torch: files are bytes here. Rank 0 decides; ranks never list.
"""

from trainwright_trainer.checkpoint.complete import Complete, read_complete, write_complete
from trainwright_trainer.checkpoint.digest import CHUNK_BYTES, FileDigest
from trainwright_trainer.checkpoint.draft import Draft
from trainwright_trainer.checkpoint.layout import CheckpointName
from trainwright_trainer.checkpoint.quarantine import OnQuarantine, Quarantined
from trainwright_trainer.checkpoint.record import CommitRecord, RecordError, UnknownSchemaError
from trainwright_trainer.checkpoint.retention import Retention
from trainwright_trainer.checkpoint.storage import StorageError
from trainwright_trainer.checkpoint.store import CheckpointStore, Scan
from trainwright_trainer.checkpoint.verification import Problem

__all__ = [
    "CHUNK_BYTES", "CheckpointName", "CheckpointStore", "CommitRecord", "Complete", "Draft", "FileDigest", "OnQuarantine",
    "Problem", "Quarantined", "RecordError", "Retention", "Scan", "StorageError", "UnknownSchemaError", "read_complete",
    "write_complete",
]
