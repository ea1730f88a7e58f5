"""`python odd_worker.py [--devices N] [--hold STEP] [--save S] [--trace S] [--bare] --job ...`: a worker for a test.

TensorFlow takes the processor for N devices. The checkpoint of STEP and later ones are never written, so that a kill
comes before the end of the run however late it is. The chief takes S seconds for each file of weights that it writes;
worker 1 takes S for a step's graph. The export is asked in the same process, as in tests/exports.py; a bare one is of
the Keras model and the result alone.
"""

import argparse
import json
import os
import re
import sys
import time

from beamfeed.contract import streams
from beamfeed.contract.imports import heavy_imports

if __name__ == "__main__":
    streams.take_over()
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--hold", type=int, default=sys.maxsize)
    parser.add_argument("--save", type=float, default=0)
    parser.add_argument("--trace", type=float, default=0)
    parser.add_argument("--bare", action="store_true")
    odd, arguments = parser.parse_known_args()
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with heavy_imports():
        import tensorflow as tf
        from exports import SameProcess, save_alone

        from beamfeed.contract.ending import leave
        from beamfeed.trainer.export import run
        from beamfeed.trainer.loop import steps
        from beamfeed.trainer.main import main

    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * odd.devices)
    save, add_up = tf.raw_ops.SaveV2, steps.all_reduce_sum

    def slow_save(**tensors):
        step = re.search(r"checkpoints/\D*(\d+)$", str(tensors["prefix"]))
        time.sleep(1e6 if step and int(step[1]) >= odd.hold else odd.save)
        return save(**tensors)

    def slow_trace(tensors):
        if json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {}).get("index") == 1:
            time.sleep(odd.trace)
        return add_up(tensors)

    def slow_save_alone(*export):
        time.sleep(odd.save)
        save_alone(*export)

    tf.raw_ops.SaveV2, steps.all_reduce_sum, run.FreshProcess = slow_save, slow_trace, SameProcess
    if odd.bare:
        run.export_run = slow_save_alone
    iterators = []  # as of main
    leave(streams.flushed(main(arguments, iterators)))
