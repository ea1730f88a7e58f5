"""What Spark does in these tests, in a process of its own: `job.py WAY write|read JAR FOLDER OUT [FEATURES]`.

WAY is connector (spark-tfrecord, a data source of Spark's SQL) or hadoop (tensorflow-hadoop, the file formats under it;
what is in a record is then made by protobuf in Spark's Python workers).
"""

import base64
import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import types as t

SCHEMA = t.StructType(
    [
        t.StructField("price", t.FloatType(), False),
        t.StructField("count", t.LongType(), False),
        t.StructField("name", t.StringType(), False),
        t.StructField("embedding", t.ArrayType(t.FloatType(), False), False),
        t.StructField("label", t.LongType(), False),
        t.StructField("country", t.StringType(), False),
        t.StructField("split", t.StringType(), False),
    ]
)
KEY, VALUE = "org.apache.hadoop.io.BytesWritable", "org.apache.hadoop.io.NullWritable"
FORMATS = "org.tensorflow.hadoop.io.TFRecordFile"


def session(jar):
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jar)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )


def make_row(i):
    return (
        i / 4,
        i - 500 if i % 3 else -(2**40) + i,
        f"näme {i}",
        [float(i), 0.5, -1.0],
        int(i % 7 > 2),
        ("DE", "FR")[i % 2],
        ("train", "eval", "test")[0 if i % 5 else 1 + i // 10 % 2],
    )


def to_example(row):
    """A row as protobuf writes it, without the columns of the folder."""
    import tensorflow as tf

    def feature(value):
        values = value if isinstance(value, list) else [value]
        if isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        if isinstance(values[0], int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[one.encode() for one in values]))

    features = {name: feature(value) for name, value in row.asDict().items() if name not in ("split", "country")}
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return bytearray(example.SerializeToString()), None


def from_example(pair):
    import tensorflow as tf

    feature = tf.train.Example.FromString(bytes(pair[0])).features.feature
    found = {}
    for name, one in feature.items():
        values = getattr(one, one.WhichOneof("kind")).value
        found[name] = [base64.b64encode(v).decode() if isinstance(v, bytes) else v for v in values]
    return found


def write(spark, way, folder, out):
    """A table, partitioned by two columns; `out` gets its rows."""
    rows = [make_row(i) for i in range(1000)]
    frame = spark.createDataFrame(rows, SCHEMA).repartition(3)
    if way == "connector":
        frame.write.partitionBy("split", "country").format("tfrecord").option("recordType", "Example").save(folder)
    else:
        for split, country in frame.select("split", "country").distinct().collect():
            part = frame.filter((frame.split == split) & (frame.country == country)).coalesce(2)
            target = f"{folder}/split={split}/country={country}"
            part.rdd.map(to_example).saveAsNewAPIHadoopFile(target, f"{FORMATS}OutputFormat", KEY, VALUE)
    with open(out, "w") as file:
        json.dump([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], file)


def read(spark, way, folder, out, features):
    """The rows of TFRecords: for each feature a list; strings as base64."""
    if way == "connector":
        kinds = {"float32": t.FloatType(), "int64": t.LongType(), "bytes": t.BinaryType()}
        schema = t.StructType([t.StructField(name, t.ArrayType(kinds[kind])) for name, kind in json.loads(features)])
        rows = spark.read.format("tfrecord").option("recordType", "Example").schema(schema).load(folder).collect()
        found = [row.asDict() for row in rows]
    else:
        pairs = spark.sparkContext.newAPIHadoopFile(folder, f"{FORMATS}InputFormat", KEY, VALUE)
        found = pairs.map(from_example).collect()
    with open(out, "w") as file:
        json.dump(found, file, default=lambda one: base64.b64encode(one).decode())


if __name__ == "__main__":
    _, way, what, jar, *arguments = sys.argv
    spark = session(jar)
    {"write": write, "read": read}[what](spark, way, *arguments)
    spark.stop()
