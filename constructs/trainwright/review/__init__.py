"""What changes between two states of a project, from both records and both ``dist/``: nothing of the base is compiled."""

from trainwright.review.compare import review
from trainwright.review.model import Class, FactChange, Review, RunReview, SharedReview
from trainwright.review.side import Side, folder_side, git_side, merge_base

__all__ = [
    "Class", "FactChange", "Review", "RunReview", "SharedReview", "Side", "folder_side", "git_side", "merge_base", "review",
]
