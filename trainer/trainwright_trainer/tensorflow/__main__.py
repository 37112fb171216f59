"""``python -m trainwright_trainer.tensorflow``: one worker."""

from trainwright_trainer.replicated.program import main
from trainwright_trainer.tensorflow.program import TENSORFLOW

if __name__ == "__main__":
    main(TENSORFLOW)
