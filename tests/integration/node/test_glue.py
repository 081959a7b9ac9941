"""Pieces of the glue by themselves, each in a JVM of its own, without a node."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.support.cluster.nodes import needs_hazelcast
from tests.support.ports import free_port

pytestmark = needs_hazelcast

BEGIN = """
import sys
import jpype
from kvwal.node import jvm

jvm.start("128m", None, ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *sys.argv[1:]])
"""


def said(script: str, *options: str) -> list[str]:
    """What a script printed, by lines, in a JVM with these options."""
    command = [sys.executable, "-c", BEGIN + script, *options]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


ANSWERS = """
asked = []
kept = []

def ask(member, answer):
    name = str(member)
    asked.append(name)
    kept.append(answer)
    if name == "prompt" or asked.count(name) == 3:
        answer.complete(name + " answers")
    if name == "wrong":
        answer.completeExceptionally(jvm.java("java.lang.IllegalStateException")("no"))
    if name == "late" and len(asked) > 4:
        kept[asked.index("late")].complete("late answers the first time")

def is_there(member):
    return str(member) != "gone"

def answers(*names):
    asked.clear()
    kept.clear()
    return [str(answer) for answer in jvm.java("kvwal.node.MemberQuery").of(list(names), ask, is_there, 50)]

print(answers("prompt"), asked)
print(answers("prompt", "silent"), asked)
print(answers("late", "gone", "prompt", "silent"), asked)
try:
    answers("prompt", "wrong")
except jvm.java("java.util.concurrent.ExecutionException") as error:
    print(error.getCause().getMessage())
"""


def test_a_silent_member_is_asked_again_until_it_answers_or_leaves() -> None:
    assert said(ANSWERS) == [
        "['prompt answers'] ['prompt']",
        "['prompt answers', 'silent answers'] ['prompt', 'silent', 'silent', 'silent']",
        "['late answers the first time', 'prompt answers', 'silent answers']"
        " ['late', 'gone', 'prompt', 'silent', 'late', 'silent', 'silent']",
        "no",
    ]


LOADER = """
config = jvm.java("com.hazelcast.config.Config")()
config.setProperty("hazelcast.phone.home.enabled", "false")
config.setProperty("hazelcast.socket.bind.any", "false")
config.setProperty("hazelcast.local.localAddress", "127.0.0.1")
config.getNetworkConfig().setPort(PORT)
config.getNetworkConfig().getJoin().getAutoDetectionConfig().setEnabled(False)
config.getNetworkConfig().getJoin().getMulticastConfig().setEnabled(False)
instance = jvm.java("com.hazelcast.core.Hazelcast").newHazelcastInstance(config)
loader = jvm.java("kvwal.log.MemoryLoader")(instance)
first, last = (0).to_bytes(4, "little"), (2**31 - 100).to_bytes(4, "little")
loader.load("jobs", "str", "str", b"key", first + last, b"", first + first, None)
try:
    loader.drain()
    print("whole")
except jpype.JException as error:
    print(error.getClass().getName())
instance.shutdown()
"""
"""What it is to load is a key that is longer than anything that memory can hold."""


def test_memory_that_ran_out_while_it_was_filled_is_not_whole() -> None:
    script = LOADER.replace("PORT", str(free_port()))
    assert said(script, "-XX:-ExitOnOutOfMemoryError") == ["java.lang.OutOfMemoryError"]


SAYS = """
thread = jvm.java("java.lang.Thread")
jvm.java("java.lang.System").err.println("one\\ntwo")
jvm.java("java.lang.System").out.println("three")
log = jvm.java("java.util.logging.Logger").getLogger("com.hazelcast.some")
log.severe("a \\"word\\"\\nand another line")
log.info("nobody hears it")
error = jvm.java("java.lang.IllegalStateException")("broken")
thread.getDefaultUncaughtExceptionHandler().uncaughtException(thread.currentThread(), error)
"""


def test_what_java_says_is_one_json_object_a_line() -> None:
    command = [sys.executable, "-c", BEGIN + SAYS]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in ran.stderr.splitlines()]
    assert [line["event"] for line in lines[:4]] == ["one", "two", "three", 'a "word"\nand another line']
    assert [line["level"] for line in lines] == ["warning"] * 3 + ["error"] * 2
    assert lines[3]["logger"] == "com.hazelcast.some"
    assert "has ended" in lines[4]["event"]
    assert lines[4]["exception"] == "java.lang.IllegalStateException: broken\n"
    assert ran.stdout == ""
