"""The contract's image models in Keras 3: the same layers, shapes and numbers of parameters as the torch engines train.

Images are ``(n, height, width, channels)`` here, as Keras has them on CPUs.
"""
