"""Training by TensorFlow: MultiWorkerMirroredStrategy with a training loop of our own, on models of Keras 3.

Run as ``python -m trainwright_trainer.tensorflow``, one process a pod, with the environment that the supervisor gives and the
operator's ``TF_CONFIG``. Not by ``Model.fit``: Keras 3 cannot train under this strategy
(https://github.com/keras-team/keras/issues/20585), and the sample order, the checkpoints and the agreement are ours anyway.
"""
