"""``python -m trainwright_trainer.boosting``: one worker."""

from trainwright_trainer.boosting.program import BOOSTING
from trainwright_trainer.training.program import main

if __name__ == "__main__":
    main(BOOSTING)
