"""Verified checkpoints: written fresh by each attempt, committed by one record, checked before anything is loaded.

On a POSIX file system or an object store, and without torch: files are bytes here. Rank 0 decides; ranks never list.
"""

from trainwright_trainer.checkpoint.data_file import CHUNK_BYTES, FileDigest
from trainwright_trainer.checkpoint.lease import Holder, Lease, LeaseLostError, LeaseTiming, OnWait
from trainwright_trainer.checkpoint.ledger import Complete, read_complete, write_complete
from trainwright_trainer.checkpoint.record import CommitRecord, RecordError, UnknownSchemaError
from trainwright_trainer.checkpoint.retention import Corruption, Fence, OnQuarantine, Quarantined, Retention
from trainwright_trainer.checkpoint.storage import StorageError
from trainwright_trainer.checkpoint.store import CheckpointStore, CommittedFiles, Draft, Piece, Scan, Snapshot
from trainwright_trainer.checkpoint.volume import CheckpointName, Volume, open_volume

__all__ = [
    "CHUNK_BYTES", "CheckpointName", "CheckpointStore", "CommitRecord", "CommittedFiles", "Complete", "Corruption", "Draft",
    "Fence", "FileDigest", "Holder", "Lease", "LeaseLostError", "LeaseTiming", "OnQuarantine", "OnWait", "Piece",
    "Quarantined", "RecordError", "Retention", "Scan", "Snapshot", "StorageError", "UnknownSchemaError", "Volume",
    "open_volume", "read_complete", "write_complete",
]
