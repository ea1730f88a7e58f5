"""`python slow_work.py SECONDS --job ...`: a worker of a run whose storage and compiler are slow.

The chief takes that long for each file of weights that it writes, and worker 1 for the graph of a training step.
"""

import json
import os
import sys
import time

if __name__ == "__main__":
    seconds = float(sys.argv.pop(1))
    import tensorflow as tf

    from beamfeed.contract.ending import leave
    from beamfeed.trainer.loop import steps
    from beamfeed.trainer.main import main

    save, add_up = tf.raw_ops.SaveV2, steps.all_reduce_sum

    def slow_save(**arguments):
        time.sleep(seconds)
        return save(**arguments)

    def slow_trace(tensors):
        if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
            time.sleep(seconds)
        return add_up(tensors)

    tf.raw_ops.SaveV2, steps.all_reduce_sum = slow_save, slow_trace
    leave(main())
