"""Other ways to train the same thing. Each module has ``train(work) -> model``, written as its own manual writes it."""
