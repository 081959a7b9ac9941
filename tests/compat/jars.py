"""What the client's tests need of Java besides Hazelcast itself: brought into `.cache/compat` as set-up brings Hazelcast.

The plain member has all of it: Hazelcast's SQL, the classes that the tests store, and a JavaScript for the scripts that
the tests send. A node has the JavaScript only.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent.parent / ".cache" / "compat"
_SCRIPTS = {
    "asm-7.3.1.jar": "2f67e11ceec819ebd88ddee5300aba699b1cbab2e20c22e97cf027d3be93959b",
    "asm-analysis-7.3.1.jar": "46b8a8efd4b94facb5ab4b35afe30ee0546ae7a43d2c64e6def56c2f168fefa5",
    "asm-commons-7.3.1.jar": "87cd8bb3c6bf6bcbb33fca48060c5065f66ebf6a3d7de9bf18bff51bcf156ebc",
    "asm-tree-7.3.1.jar": "f91a4a8aa868c5c4665bb4fd134019a91f9f8b9216527fba295e3c8b5422b78b",
    "asm-util-7.3.1.jar": "182128592742ed4883ac82bf205f137b6bfbe1234c68e6feb13759e75a85b729",
    "nashorn-core-15.6.jar": "c7fc8ee4a5ac3a2d8ed9c0369439e457c675631307055704fcb8406bb1bf677b",
}
_HAZELCAST = {
    "hazelcast-5.7.0-tests.jar": "762ea5961d9998d50b34b2138125d4ae7fdf82656e45c297078f269d363d70f4",
    "hazelcast-sql-5.7.0.jar": "e747be48589069d0b072d8153b75fbceb11ea00d977d56d04b64d7258d36fd85",
}
_ASKED = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="kvwal" module="compat"/>
  <dependencies>
    <dependency org="com.hazelcast" name="hazelcast" rev="5.7.0" transitive="false" conf="default">
      <artifact name="hazelcast" type="jar" ext="jar" m:classifier="tests"/>
    </dependency>
    <dependency org="com.hazelcast" name="hazelcast-sql" rev="5.7.0" transitive="false" conf="default"/>
    <dependency org="org.openjdk.nashorn" name="nashorn-core" rev="15.6" conf="default"/>
  </dependencies>
</ivy-module>
"""


def of_scripts() -> list[Path]:
    """The JavaScript."""
    return [CACHE / name for name in _SCRIPTS]


def of_plain_member() -> list[Path]:
    """What stands beside Hazelcast's own jar on a plain member's class path."""
    return [CACHE / name for name in _HAZELCAST]


def bring() -> None:
    """Have all of them; raises if what came is not what was pinned."""
    pinned = {**_SCRIPTS, **_HAZELCAST}
    if any(not (CACHE / name).exists() for name in pinned):
        _fetch()
    for name, sha256 in pinned.items():
        with (CACHE / name).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise ValueError(f"{CACHE / name} has the SHA-256 {found}, but {sha256} is pinned")


def _fetch() -> None:
    """Ivy, which pyspark carries, asks the repository that Java builds ask."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    ivy = max((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    java = f"{os.environ['JAVA_HOME']}/bin/java" if os.environ.get("JAVA_HOME") else "java"
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        asked = Path(scratch) / "ivy.xml"
        asked.write_text(_ASKED)
        command = [
            java, f"-Divy.cache.dir={scratch}/cache", "-jar", str(ivy), "-m2compatible", "-ivy", str(asked), "-confs", "default",
            "-retrieve", f"{CACHE}/[artifact]-[revision](-[classifier]).[ext]",
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=300)
