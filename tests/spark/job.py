"""What Spark does in these tests, in a process of its own: `job.py write|read JAR FOLDER OUT [FEATURES]`."""

import base64
import json
import sys

from pyspark.sql import SparkSession


def session(jar):
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jar)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )


def write(spark, folder, out):
    """A table, partitioned by two columns; `out` gets its rows."""
    from pyspark.sql import types as t

    schema = t.StructType(
        [
            t.StructField("price", t.FloatType(), False),
            t.StructField("count", t.LongType(), False),
            t.StructField("name", t.StringType(), False),
            t.StructField("embedding", t.ArrayType(t.FloatType(), False), False),
            t.StructField("tokens", t.ArrayType(t.LongType(), False), False),
            t.StructField("label", t.LongType(), False),
            t.StructField("country", t.StringType(), False),
            t.StructField("split", t.StringType(), False),
        ]
    )
    rows = [
        (
            i / 4,
            i - 500 if i % 3 else -(2**40) + i,
            f"näme {i}",
            [float(i), 0.5, -1.0],
            list(range(i % 4)),
            int(i % 7 > 2),
            ("DE", "FR")[i % 2],
            ("train", "eval", "test")[0 if i % 5 else 1 + i % 2],
        )
        for i in range(1000)
    ]
    frame = spark.createDataFrame(rows, schema).repartition(3)
    frame.write.partitionBy("split", "country").format("tfrecord").option("recordType", "Example").save(folder)
    with open(out, "w") as file:
        json.dump([dict(zip(schema.names, row, strict=True)) for row in rows], file)


def read(spark, folder, out, features):
    """The rows of TFRecords: for each feature a list; strings as base64."""
    from pyspark.sql import types as t

    kinds = {"float32": t.FloatType(), "int64": t.LongType(), "bytes": t.BinaryType()}
    schema = t.StructType([t.StructField(name, t.ArrayType(kinds[kind])) for name, kind in json.loads(features)])
    found = spark.read.format("tfrecord").option("recordType", "Example").schema(schema).load(folder)
    with open(out, "w") as file:
        json.dump([row.asDict() for row in found.collect()], file, default=lambda one: base64.b64encode(one).decode())


if __name__ == "__main__":
    _, what, jar, *arguments = sys.argv
    spark = session(jar)
    {"write": write, "read": read}[what](spark, *arguments)
    spark.stop()
