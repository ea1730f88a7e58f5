"""`python odd_worker.py [--devices N] [--save S] [--trace S] --job ...`: a worker as the one of a test must be.

TensorFlow takes the processor for N devices. The chief takes S seconds for each file of weights that it writes, so that
ten steps between two checkpoints take as long and a kill comes before the end; worker 1 takes S for a step's graph.
"""

import argparse
import json
import os
import time

import tensorflow as tf

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--save", type=float, default=0)
    parser.add_argument("--trace", type=float, default=0)
    odd, arguments = parser.parse_known_args()
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * odd.devices)

    from beamfeed.contract.ending import leave
    from beamfeed.trainer.loop import steps
    from beamfeed.trainer.main import main

    save, add_up = tf.raw_ops.SaveV2, steps.all_reduce_sum

    def slow_save(**tensors):
        time.sleep(odd.save)
        return save(**tensors)

    def slow_trace(tensors):
        if json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("index") == 1:
            time.sleep(odd.trace)
        return add_up(tensors)

    tf.raw_ops.SaveV2, steps.all_reduce_sum = slow_save, slow_trace
    leave(main(arguments))
