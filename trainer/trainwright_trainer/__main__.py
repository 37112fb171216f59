"""``python -m trainwright_trainer`` is ``trainwright-trainer``."""

from trainwright_trainer.cli import main

if __name__ == "__main__":
    main()
