"""Who trains together: the environment of a scheduler, addresses, a `tf.distribute` strategy, the watchdog."""
