# %% [markdown]
# # Beamfeed from a notebook
#
# Every cell uses `beamfeed` alone, Keras and NumPy aside. Open this file in an editor that
# knows `# %%` cells (VS Code, PyCharm, Spyder, Jupyter with jupytext), or run it as it is:
#
#     python examples/make_fleet.py --out out/fleet
#     python examples/notebook.py

# %%
import keras
import numpy as np

import beamfeed

# %% [markdown]
# ## The job
# A job file says where the files are and what shall become of them. Any key may be changed here.

# %%
job = beamfeed.load_job("examples/fleet.yaml", ["output.path=out/notebook/data", "train.workdir=out/notebook/model"])
print(job.source.files, job.windows)

# %% [markdown]
# ## Preprocessing
# Writes the dataset: verified TFRecords and a manifest. Run again, it finds everything done.

# %%
manifest = beamfeed.preprocess(job)
for split, info in manifest.splits.items():
    print(f"{split:5} {info.assets} assets, {info.windows:,} windows, {len(info.shards)} shards")

# %% [markdown]
# ## The windows
# `load_dataset` gives a `tf.data.Dataset` of batches of fields. The one field here is `values`, float32
# `[batch, time, features]`, scaled and without missing values.

# %%
windows = beamfeed.load_dataset(job.output.path, "train", batch_size=128, shuffle=10_000)
batch = next(iter(windows))["values"].numpy()
print(batch.shape, dict(zip(manifest.features, batch.std((0, 1)).round(2), strict=True)))

# %% [markdown]
# ## A model of your own
# Any loop takes the windows: here `keras.Model.fit`, on one machine.

# %%
length, features = batch.shape[1:]
model = keras.Sequential([keras.Input((length, features)), keras.layers.Dense(4), keras.layers.Dense(features)])
model.compile("adam", "mse")
pairs = windows.map(lambda fields: (fields["values"], fields["values"]))
history = model.fit(pairs, epochs=1, verbose=0)
print("loss", round(history.history["loss"][-1], 4))

# %% [markdown]
# ## Beamfeed's own training
# Several workers, checkpoints that resume exactly, a SavedModel that takes raw values.

# %%
result = beamfeed.train(job, ["train.epochs=2"])
print("epochs", result.epochs, "best eval loss", round(result.best_loss, 4))

# %%
restored = keras.saving.load_model(f"{job.train.workdir}/model.keras")
padded = beamfeed.load_dataset(job.output.path, "test", batch_size=128, remainder="pad")
errors = [
    np.mean((restored.predict(fields["values"], verbose=0) - fields["values"]) ** 2, axis=(1, 2))[weights > 0]
    for fields, weights in padded.as_numpy_iterator()
]
print("windows of the test split", sum(map(len, errors)), "mean error", np.concatenate(errors).mean().round(4))
