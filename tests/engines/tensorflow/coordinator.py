"""A coordinator, a worker and a parameter server; which of them it is, is in TF_CONFIG."""

from __future__ import annotations

import tensorflow as tf


def main() -> None:
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type != "chief":
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        server.join()
    print("connects", flush=True)
    tf.distribute.ParameterServerStrategy(resolver)
    print("is connected", flush=True)


if __name__ == "__main__":
    main()
