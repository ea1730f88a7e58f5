"""`python two_cpus.py --job ...`: a worker with two devices; TensorFlow takes the processor for two."""

import tensorflow as tf

if __name__ == "__main__":
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    from beamfeed.contract.ending import leave
    from beamfeed.trainer.main import main

    leave(main())
