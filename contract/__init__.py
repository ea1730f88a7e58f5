"""What both stages agree on: the job file, the manifest and the names of files. No Beam, no TensorFlow."""
