"""Formats that are not read: what such a file is, and what to do with it."""

import re

from beamfeed.contract import storage
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers.formats import check_suffix, packed_by
from beamfeed.transforms.sources.readers.zipped import member_of

_ARRAYS = "holds arrays, which kind: array reads (docs/arrays.md)"
_BY_PANDAS = {
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".xlsb"), ("an Excel file", "read_excel")),
    ".ods": ("a spreadsheet", "read_excel"), ".orc": ("an ORC file", "read_orc"), ".xml": ("XML", "read_xml"),
    ".dta": ("a file of Stata", "read_stata"), ".sav": ("a file of SPSS", "read_spss"),
    ".sas7bdat": ("a file of SAS", "read_sas"), ".xpt": ("a file of SAS", "read_sas"),
}  # fmt: skip
_ADVICE = {
    **{suffix: f"is {kind}; save it as CSV or Parquet: pandas.{function}({{name!r}}).to_parquet({{parquet!r}})"
       for suffix, (kind, function) in _BY_PANDAS.items()},
    **dict.fromkeys((".npy", ".npz", ".h5", ".hdf5", ".zarr"), _ARRAYS),
    **dict.fromkeys((".sqlite", ".sqlite3", ".db"), "is a database; save the table as Parquet or CSV: "
                    "pandas.read_sql('select * from TABLE', sqlite3.connect('{name}')).to_parquet('{stem}.parquet')"),
    **dict.fromkeys((".pkl", ".pickle", ".joblib"), "is a pickle, which is never opened as it can run any code; save "
                    "what it holds as Parquet: frame.to_parquet('{stem}.parquet')"),
    ".mat": "is a file of MATLAB; save its arrays for kind: array (docs/arrays.md): "
            "numpy.savez('{stem}.npz', x=scipy.io.loadmat('{name}')['x'])",
    **dict.fromkeys((".rds", ".rda", ".rdata"), "is a file of R; save it there as Parquet or CSV: "
                    "arrow::write_parquet(readRDS('{name}'), '{stem}.parquet')"),
    **dict.fromkeys((".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".7z", ".rar"),
                    "is an archive; unpack it, and name its folder"),
    ".xz": "is packed by xz, which is not read; unpack it, or pack it by gzip or zstd",
    ".lz4": "is packed by lz4, which is not read; unpack it, or pack it by gzip or zstd",
    **dict.fromkeys((".tfrecord", ".tfrecords"), "holds TFRecords; 'beamfeed adopt' makes a dataset of them "
                    "(docs/adopt.md)"),
    ".arff": "is a file of Weka; save it as CSV: its lines below @data are one, its lines @attribute the names",
    ".parquet.gz": "is Parquet that was packed once more; unpack it with gunzip",
}  # fmt: skip
_MAGIC = {
    b"PK\x03\x04": ".zip", b"\xd0\xcf\x11\xe0": ".xls", b"SQLite format 3\0": ".sqlite", b"\x93NUMPY": ".npy",
    b"\x89HDF\r\n": ".h5", b"PAR1": ".parquet", b"ARROW1": ".arrow", b"MATLAB 5.0": ".mat", b"ORC": ".orc",
    b"Obj\x01": ".avro", b"\xfd7zXZ": ".xz", b"7z\xbc\xaf": ".7z", b"Rar!": ".rar", b"\x80\x04\x95": ".pkl",
    b"\x80\x03": ".pkl", b"\x80\x05\x95": ".pkl", b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst",
}  # fmt: skip
_SUFFIXED = (".parquet", ".arrow", ".avro", ".gz", ".bz2", ".zst")  # such are read, under their names


def advice_for(path: str) -> str | None:
    """What to do with a file of this name, where files of its format are not read."""
    suffix = max(filter(path.lower().endswith, _ADVICE), key=len, default=None)
    return None if suffix is None else _advice_text(path, suffix)


def check_format(path: str) -> None:
    """Raises BadInput for a file of a format that is not read, by its name; of a zip file by that of the file in it."""
    if advice := advice_for(path):
        raise BadInput(path, "file", advice)
    if packed_by(path) == "zip" and (advice := advice_for(name := member_of(path))):
        raise BadInput(path, "file", f"is a zip file with {name}, which {advice}")
    check_suffix(path)


def what_it_is(path: str) -> str | None:
    """What to do with a file that is no text, by its first bytes; None where they tell nothing."""
    if packed_by(path) is not None:
        return None
    with storage.open_input(path) as source:
        start = source.read(16)
    suffix = next((suffix for magic, suffix in _MAGIC.items() if start.startswith(magic)), None)
    if suffix is None:
        return None
    if suffix == ".zip":
        return "is a zip file, or one of Excel, by its first bytes; give it its suffix: .zip, .xlsx"
    if suffix in _SUFFIXED:
        return f"is a file of {suffix[1:]} by its first bytes; give it a name that ends in {suffix}"
    return _advice_text(path, suffix)


def _advice_text(path: str, suffix: str) -> str:
    name = path.rpartition("/")[2]
    stem = re.sub(rf"(?i){re.escape(suffix)}$", "", name)
    return _ADVICE[suffix].format(name=name, stem=stem, parquet=f"{stem}.parquet")
