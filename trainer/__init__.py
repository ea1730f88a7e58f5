"""The trainer: TensorFlow only; reads a manifest and never imports Beam."""
