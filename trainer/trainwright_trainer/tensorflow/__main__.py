"""``python -m trainwright_trainer.tensorflow``: one worker."""

from trainwright_trainer.tensorflow.program import TENSORFLOW
from trainwright_trainer.training.program import main

if __name__ == "__main__":
    main(TENSORFLOW)
