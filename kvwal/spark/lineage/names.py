"""Names of data sets, by OpenLineage's naming rules: one name for a data set, however Spark or a producer spells it.

A data set has a namespace, which says where it is, and a name in it: `s3://lake` and `mart/sales`, `file` and `/data/x`,
`hdfs://nn:8020` and `/data/x`. A table whose path Spark does not tell has its catalog as the namespace: `spark_catalog` and
`default.sales`. OpenLineage's rules want an address there, and a plan has none.
"""

from __future__ import annotations

import re

import msgspec

from kvwal.spark.records import Access

FILE = "file"
"""The namespace of files without a host."""
_OBJECT_STORES = ("s3", "gs", "abfss", "wasbs")
"""Schemes whose names are keys of objects: without the first slash."""
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
_URL = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*):(?://(?P<authority>[^/]*))?(?P<path>/.*|)", re.DOTALL)
_SLASHES = re.compile(r"//+")
_PARTITIONS = re.compile(r"(?:/[^/=]+=[^/=]*)+/?$")
_GLOB = re.compile(r"/[^/]*[*?\[{].*$", re.DOTALL)
_DATA_FILE = re.compile(
    r"/(?:part-[^/]*|[^/]*\.(?:avro|csv|gz|json|jsonl|orc|parquet|snappy|tsv|txt|zst))$", re.IGNORECASE
)
_BETWEEN_PATHS = re.compile(r", ?(?=[A-Za-z][\w+.-]*:/|/|\.\.\.$)")
_CUT = " … cut … "
_TOPICS = re.compile(r"Kafka\w*\[(?:Subscribe|SubscribePattern|Assign)\[(?P<topics>[^\]]*)\]")
_STREAM_PATH = re.compile(r"\w+\[(?P<path>(?:[A-Za-z][\w+.-]*:)?/[^\]]*)\]")
_ICEBERG, _JDBC, _KAFKA = "iceberg", "jdbc", "kafka"


class DatasetName(msgspec.Struct, array_like=True, frozen=True, gc=False, order=True):
    """The name of a data set. `table` is its table in a catalog, if it is known beside the path."""

    namespace: str
    name: str
    table: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from other data sets."""
        return self.namespace, self.name

    @property
    def text(self) -> str:
        """The name in one text, as people type it: `s3://lake/mart/sales`, `file:///data/x`, `spark_catalog/default.sales`."""
        return text_of(self.namespace, self.name)


def text_of(namespace: str, name: str) -> str:
    """Namespace and name in one text: a URL where the data set has a path, else both with a slash between them."""
    if name.startswith("/"):
        return f"{namespace}://{name}" if namespace == FILE else f"{namespace}{'' if '://' in namespace else ':'}{name}"
    return f"{namespace}/{name}"


def name_of_path(path: str) -> DatasetName | None:
    """The data set of a path or a URL; None for a relative path, and for a text that is no path.

    A path without a scheme is one of this machine, since a plan does not say which file system is the default. The partitions at
    its end (`/day=1`) and a trailing slash are no part of the name.
    """
    url = _URL.fullmatch(path if not path.startswith("/") else f"{FILE}:{path}")
    if url is None or (not url["path"] and not url["authority"]):
        return None
    scheme = url["scheme"].lower()
    scheme, authority = _SAME_SCHEME.get(scheme, scheme), url["authority"] or ""
    if scheme == FILE and authority == "localhost":
        authority = ""
    namespace = f"{scheme}://{authority}" if authority else scheme
    return DatasetName(namespace, _name_in(scheme, url["path"]))


def _name_in(scheme: str, path: str) -> str:
    name = _PARTITIONS.sub("", _SLASHES.sub("/", path)).rstrip("/")
    return (name.removeprefix("/") if scheme in _OBJECT_STORES else name) or "/"


def canonical(namespace: str, name: str) -> tuple[str, str]:
    """Namespace and name of a data set that a producer told, spelled as kvwal spells them: see `name_of_path`.

    Names that are no paths, as those of tables and topics, stay as they are.
    """
    plain = namespace.rstrip("/").removesuffix(":") if namespace.endswith("/") else namespace
    scheme = _SAME_SCHEME.get(plain.partition(":")[0].lower(), plain.partition(":")[0].lower())
    if scheme not in (FILE, "hdfs", "dbfs", *_OBJECT_STORES):
        return namespace, name
    path = name if name.startswith("/") else f"/{name}"
    found = name_of_path(f"{plain}{'' if '://' in plain else ':'}{path}")
    return (namespace, name) if found is None else found.key


def names_of(access: Access, *, of_stream: bool = False) -> list[DatasetName]:
    """The data sets of an access of Spark; none if it does not name one: a cache, a local table, a sink without a place.

    What follows a wildcard of a path is no part of the name. With `of_stream` a file stands for its folder: a batch of a
    streaming query names the files that it reads one by one.
    """
    paths = [_GLOB.sub("", path) for path in _paths(access.where)]
    table = _catalog_table(access)
    if paths:
        found = {name: None for path in paths if (name := name_of_path(_folder(path) if of_stream else path))}
        if len(found) == 1 and table is not None and access.what != _JDBC:
            (only,) = found
            return [DatasetName(*only.key, table.text)]
        return list(found)
    if table is not None:
        return [table]
    if access.what == _JDBC and access.where:
        return [DatasetName(_JDBC, access.where)]
    return names_of_stream(access.where)


def names_of_stream(description: str) -> list[DatasetName]:
    """The data sets that the description of a source or a sink of a streaming query names: topics of Kafka, or a path.

    Spark does not say which brokers a topic is on, so the namespace is `kafka`, without an address.
    """
    if topics := _TOPICS.search(description):
        return [DatasetName(_KAFKA, topic.strip()) for topic in topics["topics"].split(",") if topic.strip()]
    path = _STREAM_PATH.fullmatch(description)
    found = name_of_path(_GLOB.sub("", path["path"])) if path else None
    return [] if found is None else [found]


def _catalog_table(access: Access) -> DatasetName | None:
    """The table of an access in its catalog; None without one. A table has a database, so `noop-table` and its like are none."""
    if not access.table or (access.what != _JDBC and "." not in access.table):
        return None
    if access.what == _JDBC:
        return DatasetName(_JDBC, access.table)
    parts = access.table.split(".", 1) if access.table.count(".") >= 2 else [_unnamed_catalog(access), access.table]
    return DatasetName(parts[0], parts[1])


def _unnamed_catalog(access: Access) -> str:
    """The catalog of a table that a plan names without one: Iceberg's catalogs have names that its plans leave out."""
    return _ICEBERG if access.what == _ICEBERG else "spark_catalog"


def _paths(where: str) -> list[str]:
    """The paths of an access. Spark ends a long list with dots, and kvwal cuts a long text: what is not whole is left out."""
    paths = _BETWEEN_PATHS.split(where)
    return [path for path in paths if path != "..." and _CUT not in path and (path.startswith("/") or _is_url(path))]


def _is_url(text: str) -> bool:
    return re.match(r"[A-Za-z][\w+.-]*:/", text) is not None


def _folder(path: str) -> str:
    return _DATA_FILE.sub("", path) or "/"
