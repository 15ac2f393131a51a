# SPDX-License-Identifier: Apache-2.0
"""Writes the Parquet files of corpus/ (made with pyarrow 26.0.1). usage: make_corpus.py FOLDER"""
import sys

import pyarrow as pa
import pyarrow.parquet as pq

folder = sys.argv[1]


def write(name, columns, rows_per_group):
    pq.write_table(pa.table(columns), f"{folder}/{name}", row_group_size=rows_per_group, compression="zstd")


# A nested column before the text: its leaf shifts the numbers of Parquet's columns.
text = ["alpha", "beta", None, "Grüße, 世界 🌍", "", "zeta", "eta\ntheta"]
write("train-00000-of-00002.parquet", {
    "id": pa.array([f"a{i}" for i in range(7)]),
    "tokens": pa.array([[1, 2, 3], [4], None, [5, 6], [], [7, 8, 9, 10], [11]], pa.list_(pa.int32())),
    "text": pa.array(text, pa.string()),
}, 3)
write("train-00001-of-00002.parquet", {
    "text": pa.array([f"document {i}" for i in range(5)], pa.large_string()),
    "tokens": pa.array([[20 + i, 30 + i] for i in range(5)], pa.list_(pa.int64())),
}, 2)
write("validation-00000-of-00001.parquet", {
    "text": pa.array(["yes", "no", "yes"]).dictionary_encode(),
    "tokens": pa.array([[1, 2], [70000, 3], [-1, 5]], pa.large_list(pa.int64())),
}, 10)
